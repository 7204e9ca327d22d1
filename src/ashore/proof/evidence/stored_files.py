"""Looking at the lake: which files readers see, and what is in those that the log lists.

What it promises: reads only, many files at a time, none as a whole in memory. A file that is moved
while it is looked for is found.
"""

import os
from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial

from ashore.errors import CallsHang, PathMissing, StorageError
from ashore.proof.evidence.ledger import Ledger, LoggedFile
from ashore.proof.evidence.offsets import FileOffsets, Unreadable, checksum_of, read_file
from ashore.proof.evidence.reader_process import read_unproven
from ashore.proof.evidence.result import Progress
from ashore.storage.base import Storage
from ashore.tables.readable import SnapshotFiles, Snapshots, no_snapshots, walk_readable

TRIES = 3  # a file on its way from pending to final is missed at both ends once at most


@dataclass(frozen=True, slots=True, eq=False)
class FileLook:
    """What was found of a listed file."""

    path: str | None  # None: it is at none of its places
    size_bytes: int = 0
    checksum: str | None = None  # None: it was not read
    offsets: FileOffsets | None = None
    error: str | None = None  # why it could not be read as its format
    failed: str | None = None  # why the storage could not read it, so that nothing is known of it


@dataclass(slots=True)
class Visible:
    """The files that readers see, with their sizes, and the directories that cannot be listed."""

    files: dict[str, int] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)  # directory: why
    # Tables in a table format, whose readers see no other files.
    snapshots: dict[str, SnapshotFiles] = field(default_factory=dict)
    later: dict[str, int] = field(default_factory=dict)  # files of these, once the log was read

    def read_later(self, snapshots: Snapshots) -> None:
        """List the tables in a table format again: what has landed since is no file that is lost.

        Raises CatalogError.
        """
        for table in self.snapshots:
            if (found := snapshots(table)) is not None:
                self.later.update(found.files)


def list_visible(
    storage: Storage,
    tables: Iterable[str],
    progress: Progress,
    snapshots: Snapshots = no_snapshots,
) -> Visible:
    """Return path and size of every file in these tables that a reader would see.

    Raises CallsHang, CatalogError.
    """
    visible = Visible()

    def look(table: str) -> SnapshotFiles | None:
        found = snapshots(table)
        if found is not None:
            visible.snapshots[table] = found
        return found

    for listed, (directory, found) in enumerate(walk_readable(storage, tables, look), 1):
        progress("list", listed, 0)
        if isinstance(found, StorageError):
            visible.failed[directory] = found.message
        else:
            visible.files.update((each.path, each.size) for each in found)
    return visible


def look_at_files(
    storage: Storage,
    ledger: Ledger,
    visible: Visible,
    since_ms: int | None,
    progress: Progress,
) -> Iterator[tuple[LoggedFile, FileLook]]:
    """Yield every file that the ledger asks for with what was found of it, in any order.

    Files of entries before `since_ms` are looked for and not read. A file that the storage does
    not read is `failed`. Raises CallsHang.
    """
    workers = os.cpu_count() or 1
    waiting: deque[tuple[LoggedFile, Future[FileLook]]] = deque()
    done, total = 0, len(ledger.files)
    with ThreadPoolExecutor(workers, "ashore-verify") as pool:
        try:
            for file in ledger.files:
                is_read = since_ms is None or file.written_ms >= since_ms
                size = visible.files.get(file.final, visible.later.get(file.final))
                is_in_flight = ledger.is_in_flight(file)
                found = visible.snapshots.get(file.target.table)
                if size is None and not is_in_flight and found is not None:
                    done += 1
                    yield file, _unnamed(file, found, ledger)
                    continue
                if not is_read and size is not None:
                    done += 1
                    yield file, FileLook(file.final, size)
                    continue
                look = partial(look_at_file, storage, file, size, is_read=is_read)
                waiting.append((file, pool.submit(look, is_in_flight=is_in_flight)))
                # A bound, so that what was found does not pile up in memory.
                while len(waiting) > 4 * workers or (waiting and waiting[0][1].done()):
                    done += 1
                    progress("files", done, total)
                    yield _next(waiting)
            while waiting:
                done += 1
                progress("files", done, total)
                yield _next(waiting)
        finally:
            for _, future in waiting:
                future.cancel()


def _unnamed(file: LoggedFile, found: SnapshotFiles, ledger: Ledger) -> FileLook:
    """Return what is known of a file that the current snapshot of its table does not name.

    Where another writer has removed files, its rows may be in others, or deleted on purpose.
    """
    removed = found.rewritten or _why_unknown(file, found, ledger)
    if not removed:
        return FileLook(None)
    why = f"{removed}, and its rows are not looked for in others"
    return FileLook(file.final, file.file.size_bytes, failed=why)


def _why_unknown(file: LoggedFile, found: SnapshotFiles, ledger: Ledger) -> str:
    """Return why another writer may have removed a file, although no snapshot shows it, in words.

    A snapshot that is neither known to its table nor ordered by the log was another writer's.
    """
    if file.commit is not None and file.commit.snapshot_id < found.begins:
        return f"a version before {found.begins}, which was not read, may have removed it"
    expired = found.made - len(found.known | ledger.commits.get(file.target.table, frozenset()))
    if expired <= 0:
        return ""
    return f"one of {expired} expired snapshots of other writers may have removed it"


def look_at_file(
    storage: Storage,
    file: LoggedFile,
    listed_bytes: int | None = None,
    *,
    is_in_flight: bool,
    is_read: bool = True,
) -> FileLook:
    """Return what is found of one file, read as a whole or only looked for. Raises StorageError.

    `listed_bytes`: the size at the final place, if a listing has shown it.
    """
    found = None if listed_bytes is None else (file.final, listed_bytes)
    for _ in range(TRIES):
        found = found or locate_file(storage, file, is_in_flight=is_in_flight)
        if found is None:
            break
        if not is_read:
            return FileLook(*found)
        try:
            return _read(storage, file, found[0])
        except PathMissing:
            found = None  # it has moved, or is gone: look again
    return FileLook(None)


def _read(storage: Storage, file: LoggedFile, path: str) -> FileLook:
    checksum, read_bytes = checksum_of(storage, path)
    read = read_file if checksum == file.file.checksum else read_unproven
    try:
        offsets = read(storage, path, read_bytes, (file.target.extension, file.target.role))
    except Unreadable as error:
        return FileLook(path, read_bytes, checksum, None, str(error))
    return FileLook(path, read_bytes, checksum, offsets)


def locate_file(
    storage: Storage, file: LoggedFile, *, is_in_flight: bool
) -> tuple[str, int] | None:
    """Return where a file is, with its size; None: it is at none of its places."""
    # The final place comes last again: a move in between is then seen there.
    pending = (file.pending, file.final) if is_in_flight else ()
    for path in (file.final, *pending):
        found = storage.stat(path)
        if found is not None and not found.is_directory:
            return path, found.size
    return None


def _next(waiting: deque[tuple[LoggedFile, Future[FileLook]]]) -> tuple[LoggedFile, FileLook]:
    file, future = waiting.popleft()
    try:
        return file, future.result()
    except CallsHang:
        raise
    except StorageError as error:
        size_bytes = file.file.size_bytes  # as logged: a look that failed finds nothing wrong
        return file, FileLook(file.final, size_bytes, failed=error.message)
