"""Changes of joins of two streams, of unions, and of two operators above each other."""

from tests.spark.compatibility.change import CONVERT, FULL, LOST, PARTIAL, REFUSED, Base, Change
from tests.spark.compatibility.groups import (
    CANNOT,
    COMES_OUT,
    NAMED,
    STARTS,
)
from tests.spark.compatibility.widths import WIDER
from tests.spark.compatibility.windows import HOUR

NEW = "it is new: in the rows that wait it is NULL"
GONE = "the new SQL does not use it: it is dropped"
SINCE_AMOUNT = [("a.amount", "if(a.ts >= HALF, a.amount, NULL) AS amount")]
WHOLE = "(SELECT *, {} AS part FROM plain) a"
WITH_PART = ("b.page", "b.page, a.part")
BY_PAGE = ("a.id = b.id", "a.country = b.page AND a.ts = b.seen")
NO_APPEND = "Spark runs no aggregate of all rows in append mode"
OFFSETS = "streams of files have no topics; played with Kafka, in tests/spark/test_moved_sources.py"

INNER = Base(
    "an inner join",
    "SELECT a.id, a.country, b.page FROM plain a JOIN other b ON a.id = b.id",
    "append",
    (
        Change("nothing", (), FULL, is_run=True),
        Change("what is made of results", [("b.page", "upper(b.page) AS page")], FULL),
        Change(
            "a column of the left side added",
            [("b.page", "b.page, a.amount")],
            PARTIAL,
            NEW,
            meant=SINCE_AMOUNT,
            columns={"left.plain.amount": PARTIAL, "left.plain.id": CONVERT},
        ),
        Change(
            "a column of the left side dropped",
            [("a.country, ", "")],
            LOST,
            GONE,
            columns={"left.plain.country": LOST, "left.plain.id": CONVERT, "right.other.id": FULL},
            is_run=True,
        ),
        Change(
            "a column of the right side added",
            [("b.page", "b.page, b.seen")],
            PARTIAL,
            NEW,
            meant=[("b.seen", "if(b.seen >= HALF, b.seen, NULL) AS seen")],
            is_run=True,  # on streams of files Spark takes the key for never NULL, and did not
        ),
        Change(
            "a column of each side exchanged for another",
            [("a.country, b.page", "a.amount, b.seen")],
            LOST,
            GONE,
            meant=[
                *SINCE_AMOUNT,
                ("b.seen", "if(b.seen >= HALF, b.seen, NULL) AS seen"),
            ],
        ),
        Change(
            "a column that is never NULL added",
            [
                ("plain a", "(SELECT *, coalesce(amount, 0) AS paid FROM plain) a"),
                ("b.page", "b.page, a.paid"),
            ],
            REFUSED,
            "left.coalesce(plain.amount, 0.0) is new and never NULL",
            columns={"left.coalesce": PARTIAL},
        ),
        Change(
            "a column of the left side gets wider",
            [("plain a", WHOLE.format("CAST(CAST(amount AS INT) AS BIGINT)")), WITH_PART],
            CONVERT,
            WIDER,
            before=[("plain a", WHOLE.format("CAST(amount AS INT)")), WITH_PART],
            columns={"as bigint)": CONVERT, "left.plain.id": CONVERT, "right.other.id": FULL},
            is_run=True,
        ),
        Change(
            "a column of the left side gets shorter",
            [("plain a", WHOLE.format("CAST(amount AS INT)")), WITH_PART],
            LOST,
            GONE,
            before=[("plain a", WHOLE.format("CAST(CAST(amount AS INT) AS BIGINT)")), WITH_PART],
            meant=[("a.part", "if(a.ts >= HALF, a.part, NULL) AS part")],
        ),
        Change(
            "the schema of a topic makes a column wider",
            [BY_PAGE],
            CONVERT,
            WIDER,
            before=[BY_PAGE, ("plain a", "narrow a")],
            columns={"left.plain.id": CONVERT},
        ),
        Change(
            "another key",
            [("a.id = b.id", "a.country = b.page")],
            REFUSED,
            "was join on plain.id = other.id, is join on plain.country = other.page",
            is_run=True,
        ),
        Change(
            "a key added",
            [("b.id", "b.id AND a.country = b.page")],
            REFUSED,
            "is join on plain.id = other.id and plain.country = other.page",
        ),
        Change("a left join", [(" JOIN", " LEFT JOIN")], REFUSED, "left outer"),
        Change(
            "a filter of rows that wait",
            [("a.id = b.id", "a.id = b.id AND a.country = 'DE'")],
            PARTIAL,
            COMES_OUT,
            meant=[("a.country = 'DE'", "(a.country = 'DE' OR a.ts < HALF)")],
        ),
        Change("a dimension added above", [NAMED], PARTIAL, COMES_OUT, is_other=True),
    ),
)

