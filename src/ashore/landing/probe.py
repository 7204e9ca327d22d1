"""The first thing a job does with a lake: one file written by an executor, moved by the driver.

What it promises: a lake that the executors do not share, a mount or an encryption zone between
staging and table, missing rights: all are found before the first batch is read.
What it must not know: batches.
"""

import contextlib
from collections.abc import Sequence

from ashore.base.unique import unique
from ashore.errors import PathMissing, StorageError
from ashore.landing.batch import BatchRunner
from ashore.protocol import names
from ashore.protocol.names import SliceName
from ashore.storage.base import Storage


def probe_lake(
    storage: Storage, runner: BatchRunner, name: SliceName, tables: Sequence[str]
) -> None:
    """Write, move, read and delete a probe file in each table. Raises StorageError with a hint.

    The probe moves out of the staging directory into the table itself, where final files go; its
    name begins with `_`, so that no reader sees it.
    """
    for table in tables:
        token = unique()
        source = names.join(names.staging_root(table, name), names.probe_name(token))
        target = names.join(names.table_path(table), names.probe_name(token))
        _probe(storage, runner, source, target)


def _probe(storage: Storage, runner: BatchRunner, source: str, target: str) -> None:
    content = target.encode()
    runner.probe(source, content)
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
    finally:
        for path in (source, target):
            with contextlib.suppress(StorageError):
                storage.delete(path)
    if found != content:
        raise StorageError(f"{target} holds other bytes than an executor wrote")
