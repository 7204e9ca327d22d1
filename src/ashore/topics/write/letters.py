"""Dead letters of a query: records that it leaves aside, with their reasons, into files.

What it is: what `task` is for fetched records, for a few that are known and are not decoded.
What it promises: each record that comes is in one file, as it came, with its reason. When
`write_letters` returns, every file is closed and every staging directory synced.
"""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from ashore.base.unique import Entropy, unique
from ashore.errors import CountsDisagree
from ashore.log.entries import ShardRead
from ashore.log.positions import OffsetRange, ShardKey
from ashore.log.tables import dead_ddl
from ashore.storage.base import Storage
from ashore.topics.decode.decode import BadRows
from ashore.topics.write.batch import LettersOrder, TaskResult
from ashore.topics.write.data_file import Extent, Piece, Stretch
from ashore.topics.write.dead import build_dead_rows, dead_target
from ashore.topics.write.pool import DEFAULT_LIMITS, FilePool
from ashore.topics.write.runs import Run, split_runs
from ashore.topics.write.sorting import with_writable_times

REASON = "reason"  # the column beside those of FETCHED


def write_letters(
    order: LettersOrder,
    storage: Storage,
    task: int,
    batches: Iterable[pa.RecordBatch],
    entropy: Entropy = unique,
) -> TaskResult:
    """Write records, in the columns of FETCHED with `reason`; return what the log needs to know.

    Where the dead letters have headers, so have the records.

    Raises StorageError, CountsDisagree, or what reading `batches` raises.
    If interrupted: in-progress files remain; no entry names them.
    """
    pool = FilePool(order, task, storage, entropy, DEFAULT_LIMITS)
    writer = _LetterWriter(order)
    runs = (run for batch in batches for run in split_runs(batch))
    targets, files = pool.write_all(writer.take(run) for run in runs)
    return TaskResult(task, writer.reads(), targets, files, ())


@dataclass(slots=True)
class _Account:
    """The letters of one shard."""

    key: ShardKey
    start: int  # offset of the first
    end: int
    count: int = 0
    size_bytes: int = 0


class _LetterWriter:
    """Makes rows of records, and counts them."""

    def __init__(self, order: LettersOrder) -> None:
        self._output = order.output
        self._ddl = dead_ddl(headers=order.output.headers_aside)
        self._target = dead_target(order.output, order.time.now_ms, self._ddl)
        self._keys = {(key.stream, key.shard): key for key in order.shards}
        self._accounts: list[_Account] = []
        self._indices: dict[ShardKey, int] = {}
        self._stretches = 0

    def take(self, run: Run) -> Piece:
        """Return the rows of a run."""
        index = self._find_account(run)
        account = self._accounts[index]
        account.start = min(account.start, run.first)
        account.end = max(account.end, run.last + 1)
        account.count += run.records.num_rows
        account.size_bytes += run.size_bytes
        bad = BadRows(np.arange(run.records.num_rows), run.records.column(REASON))
        records = with_writable_times(run.records, self._output.format)
        rows = build_dead_rows(records, bad, self._ddl)
        stretch = Stretch(self._stretches, index, account.key)
        self._stretches += 1
        extents = (Extent(stretch, run.first, run.last + 1, rows.num_rows),)
        return Piece(self._target, self._output.roll_bytes, rows, extents, None, None)

    def reads(self) -> tuple[ShardRead, ...]:
        """Return the letters of each shard, as the log counts them."""
        return tuple(
            ShardRead(
                key=each.key,
                offsets=OffsetRange(each.start, each.end),
                table=self._output.table,
                fetched=each.count,
                landed=0,
                dead=each.count,
                filtered=0,
                dropped=0,
                size_bytes=each.size_bytes,
                event_max_ms=None,
            )
            for each in self._accounts
        )

    def _find_account(self, run: Run) -> int:
        key = self._keys.get((run.topic, str(run.partition)))
        if key is None:
            raise CountsDisagree(
                f"a dead letter of {run.topic}/{run.partition} is of a record that the batch has "
                "not read",
                hint="nothing was prepared; please report this",
            )
        if key not in self._indices:
            self._indices[key] = len(self._accounts)
            self._accounts.append(_Account(key, run.first, run.first))
        return self._indices[key]