BOUND = "b.seen BETWEEN a.ts AND a.ts + INTERVAL 1 HOUR"
PAIRED = (
    f"SELECT a.id, a.country, a.ts, b.page FROM clicks a JOIN views b ON a.id = b.id AND {BOUND}"
)
INTERVAL = Base(
    "an interval join",
    PAIRED,
    "append",
    (
        Change("nothing", (), FULL, is_run=True),
        Change("the order of results", [("a.id, a.country", "a.country, a.id")], FULL),
        Change("a longer interval", [("1 HOUR", "2 HOURS")], REFUSED, "its condition has changed"),
        Change(
            "a shorter interval",
            [("1 HOUR", "30 MINUTES")],
            REFUSED,
            "its condition has changed",
            is_run=True,
        ),
        Change("no interval", [(f" AND {BOUND}", "")], REFUSED, "its condition has changed"),
        Change(
            "another key",
            [("a.id = b.id", "a.country = b.page")],
            REFUSED,
            "was join on clicks.id = views.id, is join on clicks.country = views.page",
        ),
        Change("a left join", [(" JOIN", " LEFT JOIN")], REFUSED, "left outer"),
        Change(
            "a column of the left side added",
            [("b.page", "b.page, a.amount")],
            PARTIAL,
            NEW,
            meant=SINCE_AMOUNT,
        ),
        Change("a column of the left side dropped", [("a.country, ", "")], LOST, GONE),
        Change("a dimension added above", [NAMED], PARTIAL, COMES_OUT, is_other=True, is_run=True),
        Change("a dimension dropped above", [], FULL, before=[NAMED], is_other=True),
        Change(
            "a deduplication added below one side",
            [("clicks a", "(SELECT DISTINCT id, country, ts FROM clicks) a")],
            PARTIAL,
            "rows that wait, and are equal, would still come out each",
            # The newest row would wait below the join, and has met its match already.
            meant=[("a.id = b.id", "a.id = b.id AND NOT (a.ts = LATEST AND b.seen < HALF)")],
            is_run=True,
        ),
    ),
)

OUTER = Base(
    "an outer join",
    PAIRED.replace(" JOIN", " LEFT JOIN"),
    "append",
    (
        Change("nothing", (), FULL, is_run=True),
        Change("what is made of results", [("b.page", "coalesce(b.page, '-') AS page")], FULL),
        Change(
            "an inner join", [(" LEFT JOIN", " JOIN")], REFUSED, "it was left outer", is_run=True
        ),
        Change("a full outer join", [(" LEFT JOIN", " FULL JOIN")], REFUSED, "it was left outer"),
        Change("a longer interval", [("1 HOUR", "2 HOURS")], REFUSED, "its condition has changed"),
        Change("a column of the left side dropped", [("a.country, ", "")], LOST, GONE, is_run=True),
        Change(
            "a column of the left side added",
            [("b.page", "b.page, a.amount")],
            PARTIAL,
            NEW,
            meant=SINCE_AMOUNT,
        ),
    ),
)

BOTH = "SELECT id FROM plain UNION ALL SELECT id FROM other"
UNION = Base(
    "a union",
    f"SELECT id, count(*) AS n FROM ({BOTH}) GROUP BY id",
    "update",
    (
        Change("nothing", (), FULL, is_run=True),
        Change(
            "a sum added",
            [("count(*) AS n", "count(*) AS n, max(id) AS hi")],
            PARTIAL,
            STARTS,
            meant=[
                ("max(id)", "max(id) FILTER (WHERE at >= HALF)"),
                ("id FROM plain", "id, ts AS at FROM plain"),
                ("id FROM other", "id, seen AS at FROM other"),
            ],
        ),
        Change(
            "an input added",
            [("FROM other", "FROM other UNION ALL SELECT id FROM clicks")],
            PARTIAL,
            "a union below it has more inputs: their rows reach it from now on",
            unplayed=OFFSETS,
        ),
        Change(
            "an input dropped",
            [(" UNION ALL SELECT id FROM other", "")],
            LOST,
            "a union below it has fewer inputs",
            unplayed=OFFSETS,
            is_run=True,
        ),
        Change(
            "inputs in another order",
            [(BOTH, "SELECT id FROM other UNION ALL SELECT id FROM plain")],
            CONVERT,
            "its offsets move with it",
            unplayed=OFFSETS,
        ),
        Change(
            "a filter of one input",
            [("FROM other", "FROM other WHERE id > 3")],
            PARTIAL,
            COMES_OUT,
            meant=[("id > 3", "(id > 3 OR seen < HALF)")],
            is_run=True,
        ),
        Change(
            "something else of one input",
            [("id FROM other", "id + 1 AS id FROM other")],
            REFUSED,
            CANNOT,
        ),
        Change(
            "a topic replaced",
            [("other", "views")],
            LOST,
            "the new SQL does not read it",
            unplayed=OFFSETS,
        ),
    ),
)

