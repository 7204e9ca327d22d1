"""A lake on a local disk, or on a mounted file system that behaves like one.

What it is: the storage seam over a POSIX file system.
What it promises: the order of syncs that the landing protocol asks for; content and names survive
a power cut as soon as a call says so; nothing is overwritten, also not under a race.
"""

import errno
import logging
import posixpath
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress

from ashore.errors import PathExists, PathMissing, StorageError, SyncFailed, check
from ashore.storage.base import (
    FileStat,
    FileWriter,
    GuardedWriter,
    Staged,
    build_temporary_path,
    check_path,
)
from ashore.storage.system import POSIX, System, SystemStat

_log = logging.getLogger(__name__)

_NO_RENAME = frozenset({errno.ENOSYS, errno.EINVAL, errno.EOPNOTSUPP})
# What a file system answers that has no second names, or no more of them for this file.
_NO_LINK = frozenset(
    {errno.ENOSYS, errno.EOPNOTSUPP, errno.EPERM, errno.EXDEV, errno.EMLINK, errno.EINVAL}
)
# A directory above the root that answers so is not ours, or is on a volume that never changes.
_NOTHING_NEW_IN = frozenset({errno.EACCES, errno.EPERM, errno.EINVAL, errno.EROFS})
_ANCHORED_MAX = 4096
_MISSING: Mapping[int, type[StorageError]] = {
    errno.ENOENT: PathMissing,
    errno.ENOTDIR: PathMissing,
}
_EXISTS: Mapping[int, type[StorageError]] = {errno.EEXIST: PathExists}
_NO_SAFE_MOVE = (
    "keep the lake on a file system that can rename without overwriting, or has hard links"
)
_HINTS = {
    errno.ENOSPC: "free space on that volume, then start again",
    errno.EDQUOT: "raise the quota of the lake's directory, then start again",
    errno.EIO: "check the disk and the kernel log, then start again",
    errno.EROFS: "the volume is mounted read-only; mount it writable, then start again",
    errno.EOPNOTSUPP: _NO_SAFE_MOVE,
    errno.EPERM: _NO_SAFE_MOVE,  # what a file system without hard links answers
    errno.EACCES: "give the user of the process permission there",
    errno.ENOTDIR: "a file is where a directory of this path should be: move it away",
    errno.EMFILE: "raise the limit of open files (ulimit -n)",
}


