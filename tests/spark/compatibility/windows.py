"""Changes of aggregates by windows."""

from tests.spark.compatibility.change import CONVERT, FULL, LOST, PARTIAL, REFUSED, Base, Change
from tests.spark.compatibility.groups import (
    CANNOT,
    COMES_OUT,
    DROPPED,
    FRACTIONS,
    NAMED,
    OTHER_INPUTS,
    REPLAY,
    SINCE,
    STARTS,
    UNITED,
    ZERO,
)

HOUR = "window(ts, '1 hour')"
TUMBLING = Base(
    "tumbling windows",
    f"SELECT {HOUR} AS w, country, sum(amount) AS s, min(id) AS lo FROM clicks "
    f"GROUP BY {HOUR}, country",
    "update",
    (
        Change(
            "nothing, by a number with a fraction of a union",
            [("", FRACTIONS)],
            FULL,
            before=[("", FRACTIONS)],
        ),
        Change("nothing", (), FULL, is_run=True),
        Change(
            "a filter added",
            [("GROUP", "WHERE id > 3 GROUP")],
            FULL,
            REPLAY,
            meant=[("id > 3", "(id > 3 OR ts < HALF)")],
        ),
        Change(
            "a function added",
            [("min(id)", "max(id) AS hi, min(id)")],
            PARTIAL,
            STARTS,
            meant=[("max(id)", f"max(id) {SINCE}")],
        ),
        Change("a function dropped", [("sum(amount) AS s, ", "")], LOST, DROPPED),
        Change(
            "windows of several",
            [("'1 hour'", "'3 hours'")],
            PARTIAL,
            "groups that the watermark has passed are gone already",
            meant=[("GROUP BY", "WHERE ts >= KEPT GROUP BY")],
            is_run=True,
        ),
        Change("windows that are none of several", [("'1 hour'", "'90 minutes'")], REFUSED, CANNOT),
        Change("windows of a part", [("'1 hour'", "'30 minutes'")], REFUSED, CANNOT),
        Change(
            "windows that begin elsewhere",
            [("'1 hour'", "'1 hour', '1 hour', '5 minutes'")],
            REFUSED,
            CANNOT,
        ),
        Change("sliding windows", [("'1 hour'", "'1 hour', '20 minutes'")], REFUSED, OTHER_INPUTS),
        Change(
            "the key beside the window dropped",
            [(", country", "")],
            CONVERT,
            "groups are merged",
            is_run=True,
        ),
        Change(
            "another column of time", [("ts, '1", "ts + INTERVAL 1 SECOND, '1")], REFUSED, CANNOT
        ),
        Change(
            "window and key in another order",
            [(f"GROUP BY {HOUR}, country", f"GROUP BY country, {HOUR}")],
            CONVERT,
            "the keys have another order",
        ),
        Change("a dimension added above", [NAMED], PARTIAL, COMES_OUT, is_other=True),
    ),
)

SLIDES = "window(ts, '1 hour', '20 minutes')"
SLIDING = Base(
    "sliding windows",
    f"SELECT {SLIDES} AS w, country, sum(amount) AS s FROM clicks GROUP BY {SLIDES}, country",
    "update",
    (
        Change(
            "nothing, over a union",
            [("FROM clicks", f"FROM {UNITED}")],
            FULL,
            before=[("FROM clicks", f"FROM {UNITED}")],
        ),
        Change("nothing", (), FULL, is_run=True),
        Change(
            "a filter added",
            [("GROUP", "WHERE id > 3 GROUP")],
            FULL,
            REPLAY,
            meant=[("id > 3", "(id > 3 OR ts < HALF)")],
        ),
        Change(
            "a function added",
            [("sum(amount) AS s", "sum(amount) AS s, max(amount) AS hi")],
            PARTIAL,
            STARTS,
            meant=[("max(amount)", f"max(amount) {SINCE}")],
            is_run=True,
        ),
        Change("the key beside the window dropped", [(", country", "")], REFUSED, OTHER_INPUTS),
        Change(
            "another slide", [("'20 minutes'", "'30 minutes'")], REFUSED, OTHER_INPUTS, is_run=True
        ),
        Change("another length", [("'1 hour'", "'2 hours'")], REFUSED, OTHER_INPUTS),
        Change(
            "tumbling windows", [("'1 hour', '20 minutes'", "'20 minutes'")], REFUSED, OTHER_INPUTS
        ),
        Change(
            "a function of another column added",
            [("sum(amount) AS s", "sum(amount) AS s, max(id) AS hi")],
            REFUSED,
            OTHER_INPUTS,
        ),
    ),
)

GAP = "session_window(ts, '5 minutes')"
SESSIONS = Base(
    "sessions",
    f"SELECT {GAP} AS w, country, sum(amount) AS s FROM clicks GROUP BY {GAP}, country",
    "append",
    (
        Change("nothing", (), FULL, is_run=True),
        Change("the name of a result", [("AS s", "AS total")], FULL),
        Change(
            "a filter added",
            [("GROUP", "WHERE id > 3 GROUP")],
            FULL,
            REPLAY,
            meant=[("id > 3", "(id > 3 OR ts < HALF)")],
        ),
        Change(
            "a function added",
            [("sum(amount) AS s", "sum(amount) AS s, max(id) AS hi")],
            PARTIAL,
            STARTS,
            meant=[("max(id)", f"max(id) {SINCE}")],
            columns={"max(": PARTIAL, "sum(": CONVERT},
            is_run=True,
        ),
        Change(
            "a count in front",
            [("sum(amount) AS s", "count(*) AS n, sum(amount) AS s")],
            PARTIAL,
            ZERO,
            meant=[("count(*)", f"count(*) {SINCE}")],
        ),
        Change(
            "a function dropped",
            [],
            LOST,
            DROPPED,
            before=[("sum(amount) AS s", "max(id) AS hi, sum(amount) AS s")],
        ),
        Change(
            "functions in another order",
            [("sum(amount) AS s", "count(*) AS n, sum(amount) AS s")],
            CONVERT,
            "it has another place in the state",
            before=[("sum(amount) AS s", "sum(amount) AS s, count(*) AS n")],
        ),
        Change(
            "a maximum in place of a sum",
            [("sum(amount)", "max(amount)")],
            LOST,
            DROPPED,
            meant=[("max(amount)", f"max(amount) {SINCE}")],
        ),
        Change(
            "the place of the window among the keys",
            [(f"BY {GAP}, country", f"BY country, {GAP}")],
            CONVERT,
            "it has another place in the state",
        ),
        Change("another gap", [("'5 minutes'", "'10 minutes'")], REFUSED, CANNOT),
        Change("another key", [("country", "upper(country)")], REFUSED, CANNOT),
    ),
)
