"""The queries: their SQL for Spark and Ashore, for Flink, and what DuckDB computes.

What it is: Nexmark's q0, q1, q2, q3, q5, q7, q8 and q12, a filter, an aggregate by a window and 100
or 100,000 keys, and a join of two streams.
What it promises: the texts of a query have one meaning. Where an engine is given another text than
the benchmark has, or does not run it, `notes` say why.
What it must not know: how anything is measured.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from bench.sql.inputs import load_example

LATENESS_S = 4
# Rows of windows that end later than this before the newest event are not compared: engines differ
# in how far they let time go on after the last record.
OPEN_MS = 6_000
_NEXMARK = {
    each.name: each.select
    for each in load_example("queries").load_queries()
    if each.file != "as_written.sql"
}


@dataclass(frozen=True, slots=True)
class Query:
    """One query.

    `shown` are columns of its result in DuckDB's SQL, the same for all engines; `expected` is a
    SELECT of DuckDB over the input that gives them, without it `spark` is one. `final_ms` is when
    the window of a shown row ends, `known_ms` when a row could be known at the earliest.
    """

    name: str
    title: str
    family: str
    shown: str
    spark: str
    flink: str = ""  # without it: as `spark`
    expected: str = ""
    final_ms: str = ""
    known_ms: str = ""
    types: str = ""  # columns that Flink's table has
    is_timed: bool = False  # it needs a watermark
    key: tuple[str, ...] = ()  # rows are updates by this key, for a topic; else rows of a table
    notes: Mapping[str, str] = field(default_factory=dict)  # by engine

    @property
    def cannot(self) -> Mapping[str, str]:
        """By measure, why it cannot be measured."""
        if self.key:
            return dict.fromkeys(("latency", "recovery"), "not measured: its rows go to a topic")
        return {} if self.known_ms else {"latency": "not measured: no row has a time"}

    @property
    def flink_text(self) -> str:
        """The SELECT for Flink."""
        return self.flink or self.spark


def _tumble(view: str) -> str:
    time = "event_time" if view == "orders" else "date_time"
    return f"TABLE(TUMBLE(TABLE {view}, DESCRIPTOR({time}), INTERVAL '10' SECOND))"


_HOP = """TABLE(HOP(TABLE bid, DESCRIPTOR(date_time), INTERVAL '2' SECOND, INTERVAL '10' SECOND))"""
_COUNTS = f"""SELECT auction, count(*) AS num, window_start, window_end
    FROM {_HOP} GROUP BY auction, window_start, window_end"""
_START = "time_ms - time_ms % 10000"
_CLOSED = f"start_ms + 10000 + {LATENESS_S * 1000}"


def _aggregate(keys: int) -> Query:
    key = f"customer % {keys}" if keys < 100_000 else "customer"
    result = "count(*) AS n, sum(amount) AS total"
    return Query(
        name=f"window{keys}",
        title=f"Aggregate by a window of 10 s and {keys:,} keys",
        family="orders",
        shown="epoch_ms(start_time) AS start_ms, k, n, total",
        spark=f"""SELECT w.start AS start_time, k, {result}
FROM (SELECT window(event_time, '10 seconds') AS w, {key} AS k, amount FROM orders)
GROUP BY w, k""",
        flink=f"""SELECT window_start AS start_time, k, {result}
FROM (SELECT window_start, window_end, {key} AS k, amount FROM {_tumble("orders")})
GROUP BY window_start, window_end, k""",
        expected=f"""SELECT ts - ts % 10000 AS start_ms, {key} AS k, {result}