class LocalStorage:
    """A Storage under `root`, an absolute path. Missing directories are made, `root` too."""

    def __init__(self, root: str, system: System = POSIX) -> None:
        check(posixpath.isabs(root), f"the lake root {root!r} is not absolute")
        self._root = "/" + posixpath.normpath(root).lstrip("/")
        self._system = system
        # Directories whose own name was seen to be durable, up to the root. Another process may
        # have made a directory and died before its sync, so the first create in one looks upwards.
        self._anchored: set[str] = set()

    def create(self, path: str, data: bytes) -> None:
        """See Storage. If interrupted: a temporary file may stay; the target is whole or absent."""
        target = self._resolve(path)
        temporary = build_temporary_path(target)
        with _storage_errors("create", path, _EXISTS):
            descriptor = self._open_new(temporary)
            try:
                self._fill(descriptor, path, data)
                self._name_created(temporary, target)
            except (OSError, StorageError):
                self._discard(temporary)
                raise
            self._sync_names(posixpath.dirname(target))

    def open_write(self, path: str) -> FileWriter:
        """See Storage."""
        with _storage_errors("create", path, _EXISTS):
            return LocalWriter(self._system, self._open_new(self._resolve(path)), path)

    def publish(self, staged: Staged, final: str) -> None:
        """See Storage. If interrupted: one name, or both and one file, never none."""
        check(staged.path != final, f"{final} is published as itself")
        source_path, target_path = self._resolve(staged.path), self._resolve(final)
        with _storage_errors("move", f"{staged} to {final}", _EXISTS):
            try:
                self._name_in(self._rename, source_path, target_path)
            except (FileNotFoundError, NotADirectoryError) as error:
                if self._look(source_path) is None:
                    raise PathMissing(
                        f"{staged} does not exist, so it cannot be moved", path=staged.path
                    ) from error
                raise

    def link(self, source: str, target: str) -> bool:
        """See Links. If interrupted: the second name is there, or it is not."""
        source_path, target_path = self._resolve(source), self._resolve(target)
        with _storage_errors("link", f"{source} to {target}", {**_MISSING, **_EXISTS}):
            try:
                self._name_in(self._system.link, source_path, target_path)
            except OSError as error:
                if error.errno in _NO_LINK:
                    return False
                raise
        return True

    def stat(self, path: str) -> FileStat | None:
        """See Storage."""
        with _storage_errors("look at", path):
            found = self._look(self._resolve(path))
        return None if found is None else _to_file_stat(path, found)

    def list(self, directory: str) -> list[FileStat]:
        """See Storage."""
        found: list[FileStat] = []
        with _storage_errors("list", directory):
            root = self._resolve(directory)
            try:
                names = self._system.list_names(root)
            except (FileNotFoundError, NotADirectoryError):
                return []
            for name in sorted(names):
                entry = self._look(f"{root}/{name}")
                if entry is not None:  # else it went away since: listings are not atomic
                    found.append(_to_file_stat(f"{directory}/{name}", entry))
        return found

    def read(self, path: str, start: int = 0, length: int | None = None) -> bytes:
        """See Storage."""
        check(start >= 0 and (length is None or length >= 0), f"{path}: a range below zero")
        with _storage_errors("read", path, _MISSING):
            return self._system.read(self._resolve(path), start, length)

    def delete(self, path: str) -> None:
        """See Storage."""
        target = self._resolve(path)
        with _storage_errors("delete", path, _MISSING):
            try:
                self._system.unlink(target)
            except IsADirectoryError:
                self._system.remove_directory(target)

    def sync(self, directories: Sequence[str]) -> None:
        """See Storage. Also syncs what is above a directory whose name may not be durable yet."""
        paths = {self._resolve(directory) for directory in directories}
        for path in sorted(paths):
            self._sync_directory(path, missing=PathMissing)
        self._anchor(paths)

    def describe(self) -> str:
        """See Storage."""
        return f"file://{self._root}"

    def _resolve(self, path: str) -> str:
        check_path(path)
        return posixpath.join(self._root, path)

    def _look(self, path: str) -> SystemStat | None:
        try:
            return self._system.stat(path)
        except (FileNotFoundError, NotADirectoryError):
            return None

    def _open_new(self, path: str) -> int:
        try:
            return self._system.open_new(path)
        except FileNotFoundError:
            self._make_directories(posixpath.dirname(path))
            return self._system.open_new(path)

    def _fill(self, descriptor: int, path: str, data: bytes) -> None:
        try:
            _write_all(self._system, descriptor, memoryview(data).cast("B"))
            _sync_file(self._system, descriptor, path)
        finally:
            self._system.close(descriptor)

    def _name_created(self, temporary: str, target: str) -> None:
        """Give a finished temporary file its name, or raise FileExistsError."""
        try:
            self._system.rename_noreplace(temporary, target)
        except OSError as error:
            if error.errno not in _NO_RENAME:
                raise
            self._system.link(temporary, target)
            self._system.unlink(temporary)

    def _discard(self, temporary: str) -> None:
        try:
            self._system.unlink(temporary)
        except FileNotFoundError:
            return
        except OSError as error:
            _log.warning("a temporary file is left behind, a janitor may delete it: %s", error)

    def _name_in(self, name: Callable[[str, str], None], source: str, target: str) -> None:
        """Rename or link, and make the directories of `target` where they are what was missing."""
        try:
            name(source, target)
        except FileNotFoundError:
            if self._look(source) is None:
                raise
            self._make_directories(posixpath.dirname(target))
            name(source, target)

    def _rename(self, source: str, target: str) -> None:
        try:
            self._system.rename_noreplace(source, target)
        except FileExistsError:
            self._finish_if_halfway(source, target)
        except OSError as error:
            if error.errno not in _NO_RENAME:
                raise
            try:
                self._system.link(source, target)
            except FileExistsError:
                self._finish_if_halfway(source, target)
            else:
                self._unlink_source(source, target)

    def _finish_if_halfway(self, source: str, target: str) -> None:
        """Finish an interrupted link-move, or raise FileExistsError: the target is another file.

        Two names of one file are recognized by inode and link count: a symbolic link on the way may
        show one and the same name twice.
        """
        ours, theirs = self._look(source), self._look(target)
        if ours is None or theirs is None or ours.inode != theirs.inode or ours.links < 2:
            raise FileExistsError(errno.EEXIST, "the target exists", source, None, target)
        self._unlink_source(source, target)

    def _unlink_source(self, source: str, target: str) -> None:
        # The new name must be durable, with every directory above it, before the old one goes:
        # a disk may keep the unlink and forget the link.
        self._sync_names(posixpath.dirname(target))
        with suppress(FileNotFoundError):  # another process has finished the same move
            self._system.unlink(source)

    def _make_directories(self, directory: str) -> None:
        self._anchored.discard(directory)  # one of this name may have been deleted
        try:
            self._system.make_directory(directory)
        except FileExistsError:
            return
        except FileNotFoundError:
            self._make_directories(posixpath.dirname(directory))
            with suppress(FileExistsError):  # another process was faster
                self._system.make_directory(directory)

    def _sync_names(self, directory: str) -> None:
        """Make the names in one directory durable, and its own."""
        self._sync_directory(directory)
        self._anchor({directory})

    def _anchor(self, synced: set[str]) -> None:
        """Make the names of directories durable that were just synced, and of all above them.

        Seldom is one of them new, so that seldom anything is left to sync.
        """
        new = {each for directory in synced for each in self._not_anchored_from(directory)}
        parents = {posixpath.dirname(each) for each in new - {self._root}}
        for parent in sorted(parents - synced, reverse=True):
            self._sync_directory(parent)
        if self._root in new:
            self._sync_above_root()
        if len(self._anchored) >= _ANCHORED_MAX:
            self._anchored.clear()
        else:
            self._anchored |= new

    def _not_anchored_from(self, directory: str) -> Iterator[str]:
        """Yield a directory and those above it up to the root, until one is known as durable."""
        while directory not in self._anchored:
            yield directory
            if directory == self._root:
                return
            directory = posixpath.dirname(directory)

    def _sync_above_root(self) -> None:
        """Make the name of the root durable, once a process: it may be new."""
        above = self._root
        while above != "/":
            above = posixpath.dirname(above)
            try:
                self._system.sync_directory(above)
            except OSError as error:
                if error.errno not in _NOTHING_NEW_IN:
                    raise _sync_failed(above, error) from error
                _log.debug("%s is not synced: %s", above, error)

    def _sync_directory(self, path: str, missing: type[StorageError] = SyncFailed) -> None:
        try:
            self._system.sync_directory(path)
        except (FileNotFoundError, NotADirectoryError) as error:
            raise missing(f"cannot sync {path}: the directory does not exist", path=path) from error
        except OSError as error:
            raise _sync_failed(path, error) from error


