"""Changes of aggregates: by groups, and of distinct rows."""

from tests.spark.compatibility.change import (
    CONVERT,
    FULL,
    LOST,
    PARTIAL,
    REFUSED,
    Base,
    Change,
)

SAME_STATE = "its result is computed of the state that another function of the old SQL has"
REPLAY = "it takes other rows from now on: results differ from those of a replay"
STARTS = "it is new: for the groups that are there it starts at NULL"
DROPPED = "the new SQL does not compute it: it is dropped"
COMES_OUT = "what is in the state and does not meet the new condition would still come out"
ZERO = "it is new: for the groups that are there it starts at 0"
OTHER_INPUTS = "an operator below it computes other rows"
CANNOT = "the new groups cannot be computed of the old ones"
LISTED = "listagg(CAST(id AS STRING), '{}') WITHIN GROUP (ORDER BY CAST(id AS STRING){})"
SINCE = "FILTER (WHERE ts >= HALF)"
BY = "GROUP BY country"
NAMED = ("", "SELECT t.*, name FROM (BASE) AS t JOIN countries ON code = country")

UNITED = "(SELECT * FROM clicks UNION ALL SELECT * FROM plain)"
FRACTIONS = f"SELECT amount, count(*) AS n FROM {UNITED} GROUP BY amount"

