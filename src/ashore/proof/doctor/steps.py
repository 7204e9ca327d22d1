"""What the doctor concludes: how far a former writer came, steps, refusals.

What it promises: each step may be interrupted anywhere and planned again from what is seen then.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from ashore.log.entries import Join, Joined
from ashore.log.names import SliceName
from ashore.log.positions import StreamShard
from ashore.proof.doctor.observation import OwnFile


@dataclass(frozen=True, slots=True)
class MoveAside:
    """Rename a file, or a directory, to a place where no reader sees it. Never overwrites."""

    source: str
    target: str
    why: str


@dataclass(frozen=True, slots=True)
class ListAdopted:
    """Keep the names of a former writer's files, so that they are no orphans."""

    path: str
    table: str
    by: str
    files: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class JoinAdopted:
    """Claim tables, and record where landing begins: where the former writer stopped."""

    tables: tuple[str, ...]
    join: Join


@dataclass(frozen=True, slots=True)
class RegisterTable:
    """Make the catalog know partitions of a table. Those that it knows are left alone."""

    table: str
    partitions: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class WriteSnapshot:
    """Write a snapshot of the log up to an entry, so that starts need not read all of it."""

    end: int


@dataclass(frozen=True, slots=True)
class AdoptFiles:
    """Write entries that list the job's own files, whose entries are lost."""

    name: SliceName
    tables: tuple[str, ...]  # to claim
    joined: tuple[Joined, ...]
    files: tuple[OwnFile, ...]  # batch after batch
    epoch: int  # that the log ends with: above all that have left something
    next_batch: int  # at least


Step = AdoptFiles | MoveAside | ListAdopted | JoinAdopted | RegisterTable | WriteSnapshot


@dataclass(frozen=True, slots=True)
class DoctorRefusal:
    """What the doctor will not do, and why."""

    subject: str  # `log`, `adoption`, or a table
    text: str
    hint: str


def refuse_repair(text: str, hint: str) -> DoctorRefusal:
    """Return why nothing is adopted."""
    return DoctorRefusal("adoption", text, hint)


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
