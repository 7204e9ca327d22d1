"""The first thing a job does with a lake: files written by an executor, moved by the driver.

What it promises: a lake that the executors do not share, a mount or an encryption zone between
staging and table, missing rights, names that ignore case: all are found before the first batch is
read.
"""

import contextlib
import posixpath
from collections.abc import Sequence

from ashore.base.unique import unique
from ashore.errors import PathMissing, StorageError
from ashore.log import names
from ashore.log.names import SliceName
from ashore.storage.base import Storage
from ashore.topics.write.batch import BatchRunner


def probe_lake(
    storage: Storage, runner: BatchRunner, name: SliceName, tables: Sequence[str]
) -> None:
    """Write, move, read and delete a probe file in each table. Raises StorageError with a hint.

    The probe moves out of the staging directory into the table itself, where final files go; its
    name begins with `_`, so that no reader sees it. One executor writes for all tables: a Spark job
    for each would be most of what a start takes.
    """
    probes: dict[str, str] = {}
    for table in tables:
        probe = names.probe_name(unique())
        source = names.join(names.staging_root(table, name), probe)
        probes[source] = names.join(names.table_path(table), probe)
    try:
        runner.probe({source: target.encode() for source, target in probes.items()})
        for source, target in probes.items():
            _move(storage, source, target)
            _check_case(storage, target)
    finally:
        for path in (*probes, *probes.values()):
            with contextlib.suppress(StorageError):
                storage.delete(path)


def _move(storage: Storage, source: str, target: str) -> None:
    try:
        storage.move(source, target)
        found = storage.read(target)
    except PathMissing:
        raise StorageError(
            f"an executor wrote {source}, but the driver cannot see it",
            hint=f"is {storage.describe()} the same directory on every node?",
        ) from None
    except StorageError as error:
        raise StorageError(
            f"a file could not be moved from staging to its table: {error.message}",
            hint="is there a mount or an encryption zone inside the table?",
        ) from error
    if found != target.encode():
        raise StorageError(f"{target} holds other bytes than an executor wrote")


def _check_case(storage: Storage, target: str) -> None:
    """Raise StorageError if the table's directory takes `A` and `a` for one name.

    Partition values `DE` and `de` would share the directory of whichever came first, and readers
    take the value from the directory's name: rows would change their value without an error.
    """
    directory, name = posixpath.split(target)
    if storage.stat(names.join(directory, name.upper())) is not None:
        raise StorageError(
            f"{storage.describe()} ignores the case of file names, so that rows of the partitions "
            "`DE` and `de` would be stored under one value",
            hint="keep the lake on a file system with case-sensitive names",
            path=directory,
        )
