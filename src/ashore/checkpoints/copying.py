"""A checkpoint copied to a new root, as far as it tells of finished batches.

What it is: `copy_checkpoint`: which files a copy takes, and how each gets there.
What it promises: what is planned and done is read before the state is, so that a checkpoint that
its owner still writes gives a copy of one moment: nothing in it is younger than the batch after the
last one that is done. The source is only read. Spark replaces its files and appends to none, so
that a second name (a hard link) is a copy; where a storage has no second names, only what a start
needs is copied.
What it must not know: when a copy is made.

    metadata, sources/...                       taken as they are
    offsets/<batch>, commits/<batch>            up to the last batch done; offsets of one more
    state/.../<version>[_<id>].<kind>           up to the last batch done, whose number is one less
    state/.../SSTs/..., state/.../_metadata/... taken as they are; of SSTs a true copy takes those
                                                that its snapshots name
    .*                                          left: checksums and temporary files
"""

import io
import re
import zipfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TypeVar

from ashore.checkpoints.checkpoint import Checkpoint
from ashore.protocol import names
from ashore.protocol.plan_query import CheckpointPosition
from ashore.storage.base import FileStat, Links, Storage

T = TypeVar("T")

WORKERS = 32  # closing a small file on HDFS takes a quarter of a second
PIECE_BYTES = 8 << 20
KEPT_BATCHES = 3  # in offsets and commits of a true copy: a start reads two
KEPT_BASES = 2  # snapshots of a store in a true copy: where the newest is bad Spark takes another

_STATE = "state"
_TABLES = "SSTs"
_VERSION = re.compile(r"([0-9]+)(?:_[\w-]+)?\.(changelog|delta|snapshot|zip)")
_BASES = ("snapshot", "zip")
_TABLE = re.compile(r"[\w-]+\.sst")


@dataclass(frozen=True, slots=True)
class CheckpointFile:
    """A file of a checkpoint."""

    path: str  # below the root
    size_bytes: int

    @property
    def directory(self) -> str:
        """Where it is, below the root."""
        return names.parent(self.path)

    @property
    def name(self) -> str:
        """The last part of its path."""
        return names.leaf(self.path)

    @property
    def batch(self) -> int | None:
        """The batch that it tells of, in `offsets` and `commits`."""
        is_log = self.directory in {"offsets", "commits"}
        return int(self.name) if is_log and self.name.isdigit() else None

    @property
    def version(self) -> int | None:
        """The version of a state store that it holds, or leads to."""
        found = _VERSION.fullmatch(self.name) if self.path.startswith(f"{_STATE}/") else None
        return int(found[1]) if found else None

    @property
    def is_base(self) -> bool:
        """Whether it is a version as a whole, and no change of another."""
        return self.version is not None and self.name.endswith(_BASES)


def copy_checkpoint(
    source: Checkpoint, target: Checkpoint, upto: CheckpointPosition | None = None
) -> None:
    """Copy what finished batches have left, and what the next one plans.

    Requires: nobody but this writer knows the target.
    If interrupted: some files are there; the source is as it was.

    Arguments:
        source: to copy.
        target: that is made.
        upto: an earlier position of the source; without it, the newest.

    Raises StorageError; PathMissing where the source's owner deletes old files meanwhile.

    """
    storage = source.storage
    position = upto or source.read_position()
    found = plan_copy(position, list_files(source))
    if not found:
        return
    first, *others = found
    if _link(storage, source, target, first):
        _for_each(others, lambda each: _require_link(storage, source, target, each))
    else:
        wanted = plan_true_copy(found, lambda each: _read_tables(source, each))
        _for_each(wanted, lambda each: _write(storage, source, target, each))
    directories = {names.join(target.path, each.directory) for each in found}
    storage.sync(sorted(each for each in directories if storage.stat(each) is not None))


def list_files(checkpoint: Checkpoint) -> list[CheckpointFile]:
    """Return all files of a checkpoint, sorted. Raises StorageError."""
    cut = len(checkpoint.path) + 1
    waiting, found = [checkpoint.path], []
    with ThreadPoolExecutor(WORKERS) as pool:
        while waiting:
            listed = [each for some in pool.map(checkpoint.storage.list, waiting) for each in some]
            waiting = [each.path for each in listed if each.is_directory]
            found += [_file(each, cut) for each in listed if not each.is_directory]
    return sorted(found, key=lambda each: each.path)


