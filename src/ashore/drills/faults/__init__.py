"""Faults: each a small module. A fault is a value; a site knows how to let it strike."""

from ashore.drills.faults.broker import BrokerAway
from ashore.drills.faults.clock import ClockJump
from ashore.drills.faults.freeze import Freeze
from ashore.drills.faults.happens import Happens
from ashore.drills.faults.kill import Kill
from ashore.drills.faults.moments import BATCH_STEPS, Countdown, Moment
from ashore.drills.faults.outage import Out, Outage

JobFault = (
    BrokerAway | ClockJump | Freeze | Happens | Kill | Outage
)  # what strikes at a moment of a job's process

__all__ = [
    "BATCH_STEPS",
    "BrokerAway",
    "ClockJump",
    "Countdown",
    "Freeze",
    "Happens",
    "JobFault",
    "Kill",
    "Moment",
    "Out",
    "Outage",
]
