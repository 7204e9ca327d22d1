"""The look around before a log is opened: is it all that its writers have appended?

What it is: `find_traces`, which lists what a slice has left in its tables, and `require_whole`.
What it promises: reads only, and a bounded number of listings: of each table the directories that
its writers stage in, and its root; and of all tables together `LISTINGS_MAX` directories below, the
latest changed first. So every epoch that has staged anything is seen; of final files those in the
directories that changed last. A large table is not listed as a whole: `verify` does that.
"""

import heapq
from collections.abc import Iterable, Iterator

from ashore.errors import LogLost
from ashore.log import names
from ashore.log.lost_end import LogEnd, Trace, describe_loss, find_later
from ashore.log.names import SliceName
from ashore.storage.base import FileStat, Storage

LISTINGS_MAX = 32  # directories of partitions that are listed at a start


def find_traces(
    storage: Storage, name: SliceName, tables: Iterable[str], listings_max: int = LISTINGS_MAX
) -> list[Trace]:
    """Return what the writers of a slice have left in tables. Raises StorageError."""
    found: list[Trace] = []
    newest: list[tuple[int, str]] = []
    for table in sorted(set(tables)):
        found += _find_staged(storage, names.staging_root(table, name))
        _take(storage.list(names.table_path(table)), name, found, newest)
    for _ in range(listings_max):
        if not newest:
            break
        _, directory = heapq.heappop(newest)
        _take(storage.list(directory), name, found, newest)
    return found


def require_whole(name: SliceName, end: LogEnd, traces: Iterable[Trace]) -> None:
    """Raise LogLost where there are traces of entries that the log does not have.

    Requires: the traces were looked for before the log was read.
    """
    later = find_later(end, traces)
    if later:
        raise LogLost(
            f"{name}: {describe_loss(end, later)}; nothing was appended: it would be landed again",
            hint=f"restore {names.log_directory(name)} from a backup that is not older than the "
            "tables; without one: ashore doctor JOB.yaml --from-files",
            paths=[each.path for each in later[:20]],
        )


def _find_staged(storage: Storage, root: str) -> Iterator[Trace]:
    """Yield what staging directories show. The newest is listed, whatever the log says."""
    epochs: list[int] = []
    for found in storage.list(root):
        leaf = names.leaf(found.path)
        if leaf.isdigit():
            epochs.append(int(leaf))
        yield Trace(found.path, int(leaf) if leaf.isdigit() else 1)
    for epoch in sorted(epochs)[-1:]:
        for found in storage.list(names.join(root, str(epoch))):
            pending = names.parse_pending(names.leaf(found.path))
            if pending is not None and pending.batch > 0:
                # It may be of a batch that was never prepared, but the one before it was.
                yield Trace(found.path, epoch, pending.batch - 1)


def _take(
    listed: Iterable[FileStat],
    name: SliceName,
    found: list[Trace],
    newest: list[tuple[int, str]],
) -> None:
    """Keep the final files of a listing, and the directories below it."""
    latest: Trace | None = None
    for each in listed:
        leaf = names.leaf(each.path)
        if not names.is_visible(leaf):
            continue
        if each.is_directory:
            heapq.heappush(newest, (-each.modified_ms, each.path))
            continue
        final = names.parse_final(leaf)
        if final is None or final.slice != name.slice:
            continue
        if latest is None or (final.batch, final.epoch) > (latest.batch, latest.epoch):
            latest = Trace(each.path, final.epoch, final.batch)
    if latest is not None:
        found.append(latest)
