"""The effects of an entry, and how a later entry reports them.

What it is: the actions that this release knows, the actions that an entry defers, and the closing,
which says how the effects of the unclosed entry ended.
What it promises: the spellings of actions stand in the log, so none of them ever changes.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import ClassVar

from ashore.base import codec


class HasEffects:
    """A body with effects after its entry, which is unclosed until a later one reports them."""

    __slots__ = ()

    kind: ClassVar[str]


class Action(StrEnum):
    """What has to be done about a table partition so that others learn of it.

    A log that a later release wrote may hold more. Such an action stays a plain string: it is
    deferred, it is named, and this release does not run it.
    """

    REGISTER = "register"  # the partition is registered in the catalog
    SUCCESS_FILE = "success_file"  # a success file is written beside its files
    CATALOG = "catalog"  # the catalog gets version and rows of a complete partition
    HTTP = "http"  # a POST with the same content


@dataclass(frozen=True, slots=True)
class DeferredAction:
    """An action that may be completed after its entry was closed."""

    id: str  # used once: `register:ods.clicks:date=2026-11-21`
    action: Action | str  # a string: of a later release
    table: str
    partition: str
    version: int = 0  # of the seal that it belongs to; 0: none
    rows: int = 0  # of the partition, as that seal says


@dataclass(frozen=True, slots=True)
class FailedTries:
    """Tries of deferred actions that failed, since the entry before. They stay deferred."""

    action: Action | str  # of these effects: they are tried together
    times: int
    last_ms: int  # the writer's clock at the last of them
    error: str


@dataclass(frozen=True, slots=True)
class Closing:
    """How the effects of the one unclosed entry ended, and which deferred ones are done by now."""

    entry: int | None  # the number that is closed; None: only `done`
    moved: int
    already_moved: int
    registered: bool  # its partitions are in the catalog, except those that are deferred
    deferred: tuple[DeferredAction, ...]
    done: tuple[str, ...]  # ids of deferred actions
    failed: tuple[FailedTries, ...] = codec.added(())
