"""Which share of the last records became no row, or has no usable event time, as the log counts.

What it is: `summarize`, what counts of a batch; `ShareWindow`, the last records of a slice;
`count_filtered`, the records that `where` has filtered since a row landed.
What it promises: pure. One bad record of a small topic is no warning: there are `FEW` at least, or
nothing landed at all. Nor is a filter that passes few records.
"""

from collections import Counter, deque
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass

from ashore.log.entries import Prepare
from ashore.topics.loop.sinks import FAR_FUTURE, NEAR_1970, UNDECODABLE, UNTIMED

SEE_STATUS = "; `ashore status` shows why"  # ends a warning of a running job
FEW = 10  # bad records that a share is worth speaking of

DEAD, DROPPED = "dead", "dropped"
_NEAR_1970 = "have an event time in January or February of 1970"
WORDS = {
    DEAD: "are dead letters",
    DROPPED: "are invalid and were dropped",
    "no_event_time": "have no event time",
    "near_1970": _NEAR_1970,
    FAR_FUTURE: "have an event time that is too far ahead (late.future_max)",
    UNDECODABLE: "cannot be decoded, and are in no view",
    UNTIMED: "have no event time",
    NEAR_1970: _NEAR_1970,
}
# Counters of a batch, for all of its tables together.
OF_TOPICS = ("no_event_time", "near_1970", FAR_FUTURE)
OF_QUERIES = (UNDECODABLE, UNTIMED, NEAR_1970, FAR_FUTURE)


@dataclass(frozen=True, slots=True)
class TableShare:
    """What a batch fetched for a table, and how many of these records became no row."""

    table: str
    fetched: int
    bad: tuple[tuple[str, int], ...]  # by kind
    filtered: int = 0  # by `where`
    landed: int = 0


@dataclass(frozen=True, slots=True)
class BatchShares:
    """What a batch fetched for its tables, and what of it was bad."""

    tables: tuple[TableShare, ...]
    bad: tuple[tuple[str, int], ...]  # of all tables, by kind
    is_of_query: bool = False

    @property
    def fetched(self) -> int:
        """Records of all tables."""
        return sum(each.fetched for each in self.tables)


@dataclass(frozen=True, slots=True)
class BadShare:
    """A share of the last records that is above what the job allows."""

    kind: str  # a key of WORDS
    tables: tuple[str, ...]
    bad: int
    records: int
    is_of_query: bool = False

    @property
    def text(self) -> str:
        """What is so, in a sentence."""
        share = 100 * self.bad / self.records
        tables = ", ".join(self.tables)
        records = f"offsets read for {tables}" if self.is_of_query else f"records of {tables}"
        return f"{self.bad:,} of the last {self.records:,} {records} ({share:.3g} %) {self.words}"

    @property
    def words(self) -> str:
        """What is so of each of them."""
        return f"hold records that {WORDS[self.kind]}" if self.is_of_query else WORDS[self.kind]


def summarize(body: Prepare, filled: str = "") -> BatchShares:
    """Return what counts of a batch. `filled`: the topic that a query fills, where no table."""
    is_of_query = body.query is not None
    fetched, filtered, landed = Counter[str](), Counter[str](), Counter[str]()
    bad: dict[str, Counter[str]] = {DEAD: Counter(), DROPPED: Counter()}
    for read in body.shards:
        table = read.table or filled
        # Of a query, `fetched` is what it has left aside.
        fetched[table] += read.offsets.size if is_of_query else read.fetched
        bad[DEAD][table] += read.dead
        bad[DROPPED][table] += read.dropped
        filtered[table] += read.filtered
        landed[table] += read.landed
    tables = tuple(
        TableShare(
            table,
            fetched[table],
            tuple((kind, counts[table]) for kind, counts in bad.items() if counts[table]),
            filtered[table],
            landed[table],
        )
        for table in sorted(fetched)
    )
    counters = dict(body.counters)
    kinds = OF_QUERIES if is_of_query else OF_TOPICS
    of_all = tuple((kind, counters[kind]) for kind in kinds if kind in counters)
    return BatchShares(tables, of_all, is_of_query)


