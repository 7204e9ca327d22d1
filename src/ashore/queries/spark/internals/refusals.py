"""What Spark's streaming refuses, in a sentence, and what to write instead.

What it is: a table of Spark's refusals and one function that reads it; `find_position`, where in
its text an error is: a place that Spark names itself.
What it promises: every rule of the table is tried with the real error in a test. An error that no
rule knows keeps Spark's own words, without its codes, its plans, and its advice about a catalog
that a job does not have.
"""

import re
from dataclasses import dataclass

from pyspark.errors import PySparkException

from ashore.plans.checks import UPSERT

WATERMARK = (
    "add a watermark to the source: `event_time` in its item of `tables`, or `FROM t WATERMARK ts "
    "DELAY OF INTERVAL 10 SECONDS`"
)
APPEND = "write its rows in append mode: to a table, or to a topic with `mode: append`"
TIME_OF_WINDOW = (
    "use `event_time`, which a view has where its item of `tables` has `event_time`; or convert "
    "the column: `FROM t WATERMARK timestamp_millis({0}) AS ts DELAY OF INTERVAL 10 SECONDS`"
)
BOUNDED_JOIN = (
    "add a watermark to both sides and a time bound to the join, as in `ON a.id = b.id AND b.ts "
    "BETWEEN a.ts AND a.ts + INTERVAL 1 HOUR`"
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

    `{0}`, `{1}` in the sentence are the pattern's groups. With `reads_plan` the pattern is searched
    in the plan too, which follows Spark's words.
    """

    condition: str
    pattern: str
    sentence: str
    hint: str
    reads_plan: bool = False


# Where Spark cannot compute a window, it complains first that its `start` is unknown. The plan
# still has the window, with the column's name and number; numbers of BIGINT columns end with L.
MISSING = "UNRESOLVED_COLUMN.WITH_SUGGESTION"
_NO_WINDOW = r"(?s)with name `((?:session_)?window)`.+?\b(?:session_?)?window\("

# Most of Spark's check has one condition for everything, so that only the words differ.
CHECK = "_LEGACY_ERROR_TEMP_3102"
MODE = "STREAMING_OUTPUT_MODE.UNSUPPORTED_OPERATION"

RULES = (
    Rule(
        MODE,
        "aggregations without watermark",
        "append mode writes a row of an aggregate once it is final, and this one never is: the "
        "aggregate is not grouped by event time with a watermark",
        f"group by `window(ts, '1 minute')`, and {WATERMARK}; or {UPSERT}",
    ),
    Rule(
        MODE,
        "session window",
        "session windows are not supported in update mode: open sessions can still merge",
        f"{APPEND}, with a watermark on the event time",
    ),
    Rule(
        MODE,
        "no streaming aggregations",
        "complete mode writes the whole result of an aggregate in each batch, and the query has no "
        "aggregate",
        "write in append mode",
    ),
    Rule(
        "NON_TIME_WINDOW_NOT_SUPPORTED_IN_STREAMING",
        r"not supported in (\w+)\(",
        "`{0}() OVER (...)` needs all rows of a partition, and a stream is unbounded",
        "for the newest or the largest row of a key: `max_by(struct(...), ts)` with "
        "`GROUP BY id, window(ts, '1 hour')`; for the best n: `max_by(struct(...), price, n)`",
    ),
    Rule(
        CHECK,
        "^Sorting is not supported",
        "a stream is unbounded and cannot be sorted",
        "remove `ORDER BY` or `SORT BY`, and sort when you query the table; for the largest row of "
        "a window: `max_by(struct(...), price)` with `GROUP BY window(ts, '1 minute')`",
    ),
    Rule(
        CHECK,
        "^Limits are not supported",
        "`LIMIT` is not supported in update mode: it takes the first rows of the whole stream",
        "remove `LIMIT`, and limit when you read the topic",
    ),
    Rule(
        CHECK,
        "^Offset is not supported",
        "`OFFSET` is not supported on a stream: its rows have no order",
        "remove `OFFSET`, or filter by a column",
    ),
    Rule(
        CHECK,
        r"^Stream-stream (\w+) join .* without a watermark",
        "a {0} join of two streams emits rows without a match, and without a watermark and a time "
        "bound a match can always still come",
        BOUNDED_JOIN,
    ),
    Rule(
        CHECK,
        r"^(\w+) join between two streaming .* not supported in Update",
        "a {0} join of two streams is not supported in update mode",
        APPEND,
    ),
    Rule(
        CHECK,
        r"^(\w+) joins? with (?:a )?streaming .* static",
        "a {0} join of a stream and a table emits rows of the table without a match in the stream, "
        "and a stream is unbounded: a match can always still come",
        "put the stream on the preserved side: `FROM stream LEFT JOIN table`",
    ),
    Rule(
        CHECK,
        r"^(\w+) joins with a streaming",
        "a {0} join emits rows without a match in a stream, and without a time bound a match can "
        "always still come",
        "`LEFT JOIN` in a time bound, then `WHERE b.id IS NULL`: " + BOUNDED_JOIN,
    ),
    Rule(
        "_LEGACY_ERROR_TEMP_1181",
        "without equality predicate",
        "two streams are joined without an equality condition, so all rows of both would stay in "
        "state",
        "join on at least one `a.x = b.y`",
    ),
    Rule(
        "INVALID_SUBQUERY_EXPRESSION.STREAMING_QUERY",
        "",
        "a stream is used in a subquery (`IN`, `EXISTS`, or a single value), which would have to "
        "be complete before the first row",
        "join the two streams, in a time bound: `FROM a LEFT SEMI JOIN b ON ...`",
    ),
    Rule(
        CHECK,
        "^Distinct aggregations are not supported",
        "`count(DISTINCT ...)` would have to keep every value in state",
        "`approx_count_distinct(x)`, or `size(collect_set(x))` where the values of a group are few",
    ),
    Rule(
        CHECK,
        "'correctness' issue due to global watermark",
        "an aggregate, a join or a deduplication follows another one that emits updates or late "
        "rows, which would be dropped as late",
        "write in append mode, and group every aggregate by a window: `GROUP BY window(w, '1 "
        "hour')` over the window of the inner one; or write the inner result to a topic of its "
        "own, and read that topic in a second query",
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
        "`{0}` needs all rows of a stream, and a stream is unbounded",
        "`LEFT JOIN` in a time bound and a filter: " + BOUNDED_JOIN,
    ),
    Rule(
        CHECK,
        "^Union between streaming and batch",
        "`UNION` of a stream and a table is not supported: the table would be read again in every "
        "batch",
        "load the table once, with a batch query, into the same target",
    ),
    Rule(
        CHECK,
        "^Sampling is not supported",
        "`TABLESAMPLE` is not supported on a stream",
        "filter by a hash of a key: `WHERE pmod(xxhash64(id), 100) < 10`",
    ),
    Rule(
        CHECK,
        r"^Expression\(s\): (\S+)",
        "`{0}` numbers the rows of a batch, and would start again with each batch",
        "use columns of the record",
    ),
    Rule(
        "_LEGACY_ERROR_TEMP_3068",
        "Global aggregation with session window",
        "a session window needs another grouping key: without one, all sessions would be computed "
        "in a single partition",
        "group by a column as well",
    ),
    Rule(
        "_LEGACY_ERROR_TEMP_1039",
        "",
        "two time windows in one `GROUP BY` are not supported: they would multiply every row",
        "write two queries; or a window of a window: `window(w, '1 hour')`",
    ),
    Rule(
        "TABLE_OR_VIEW_NOT_FOUND",
        r"The table or view (.+) cannot be found",
        "the table or view {0} does not exist",
        "a topic is a view under the part of its table's name after the dot; define anything else "
        "with `CREATE TEMPORARY VIEW` before it is used",
    ),
    Rule(
        "TEMP_TABLE_OR_VIEW_ALREADY_EXISTS",
        r"the temporary view (\S+) because",
        "the view {0} already exists: each topic is one, under the part of its table's name after "
        "the dot",
        "give the view another name",
    ),
    Rule(
        MISSING,
        _NO_WINDOW + r"(\w+)#\d+L,",
        "the time column of `{0}(...)`, `{1}`, is BIGINT, and must be TIMESTAMP",
        TIME_OF_WINDOW.replace("{0}", "{1}"),
        reads_plan=True,
    ),
    Rule(
        MISSING,
        _NO_WINDOW + r"'([\w.]+),",
        "the time column of `{0}(...)`, `{1}`, does not exist",
        "name a TIMESTAMP column; the event time of a topic is `event_time`",
        reads_plan=True,
    ),
    Rule(
        MISSING,
        _NO_WINDOW + r"(\w+)#\d+(?:-T\w+)?((?:\.\w+)*),",
        "Spark cannot compute `{0}(...)` of `{1}{2}`, so that `{0}` is not a column",
        "its time column must be TIMESTAMP, and its durations more than 0 and less than a month",
        reads_plan=True,
    ),
    Rule(
        "DATATYPE_MISMATCH.UNEXPECTED_INPUT_TYPE",
        r'"(window|session_window)\(.+ however "([^"]+)" has the type "([^"]+)"',
        "the time column of `{0}(...)`, `{1}`, is {2}, and must be TIMESTAMP",
        TIME_OF_WINDOW.replace("{0}", "{1}"),
    ),
    Rule(
        MISSING,
        r"with name (`.+`) cannot be resolved\. Did you mean one of the following\? \[(.+)\]",
        "the column {0} does not exist",
        "the nearest ones are {1}",
    ),
    Rule(
        "UNRESOLVED_ROUTINE",
        r"Cannot resolve routine (\S+)",
        "the function {0} does not exist",
        "Spark's own are at https://spark.apache.org/docs/latest/api/sql/",
    ),
    Rule(
        "EVENT_TIME_IS_NOT_ON_TIMESTAMP_TYPE",
        r"`([^`]+)` has the invalid type \"([^\"]+)\"",
        "the watermark column `{0}` is {1}, and must be TIMESTAMP",
        "convert it: `WATERMARK timestamp_millis({0}) AS ts DELAY OF INTERVAL 10 SECONDS`",
    ),
)


def explain_refusal(error: PySparkException) -> SparkRefusal:
    """Return what an error of Spark's analysis, check or planner means for who wrote the query."""
    condition = str(error.getCondition() or "")
    words = _words(error)
    for rule in RULES:
        text = str(error) if rule.reads_plan else words
        found = re.search(rule.pattern, text) if rule.condition == condition else None
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


# ---- where


@dataclass(frozen=True, slots=True)
class TextPosition:
    """A character of the text that Spark was given, from 0.

    `view`: whose SELECT that is; empty for the text itself.
    """

    view: str
    index: int


def find_position(error: Exception) -> TextPosition | None:
    """Return where the first thing stands that an error is about; None: Spark does not say."""
    contexts = error.getQueryContext() if isinstance(error, PySparkException) else None
    for each in contexts or ():
        if each.contextType().name == "SQL" and each.startIndex() >= 0:
            view = each.objectName() if each.objectType() == "VIEW" else ""
            return TextPosition(view, each.startIndex())
    return None
