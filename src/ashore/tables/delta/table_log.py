"""The log of one Delta table: its state, and its next version.

What it is: `TableLog`, which reads versions and checkpoints of `_delta_log`, creates the next
version, and writes checkpoints.
What it promises: a version is created exclusively, by the storage, so that of two writers one wins.
A state that is kept is used only while the file that it ends with is what it was: a table that was
dropped, and perhaps created again, is read anew.
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final

from ashore.errors import CatalogError, PathExists, PathMissing
from ashore.log import names
from ashore.storage.base import Storage
from ashore.tables.delta.actions import (
    Action,
    VersionSummary,
    encode_version,
    parse_version,
    summarize,
)
from ashore.tables.delta.table_checkpoint import decode_checkpoint, encode_checkpoint

CHECKPOINT_EVERY = 100  # versions, unless the table says so
KEPT_MAX = 1000  # versions in memory; others are read again
_EVERY: Final = "delta.checkpointInterval"
_REMOVED_RETENTION: Final = "delta.deletedFileRetentionDuration"
_DEFAULT_RETENTION = "interval 1 week"
_REMOVED_KEPT_MS = 604_800_000  # in checkpoints, after that: `ashore clean` finds them quickly
_INTERVAL = re.compile(r"(?:interval\s+)?([0-9]+)\s+(week|day|hour|minute|second)s?", re.IGNORECASE)
_UNIT_MS = {
    "week": 604_800_000,
    "day": 86_400_000,
    "hour": 3_600_000,
    "minute": 60_000,
    "second": 1000,
}
_VERSION = re.compile(r"(\d{20})\.json")
_CHECKPOINT = re.compile(r"(\d{20})\.checkpoint(?:\.(\d{10})\.(\d{10}))?\.parquet")


@dataclass(slots=True)
class TableState:
    """A table as of one version."""

    version: int = -1
    protocol: dict[str, Any] = field(default_factory=dict)
    metadata: dict[str, Any] = field(default_factory=dict)
    transactions: dict[str, int] = field(default_factory=dict)
    checkpoint: int = -1  # the newest one that is known

    def apply(self, actions: list[Action]) -> None:
        """Take in what a version, or a checkpoint, has beside files."""
        for action in actions:
            self.protocol = action.get("protocol") or self.protocol
            self.metadata = action.get("metaData") or self.metadata
            if txn := action.get("txn"):
                self.transactions[txn["appId"]] = int(txn["version"])


@dataclass(slots=True)
class Files:
    """The files of a table: those that readers see, and those that were removed."""

    added: dict[str, Action] = field(default_factory=dict)
    removed: dict[str, Action] = field(default_factory=dict)

    def apply(self, actions: list[Action]) -> None:
        """Take in what a version, or a checkpoint, has of files."""
        for action in actions:
            if add := action.get("add"):
                self.removed.pop(add["path"], None)
                self.added[add["path"]] = action
            if remove := action.get("remove"):
                self.added.pop(remove["path"], None)
                self.removed[remove["path"]] = action


class TableLog:
    """Used by one thread at a time. Calls may raise StorageError; CatalogError: it is not readable.

    `table`: database.table.
    """

    def __init__(self, storage: Storage, table: str) -> None:
        self._storage = storage
        self.table = table
        self.directory = names.join(names.table_path(table), "_delta_log")
        self._state: TableState | None = None
        self._last: bytes | None = None  # the content of the state's version
        self._checkpoints: dict[int, list[str]] = {}
        self._versions: dict[int, VersionSummary] = {}

    def read(self) -> TableState | None:
        """Return the newest state; None: there is no such table."""
        state = self._state
        if state is None or self._read_file(state.version) != self._last:
            self._versions.clear()
            self._state = state = self._load()
        while state is not None and self._take_next(state):
            pass
        return state

    def create(self, number: int, actions: list[Action]) -> bool:
        """Create a version; False: another writer has. On StorageError that is not known."""
        try:
            self._storage.create(self._path(number), encode_version(actions))
        except PathExists:
            return False
        return True

    def version(self, number: int) -> VersionSummary | None:
        """Return what a version did; None: its file is gone."""
        if number not in self._versions:
            data = self._read_file(number)
            if data is None:
                return None
            self._keep(summarize(number, parse_version(self._path(number), data)))
        return self._versions[number]

    def files(self, state: TableState) -> Files:
        """Return the files of a state, from its newest checkpoint on."""
        files = Files()
        files.apply(self.read_checkpoint(self._checkpoints.get(state.checkpoint, ())))
        for number in range(state.checkpoint + 1, state.version + 1):
            files.apply(self.actions(number))
        return files

    def actions(self, number: int) -> list[Action]:
        """Return the actions of a version. Raises CatalogError where its file is gone."""
        data = self._read_file(number)
        if data is None:
            raise self._incomplete(number)
        return parse_version(self._path(number), data)

    def read_checkpoint(self, leaves: Iterable[str]) -> list[Action]:
        """Return the actions of a checkpoint, from its files."""
        return [
            action
            for leaf in leaves
            for action in decode_checkpoint(self._storage.read(names.join(self.directory, leaf)))
        ]

    def forget(self) -> None:
        """Forget the state: another writer may have cleaned the log that it begins with."""
        self._state = None

    def checkpoint(self, state: TableState, now_ms: int) -> None:
        """Write a checkpoint of a state, if it is time for one and no other writer has.

        Files that were removed long ago are left out, or it would grow for ever.
        """
        every = int((state.metadata.get("configuration") or {}).get(_EVERY, CHECKPOINT_EVERY))
        if state.version - state.checkpoint < every:
            return
        files = self.files(state)
        actions: list[Action] = [{"protocol": state.protocol}, {"metaData": state.metadata}]
        actions += [
            {"txn": {"appId": app, "version": number}} for app, number in state.transactions.items()
        ]
        expired = find_expired(state, files.removed, now_ms - _REMOVED_KEPT_MS)
        removed = [each for path, each in files.removed.items() if path not in expired]
        actions += [*files.added.values(), *removed]
        leaf = f"{state.version:020}.checkpoint.parquet"
        with suppress(PathExists):
            self._storage.create(names.join(self.directory, leaf), encode_checkpoint(actions))
        self._checkpoints = {state.version: [leaf]}
        state.checkpoint = state.version
        self._point_to(state.version, len(actions))

    def _point_to(self, version: int, size: int) -> None:
        """Make readers list the log from a checkpoint on, which is there.

        The file is a hint: one that is missing, or names an older checkpoint, costs time only. So
        it may be deleted and created, and calls of several writers may come in any order.
        """
        path = names.join(self.directory, "_last_checkpoint")
        with suppress(PathMissing):
            self._storage.delete(path)
        with suppress(PathExists):
            self._storage.create(path, json.dumps({"version": version, "size": size}).encode())

    def _load(self) -> TableState | None:
        leaves = [names.leaf(each.path) for each in self._storage.list(self.directory)]
        known = {int(found[1]) for leaf in leaves if (found := _VERSION.fullmatch(leaf))}
        self._checkpoints = find_checkpoints(leaves)
        state = TableState(checkpoint=max(self._checkpoints, default=-1))
        newest = max(known, default=-1)
        if newest < 0 and state.checkpoint < 0:
            return None
        state.apply(self.read_checkpoint(self._checkpoints.get(state.checkpoint, ())))
        state.version = state.checkpoint
        while state.version < newest:
            if not self._take_next(state):
                raise self._incomplete(state.version + 1)
        self._last = self._read_file(state.version)
        if not (state.metadata and state.protocol):
            raise self._incomplete(0)
        return state

    def _take_next(self, state: TableState) -> bool:
        number = state.version + 1
        data = self._read_file(number)
        if data is None:
            return False
        actions = parse_version(self._path(number), data)
        state.apply(actions)
        state.version = number
        self._last = data
        self._keep(summarize(number, actions))
        return True

    def _keep(self, version: VersionSummary) -> None:
        self._versions[version.number] = version
        while len(self._versions) > KEPT_MAX:
            del self._versions[min(self._versions)]

    def _read_file(self, number: int) -> bytes | None:
        try:
            return self._storage.read(self._path(number))
        except PathMissing:
            return None

    def _path(self, number: int) -> str:
        return names.join(self.directory, f"{number:020}.json")

    def _incomplete(self, number: int) -> CatalogError:
        return CatalogError(
            f"{self.directory} has no version {number}, and newer ones",
            hint="nothing was written; restore the table's log",
        )


def interval_ms(state: TableState, name: str, default: str) -> int | None:
    """Return a setting of a table that is an interval; None: it is not understood."""
    settings = state.metadata.get("configuration") or {}
    found = _INTERVAL.fullmatch(settings.get(name, default).strip())
    return int(found[1]) * _UNIT_MS[found[2].lower()] if found else None


def find_expired(state: TableState, removed: Mapping[str, Action], now_ms: int) -> set[str]:
    """Return the removed files of a table that are not kept for readers of older versions."""
    kept_ms = interval_ms(state, _REMOVED_RETENTION, _DEFAULT_RETENTION)
    if kept_ms is None:
        return set()
    return {
        path
        for path, each in removed.items()
        if int(each["remove"].get("deletionTimestamp") or 0) < now_ms - kept_ms
    }


def find_checkpoints(leaves: Iterable[str]) -> dict[int, list[str]]:
    """Return the complete checkpoints among the files of a log, each with its files."""
    parts: dict[int, list[str]] = {}
    for leaf in leaves:
        if found := _CHECKPOINT.fullmatch(leaf):
            parts.setdefault(int(found[1]), []).append(leaf)
    return {number: group for each in parts.items() for number, group in _complete(*each)}


def _complete(number: int, leaves: list[str]) -> Iterator[tuple[int, list[str]]]:
    """Yield a checkpoint with its files, if none is missing."""
    for leaf in sorted(leaves):
        found = _CHECKPOINT.fullmatch(leaf)
        if found and found[3] is None:
            yield number, [leaf]
            return
    total = int(min(leaves).split(".")[3])
    if len(leaves) == total:
        yield number, sorted(leaves)
