"""Whether the directories of tables are there, before a slice continues with them.

What it is: `require_directories`, one look for each table that has rows.
What it promises: a table whose directory was deleted, moved or is not mounted stops the job before
it is claimed, which would create the directory. Rows that were retired, rolled back or given up
count no longer, so no directory is required for them.
What it must not know: what is in the directories: `verify` looks at that.
"""

from collections.abc import Iterable

from ashore.errors import Stopped
from ashore.protocol.fold import Fold
from ashore.protocol.names import table_path
from ashore.storage.base import Storage

TABLES_SHOWN = 3


def require_directories(storage: Storage, fold: Fold, tables: Iterable[str]) -> None:
    """Raise Stopped where a table has rows by the log, and no directory; StorageError.

    Arguments:
        storage: of the lake.
        fold: of the log that counts the rows; those of an unclosed entry are not looked for.
        tables: those that the job fills. Their late and dead-letter tables may be deleted.

    """
    unclosed = fold.unclosed.number if fold.unclosed else None
    closed = [each for each in fold.partitions.values() if each.entry != unclosed]
    filled = {each.table for each in closed if each.rows > 0}
    wanted = sorted(filled.intersection(tables))
    gone = [table for table in wanted if not storage.stat(table_path(table))]
    if gone:
        paths = [table_path(table) for table in gone]
        shown = ", ".join(paths[:TABLES_SHOWN])
        more = f" and {len(gone) - TABLES_SHOWN:,} more" if len(gone) > TABLES_SHOWN else ""
        raise Stopped(
            f"{storage.describe()} has no directory {shown}{more}, but the log counts rows there: "
            "nothing was read",
            hint="restore the directory, or mount it; to continue without its rows, create it "
            "empty: `ashore verify` then names the partitions that are gone, and how to retire "
            "them",
            tables=gone,
            paths=paths,
        )
