"""What a query has landed since a savepoint, and what happens to it.

What it is: values, which a command loads before its first word.
What it promises: frozen.
"""

from dataclasses import dataclass
from enum import StrEnum


class OutputSince(StrEnum):
    """How the output that was landed since a savepoint is treated."""

    ROLL_BACK = "roll-back"  # its files go aside, and its offsets are read again
    CATCH_UP = "catch-up"  # it stays, and its batches run again for the state alone
    ANOTHER_TABLE = "another-table"  # it stays as it is: an empty table gets what comes after


@dataclass(frozen=True, slots=True)
class LandedSince:
    """The output of a query since a savepoint."""

    batch: int  # the last one of the savepoint
    last: int  # the last one of the log
    rows: int
    files: int

    @property
    def batches(self) -> int:
        """How many there are."""
        return self.last - self.batch


@dataclass(frozen=True, slots=True)
class AnotherTable:
    """The options of a person who lands what comes after a savepoint in another table.

    Arguments:
        savepoints: to continue from, one of each query that is to.
        of_another_job: even if a savepoint is not of this job.
        same_sql: the SQL made the state, where nothing that is there says which SQL did.
        takes_over: even if the job runs.

    """

    savepoints: tuple[str, ...]
    of_another_job: bool = False
    same_sql: bool = False
    takes_over: bool = False