class LocalWriter(GuardedWriter):
    """A FileWriter on a descriptor. Unbuffered: the callers write in large pieces."""

    def __init__(self, system: System, descriptor: int, path: str) -> None:
        super().__init__(path)
        self._system = system
        self._descriptor = descriptor
        self._is_given_back = False

    def _append(self, data: memoryview) -> None:
        with _storage_errors("write", self._path):
            _write_all(self._system, self._descriptor, data)

    def _finish(self) -> None:
        _sync_file(self._system, self._descriptor, self._path)
        with _storage_errors("close", self._path):
            self._is_given_back = True  # also when the call fails: a number may be in use again
            self._system.close(self._descriptor)

    def _release(self) -> None:
        if self._is_given_back:
            return
        self._is_given_back = True
        try:
            self._system.close(self._descriptor)
        except OSError as error:
            _log.debug("closing an abandoned file: %s", error)


def _write_all(system: System, descriptor: int, data: memoryview) -> None:
    while data:
        data = data[system.write(descriptor, data) :]


def _sync_file(system: System, descriptor: int, path: str) -> None:
    try:
        system.sync_file(descriptor)
    except OSError as error:
        raise _sync_failed(path, error) from error


def _sync_failed(path: str, error: OSError) -> SyncFailed:
    return SyncFailed(
        f"cannot sync {path}: {error.strerror}; what was written may not be durable",
        hint="check the disk and the kernel log before restarting the job",
        path=path,
    )


@contextmanager
def _storage_errors(
    action: str, path: str, answers: Mapping[int, type[StorageError]] | None = None
) -> Iterator[None]:
    """Turn an OSError into the error tree: an answer where its number is in `answers`."""
    try:
        yield
    except OSError as error:
        number = error.errno or 0
        kind = (answers or {}).get(number, StorageError)
        message = f"cannot {action} {path}: {error.strerror or error}"
        raise kind(message, hint=_HINTS.get(number, ""), path=path) from error


def _to_file_stat(path: str, found: SystemStat) -> FileStat:
    size = 0 if found.is_directory else found.size
    return FileStat(path, size, found.modified_ms, found.is_directory)
