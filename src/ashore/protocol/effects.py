"""What an entry brings about, and how a later entry tells of it.

What it is: the actions that this release knows, the effects that an entry owes, and the closing,
which says how the effects of the unclosed entry ended.
What it promises: the spellings of actions stand in the log, so none of them ever changes.
What it must not know: how an effect is done, what else an entry holds.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import ClassVar

from ashore.protocol import codec


class HasEffects:
    """A body whose effects come after its entry, which is unclosed until a later one tells them."""

    __slots__ = ()

    kind: ClassVar[str]


class Action(StrEnum):
    """What has to be done about a table partition so that others learn of it.

    A log that a later release wrote may hold more. Such an action stays a plain string: it is
    owed, it is named, and nobody here does it.
    """

    REGISTER = "register"  # the catalog is told that the partition is there
    SUCCESS_FILE = "success_file"  # a success file is written beside its files
    CATALOG = "catalog"  # the catalog is told that it is complete: version and rows
    HTTP = "http"  # a POST tells the same


@dataclass(frozen=True, slots=True)
class Owed:
    """An effect that may be finished after its entry was closed."""

    id: str  # used once: `register:ods.clicks:date=2026-11-21`
    action: Action | str  # a string: of a later release
    table: str
    partition: str
    version: int = 0  # of the seal that it belongs to; 0: none
    rows: int = 0  # of the partition, as that seal says


@dataclass(frozen=True, slots=True)
class Failed:
    """Tries of owed effects that failed, since the entry before. They stay owed."""

    action: Action | str  # of these effects: they are tried together
    times: int
    last_ms: int  # the writer's clock at the last of them
    error: str


@dataclass(frozen=True, slots=True)
class Closing:
    """How the effects of the one unclosed entry ended, and which owed ones are done by now."""

    entry: int | None  # the number that is closed; None: only `done`
    moved: int
    already_moved: int
    registered: bool  # its partitions are in the catalog, those that are owed aside
    owed: tuple[Owed, ...]
    done: tuple[str, ...]  # ids of owed effects
    failed: tuple[Failed, ...] = codec.added(())
