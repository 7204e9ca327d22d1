"""From what a slice knows to what it reports for metrics.

What it promises: pure; what is counted of a batch is what its entry says, so that counters and log
agree.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator

from ashore.log.entries import Prepare
from ashore.log.files import Role
from ashore.log.fold import Fold
from ashore.log.measures import BatchCounted, FilesMoved, SliceMeasured, TableCounts
from ashore.log.plan_commit import MoveOutcome
from ashore.log.store.mover import Outcomes
from ashore.log.tables import DEAD_SUFFIX, LATE_SUFFIX

_OUTCOMES = {Role.MAIN: "landed", Role.LATE: "late", Role.DEAD: "dead"}
_SUFFIXES = {Role.MAIN: "", Role.LATE: LATE_SUFFIX, Role.DEAD: DEAD_SUFFIX}


def count_batch(slice_name: str, body: Prepare) -> BatchCounted:
    """Return what became of the records of a batch, by table and outcome."""
    tables = tuple(sorted(_count_files(body), key=lambda each: (each.table, each.outcome)))
    fetched_bytes = sum(read.size_bytes for read in body.shards)
    return BatchCounted(slice_name, (*tables, *_count_left_out(body)), body.counters, fetched_bytes)


def _count_files(body: Prepare) -> Iterator[TableCounts]:
    records, files, sizes = (Counter[tuple[str, str]]() for _ in range(3))
    for file in body.files:
        target = body.targets[file.target]
        # The table that the records are for, so that the outcomes of a table can be compared.
        main = target.table.removesuffix(_SUFFIXES[target.role])
        key = main, _OUTCOMES[target.role]
        records[key] += file.rows
        files[key] += 1
        sizes[key] += file.size_bytes
    for (table, outcome), count in files.items():
        key = table, outcome
        yield TableCounts(table, outcome, records[key], count, sizes[key])


def _count_left_out(body: Prepare) -> Iterator[TableCounts]:
    """Yield the records that no file has: the batch was to leave them out."""
    filtered, dropped = defaultdict[str, int](int), defaultdict[str, int](int)
    for read in body.shards:
        filtered[read.table] += read.filtered
        dropped[read.table] += read.dropped
    for outcome, counts in (("dropped", dropped), ("filtered", filtered)):
        for table, count in sorted(counts.items()):
            if count:
                yield TableCounts(table, outcome, count, 0, 0)


def count_sent(counted: BatchCounted, topic: str, rows: int) -> BatchCounted:
    """Return a batch of a query whose rows went into a topic."""
    sent = TableCounts(topic, "sent", rows, 0, 0)
    return BatchCounted(counted.slice, (sent,), counted.counters, counted.fetched_bytes)


def count_moves(slice_name: str, outcomes: Outcomes) -> FilesMoved:
    """Return how the moves of an entry ended."""
    return FilesMoved(
        slice_name,
        prepared=sum(outcomes.values()),
        moved=outcomes.get(MoveOutcome.MOVED, 0),
        already_moved=outcomes.get(MoveOutcome.ALREADY_MOVED, 0),
        lost=outcomes.get(MoveOutcome.LOST, 0),
        conflict=outcomes.get(MoveOutcome.CONFLICT, 0),
        pending=outcomes.get(MoveOutcome.AGAIN, 0),
    )


def measure_slice(
    slice_name: str, fold: Fold, lag: int | None, complete_ms: int | None
) -> SliceMeasured:
    """Return where a slice stands. `lag`, `complete_ms`: see SliceMeasured."""
    deferred = Counter(str(each.action) for each in fold.deferred.values())
    events = [state.event_max_ms for state in fold.current().values()]
    newest_ms = max((each for each in events if each is not None), default=None)
    return SliceMeasured(
        slice_name, fold.epoch, lag, tuple(sorted(deferred.items())), newest_ms, complete_ms
    )
