"""Faults: each a small module. A fault is a value; a site knows how to let it strike."""

from ashore.drills.faults.broker import BrokerAway
from ashore.drills.faults.freeze import Freeze
from ashore.drills.faults.kill import Kill
from ashore.drills.faults.moments import BATCH_STEPS, Countdown, Moment

JobFault = BrokerAway | Freeze | Kill  # what strikes at a moment of a job's process

__all__ = [
    "BATCH_STEPS",
    "BrokerAway",
    "Countdown",
    "Freeze",
    "JobFault",
    "Kill",
    "Moment",
]
