"""Which share of the last records became no row, or has no event time, as the log counts them.

What it is: `summarize`, what counts of a batch; `ShareWindow`, the last records of a slice.
What it promises: pure. One bad record of a small topic is no warning: there are `FEW` at least, or
nothing landed at all.
What it must not know: files, terminals.
"""

from collections import Counter, deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from ashore.protocol.entries import Prepare

FEW = 10  # bad records that a share is worth speaking of


@dataclass(frozen=True, slots=True)
class BatchShares:
    """What a batch fetched for its tables, and what of it was bad."""

    tables: tuple[tuple[str, int, int], ...]  # table, fetched, dead
    untimed: int  # rows without an event time, of all tables

    @property
    def fetched(self) -> int:
        """Records of all tables."""
        return sum(fetched for _, fetched, _ in self.tables)


@dataclass(frozen=True, slots=True)
class BadShare:
    """A share of the last records that is above what the job allows."""

    kind: str  # dead | untimed
    tables: tuple[str, ...]
    bad: int
    records: int

    @property
    def text(self) -> str:
        """What is so, in a sentence."""
        what = "are dead letters" if self.kind == "dead" else "have no event time"
        share = 100 * self.bad / self.records
        return (
            f"{self.bad:,} of the last {self.records:,} records of {', '.join(self.tables)} "
            f"({share:.3g} %) {what}"
        )


def summarize(body: Prepare) -> BatchShares | None:
    """Return what counts of a batch; None: it is of a query, which reads others' records."""
    if body.query is not None:
        return None
    fetched, dead = Counter[str](), Counter[str]()
    for read in body.shards:
        fetched[read.table] += read.fetched
        dead[read.table] += read.dead
    tables = tuple((table, fetched[table], dead[table]) for table in sorted(fetched))
    return BatchShares(tables, dict(body.counters).get("no_event_time", 0))


def find_bad(newest_first: Iterable[BatchShares], records: int, share: float) -> list[BadShare]:
    """Return the shares above `share`, each over the last `records` or a little more."""
    fetched, dead = Counter[str](), Counter[str]()
    timed = untimed = 0
    without: set[str] = set()  # tables of batches that have rows without an event time
    for batch in newest_first:
        for table, count, bad in batch.tables:
            if fetched[table] < records:
                fetched[table] += count
                dead[table] += bad
        if timed < records:
            timed += batch.fetched
            untimed += batch.untimed
            without |= {table for table, count, _ in batch.tables if count and batch.untimed}
    found = [
        BadShare("dead", (table,), dead[table], fetched[table])
        for table in sorted(fetched)
        if _is_bad(dead[table], fetched[table], share)
    ]
    if _is_bad(untimed, timed, share):
        found.append(BadShare("untimed", tuple(sorted(without)), untimed, timed))
    return found


def _is_bad(bad: int, records: int, share: float) -> bool:
    return bad > share * records and (bad >= FEW or bad == records)


class ShareWindow:
    """The last records of a slice while it runs. Used by one thread."""

    def __init__(self, records: int, share: float) -> None:
        self._records, self._share = records, share
        self._batches: deque[BatchShares] = deque()
        self._known: set[tuple[str, tuple[str, ...]]] = set()

    def take(self, body: Prepare) -> Iterator[str]:
        """Take a batch. Yields a sentence for each share that has come above what is allowed."""
        batch = summarize(body)
        if batch is None:
            return
        self._batches.appendleft(batch)
        while len(self._batches) > 1 and self._is_whole_without_last():
            self._batches.pop()
        found = find_bad(self._batches, self._records, self._share)
        for each in found:
            if (each.kind, each.tables) not in self._known:
                yield f"{each.text}; `ashore status` shows why"
        self._known = {(each.kind, each.tables) for each in found}

    def _is_whole_without_last(self) -> bool:
        """Tell whether the oldest batch is beyond the last records of each of its tables."""
        fetched = Counter[str]()
        for batch in list(self._batches)[:-1]:
            for table, count, _ in batch.tables:
                fetched[table] += count
        return all(fetched[table] >= self._records for table, _, _ in self._batches[-1].tables)