FROM orders GROUP BY ALL""",
        final_ms="start_ms + 10000",
        known_ms=_CLOSED,
        types="start_time TIMESTAMP(3), k BIGINT, n BIGINT, total BIGINT",
        is_timed=True,
    )


_SHOWN_BID = "auction, bidder, price, epoch_ms(date_time) AS time_ms, extra"
_BID = "auction BIGINT, bidder BIGINT, {} date_time TIMESTAMP_LTZ(3), extra STRING"
QUERIES = (
    Query(
        name="q0",
        title="Nexmark q0, pass through",
        family="bids",
        shown=_SHOWN_BID,
        spark=_NEXMARK["q0"],
        known_ms="time_ms",
        types=_BID.format("price BIGINT,"),
    ),
    Query(
        name="q1",
        title="Nexmark q1, currency conversion",
        family="bids",
        shown=_SHOWN_BID.replace("price", "price::DECIMAL(30, 3) AS price"),
        spark=_NEXMARK["q1"],
        known_ms="time_ms",
        types=_BID.format("price DECIMAL(23, 3),"),
    ),
    Query(
        name="q2",
        title="Nexmark q2, selection",
        family="bids",
        shown="auction, price",
        spark=_NEXMARK["q2"],
        types="auction BIGINT, price BIGINT",
    ),
    Query(
        name="q3",
        title="Nexmark q3, join without bound",
        family="house",
        shown="name, city, state, id",
        spark=_NEXMARK["q3"],
        types="name STRING, city STRING, state STRING, id BIGINT",
    ),
    Query(
        name="q5",
        title="Nexmark q5, hot items",
        family="bids",
        shown="auction, num, epoch_ms(start_time) AS start_ms",
        spark="""SELECT item.auction, item.num, start_time
FROM (
  SELECT w.start AS start_time, explode(filter(items, each -> each.num = max_num)) AS item
  FROM (
    SELECT w, max(num) AS max_num, collect_list(struct(auction, num)) AS items
    FROM (
      SELECT auction, window(date_time, '10 seconds', '2 seconds') AS w, count(*) AS num
      FROM bid
      GROUP BY auction, w
    )
    GROUP BY w
  )
)""",
        flink=f"""SELECT c.auction, c.num, c.window_start AS start_time
FROM ({_COUNTS}) AS c
JOIN (
  SELECT max(num) AS max_num, window_start, window_end
  FROM ({_COUNTS})
  GROUP BY window_start, window_end
) AS m
ON c.window_start = m.window_start AND c.window_end = m.window_end AND c.num >= m.max_num""",
        expected="""SELECT auction, count(*) AS num, start_ms
FROM (
  SELECT auction, unnest([time_ms - time_ms % 2000 - 2000 * each for each in range(5)]) AS start_ms
  FROM (SELECT auction, epoch_ms(date_time) AS time_ms FROM bid)
)
GROUP BY auction, start_ms
QUALIFY num = max(num) OVER (PARTITION BY start_ms)""",
        final_ms="start_ms + 10000",
        known_ms=_CLOSED,
        types="auction BIGINT, num BIGINT, start_time TIMESTAMP(3)",
        is_timed=True,
        notes={
            "all": "with the window's start, by which rows are compared",
            "ashore": "no join of two aggregates: the counts of a window are collected",
            "spark": "no join of two aggregates: the counts of a window are collected",
        },
    ),
    Query(
        name="q7",
        title="Nexmark q7, highest bid",
        family="bids",
        shown=_SHOWN_BID,
        spark="""SELECT bid.auction, bid.price, bid.bidder, bid.date_time, bid.extra
FROM (
  SELECT explode(highest) AS bid
  FROM (
    SELECT w, max_by(bids, price) AS highest
    FROM (
      SELECT w, price,
             collect_list(struct(auction, price, bidder, date_time, extra)) AS bids
      FROM (SELECT *, window(date_time, '10 seconds') AS w FROM bid)
      GROUP BY w, price
    )
    GROUP BY w
  )
)""",
        flink=f"""SELECT b.auction, b.price, b.bidder, b.date_time, b.extra
FROM (SELECT * FROM {_tumble("bid")}) AS b
JOIN (
  SELECT max(price) AS max_price, window_start, window_end
  FROM {_tumble("bid")}
  GROUP BY window_start, window_end
) AS m
ON b.window_start = m.window_start AND b.window_end = m.window_end AND b.price = m.max_price""",
        expected=f"""SELECT auction, price, bidder, time_ms, extra
