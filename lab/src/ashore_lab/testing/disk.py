"""A disk that knows what was synced.

What it is: the system calls of `ashore.storage.system` on a file system in memory, with faults.
What it promises: after `power_cut` only what POSIX and a journal promise is sure to be there:
content synced by `sync_file`, and names synced by `sync_directory`. The rest survives or not, as
a policy chooses against the program. A rename is never half lost: its old name goes only where
its new one, and the directories above that, stay.
"""

import errno
import os
import posixpath
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import Enum
from itertools import count

from ashore.base.clock import Clock, SystemClock
from ashore.errors import check
from ashore.storage.system import SystemStat
from ashore_lab.testing.faults import (
    Call,
    FailAfterEffect,
    FailBefore,
    PowerCut,
    Schedule,
    StopProcess,
)

DiskFault = FailBefore | FailAfterEffect | StopProcess | PowerCut

SYSTEM_CALLS = frozenset(
    {
        "close",
        "link",
        "list_names",
        "make_directory",
        "open_new",
        "read",
        "rename_noreplace",
        "stat",
        "sync_directory",
        "sync_file",
        "unlink",
        "remove_directory",
        "write",
    }
)


class PowerCutPolicy(Enum):
    """What a power cut does with what was not synced."""

    NOTHING_UNSYNCED = "all of it is gone"
    NAMES_WITHOUT_CONTENT = "names are there, content is not"
    LAST_NAME_LOST = "the last change of each directory is gone, content is torn"
    REMOVALS_LOST = "removed and renamed files are back under their old names too"


@dataclass(eq=False, slots=True)
class _Node:
    """A file or a directory: what a name stands for."""

    number: int
    is_directory: bool
    modified_ms: int
    content: bytearray = field(default_factory=bytearray)
    synced_bytes: int = 0
    names: dict[str, "_Node"] = field(default_factory=dict)
    links: int = 0
    added_by: "_Change | None" = None  # the latest change that gave it a name


@dataclass(eq=False, slots=True)
class _Change:
    """A name added to or removed from a directory. `needs`: lost if one of these is lost."""

    directory: _Node
    name: str
    node: _Node
    is_addition: bool
    needs: tuple["_Change", ...] = ()
    is_durable: bool = False

    def replay(self) -> None:
        names = self.directory.names
        if self.is_addition:
            if self.name in names:  # after a power cut that lost only its removal
                names[self.name].links -= 1
            names[self.name] = self.node
            self.node.links += 1
            self.node.added_by = self
        elif names.get(self.name) is self.node:
            del names[self.name]
            self.node.links -= 1


class _Machine:
    """What the processes of one machine share: the tree, and its changes since the beginning."""

    def __init__(self, clock: Clock, *, can_rename: bool) -> None:
        self.clock = clock
        self.can_rename = can_rename
        self.lock = threading.RLock()
        self.numbers = count(2)
        self.root = _Node(1, is_directory=True, modified_ms=clock.now_ms())
        self.changes: list[_Change] = []
        self.unsynced: list[_Change] = []

    def make_node(self, *, is_directory: bool) -> _Node:
        return _Node(next(self.numbers), is_directory, self.clock.now_ms())

    def change(self, change: _Change) -> _Change:
        change.replay()
        self.changes.append(change)
        if not change.is_durable:
            self.unsynced.append(change)
        return change

    def find_unsynced_above(self, directory: _Node) -> Iterator[_Change]:
        """Yield the changes by which `directory` is reached and that may still be lost."""
        while directory.added_by is not None:
            if not directory.added_by.is_durable:
                yield directory.added_by
            directory = directory.added_by.directory

    def sync(self, directory: _Node) -> None:
        for change in self.unsynced:
            if change.directory is directory:
                for durable in (change, *change.needs):
                    durable.is_durable = True
        self.unsynced = [change for change in self.unsynced if not change.is_durable]