TWICE = "(SELECT * FROM clicks LATERAL VIEW explode(array(1, 2)) AS copy)"
ONCE = "(SELECT DISTINCT country, ts, amount FROM {})"
ONE_SUM = f"SELECT {HOUR} AS w, country, sum(amount) AS s FROM clicks GROUP BY {HOUR}, country"
ABOVE = Base(
    "windows in order of time",
    ONE_SUM,
    "append",
    (
        Change(
            "a deduplication added above",
            [("", "SELECT DISTINCT w, s FROM (BASE)")],
            PARTIAL,
            "is operator 1, was operator 0",
            is_run=True,
            columns={"sum(": FULL},
        ),
        Change(
            "a deduplication dropped above",
            [],
            LOST,
            "the new SQL has no such operator: its state is dropped",
            before=[("", "SELECT DISTINCT w, s FROM (BASE)")],
        ),
        Change(
            "a deduplication dropped below",
            [],
            LOST,
            "rows are no longer deduplicated below it, and those that wait there are lost",
            before=[("FROM clicks", f"FROM {ONCE.format('clicks')}")],
            meant=[("FROM clicks", "FROM clicks WHERE ts <> LATEST")],
            columns={"sum(": FULL},
            is_run=True,
        ),
        Change(
            "a deduplication added below",
            [("FROM clicks", f"FROM {ONCE.format('clicks')}")],
            PARTIAL,
            "rows are deduplicated below it from now on",
            columns={"sum(": FULL},
            is_run=True,
        ),
        Change(
            "a deduplication of rows that come twice added below",
            [("FROM clicks", f"FROM {ONCE.format(TWICE)}")],
            PARTIAL,
            "rows are deduplicated below it from now on",
            before=[("FROM clicks", f"FROM {TWICE}")],
            meant=[("sum(amount)", "sum(if(ts < HALF, 2, 1) * amount)")],
            columns={"sum(": FULL},
            is_run=True,
        ),
        Change(
            "another deduplication below",
            [("FROM clicks", "FROM (SELECT DISTINCT country, ts, amount, id FROM clicks)")],
            REFUSED,
            CANNOT,
            before=[("FROM clicks", f"FROM {ONCE.format('clicks')}")],
        ),
    ),
)

STATELESS = Base(
    "rows without state",
    "SELECT country, ts, amount FROM clicks",
    "append",
    (
        Change("nothing", (), FULL, is_run=True),
        Change("a filter added", [("FROM clicks", "FROM clicks WHERE amount > 50")], FULL),
        Change(
            "a deduplication added",
            [("SELECT", "SELECT DISTINCT")],
            PARTIAL,
            "it starts empty",
            meant=[("FROM clicks", "FROM clicks WHERE ts <> LATEST")],  # it came out before
            is_run=True,
        ),
        Change(
            "a deduplication dropped",
            [],
            LOST,
            "the new SQL has no such operator: its state is dropped",
            before=[("SELECT", "SELECT DISTINCT")],
            is_run=True,
        ),
        Change(
            "windows in place of rows",
            [("", ONE_SUM)],
            PARTIAL,
            "it starts empty",
            meant=[("FROM clicks", "FROM clicks WHERE ts >= HALF")],
        ),
    ),
)

# count(*) of rows, and count(*) of the groups that have as many rows.
NESTED = """SELECT country, sum(c) AS s, max(d) AS m FROM (
    SELECT country, c, count(*) AS d FROM (
        SELECT country, id, count(*) AS c FROM plain GROUP BY country, id
    ) GROUP BY country, c
) GROUP BY country"""
COUNTS = Base(
    "counts of counts",
    NESTED,
    "append",
    (
        Change("nothing", (), FULL, unplayed=NO_APPEND, is_run=True),
        Change(
            "both counts exchanged",
            [("sum(c)", "sum(?)"), ("max(d)", "max(c)"), ("sum(?)", "sum(d)")],
            LOST,
            "the new SQL does not compute it",
            unplayed=NO_APPEND,
        ),
    ),
)

