"""What one run of an engine is: an argument of its process.

What it is: `Order`, and the places below its directory where an engine writes.
What it promises: a run that is started again with the same order goes on where it was.
What it must not know: engines.
"""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Self

from bench.sql.queries import BY_NAME, Query

CORES = 2


@dataclass(frozen=True, slots=True)
class Order:
    """A query over topics. Without an interval it ends at the end of the topics."""

    engine: str
    query_name: str
    servers: str
    topics: Mapping[str, str]  # by view
    directory: str
    interval_s: float = 0.0

    @property
    def query(self) -> Query:
        """The query."""
        return BY_NAME[self.query_name]

    @property
    def table(self) -> Path:
        """Where Spark and Flink write the table."""
        return Path(self.directory, "table")

    @property
    def checkpoint(self) -> Path:
        """Where Spark and Flink keep their state."""
        return Path(self.directory, "checkpoint")

    @property
    def output_topic(self) -> str:
        """The topic of a query that writes updates."""
        return f"{Path(self.directory).name}-output"

    def to_text(self) -> str:
        """Return the order as an argument of a process."""
        return json.dumps(asdict(self))

    @classmethod
    def of_text(cls, text: str) -> Self:
        """Return the order in an argument."""
        return cls(**json.loads(text))
