"""What Spark's streaming refuses, in a sentence, and what to write instead.

What it is: a table of Spark's refusals and one function that reads it.
What it promises: every rule of the table is tried with the real error in a test. An error that no
rule knows keeps Spark's own words, without its codes, its plans, and its advice about a catalog
that a job does not have.
What it must not know: the job file's other sections; who shows the sentence.
"""

import re
from dataclasses import dataclass

from pyspark.errors import PySparkException

from ashore.plans.checks import UPSERT

WATERMARK = (
    "give the source a watermark: `event_time` in its item of `tables`, or "
    "`FROM t WATERMARK ts DELAY OF INTERVAL 10 SECONDS`"
)
APPEND = "append its rows: to a table, or to a topic with `mode: append`"
BOUNDED_JOIN = (
    "give both sides a watermark and bound the join in time, as in "
    "`ON a.id = b.id AND b.ts BETWEEN a.ts AND a.ts + INTERVAL 1 HOUR`"
)


@dataclass(frozen=True, slots=True)
class SparkRefusal:
    """Why Spark does not run a query, and what to write instead; no hint where there is none."""

    sentence: str
    hint: str
    is_known: bool = True


@dataclass(frozen=True, slots=True)
class Rule:
    """One refusal: Spark's condition, a pattern of its words, and ours.

    `{0}`, `{1}` in the sentence are the pattern's groups.
    """

    condition: str
    pattern: str
    sentence: str
    hint: str


# Most of Spark's check has one condition for everything, so that only the words tell them apart.
CHECK = "_LEGACY_ERROR_TEMP_3102"
MODE = "STREAMING_OUTPUT_MODE.UNSUPPORTED_OPERATION"

RULES = (
    Rule(
        MODE,
        "aggregations without watermark",
        "rows of an aggregate are appended once they are final, and nothing says when: it is not "
        "grouped by event time that has a watermark",
        f"group by `window(ts, '1 minute')`, and {WATERMARK}; or {UPSERT}",
    ),
    Rule(
        MODE,
        "session window",
        "a session window has no updates: sessions grow together, and only a closed one is a row",
        f"{APPEND}, with a watermark on the event time",
    ),
    Rule(
        MODE,
        "no streaming aggregations",
        "complete mode writes the whole result of an aggregate again and again, and the query has "
        "no aggregate",
        "append its rows",
    ),
    Rule(
        "NON_TIME_WINDOW_NOT_SUPPORTED_IN_STREAMING",
        r"not supported in (\w+)\(",
        "`{0}() OVER (...)` looks at the order of all rows of a partition, and a stream never has "
        "all of them",
        "for the newest or the largest row of a key: `max_by(struct(...), ts)` with "
        "`GROUP BY id, window(ts, '1 hour')`; for the best n: `max_by(struct(...), price, n)`",
    ),
    Rule(
        CHECK,
        "^Sorting is not supported",
        "a stream has no end, so that it cannot be sorted",
        "leave `ORDER BY` and `SORT BY` to those who read the table; for the largest row of a "
        "window: `max_by(struct(...), price)` with `GROUP BY window(ts, '1 minute')`",
    ),
    Rule(
        CHECK,
        "^Limits are not supported",
        "`LIMIT` takes the first rows of the whole stream, which cannot be updated later",
        "leave it to those who read the topic",
    ),
    Rule(
        CHECK,
        "^Offset is not supported",
        "a stream has no order in which rows could be left out",
        "remove `OFFSET`, or filter by a column",
    ),
    Rule(
        CHECK,
        r"^Stream-stream (\w+) join .* without a watermark",
        "a {0} join of two streams tells what has no match, and nothing says when a match can no "
        "longer come",
        BOUNDED_JOIN,
    ),
    Rule(
        CHECK,
        r"^(\w+) join between two streaming .* not supported in Update",
        "a {0} join of two streams is final when it is written: it has no updates",
        APPEND,
    ),
    Rule(
        CHECK,
        r"^(\w+) joins? with (?:a )?streaming .* static",
        "a {0} join of a stream and a table has to tell which rows of the table have no match in "
        "the stream, which is never known",
        "put the stream on the side whose rows are told: `FROM stream LEFT JOIN table`",
    ),
    Rule(
        CHECK,
        r"^(\w+) joins with a streaming",
        "a {0} join tells which rows have no match in a stream, and nothing says when a match can "
        "no longer come",
        "`LEFT JOIN` in a time bound, then `WHERE b.id IS NULL`: " + BOUNDED_JOIN,
    ),
    Rule(
        "_LEGACY_ERROR_TEMP_1181",
        "without equality predicate",
        "two streams are joined without an equality, so that every row would have to be kept for "
        "every other",
        "join on at least one `a.x = b.y`",
    ),
    Rule(
        "INVALID_SUBQUERY_EXPRESSION.STREAMING_QUERY",
        "",
        "a stream stands in a subquery (`IN`, `EXISTS`, or a single value), which would have to be "
        "complete before the first row",
        "join the two streams, in a time bound: `FROM a LEFT SEMI JOIN b ON ...`",
    ),
    Rule(
        CHECK,
        "^Distinct aggregations are not supported",
        "`count(DISTINCT ...)` would have to keep every value that it has seen",
        "`approx_count_distinct(x)`, or `size(collect_set(x))` where the values of a group are few",
    ),
    Rule(
        CHECK,
        "'correctness' issue due to global watermark",
        "an aggregate, a join or a deduplication stands on top of another one that hands on "
        "updates or late rows, which would be dropped as late",
        "append instead of updating, and group every aggregate by a window: "
        "`GROUP BY window(w, '1 hour')` over the window of the inner one; or write the inner "
        "result into a table or topic of its own and go on from there",
    ),
    Rule(
        CHECK,
        "^dropDuplicatesWithinWatermark",
        "deduplication within the watermark needs one",
        WATERMARK,
    ),
    Rule(
        CHECK,
        r"^(Except|Intersect) ",
        "`{0}` compares with all rows of a stream, which never has all of them",
        "`LEFT JOIN` in a time bound and a filter: " + BOUNDED_JOIN,
    ),
    Rule(
        CHECK,
        "^Union between streaming and batch",
        "a stream and a table are put together, and the table would have to be read again with "
        "every batch",
        "load the table once by a query of its own, into the same target",
    ),
    Rule(
        CHECK,
        "^Sampling is not supported",
        "`TABLESAMPLE` does not work on a stream",
        "filter by a hash of a key: `WHERE pmod(xxhash64(id), 100) < 10`",
    ),
    Rule(
        CHECK,
        r"^Expression\(s\): (\S+)",
        "`{0}` counts within a batch, so that it would begin again with each",
        "use columns of the record",
    ),
    Rule(
        "_LEGACY_ERROR_TEMP_3068",
        "Global aggregation with session window",
        "a session window needs a key besides: sessions of everything at once would be one "
        "partition's work",
        "group by a column too",
    ),
    Rule(
        "_LEGACY_ERROR_TEMP_1039",
        "",
        "two time windows in one `GROUP BY` would multiply every row",
        "write two queries; or a window of a window: `window(w, '1 hour')`",
    ),
    Rule(
        "TABLE_OR_VIEW_NOT_FOUND",
        r"The table or view (.+) cannot be found",
        "nothing is called {0} that SQL can read",
        "a topic is read by the part of its table's name after the dot; anything else by a "
        "`CREATE TEMPORARY VIEW` that stands before",
    ),
    Rule(
        "TEMP_TABLE_OR_VIEW_ALREADY_EXISTS",
        r"the temporary view (\S+) because",
        "there is a view {0} already: each topic is one, under the part of its table's name after "
        "the dot",
        "give the view another name",
    ),
    Rule(
        "UNRESOLVED_COLUMN.WITH_SUGGESTION",
        r"with name (`.+`) cannot be resolved\. Did you mean one of the following\? \[(.+)\]",
        "there is no column {0}",
        "the nearest ones are {1}",
    ),
    Rule(
        "UNRESOLVED_ROUTINE",
        r"Cannot resolve routine (\S+)",
        "there is no function {0}",
        "Spark's own are at https://spark.apache.org/docs/latest/api/sql/",
    ),
    Rule(
        "EVENT_TIME_IS_NOT_ON_TIMESTAMP_TYPE",
        r"`([^`]+)` has the invalid type \"([^\"]+)\"",
        "a watermark is on `{0}`, which is {1}, and event time is a timestamp",
        "make it one: `WATERMARK timestamp_millis({0}) AS ts DELAY OF INTERVAL 10 SECONDS`",
    ),
)