class SimulatedDisk:
    """A System. One for each "process" of a test: `restarted` and `power_cut` give the next one.

    Arguments:
        faults: which system calls fail (EIO) or stop the process, counted from 1.
        clock: the time of modification.
        can_rename: False for a file system without rename-without-overwrite.

    """

    def __init__(
        self,
        faults: Sequence[DiskFault] = (),
        *,
        clock: Clock | None = None,
        can_rename: bool = True,
    ) -> None:
        for fault in faults:
            check(fault.kind is None or fault.kind in SYSTEM_CALLS, f"no call is a {fault.kind}")
        self._schedule: Schedule[DiskFault] = Schedule(faults)
        self._descriptors: dict[int, _Node] = {}
        self._next_descriptor = count(3)
        self._machine = _Machine(clock or SystemClock(), can_rename=can_rename)

    @property
    def calls(self) -> list[Call]:
        """The system calls made so far, in order."""
        return self._schedule.calls

    @property
    def fired(self) -> list[DiskFault]:
        """The faults that have struck."""
        return self._schedule.fired

    @property
    def is_stopped(self) -> bool:
        """Whether the process is gone."""
        return self._schedule.is_stopped

    @property
    def open_files(self) -> int:
        """How many descriptors were not given back."""
        return len(self._descriptors)

    def restarted(self, faults: Sequence[DiskFault] = ()) -> "SimulatedDisk":
        """Return the disk as the next process sees it: nothing is lost, nothing more is durable."""
        disk = SimulatedDisk(faults)
        disk._machine = self._machine
        return disk

    def power_cut(
        self, policy: PowerCutPolicy, faults: Sequence[DiskFault] = ()
    ) -> "SimulatedDisk":
        """Return the disk as it is after a power cut. This one is not changed."""
        machine = self._machine
        disk = SimulatedDisk(faults, clock=machine.clock, can_rename=machine.can_rename)
        with machine.lock:
            _copy_survivors(machine, disk._machine, policy)
        return disk

    def open_new(self, path: str) -> int:
        """See System."""
        with self._call("open_new", path):
            directory, name = self._find_free(path)
            file = self._machine.make_node(is_directory=False)
            self._machine.change(_Change(directory, name, file, is_addition=True))
            descriptor = next(self._next_descriptor)
            self._descriptors[descriptor] = file
        return descriptor

    def write(self, descriptor: int, data: memoryview) -> int:
        """See System."""
        with self._call("write", str(descriptor)):
            file = self._descriptors[descriptor]
            file.content += data
            file.modified_ms = self._machine.clock.now_ms()
        return len(data)

    def sync_file(self, descriptor: int) -> None:
        """See System."""
        with self._call("sync_file", str(descriptor)):
            file = self._descriptors[descriptor]
            file.synced_bytes = len(file.content)

    def close(self, descriptor: int) -> None:
        """See System."""
        with self._call("close", str(descriptor)):
            del self._descriptors[descriptor]

    def read(self, path: str, start: int, length: int | None) -> bytes:
        """See System."""
        with self._call("read", path):
            content = self._find_file(path).content
            return bytes(content[start : None if length is None else start + length])

    def stat(self, path: str) -> SystemStat:
        """See System."""
        with self._call("stat", path):
            node = self._find(path)
            return SystemStat(
                len(node.content), node.modified_ms, node.is_directory, (0, node.number), node.links
            )

    def list_names(self, path: str) -> list[str]:
        """See System."""
        with self._call("list_names", path):
            return list(self._find_directory(path).names)

    def make_directory(self, path: str) -> None:
        """See System."""
        with self._call("make_directory", path):
            parent, name = self._find_free(path)
            directory = self._machine.make_node(is_directory=True)
            self._machine.change(_Change(parent, name, directory, is_addition=True))

    def sync_directory(self, path: str) -> None:
        """See System."""
        with self._call("sync_directory", path):
            self._machine.sync(self._find_directory(path))

    def rename_noreplace(self, source: str, target: str) -> None:
        """See System."""
        with self._call("rename_noreplace", source, target):
            if not self._machine.can_rename:
                raise _error(errno.EINVAL, source)
            file = self._find_file(source)
            directory, name = self._find_free(target)
            added = self._machine.change(_Change(directory, name, file, is_addition=True))
            # What both names lie under is no matter: without it both are gone.
            old_directory = self._find_directory(posixpath.dirname(source))
            shared = set(self._machine.find_unsynced_above(old_directory))
            above = self._machine.find_unsynced_above(directory)
            needs = (added, *(change for change in above if change not in shared))
            self._remove(source, file, needs)

    def link(self, source: str, target: str) -> None:
        """See System."""
        with self._call("link", source, target):
            file = self._find_file(source)
            directory, name = self._find_free(target)
            self._machine.change(_Change(directory, name, file, is_addition=True))

    def unlink(self, path: str) -> None:
        """See System."""
        with self._call("unlink", path):
            self._remove(path, self._find_file(path), ())

    def remove_directory(self, path: str) -> None:
        """See System."""
        with self._call("remove_directory", path):
            directory = self._find_directory(path)
            if directory.names:
                raise _error(errno.ENOTEMPTY, path)
            self._remove(path, directory, ())

    @contextmanager
    def _call(self, kind: str, path: str, target: str = "") -> Iterator[None]:
        """One system call: its effect is the body, all or nothing."""
        with self._machine.lock:
            call, fault = self._schedule.take(kind, path, target)
            if isinstance(fault, FailBefore):
                raise _error(errno.EIO, path)
            if isinstance(fault, StopProcess | PowerCut) and fault.when == "before":
                raise self._schedule.stop(call)
            try:
                yield
            finally:
                if isinstance(fault, StopProcess | PowerCut):
                    raise self._schedule.stop(call)
                if isinstance(fault, FailAfterEffect):
                    raise _error(errno.EIO, path)

    def _remove(self, path: str, file: _Node, needs: tuple[_Change, ...]) -> None:
        parent = self._find_directory(posixpath.dirname(path))
        name = posixpath.basename(path)
        self._machine.change(_Change(parent, name, file, is_addition=False, needs=needs))

    def _find(self, path: str) -> _Node:
        node = self._machine.root
        for name in path.split("/"):
            if name == "":
                continue
            if not node.is_directory:
                raise _error(errno.ENOTDIR, path)
            if name not in node.names:
                raise _error(errno.ENOENT, path)
            node = node.names[name]
        return node

    def _find_file(self, path: str) -> _Node:
        node = self._find(path)
        if node.is_directory:
            raise _error(errno.EISDIR, path)
        return node

    def _find_directory(self, path: str) -> _Node:
        node = self._find(path)
        if not node.is_directory:
            raise _error(errno.ENOTDIR, path)
        return node

    def _find_free(self, path: str) -> tuple[_Node, str]:
        """Return the directory and the name of `path`, which must be free."""
        directory, name = self._find_directory(posixpath.dirname(path)), posixpath.basename(path)
        if name in directory.names or name == "":
            raise _error(errno.EEXIST, path)
        return directory, name