FROM (SELECT *, epoch_ms(date_time) AS time_ms FROM bid)
QUALIFY price = max(price) OVER (PARTITION BY {_START})""",
        final_ms=f"{_START} + 10000",
        known_ms=f"{_START} + 10000 + {LATENESS_S * 1000}",
        types="auction BIGINT, price BIGINT, " + _BID.format("").partition(", ")[2],
        is_timed=True,
        notes={
            "ashore": "no join: the bids of a window and price are collected",
            "spark": "no join: the bids of a window and price are collected",
            "flink": "joined by the window itself, which lets state go",
        },
    ),
    Query(
        name="q8",
        title="Nexmark q8, new users",
        family="house",
        shown="id, name, epoch_ms(start_time) AS start_ms",
        spark=_NEXMARK["q8"],
        flink=f"""SELECT p.id, p.name, p.window_start AS start_time
FROM (
  SELECT id, name, window_start, window_end FROM {_tumble("person")}
  GROUP BY id, name, window_start, window_end
) AS p
JOIN (
  SELECT seller, window_start, window_end FROM {_tumble("auction")}
  GROUP BY seller, window_start, window_end
) AS a
ON p.id = a.seller AND p.window_start = a.window_start AND p.window_end = a.window_end""",
        expected="""SELECT DISTINCT p.id, p.name, p.start_ms
FROM (SELECT *, epoch_ms(date_time) // 10000 * 10000 AS start_ms FROM person) AS p
JOIN (SELECT *, epoch_ms(date_time) // 10000 * 10000 AS start_ms FROM auction) AS a
ON p.id = a.seller AND p.start_ms = a.start_ms""",
        final_ms="start_ms + 10000",
        known_ms=_CLOSED,
        types="id BIGINT, name STRING, start_time TIMESTAMP(3)",
        is_timed=True,
    ),
    Query(
        name="q12",
        title="Nexmark q12, windows of the clock",
        family="bids",
        shown="bidder, bid_count",
        spark=_NEXMARK["q12"],
        flink="""SELECT bidder, start_time, count(*) AS bid_count
FROM (
  SELECT bidder, TO_TIMESTAMP_LTZ(UNIX_TIMESTAMP() / 10 * 10, 0) AS start_time FROM bid
)
GROUP BY bidder, start_time""",
        expected="SELECT bidder, count(*) AS bid_count FROM bid GROUP BY bidder",
        types="bidder BIGINT, start_time TIMESTAMP_LTZ(3), bid_count BIGINT",
        key=("bidder", "start_time"),
        notes={
            "all": "updates into a topic, at least once; compared are sums over all windows",
            "flink": "a group by the clock: at the end of a topic a window of the clock stays open",
        },
    ),
    Query(
        name="filter",
        title="Filter",
        family="orders",
        shown="id, customer, amount, ts",
        spark="SELECT id, customer, amount, ts FROM orders WHERE country = 'DE' AND amount > 1000",
        known_ms="ts",
        types="id BIGINT, customer BIGINT, amount BIGINT, ts BIGINT",
    ),
    _aggregate(100),
    _aggregate(100_000),
    Query(
        name="join",
        title="Join of two streams within 10 s",
        family="pairs",
        shown="id, customer, amount, `method`, ts".replace("`", '"'),
        spark="""SELECT o.id, o.customer, o.amount, p.`method`, p.ts
FROM orders AS o
JOIN payments AS p ON o.id = p.id
  AND p.event_time BETWEEN o.event_time AND o.event_time + INTERVAL '10' SECOND""",
        expected="""SELECT o.id, o.customer, o.amount, p.method, p.ts
FROM orders AS o
JOIN payments AS p ON o.id = p.id AND p.ts BETWEEN o.ts AND o.ts + 10000""",
        known_ms="ts",
        types="id BIGINT, customer BIGINT, amount BIGINT, `method` STRING, ts BIGINT",
        is_timed=True,
    ),
)
BY_NAME = {query.name: query for query in QUERIES}
