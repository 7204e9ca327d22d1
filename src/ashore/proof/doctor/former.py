"""A writer that Ashore is to follow: how far it durably came, and which files are its own.

What it is: the answer of a look at what Spark's file sink or Kafka Connect left, or the reason why
there is none.
What it promises: offsets below `next_of` are in `files`; offsets from there on are in no file.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from ashore.log.positions import StreamShard


class Unclear(Exception):
    """What a former writer left does not say how far it came. Nothing is adopted."""

    def __init__(self, reason: str, hint: str) -> None:
        super().__init__(reason)
        self.reason = reason
        self.hint = hint


@dataclass(frozen=True, slots=True)
class Former:
    """A writer that stopped."""

    kind: str  # for people: `Spark query`, `Connect sink`
    table: str
    next_of: Mapping[StreamShard, int]  # the first offset that it did not write
    files: tuple[str, ...]  # paths in the lake
    strays: tuple[str, ...] = ()  # files of attempts that failed: in none of its batches
    hides: str | None = None  # a directory that makes Spark read these files alone
    notes: tuple[str, ...] = ()
