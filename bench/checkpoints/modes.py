"""What is compared: three ways to keep state, and the query that has it.

What it is: settings of Spark a mode, and `Case`, one combination that is measured.
What it promises: what differs between two modes is in `overrides`, and nothing else does.
What it must not know: processes, clocks.
"""

import json
import math
from dataclasses import asdict, dataclass
from typing import Self

from ashore.queries.spark.sql.assembly import measure_batches
from ashore.queries.spark.sql.settings import (
    BOUNDED_MEMORY,
    CHANGELOG,
    JOIN_FORMAT,
    KEPT_BATCHES,
    MAINTENANCE_INTERVAL,
    MAINTENANCE_THREADS,
    SNAPSHOT_BATCHES,
    TuningGoals,
    state_settings,
    tune,
)
from ashore.queries.state.checkpoint import Checkpoint

CORES = 2
PARTITIONS = 16
KEEP_S = 1800.0
UPDATES_PER_S = 10_000
FILL_PER_S_MAX = 150_000
FILL_S = (
    10.0  # at least; the source goes by the clock, and what is late makes the next batch larger
)
FILL_INTERVAL_S = 5.0
PRIME = 2_654_435_761
FIFTH = math.log(0.8) / math.log(0.2)  # x to the power of it: a fifth of the keys gets four fifths
KEYS = (100_000, 1_000_000, 5_000_000)

# What Ashore sets, as Spark has it without.
SPARK = {
    BOUNDED_MEMORY: "false",
    MAINTENANCE_INTERVAL: "60s",
    MAINTENANCE_THREADS: "1",
    SNAPSHOT_BATCHES: "10",
    KEPT_BATCHES: "100",
    JOIN_FORMAT: "2",
}
MODES = {
    "snapshot": "a snapshot with each batch",
    "changelog": "a changelog, as Spark has it",
    "ashore": "Ashore's defaults",
}


@dataclass(frozen=True, slots=True)
class Case:
    """One combination."""

    mode: str
    keys: int
    updates: str  # "uniform" or "skewed"
    interval_s: float
    partitions: int = PARTITIONS

    @property
    def name(self) -> str:
        """Return a name for files and messages."""
        return f"{self.mode}-{self.keys}-{self.updates}-{self.interval_s:g}s-{self.partitions}"


@dataclass(frozen=True, slots=True)
class Order:
    """What a job process is to do."""

    case: Case
    checkpoint_root: str  # the file system's address, with a directory
    hadoop: dict[str, str]  # how it is reached
    directory: str  # for what Spark writes locally

    def to_text(self) -> str:
        """Return the order as an argument of a process."""
        return json.dumps(asdict(self))

    @classmethod
    def of_text(cls, text: str) -> Self:
        """Return the order in an argument."""
        fields = json.loads(text)
        return cls(**{**fields, "case": Case(**fields["case"])})


def settings_of(case: Case, checkpoint: Checkpoint | None = None) -> dict[str, str]:
    """Return the settings of Spark for a start, `ashore` with what its checkpoint tells."""
    goals = TuningGoals(case.interval_s, KEEP_S, CORES, case.partitions)
    batches = measure_batches(checkpoint) if checkpoint else None
    return state_settings(tune(goals, batches), overrides(case.mode))


def overrides(mode: str) -> dict[str, str]:
    """Return what a mode sets otherwise than Ashore."""
    return {} if mode == "ashore" else {**SPARK, CHANGELOG: str(mode == "changelog").lower()}


def key_of(case: Case) -> str:
    """Return the key of a row in SQL."""
    if case.updates == "uniform":
        return uniform_key(case.keys)
    share = f"pmod(value * {PRIME}, 4294967296) / 4294967296D"
    return f"CAST(floor({case.keys} * pow({share}, {1 / FIFTH!r})) AS BIGINT)"


def fill_rate(keys: int) -> int:
    """Return at how many rows a second the keys are met first."""
    return min(math.ceil(keys / FILL_S), FILL_PER_S_MAX)


def uniform_key(keys: int) -> str:
    """Return a key that meets each one once in `keys` rows."""
    return f"pmod(value * {PRIME}, {keys})"
