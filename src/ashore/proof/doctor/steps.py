"""The doctor's steps and refusals.

What it promises: each step may be interrupted anywhere and planned again from what is seen then.
"""

from dataclasses import dataclass

from ashore.log.entries import Join, Joined
from ashore.log.names import SliceName
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