def find_bad(newest_first: Iterable[BatchShares], records: int, share: float) -> list[BadShare]:
    """Return the shares above `share`, each over the last `records` or a little more."""
    fetched: Counter[str] = Counter()
    bad: Counter[tuple[str, str]] = Counter()
    of_all: Counter[str] = Counter()
    tables: dict[str, set[str]] = {}  # of the batches that have such records
    total, is_of_query = 0, False
    for batch in newest_first:
        is_of_query = is_of_query or batch.is_of_query
        for each in batch.tables:
            if fetched[each.table] < records:
                fetched[each.table] += each.fetched
                bad.update({(each.table, kind): count for kind, count in each.bad})
        if total < records:
            total += batch.fetched
            for kind, count in batch.bad:
                of_all[kind] += count
                of_batch = (each.table for each in batch.tables if each.fetched)
                tables.setdefault(kind, set()).update(of_batch)
    found = [
        BadShare(kind, (table,), count, fetched[table], is_of_query)
        for (table, kind), count in sorted(bad.items())
        if _is_bad(count, fetched[table], share)
    ]
    return found + [
        BadShare(kind, tuple(sorted(tables[kind])), count, total, is_of_query)
        for kind, count in of_all.items()
        if _is_bad(count, total, share)
    ]


def count_filtered(newest_first: Iterable[BatchShares], tables: Collection[str]) -> dict[str, int]:
    """Return how many records `where` has filtered since a row landed in each of these tables.

    Reads no further back than it has to.
    """
    found = dict.fromkeys(tables, 0)
    left = set(tables)
    for batch in newest_first:
        for each in batch.tables:
            if each.table in left and each.landed:
                left.discard(each.table)
            elif each.table in left:
                found[each.table] += each.filtered
        if not left:
            break
    return found


def describe_filtered(table: str, records: int) -> str:
    """Say that a filter passes nothing."""
    return f"none of the last {records:,} records of {table} passes its `where`"


def _is_bad(bad: int, records: int, share: float) -> bool:
    return bad > share * records and (bad >= FEW or bad == records)


class ShareWindow:
    """The last records of a slice while it runs. Used by one thread.

    A batch costs what it has itself, unless one of the last ones has bad records.
    """

    def __init__(self, records: int, share: float, filled: str = "") -> None:
        self._records, self._share, self._filled = records, share, filled
        self._batches: deque[BatchShares] = deque()
        self._fetched: Counter[str] = Counter()  # of all these batches, by table
        self._bad = 0  # how many of them have bad records
        self._known: set[tuple[str, tuple[str, ...]]] = set()
        self._filtered: dict[str, int] = {}  # since a row landed, by table

    def take(self, body: Prepare) -> Iterator[str]:
        """Take a batch. Yields a sentence for each share that has come above what is allowed."""
        batch = summarize(body, self._filled)
        self._batches.appendleft(batch)
        self._count(batch, 1)
        while len(self._batches) > 1 and self._is_whole_without_last():
            self._count(self._batches.pop(), -1)
        found = find_bad(self._batches, self._records, self._share) if self._bad else []
        for each in found:
            if (each.kind, each.tables) not in self._known:
                yield f"{each.text}{SEE_STATUS}"
        self._known = {(each.kind, each.tables) for each in found}
        for share in batch.tables:
            before = self._filtered.get(share.table, 0)
            filtered = 0 if share.landed else before + share.filtered
            self._filtered[share.table] = filtered
            if before < self._records <= filtered:
                yield f"{describe_filtered(share.table, filtered)}{SEE_STATUS}"

    def _count(self, batch: BatchShares, sign: int) -> None:
        for each in batch.tables:
            self._fetched[each.table] += sign * each.fetched
        self._bad += sign * (bool(batch.bad) or any(each.bad for each in batch.tables))

    def _is_whole_without_last(self) -> bool:
        """Return whether the oldest batch is beyond the last records of each of its tables."""
        return all(
            self._fetched[each.table] - each.fetched >= self._records
            for each in self._batches[-1].tables
        )
