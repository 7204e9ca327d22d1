"""What is planned before a drill is played.

What it is: values: how much is played (`Length`), the servers it needs, the faults of its schedule.
What it promises: frozen; what stands here and a seed decide every fault.
"""

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import NamedTuple

SHORT_LIMIT_S = 300.0  # ten times what a short form is made for
LIMIT_FACTOR = 4.0  # of what a long one is made for


@dataclass(frozen=True, slots=True)
class Length:
    """How much of a drill is played. What stands here and the seed decide every fault."""

    rounds: int
    records: int  # produced in each round
    text: str  # for people; of a short form also what it scales down
    is_real: bool = False  # real servers and processes; else memory and a simulated clock
    has_spark: bool = True  # a real job's tasks run on Spark; else in processes of this machine
    rounds_per_minute: float = 1.0
    outage_s: float = 3.0  # how long a server stays away, where a drill leaves that open
    option: str = ""  # how the command line asks for it
    limit_s: float = SHORT_LIMIT_S  # of a real clock; what takes longer hangs, and is red

    def for_minutes(self, minutes: float) -> "Length":
        """Return this length with as many rounds as fit into `minutes`, at least one."""
        rounds = max(1, round(minutes * self.rounds_per_minute))
        text = f"{rounds} rounds of {self.records:,} records"
        option, limit_s = f"--minutes {minutes:g}", _limit_s(minutes)
        return replace(self, rounds=rounds, text=text, option=option, limit_s=limit_s)

    def at_length(self) -> "Length":
        """Return this length as `--long` plays it: with the time that it takes."""
        return replace(
            self, option="--long", limit_s=_limit_s(self.rounds / self.rounds_per_minute)
        )


def _limit_s(minutes: float) -> float:
    return SHORT_LIMIT_S + LIMIT_FACTOR * 60 * minutes


class Server(StrEnum):
    """What a real drill may need beside a broker."""

    BROKERS = "three brokers"
    HDFS = "an HDFS with two NameNodes"
    HDFS_ALONE = "an HDFS with one NameNode"
    METASTORE = "a metastore"
    CLUSTER = "a Spark cluster with two workers"
    SMALL_CLUSTERS = "two Spark clusters with one worker each"


class PlannedFault(NamedTuple):
    """One fault of a schedule."""

    round: int  # from 0
    kind: str  # what strikes
    place: str  # where: a step of a batch, a life of the job, a server
    number: int = 1  # at the n-th of them


Schedule = tuple[PlannedFault, ...]