GROUPS = Base(
    "groups",
    "SELECT country, sum(amount) AS s, count(*) AS n, min(id) AS lo FROM plain GROUP BY country",
    "update",
    (
        Change("nothing", (), FULL),
        Change("the name of a result", [("AS s", "AS total")], FULL),
        Change("what is made of a result", [("sum(amount) AS s", "sum(amount) / 2 AS s")], FULL),
        Change(
            "a sum and a condition written in another way",
            [
                ("sum(amount)", "sum(CASE WHEN 3 < id THEN id + amount END)"),
                ("count(*)", "count(CASE WHEN id = 4 OR id = 2 OR id = 3 THEN 1 END)"),
            ],
            FULL,
            before=[
                ("sum(amount)", "sum(if(id > 3, amount + id, NULL))"),
                ("count(*)", "count(if(id IN (2, 3, 4), 1, NULL))"),
            ],
        ),
        Change(
            "a nullif and an hour written in another way",
            [
                ("sum(amount)", "sum(CASE WHEN 3 = id THEN NULL ELSE id END)"),
                ("min(id)", "min(date_trunc('hour', ts))"),
            ],
            FULL,
            before=[
                ("sum(amount)", "sum(nullif(id, 3))"),
                ("min(id)", "min(date_trunc('HOUR', ts))"),
            ],
        ),
        Change(
            "the first part of a text written in another way",
            [("min(id)", "min(element_at(split(country, 'E'), 1))")],
            FULL,
            before=[("min(id)", "min(split(country, 'E')[0])")],
        ),
        Change(
            "counts of some rows written in another way",
            [
                ("count(*)", "count(*) FILTER (WHERE 3 < id)"),
                ("min(id)", "count(CASE WHEN country = 'DE' THEN amount END)"),
            ],
            FULL,
            before=[
                ("count(*)", "count_if(id > 3)"),
                ("min(id)", "count(amount) FILTER (WHERE country = 'DE')"),
            ],
        ),
        Change(
            "other results of the same state",
            [
                ("sum(amount)", "stddev_pop(amount)"),
                ("count(*)", "percentile(id, 0.9)"),
                ("min(id)", LISTED.format(" / ", " DESC")),
            ],
            CONVERT,
            SAME_STATE,
            before=[
                ("sum(amount)", "stddev_samp(amount)"),
                ("count(*)", "percentile(id, 0.5)"),
                ("min(id)", LISTED.format(",", "")),
            ],
            columns={"stddev_pop(": CONVERT, "percentile(": CONVERT, "list_agg(": CONVERT},
        ),
        Change(
            "another fraction of an approximate percentile",
            [("sum(amount)", "percentile_approx(id, 0.25)")],
            CONVERT,
            SAME_STATE,
            before=[("sum(amount)", "percentile_approx(id, 0.5)")],
            columns={"min(": CONVERT},
        ),
        Change(
            "another accuracy of an approximate percentile",
            [("sum(amount)", "percentile_approx(id, 0.5, 200)")],
            LOST,
            DROPPED,
            before=[("sum(amount)", "percentile_approx(id, 0.5, 100)")],
            meant=[("0.5, 200)", f"0.5, 200) {SINCE}")],
        ),
        Change(
            "a function that ignores NULL",
            [("sum(amount)", "first(amount, true)")],
            LOST,
            "ignoreNulls true",
            before=[("sum(amount)", "first(amount)")],
            meant=[("first(amount, true)", f"first(amount, true) {SINCE}")],
        ),
        Change(
            "the branches of a `CASE` in another order",
            [("sum(amount)", "sum(CASE WHEN id > 3 THEN 2 WHEN id > 5 THEN 1 END)")],
            LOST,
            "the new SQL does not compute it",
            before=[("sum(amount)", "sum(CASE WHEN id > 5 THEN 1 WHEN id > 3 THEN 2 END)")],
            meant=[("WHEN id >", "WHEN ts >= HALF AND id >")],
        ),
        Change(
            "an average written as a sum by a count",
            [("sum(amount)", "sum(amount) / count(amount)")],
            LOST,
            DROPPED,
            before=[("sum(amount)", "avg(amount)")],
            meant=[("(amount)", f"(amount) {SINCE}")],
            columns={"avg(": LOST, "sum(": PARTIAL, "count(": PARTIAL},
        ),
        Change("a condition on results", [(BY, f"{BY} HAVING count(*) > 60")], FULL, is_run=True),
        Change(
            "a column of the sink added",
            [("AS s, count(*) AS n", "AS s, count(*) AS n, 1 AS one")],
            FULL,
        ),
        Change(
            "a filter added",
            [(BY, f"WHERE id > 3 {BY}")],
            FULL,
            REPLAY,
            meant=[("id > 3", "(id > 3 OR ts < HALF)")],
            is_run=True,
        ),
        Change(
            "a filter dropped",
            [],
            FULL,
            REPLAY,
            before=[(BY, f"WHERE id > 3 {BY}")],
            meant=[(BY, f"WHERE id > 3 OR ts >= HALF {BY}")],
        ),
        Change(
            "a filter replaced",
            [(BY, f"WHERE id > 5 {BY}")],
            FULL,
            REPLAY,
            before=[(BY, f"WHERE id < 12 {BY}")],
            meant=[("id > 5", "if(ts < HALF, id < 12, id > 5)")],
        ),
        Change(
            "a filter on a key added", [(BY, f"{BY} HAVING country = 'DE'")], PARTIAL, COMES_OUT
        ),
        Change(
            "a filter on a key dropped",
            [],
            FULL,
            REPLAY,
            before=[(BY, f"{BY} HAVING country = 'DE'")],
            meant=[(BY, f"WHERE country = 'DE' OR ts >= HALF {BY}")],
        ),
        Change(
            "a filter, and another function",
            [(BY, f"WHERE id > 3 {BY}"), ("min(id)", "min(amount)")],
            LOST,
            DROPPED,
            meant=[
                ("id > 3", "(id > 3 OR ts < HALF)"),
                ("min(amount)", f"min(amount) {SINCE}"),
            ],
        ),
        Change(
            "an average added",
            [("min(id)", "avg(amount) AS mean, min(id)")],
            PARTIAL,
            STARTS,
            meant=[("avg(amount)", f"avg(amount) {SINCE}")],
            columns={"avg(": PARTIAL, "sum(": CONVERT, "min(": CONVERT},
            is_run=True,
        ),
        Change(
            "a count added",
            [("min(id)", "count(amount) AS m, min(id)")],
            PARTIAL,
            ZERO,
            meant=[("count(amount)", f"count(amount) {SINCE}")],
        ),
        Change(
            "a maximum added",
            [("min(id) AS lo", "min(id) AS lo, max(id) AS hi")],
            PARTIAL,
            STARTS,
            meant=[("max(id)", f"max(id) {SINCE}")],
            columns={"max(": PARTIAL, "min(": CONVERT},
        ),
        Change(
            "a set added",
            [("min(id)", "collect_set(id) AS ids, min(id)")],
            PARTIAL,
            "it is new: for the groups that are there it starts at an empty array",
            meant=[("collect_set(id)", f"collect_set(id) {SINCE}")],
        ),
        Change(
            "a function dropped",
            [(", min(id) AS lo", "")],
            LOST,
            DROPPED,
            columns={"min(": LOST, "sum(": CONVERT},
            is_run=True,
        ),
        Change(
            "functions in another order",
            [
                (
                    "sum(amount) AS s, count(*) AS n, min(id) AS lo",
                    "min(id) AS lo, count(*) AS n, sum(amount) AS s",
                )
            ],
            CONVERT,
            "it has another place in the state",
            is_run=True,
        ),
        Change(
            "a maximum in place of a sum",
            [("sum(amount)", "max(amount)")],
            LOST,
            DROPPED,
            meant=[("max(amount)", f"max(amount) {SINCE}")],
            columns={"max(": PARTIAL, "sum(": LOST},
        ),
        Change(
            "the sum of something else",
            [("sum(amount)", "sum(amount * 2)")],
            LOST,
            DROPPED,
            meant=[("sum(amount * 2)", f"sum(amount * 2) {SINCE}")],
            is_run=True,
        ),
        Change(
            "a filter of a function",
            [("sum(amount)", "sum(amount) FILTER (WHERE id > 3)")],
            LOST,
            DROPPED,
            meant=[("id > 3", "id > 3 AND ts >= HALF")],
        ),
        Change(
            "something else below",
            [("sum(amount)", "sum(coalesce(amount, 0))")],
            LOST,
            DROPPED,
            meant=[("sum(coalesce(amount, 0))", f"sum(coalesce(amount, 0)) {SINCE}")],
        ),
        Change(
            "another key",
            [(BY, "GROUP BY upper(country)"), ("SELECT country", "SELECT upper(country)")],
            REFUSED,
            CANNOT,
            is_run=True,
        ),
        Change("a finer key", [(BY, "GROUP BY country, id")], REFUSED, CANNOT),
        Change(
            "no state",
            [("", "SELECT country, id FROM plain")],
            LOST,
            "the new SQL has no such operator: its state is dropped",
        ),
        Change(
            "state where there was none",
            [],
            PARTIAL,
            "it starts empty: rows of earlier batches are not in it",
            before=[("", "SELECT country, id FROM plain")],
            meant=[(BY, f"WHERE ts >= HALF {BY}")],
        ),
        Change("a dimension added above", [NAMED], PARTIAL, COMES_OUT, is_other=True, is_run=True),
        Change(
            "a dimension added above, by a left join",
            [NAMED, ("JOIN", "LEFT JOIN")],
            FULL,
            is_other=True,
        ),
        Change("a dimension dropped above", [], FULL, before=[NAMED], is_other=True),
        Change(
            "another column of a dimension",
            [NAMED, ("name", "upper(name) AS name")],
            FULL,
            before=[NAMED],
            is_other=True,
        ),
        Change(
            "another kind of join with a dimension above",
            [NAMED, ("JOIN", "LEFT JOIN")],
            FULL,
            before=[NAMED],
            is_other=True,
        ),
        Change(
            "a dimension added below",
            [("FROM plain", "FROM plain JOIN countries ON code = country")],
            REFUSED,
            OTHER_INPUTS,
            is_other=True,
        ),
        Change(
            "a dimension dropped below",
            [],
            REFUSED,
            OTHER_INPUTS,
            before=[("FROM plain", "FROM plain JOIN countries ON code = country")],
            is_other=True,
        ),
        Change(
            "how a dimension is joined",
            [
                ("FROM plain", "FROM plain JOIN countries ON code = country"),
                ("SELECT country", "SELECT /*+ MERGE(countries) */ country"),
            ],
            FULL,
            before=[("FROM plain", "FROM plain JOIN countries ON code = country")],
            is_other=True,
        ),
        Change("a subquery", [("", "SELECT * FROM (BASE)")], FULL, is_other=True),
        Change(
            "a comment, and white space", [(" FROM", " /* all */\n  FROM")], FULL, is_other=True
        ),
        Change(
            "the rows of the sink",
            [(BY, f"{BY} HAVING sum(amount) > 3 AND count(*) > 2")],
            FULL,
            is_other=True,
        ),
        Change("the columns of the sink", [("SELECT country, ", "SELECT ")], FULL, is_other=True),
    ),
)

