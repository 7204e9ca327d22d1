"""Changes of Nexmark's queries."""

from pathlib import Path

from tests.spark.compatibility.change import FULL, LOST, PARTIAL, REFUSED, Base, Change
from tests.spark.compatibility.groups import CANNOT, COMES_OUT, OTHER_INPUTS, REPLAY, STARTS
from tests.spark.compatibility.joins import GONE, NEW

MOVED = "a filter below a watermark has changed: the watermark follows other rows"
FOLDER = Path(__file__).parents[3] / "examples" / "nexmark"


def read_query(file: str, table: str) -> str:
    """Return the SELECT of a query of the example."""
    text = (FOLDER / file).read_text("utf-8")
    _, found, rest = text.partition(f"INSERT INTO {table}\n")
    if not found:
        raise AssertionError(f"{table} is not in {file}")
    return " ".join(rest.partition(";")[0].split())


Q3 = Base(
    "Nexmark q3",
    read_query("nexmark.sql", "nexmark.q3"),
    "append",
    (
        Change("nothing", (), FULL, is_run=True),
        Change("what is made of results", [("p.city", "upper(p.city) AS city")], FULL),
        Change(
            "another category",
            [("category = 10", "category = 11")],
            PARTIAL,
            COMES_OUT,
            meant=[("a.category = 11", "if(a.date_time < HALF, a.category = 10, a.category = 11)")],
        ),
        Change(
            "a state more",
            [("'CA')", "'CA', 'WA')")],
            PARTIAL,
            COMES_OUT,
            meant=[("p.state IN", "if(p.date_time < HALF, p.state <> 'WA', true) AND p.state IN")],
        ),
        Change(
            "no filter of states",
            [(" AND p.state IN ('OR', 'ID', 'CA')", "")],
            FULL,
            REPLAY,
            meant=[
                (
                    "a.category = 10",
                    "a.category = 10 AND (p.state IN ('OR', 'ID', 'CA') OR p.date_time >= HALF)",
                )
            ],
        ),
        Change(
            "another key",
            [("a.seller", "a.category")],
            REFUSED,
            "is join on auction.category = person.id",
        ),
        Change(
            "a column more",
            [("a.id", "a.id, a.item_name")],
            PARTIAL,
            NEW,
            meant=[("a.item_name", "if(a.date_time >= HALF, a.item_name, NULL) AS item_name")],
        ),
    ),
)

Q5 = Base(
    "Nexmark q5",
    read_query("nexmark.sql", "nexmark.q5"),
    "append",
    (
        Change("nothing", (), FULL, is_run=True),
        Change("the name of a result", [("item.num", "item.num AS bids")], FULL),
        Change(
            "a filter added",
            [("FROM bid", "FROM bid WHERE price > 100")],
            FULL,
            REPLAY,
            meant=[("price > 100", "(price > 100 OR date_time < HALF)")],
        ),
        Change("another slide", [("'2 seconds'", "'5 seconds'")], REFUSED, CANNOT),
        Change("another length", [("'10 seconds'", "'20 seconds'")], REFUSED, CANNOT),
        Change("by bidder", [("auction", "bidder")], REFUSED, OTHER_INPUTS),
    ),
)

TWICE = "one stream of files stands twice in it"
Q7 = Base(
    "Nexmark q7",
    read_query("nexmark.sql", "nexmark.q7"),
    "append",
    (
        Change("nothing", (), FULL, is_run=True, unplayed=TWICE),
        Change(
            "a column dropped",
            [(", b.extra", "")],
            LOST,
            GONE,
            unplayed=TWICE,
        ),
        Change(
            "another length",
            [("'10 seconds'", "'20 seconds'")],
            REFUSED,
            "is join on window 20 seconds = window 20 seconds",
        ),
        Change(
            "the lowest price",
            [("max(price)", "min(price)")],
            REFUSED,
            "is join on window 10 seconds = window 10 seconds and bid.price = min(bid.price)",
        ),
    ),
)

Q8 = Base(
    "Nexmark q8",
    read_query("nexmark.sql", "nexmark.q8"),
    "append",
    (
        Change("nothing", (), FULL, is_run=True),
        Change("what is made of results", [("p.name,", "upper(p.name) AS name,")], FULL),
        Change(
            "another length",
            [("'10 seconds'", "'20 seconds'")],
            REFUSED,
            "window 10 seconds = window 10 seconds, is join on",
        ),
        Change(
            "a filter added",
            [("FROM auction", "FROM auction WHERE category = 10")],
            FULL,
            MOVED,
            unplayed="the filter holds back the watermark of its topic too",
        ),
        Change(
            "without names",
            [("p.name, ", ""), ("id, name, window", "id, window"), ("BY id, name", "BY id")],
            LOST,
            GONE,
        ),
    ),
)

Q12 = Base(
    "Nexmark q12",
    read_query("updates.sql", "`nexmark.q12`"),
    "update",
    (
        Change("nothing", (), FULL, is_run=True),
        Change("another length", [("'10 seconds'", "'15 seconds'")], REFUSED, CANNOT),
        Change(
            "the highest price added",
            [
                ("bidder, window", "bidder, price, date_time AS at, window"),
                ("count(*) AS bid_count", "count(*) AS bid_count, max(price) AS highest"),
            ],
            PARTIAL,
            STARTS,
            meant=[("max(price)", "max(price) FILTER (WHERE at >= HALF)")],
        ),
        Change("by auction", [("bidder", "auction")], REFUSED, CANNOT),
    ),
)

Q20 = Base(
    "Nexmark q20",
    read_query("nexmark.sql", "nexmark.q20"),
    "append",
    (
        Change("nothing", (), FULL, is_run=True),
        Change("the order of results", [("b.auction, b.bidder", "b.bidder, b.auction")], FULL),
        Change(
            "another category",
            [("category = 10", "category = 11")],
            PARTIAL,
            COMES_OUT,
            meant=[("a.category = 11", "if(a.date_time < HALF, a.category = 10, a.category = 11)")],
        ),
        Change(
            "all categories",
            [(" WHERE a.category = 10", "")],
            FULL,
            REPLAY,
            meant=[
                (
                    "b.auction = a.id",
                    "b.auction = a.id AND (a.category = 10 OR a.date_time >= HALF)",
                )
            ],
        ),
        Change("a column dropped", [("b.url, ", "")], LOST, GONE),
    ),
)
