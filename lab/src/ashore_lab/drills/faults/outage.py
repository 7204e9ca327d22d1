"""A part of the lake's surroundings is out of order for a while.

What it is: `Outage`: what is out, when it begins, and how long it takes.
What it promises: a value. It continues when the job's process ends, and the next one finds it.
"""

import math
from dataclasses import dataclass
from enum import StrEnum

from ashore_lab.drills.faults.moments import Moment


class Out(StrEnum):
    """What is out of order."""

    STORAGE_NODE = "a DataNode stops"
    STORAGE_NODES = "all DataNodes stop"
    METASTORE = "the metastore is killed"
    SWITCH = "another NameNode becomes active"
    NAMENODE_KILLED = "the active NameNode is killed"
    NAMENODE_FROZEN = "the active NameNode is frozen"
    NAMENODE_CUT_OFF = "the active NameNode is cut off"
    NAMENODES = "both NameNodes are cut off"
    QUOTA = "the space quota is used up"


@dataclass(frozen=True, slots=True)
class Outage:
    """Something is out of order from this moment on, for so long; `math.inf`: until mended."""

    at: Moment
    out: Out
    seconds: float

    @property
    def kind(self) -> str:
        """What happens, for the timeline."""
        return self.out.value

    def __str__(self) -> str:
        lasting = f", for {self.seconds:g} s" if 0 < self.seconds < math.inf else ""
        return f"{self.out} at {self.at.step}{lasting}"