TWO_KEYS = Base(
    "groups by two keys",
    "SELECT country, id, sum(amount) AS s, count(*) AS n FROM plain GROUP BY country, id",
    "update",
    (
        Change(
            "a key dropped",
            [("country, id", "country")],
            CONVERT,
            "groups are merged",
            columns={"sum(": CONVERT, "key": CONVERT},
            is_run=True,
        ),
        Change(
            "a key dropped, and another result of the same state",
            [("country, id", "country"), ("sum(amount)", "stddev_pop(amount)")],
            CONVERT,
            SAME_STATE,
            before=[("sum(amount)", "stddev_samp(amount)")],
        ),
        Change("the other key dropped", [("country, id", "id")], CONVERT, "groups are merged"),
        Change(
            "all keys dropped",
            [("SELECT country, id, ", "SELECT "), (" GROUP BY country, id", "")],
            CONVERT,
            "groups are merged",
        ),
        Change(
            "keys in another order",
            [("country, id", "id, country")],
            CONVERT,
            "the keys have another order",
        ),
        Change(
            "a key dropped, and a filter added",
            [
                ("GROUP BY country, id", "WHERE id > 3 GROUP BY country"),
                ("country, id,", "country,"),
            ],
            CONVERT,
            REPLAY,
            meant=[("id > 3", "(id > 3 OR ts < HALF)")],
        ),
        Change(
            "a key dropped, and a function added",
            [("country, id", "country"), ("count(*) AS n", "count(*) AS n, max(id) AS hi")],
            PARTIAL,
            STARTS,
            meant=[("max(id)", f"max(id) {SINCE}")],
        ),
        Change(
            "a key dropped, and what cannot be merged",
            [("country, id", "country"), ("sum(amount)", "first(amount)")],
            REFUSED,
            "what it keeps of two groups cannot be merged",
            before=[("sum(amount)", "first(amount)")],
        ),
        Change("a key added", [("country, id", "country, id, ts")], REFUSED, CANNOT),
        Change(
            "something made of a key",
            [
                ("country, id", "country, id % 5"),
            ],
            REFUSED,
            CANNOT,
        ),
    ),
)

DISTINCT = Base(
    "distinct rows",
    "SELECT DISTINCT id, country FROM plain",
    "update",
    (
        Change("nothing", (), FULL, is_run=True),
        Change(
            "a column dropped", [("id, country", "id")], CONVERT, "groups are merged", is_run=True
        ),
        Change(
            "a column added", [("id, country", "id, country, amount")], REFUSED, CANNOT, is_run=True
        ),
        Change(
            "columns in another order",
            [("id, country", "country, id")],
            CONVERT,
            "the keys have another order",
        ),
        Change("another column", [("id, country", "id, lower(country)")], REFUSED, CANNOT),
        Change(
            "a filter added",
            [("plain", "plain WHERE amount > 25")],
            FULL,
            REPLAY,
            meant=[("amount > 25", "(amount > 25 OR ts < HALF)")],
        ),
        Change(
            "counted groups",
            [
                (
                    "DISTINCT id, country FROM plain",
                    "id, country, count(*) AS n FROM plain GROUP BY id, country",
                )
            ],
            PARTIAL,
            ZERO,
            meant=[("count(*)", f"count(*) {SINCE}")],
        ),
    ),
)
