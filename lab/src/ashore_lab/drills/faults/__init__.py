"""Faults: each a small module. A fault is a value; a site knows how to let it strike."""

from ashore_lab.drills.faults.broker import BrokerAway
from ashore_lab.drills.faults.clock import ClockJump
from ashore_lab.drills.faults.freeze import Freeze
from ashore_lab.drills.faults.happens import Happens, flight_of
from ashore_lab.drills.faults.kill import Kill
from ashore_lab.drills.faults.moments import BATCH_STEPS, HALF_DONE_STEPS, Countdown, Moment
from ashore_lab.drills.faults.outage import Out, Outage

JobFault = (
    BrokerAway | ClockJump | Freeze | Happens | Kill | Outage
)  # what strikes at a moment of a job's process


def concerns_what_is_begun(fault: JobFault) -> bool:
    """Return whether a fault proves anything only where a batch is half done.

    A process that ends or stands still must leave something behind, and what strikes moves must
    find some. Of servers and clocks it is enough that there is something to do without them.
    """
    return isinstance(fault, Kill | Freeze) or fault.at.step == "move"


__all__ = [
    "BATCH_STEPS",
    "HALF_DONE_STEPS",
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
    "concerns_what_is_begun",
    "flight_of",
]