def _file(found: FileStat, cut: int) -> CheckpointFile:
    return CheckpointFile(found.path[cut:], found.size)


def plan_copy(
    position: CheckpointPosition, files: Iterable[CheckpointFile]
) -> list[CheckpointFile]:
    """Return the files of a checkpoint as it was at `position`: nothing that came later."""
    return [each for each in files if not _is_left_out(each, position)]


def _is_left_out(file: CheckpointFile, position: CheckpointPosition) -> bool:
    """Tell whether a file is younger than the last batch that is done, or nobody's."""
    done = position.committed
    if file.name.startswith("."):
        return True
    if file.batch is not None:
        is_plan = file.directory == "offsets"
        return file.batch > (min(position.planned, done + 1) if is_plan else done)
    return file.version is not None and file.version > done + 1


def plan_true_copy(
    files: Sequence[CheckpointFile], read_tables: Callable[[CheckpointFile], set[str] | None]
) -> list[CheckpointFile]:
    """Return those of `files` that a start needs.

    Arguments:
        files: all of the checkpoint.
        read_tables: returns the names of the tables that a snapshot is made of; None: any.

    """
    stores: dict[str, list[CheckpointFile]] = {}
    for each in files:
        if each.version is not None:
            stores.setdefault(each.directory, []).append(each)
    dropped = {each.path for some in stores.values() for each in _older(some)}
    for kind in ("offsets", "commits"):
        log = sorted((each for each in files if each.directory == kind), key=_batch)
        dropped |= {each.path for each in log[:-KEPT_BATCHES]}
    for directory, some in stores.items():
        bases = [each for each in some if each.is_base and each.path not in dropped]
        tables = [read_tables(each) for each in bases]
        if all(each is not None for each in tables):
            wanted = {name for each in tables if each is not None for name in each}
            within = names.join(directory, _TABLES)
            dropped |= {
                each.path for each in files if each.directory == within and each.name not in wanted
            }
    return [each for each in files if each.path not in dropped]


def _older(store: Sequence[CheckpointFile]) -> Iterator[CheckpointFile]:
    """Yield what is older than the snapshots that are kept."""
    bases = sorted({each.version for each in store if each.is_base and each.version is not None})
    first = bases[-KEPT_BASES] if len(bases) >= KEPT_BASES else 0
    return (each for each in store if (each.version or 0) < first)


def _batch(file: CheckpointFile) -> int:
    return -1 if file.batch is None else file.batch


def _read_tables(source: Checkpoint, base: CheckpointFile) -> set[str] | None:
    """Return the tables that a snapshot names; None where it does not tell, or has none."""
    if not base.name.endswith(".zip"):
        return None
    data = source.storage.read(names.join(source.path, base.path))
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            return set(_TABLE.findall(archive.read("metadata").decode()))
    except (zipfile.BadZipFile, KeyError, UnicodeDecodeError):
        return None


def _for_each(files: Iterable[CheckpointFile], act: Callable[[CheckpointFile], T]) -> None:
    """Do something with each file, some at a time. Raises what one of them raises."""
    with ThreadPoolExecutor(WORKERS) as pool:
        for _done in pool.map(act, files):
            pass


def _link(storage: Storage, source: Checkpoint, target: Checkpoint, file: CheckpointFile) -> bool:
    if not isinstance(storage, Links):
        return False
    return storage.link(names.join(source.path, file.path), names.join(target.path, file.path))


def _require_link(
    storage: Storage, source: Checkpoint, target: Checkpoint, file: CheckpointFile
) -> None:
    """Link a file; copy it where its directory is on another volume, or it has too many names."""
    if not _link(storage, source, target, file):
        _write(storage, source, target, file)


def _write(storage: Storage, source: Checkpoint, target: Checkpoint, file: CheckpointFile) -> None:
    place = names.join(source.path, file.path)
    writer = storage.open_write(names.join(target.path, file.path))
    try:
        start = 0
        while data := storage.read(place, start, PIECE_BYTES):
            writer.write(data)
            start += len(data)
        writer.close()
    finally:
        writer.abandon()
