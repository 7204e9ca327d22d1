"""Changes of the types that the columns of a state are kept as."""

from tests.spark.compatibility.change import CONVERT, LOST, REFUSED, Base, Change
from tests.spark.compatibility.groups import CANNOT, DROPPED, SINCE

WIDER = "written as a wider type, which has all values of the old one"
# Columns of INT, FLOAT and two of DECIMAL: Spark sums the shorter ones as integers.
TYPED = (
    "(SELECT country, CAST(id AS INT) AS i, CAST(amount AS FLOAT) AS f, "
    "CAST(amount AS DECIMAL(10, 2)) AS m, CAST(amount AS DECIMAL(6, 2)) AS small, ts FROM plain)"
)
ALL = tuple(
    (function, function.replace(f"({name})", f"(CAST({name} AS {kind}))"))
    for function, name, kind in (
        ("min(i)", "i", "BIGINT"),
        ("first(i)", "i", "BIGINT"),
        ("sum(i)", "i", "BIGINT"),
        ("avg(i)", "i", "BIGINT"),
        ("count(i)", "i", "BIGINT"),
        ("max(f)", "f", "DOUBLE"),
        ("sum(m)", "m", "DECIMAL(14, 4)"),
        ("sum(small)", "small", "DECIMAL(8, 2)"),
    )
)


def _other(function: str, other: str) -> Change:
    """Return a change that loses values, or might."""
    return Change(
        f"`{function}` as `{other}`",
        [(function, other)],
        LOST,
        DROPPED,
        meant=[(other, f"{other} {SINCE}")],
    )


WIDTHS = Base(
    "columns that get wider",
    "SELECT country, min(i) AS lo, first(i) AS began, sum(i) AS s, avg(i) AS mean, "
    "count(i) AS n, max(f) AS hi, sum(m) AS total, sum(small) AS other "
    f"FROM {TYPED} GROUP BY country",
    "update",
    (
        Change(
            "all functions of wider columns",
            ALL,
            CONVERT,
            WIDER,
            columns={"min(": CONVERT, "sum(unscaled": CONVERT},
            is_run=True,
        ),
        Change("a minimum of BIGINT", [ALL[0]], CONVERT, WIDER),
        Change("an INT as DECIMAL", [("min(i)", "min(CAST(i AS DECIMAL(12, 2)))")], CONVERT, WIDER),
        Change("an INT as DOUBLE", [("min(i)", "min(CAST(i AS DOUBLE))")], CONVERT, WIDER),
        Change("a maximum of DOUBLE", [ALL[5]], CONVERT, WIDER),
        Change("the sum of a longer DECIMAL", [ALL[6]], CONVERT, WIDER),
        Change("the sum of a longer DECIMAL, both short", [ALL[7]], CONVERT, WIDER),
        Change(
            "what is as it was, and the same wider",
            [("min(i) AS lo", "min(i) AS lo, min(CAST(i AS BIGINT)) AS low")],
            CONVERT,
            WIDER,
        ),
        _other("min(i)", "min(CAST(i AS FLOAT))"),
        _other("min(i)", "min(CAST(i AS SMALLINT))"),
        _other("sum(i)", "sum(CAST(i AS DOUBLE))"),
        _other("sum(m)", "sum(CAST(m AS DECIMAL(10, 4)))"),
        _other("sum(small)", "sum(CAST(small AS DECIMAL(12, 2)))"),
        _other("sum(small)", "sum(CAST(small AS DECIMAL(8, 3)))"),
    ),
)

KEYS = Base(
    "keys that get wider",
    f"SELECT i, m, min(i) AS lo, first(i) AS began FROM {TYPED} GROUP BY i, m",
    "update",
    (
        Change(
            "a key as BIGINT",
            [("SELECT i,", "SELECT CAST(i AS BIGINT) AS i,"), ("BY i,", "BY CAST(i AS BIGINT),")],
            CONVERT,
            WIDER,
        ),
        Change(
            "both keys, and a function",
            [
                ("SELECT i, m", "SELECT CAST(i AS BIGINT) AS i, CAST(m AS DECIMAL(12, 3)) AS m"),
                ("BY i, m", "BY CAST(i AS BIGINT), CAST(m AS DECIMAL(12, 3))"),
                ALL[0],
            ],
            CONVERT,
            WIDER,
            is_run=True,
        ),
        Change(
            "a key as a shorter DECIMAL",
            [
                ("SELECT i, m", "SELECT i, CAST(m AS DECIMAL(9, 2)) AS m"),
                ("BY i, m", "BY i, CAST(m AS DECIMAL(9, 2))"),
            ],
            REFUSED,
            CANNOT,
        ),
        Change(
            "a key dropped, and a wider function",
            [
                ("SELECT i, m,", "SELECT i,"),
                ("BY i, m", "BY i"),
                ("min(i) AS lo, first(i) AS began", "min(CAST(i AS BIGINT)) AS lo"),
            ],
            CONVERT,
            WIDER,
            before=[("min(i) AS lo, first(i) AS began", "min(i) AS lo")],
        ),
    ),
)

SCHEMAS = Base(
    "columns that the schema of a topic makes wider",
    "SELECT country, sum(id) AS s, min(id) AS lo, count(id) AS n FROM narrow GROUP BY country",
    "update",
    (
        Change("an INT as BIGINT", [("narrow", "plain")], CONVERT, WIDER, is_run=True),
        Change(
            "a FLOAT as DOUBLE: records have other values then",
            [("min(id)", "max(amount)"), ("narrow", "plain")],
            LOST,
            DROPPED,
            before=[("min(id)", "max(amount)")],
            meant=[("max(amount)", f"max(amount) {SINCE}")],
        ),
        Change(
            "a key of BIGINT that was INT",
            [("SELECT country", "SELECT id"), ("BY country", "BY id"), ("narrow", "plain")],
            CONVERT,
            WIDER,
            before=[("SELECT country", "SELECT id"), ("BY country", "BY id")],
        ),
    ),
)