def _copy_survivors(old: _Machine, new: _Machine, policy: PowerCutPolicy) -> None:
    copies = {old.root: new.root}
    for change in _survivors(old.changes, policy):
        for node in (change.directory, change.node):
            if node not in copies:
                copies[node] = _copy_node(new, node, policy)
        directory, node = copies[change.directory], copies[change.node]
        new.change(_Change(directory, change.name, node, change.is_addition, is_durable=True))


def _survivors(changes: Sequence[_Change], policy: PowerCutPolicy) -> list[_Change]:
    last = {change.directory: change for change in changes if not change.is_durable}
    lost: set[_Change] = set()
    for change in changes:  # in order: what a change needs comes before it
        if change.is_durable:
            continue
        match policy:
            case PowerCutPolicy.NOTHING_UNSYNCED:
                is_chosen = False
            case PowerCutPolicy.NAMES_WITHOUT_CONTENT:
                is_chosen = True
            case PowerCutPolicy.LAST_NAME_LOST:
                is_chosen = last[change.directory] is not change
            case PowerCutPolicy.REMOVALS_LOST:
                is_chosen = change.is_addition
        if not is_chosen or any(need in lost for need in change.needs):
            lost.add(change)
    return [change for change in changes if change not in lost]


def _copy_node(new: _Machine, node: _Node, policy: PowerCutPolicy) -> _Node:
    copy = new.make_node(is_directory=node.is_directory)
    copy.modified_ms = node.modified_ms
    unsynced_bytes = len(node.content) - node.synced_bytes
    match policy:
        case PowerCutPolicy.NOTHING_UNSYNCED | PowerCutPolicy.NAMES_WITHOUT_CONTENT:
            kept_bytes = node.synced_bytes
        case PowerCutPolicy.LAST_NAME_LOST:
            kept_bytes = node.synced_bytes + unsynced_bytes // 2
        case PowerCutPolicy.REMOVALS_LOST:
            kept_bytes = len(node.content)
    copy.content = node.content[:kept_bytes]
    copy.synced_bytes = kept_bytes
    return copy


def _error(number: int, path: str) -> OSError:
    return OSError(number, os.strerror(number), path)