LABELLED = """SELECT side, count(*) AS n, sum(id) AS s FROM (
    SELECT 'much' AS side, id FROM plain WHERE amount > 20
    UNION ALL SELECT 'little' AS side, id FROM plain WHERE amount <= 20
) GROUP BY side"""
ONE_VIEW_TWICE = Base(
    "a union of one view with itself",
    LABELLED,
    "update",
    (
        Change("nothing", (), FULL, is_run=True),
        Change(
            "labels exchanged",
            [("'much'", "'?'"), ("'little'", "'much'"), ("'?'", "'little'")],
            REFUSED,
            CANNOT,
        ),
        Change(
            "conditions exchanged",
            [("> 20", "?"), ("<= 20", "> 20"), ("?", "<= 20")],
            FULL,
            "it takes other rows from now on",
            unplayed="the rows of each label change in the middle",
        ),
        Change(
            "inputs in another order",
            [
                ("'much'", "'?'"),
                ("'little'", "'much'"),
                ("'?'", "'little'"),
                ("> 20", "?"),
                ("<= 20", "> 20"),
                ("?", "<= 20"),
            ],
            CONVERT,
            "its offsets move with it",
            unplayed=OFFSETS,
        ),
    ),
)
BOTH_READ = f"""SELECT {HOUR} AS w, side, sum(amount) AS s FROM (
    SELECT 'much' AS side, ts, amount FROM clicks WHERE amount > 20
    UNION ALL SELECT 'little' AS side, ts, amount FROM clicks WHERE amount <= 20
) GROUP BY {HOUR}, side"""
WINDOWS_TWICE = Base(
    "windows over both readings of one view",
    BOTH_READ,
    "append",
    (
        Change("nothing", (), FULL, is_run=True),
        Change(
            "labels exchanged",
            [("'much'", "'?'"), ("'little'", "'much'"), ("'?'", "'little'")],
            REFUSED,
            CANNOT,
        ),
        Change(
            "a condition of one reading",
            [("amount <= 20", "amount <= 20 AND amount > 5")],
            FULL,
            "it takes other rows from now on",
            meant=[("AND amount > 5", "AND (amount > 5 OR ts < HALF)")],
        ),
        Change(
            "what one reading sums",
            [("'little' AS side, ts, amount", "'little' AS side, ts, amount * 2 AS amount")],
            LOST,
            "the new SQL does not compute it",
            meant=[("sum(amount)", "sum(amount) FILTER (WHERE ts >= HALF)")],
        ),
        Change(
            "a function added",
            [("sum(amount) AS s", "sum(amount) AS s, max(amount) AS hi")],
            PARTIAL,
            STARTS,
            meant=[("max(amount)", "max(amount) FILTER (WHERE ts >= HALF)")],
        ),
    ),
)
ITSELF = "SELECT a.id, a.country, b.amount, b.country AS other FROM {0} a JOIN {0} b ON a.id = b.id"
SELF = f"{ITSELF.format('v')} WHERE a.amount > 20"
CONDITION = " WHERE a.amount > 20"
# Rows of the first half met the old condition, which was on the other side.
EACH_HALF = [
    ("b.amount > 20", "(a.ts >= HALF OR a.amount > 20) AND (b.ts < HALF OR b.amount > 20)")
]
SELF_JOIN = Base(
    "a join of one view with itself",
    f"{ITSELF.format('plain')} WHERE a.amount > 20",
    "append",
    (
        Change("nothing", (), FULL, is_run=True),
        Change(
            "a condition on the other side",
            [("a.amount >", "b.amount >")],
            PARTIAL,
            COMES_OUT,
            meant=EACH_HALF,
        ),
        Change(
            "a condition on the other side of a `WITH`",
            [("", "WITH v AS (SELECT * FROM plain) " + SELF.replace("a.amount", "b.amount"))],
            PARTIAL,
            COMES_OUT,
            meant=EACH_HALF,
            before=[("", f"WITH v AS (SELECT * FROM plain) {SELF}")],
        ),
        Change(
            "columns of the other side",
            [
                (CONDITION, ""),
                ("a.country, b.amount, b.country", "b.country, a.amount, a.country"),
            ],
            LOST,
            "the new SQL does not use it",
            meant=[("a.amount", "if(a.ts < HALF, NULL, a.amount) AS amount")],
            before=[(CONDITION, "")],
        ),
        Change(
            "columns of the other side, and a condition on one that was there",
            [
                ("a.country, b.amount, b.country", "b.country, a.amount, a.country"),
                ("a.amount > 20", "b.country > 'E'"),
            ],
            LOST,
            "the new SQL does not use it",
            meant=[("a.amount,", "if(a.ts < HALF, NULL, a.amount) AS amount,")],
            before=[("a.amount > 20", "b.country > 'E'")],
        ),
    ),
)
BOTH_SIDES = Base(
    "functions over both sides of a join of one view with itself",
    """SELECT k, sum(x) AS s, max(y) AS m FROM (
        SELECT a.id AS k, a.amount AS x, b.amount AS y FROM clicks a JOIN clicks b
        ON a.id = b.id AND a.ts = b.ts
    ) GROUP BY k""",
    "append",
    (
        Change("nothing", (), FULL, unplayed=NO_APPEND, is_run=True),
        Change(
            "the sides exchanged",
            [("sum(x)", "sum(?)"), ("max(y)", "max(x)"), ("sum(?)", "sum(y)")],
            LOST,
            "the new SQL does not compute it",
            unplayed=NO_APPEND,
        ),
    ),
)