def explain_refusal(error: PySparkException) -> SparkRefusal:
    """Return what an error of Spark's analysis, check or planner means for who wrote the query."""
    condition = str(error.getCondition() or "")
    words = _words(error)
    for rule in RULES:
        found = re.search(rule.pattern, words) if rule.condition == condition else None
        if found:
            groups = [_spaced(each) for each in found.groups()]
            return SparkRefusal(rule.sentence.format(*groups), rule.hint.format(*groups))
    return SparkRefusal(words, "", is_known=False)


_ADVICE = (  # about catalogs and functions of one's own, which a job does not have
    "Verify the spelling",
    "Search path:",
    "If you did not qualify",
    "To tolerate the error",
    "Please, refer to",
    "Please make sure that",
    "If `",
    "For more information",
)


def _words(error: PySparkException) -> str:
    """Return Spark's sentence without its codes, and without the plan that may follow."""
    text = str(error).partition(";\n")[0].partition("\n== SQL")[0].strip()
    text = re.sub(r"^\[[A-Z0-9_.]+\]\s*", "", text)
    advice = "|".join(map(re.escape, _ADVICE))
    text = re.sub(rf"\s*(?:{advice})[^\n]*?(?=\s*SQLSTATE:|\n|$)", "", text)
    text = re.sub(r"[;.]?\s*line \d+,? pos \d+\s*$", "", text)
    text = re.sub(r"\s*\(line \d+, pos \d+\)\s*$", "", text)
    return " ".join(re.sub(r"\s*SQLSTATE: \w+", "", text).split())


def _spaced(name: str) -> str:
    """Return `LeftOuter` as `left outer`; other names as they are."""
    words = re.findall(r"[A-Z][a-z]+", name)
    return " ".join(words).lower() if len(words) > 1 and "".join(words) == name else name
