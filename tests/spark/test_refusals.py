"""Each refusal of Spark's streaming: its real error in our words, and that the advice runs."""

import logging
import os
import re
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, Row, SparkSession
from tests.spark.streams import make_views

from ashore.errors import JobFileInvalid, QueryRefused
from ashore.queries.spark.internals.reading import check_streaming
from ashore.queries.spark.internals.refusals import RULES, SparkRefusal, explain_refusal
from ashore.queries.spark.sql.assembly import refine
from ashore.tables.ddl import parse_ddl
from ashore.topics.loop.worker import ends_worker
from ashore.topics.run.spark.session import LOUD
from ashore.topics.write.batch import LandingSpec, LateRule, OutputSpec

BOUND = "ON a.id = b.id AND b.seen BETWEEN a.ts AND a.ts + INTERVAL 1 HOUR"
MINUTES = "(SELECT country, window(ts, '1 minute') AS w, count(*) AS n FROM clicks GROUP BY 1, 2)"
WINDOW_OF_MILLIS = (
    "SELECT window.start, count(*) FROM plain WATERMARK timestamp_millis(id) AS t "
    "DELAY OF INTERVAL 10 SECONDS GROUP BY window(t, '1 minute')"
)


@dataclass(frozen=True, slots=True)
class Case:
    """A query that is refused, words of ours, and a query that the hint leads to."""

    query: str
    words: str
    instead: str
    mode: str = "append"
    instead_mode: str = "append"


CASES = [
    Case(
        "SELECT country, count(*) FROM plain GROUP BY country",
        "not grouped by event time with a watermark",
        "SELECT country, count(*) FROM plain WATERMARK ts DELAY OF INTERVAL 10 SECONDS "
        "GROUP BY country, window(ts, '1 minute')",
    ),
    Case(
        "SELECT country, count(*) FROM clicks GROUP BY country",
        "not grouped by event time",
        "SELECT country, count(*) FROM clicks GROUP BY country",
        instead_mode="update",
    ),
    Case(
        "SELECT DISTINCT id FROM plain",
        "not grouped by event time",
        "SELECT DISTINCT id, ts FROM clicks",
    ),
    Case(
        "SELECT country, session_window(ts, '1 minute') AS s, count(*) FROM clicks GROUP BY 1, 2",
        "session windows are not supported in update mode",
        "SELECT country, session_window(ts, '1 minute') AS s, count(*) FROM clicks GROUP BY 1, 2",
        mode="update",
    ),
    Case(
        "SELECT * FROM clicks",
        "the query has no aggregate",
        "SELECT * FROM clicks",
        mode="complete",
    ),
    Case(
        "SELECT * FROM (SELECT *, row_number() OVER (PARTITION BY id ORDER BY ts DESC) AS place "
        "FROM clicks) WHERE place = 1",
        "`ROW_NUMBER() OVER (...)` needs all rows",
        "SELECT id, max_by(struct(country, amount), ts) FROM clicks "
        "GROUP BY id, window(ts, '1 hour')",
    ),
    Case(
        "SELECT id, sum(amount) OVER (PARTITION BY id ORDER BY ts) FROM clicks",
        "`SUM() OVER (...)`",
        "SELECT id, max_by(struct(ts, amount), amount, 10) FROM clicks "
        "GROUP BY id, window(ts, '1 hour')",
    ),
    Case(
        "SELECT * FROM clicks ORDER BY ts",
        "a stream is unbounded and cannot be sorted",
        "SELECT * FROM clicks",
    ),
    Case(
        "SELECT max(amount) AS m, window(ts, '1 minute') AS w FROM clicks GROUP BY w "
        "ORDER BY m LIMIT 1",
        "cannot be sorted",
        "SELECT window(ts, '1 minute') AS w, max_by(struct(id, country), amount) FROM clicks "
        "GROUP BY w",
    ),
    Case(
        "SELECT * FROM clicks LIMIT 3",
        "it takes the first rows of the whole stream",
        "SELECT * FROM clicks",
        mode="update",
        instead_mode="update",
    ),
    Case(
        "SELECT * FROM clicks OFFSET 3",
        "its rows have no order",
        "SELECT * FROM clicks WHERE id > 3",
    ),
    Case(
        "SELECT a.id FROM plain a LEFT JOIN other b ON a.id = b.id",
        "a left outer join of two streams emits rows without a match",
        f"SELECT a.id FROM clicks a LEFT JOIN views b {BOUND}",
    ),
    Case(
        "SELECT a.id FROM clicks a FULL JOIN views b ON a.id = b.id",
        "a full outer join of two streams",
        f"SELECT a.id FROM clicks a FULL JOIN views b {BOUND}",
    ),
    Case(
        f"SELECT a.id FROM clicks a LEFT JOIN views b {BOUND}",
        "a left outer join of two streams is not supported in update mode",
        f"SELECT a.id FROM clicks a LEFT JOIN views b {BOUND}",
        mode="update",
    ),
    Case(
        "SELECT c.name FROM countries c LEFT JOIN clicks a ON c.code = a.country",
        "a left outer join of a stream and a table",
        "SELECT c.name FROM clicks a LEFT JOIN countries c ON c.code = a.country",
    ),
    Case(
        "SELECT a.id FROM clicks a RIGHT JOIN countries c ON c.code = a.country",
        "a right outer join of a stream and a table",
        "SELECT a.id FROM clicks a LEFT JOIN countries c ON c.code = a.country",
    ),
    Case(
        "SELECT a.id FROM clicks a FULL JOIN countries c ON c.code = a.country",
        "a full outer join of a stream and a table",
        "SELECT a.id FROM clicks a LEFT JOIN countries c ON c.code = a.country",
    ),
    Case(
        "SELECT c.name FROM countries c LEFT SEMI JOIN clicks a ON c.code = a.country",
        "a left semi join of a stream and a table",
        "SELECT a.id FROM clicks a LEFT SEMI JOIN countries c ON c.code = a.country",
    ),
    Case(
        "SELECT a.id FROM clicks a LEFT ANTI JOIN views b ON a.id = b.id",
        "a left anti join emits rows without a match in a stream",
        f"SELECT a.id FROM clicks a LEFT JOIN views b {BOUND} WHERE b.id IS NULL",
    ),
    Case(
        "SELECT a.id FROM clicks a CROSS JOIN views b",
        "two streams are joined without an equality",
        f"SELECT a.id FROM clicks a JOIN views b {BOUND}",
    ),
    Case(
        "SELECT * FROM clicks WHERE id IN (SELECT id FROM views)",
        "a stream is used in a subquery",
        f"SELECT a.id FROM clicks a LEFT SEMI JOIN views b {BOUND}",
    ),
    Case(
        "SELECT * FROM clicks WHERE amount > (SELECT max(id) FROM views)",
        "a stream is used in a subquery",
        f"SELECT a.id FROM clicks a LEFT SEMI JOIN views b {BOUND}",
    ),
    Case(
        "SELECT window(ts, '1 minute') AS w, count(DISTINCT id) FROM clicks GROUP BY w",
        "`count(DISTINCT ...)` would have to keep every value",
        "SELECT window(ts, '1 minute') AS w, approx_count_distinct(id), size(collect_set(id)) "
        "FROM clicks GROUP BY w",
    ),
    Case(
        f"SELECT window(w, '1 hour') AS h, sum(n) FROM {MINUTES} GROUP BY h",
        "follows another one",
        f"SELECT window(w, '1 hour') AS h, sum(n) FROM {MINUTES} GROUP BY h",
        mode="update",
    ),
    Case(
        "SELECT n, count(*) FROM (SELECT country, count(*) AS n FROM clicks GROUP BY country) "
        "GROUP BY n",
        "follows another one",
        f"SELECT window(w, '1 hour') AS h, sum(n) FROM {MINUTES} GROUP BY h",
        mode="update",
    ),
    Case(
        "SELECT id FROM clicks EXCEPT SELECT id FROM views",
        "`Except` needs all rows of a stream",
        f"SELECT a.id FROM clicks a LEFT JOIN views b {BOUND} WHERE b.id IS NULL",
    ),
    Case(
        "SELECT id FROM clicks INTERSECT SELECT id FROM views",
        "`Intersect` needs all rows of a stream",
        f"SELECT a.id FROM clicks a LEFT JOIN views b {BOUND} WHERE b.id IS NOT NULL",
    ),
    Case(
        "SELECT country FROM clicks UNION ALL SELECT code FROM countries",
        "`UNION` of a stream and a table is not supported",
        "SELECT country FROM clicks",
    ),
    Case(
        "SELECT * FROM clicks TABLESAMPLE (10 PERCENT)",
        "`TABLESAMPLE` is not supported on a stream",
        "SELECT * FROM clicks WHERE pmod(xxhash64(id), 100) < 10",
    ),
    Case(
        "SELECT id, monotonically_increasing_id() FROM clicks",
        "`monotonically_increasing_id()` numbers the rows of a batch",
        "SELECT id FROM clicks",
    ),
    Case(
        "SELECT session_window(ts, '1 minute') AS s, count(*) FROM clicks GROUP BY s",
        "a session window needs another grouping key",
        "SELECT country, session_window(ts, '1 minute') AS s, count(*) FROM clicks GROUP BY 1, 2",
    ),
    Case(
        "SELECT count(*) FROM clicks GROUP BY window(ts, '1 minute'), window(ts, '1 hour')",
        "two time windows in one `GROUP BY`",
        f"SELECT window(w, '1 hour') AS h, sum(n) FROM {MINUTES} GROUP BY h",
    ),
    Case(
        "SELECT * FROM nowhere",
        "the table or view `nowhere` does not exist",
        "SELECT * FROM clicks",
    ),
    Case(
        "SELECT * FROM ods.clicks",
        "the table or view `ods`.`clicks` does not exist",
        "SELECT * FROM clicks",
    ),
    Case(
        "SELECT nope FROM clicks",
        "the column `nope` does not exist",
        "SELECT amount FROM clicks",
    ),
    Case(
        "SELECT foo(id) FROM clicks",
        "the function `foo` does not exist",
        "SELECT abs(id) FROM clicks",
    ),
    Case(
        "CREATE TEMPORARY VIEW clicks AS SELECT 1",
        "the view `clicks` already exists",
        "SELECT * FROM clicks",
    ),
    Case(
        "SELECT * FROM plain WATERMARK id DELAY OF INTERVAL 10 SECONDS",
        "the watermark column `id` is BIGINT",
        "SELECT * FROM plain WATERMARK timestamp_millis(id) AS t DELAY OF INTERVAL 10 SECONDS",
    ),
    Case(
        "SELECT window.start, count(*) FROM clicks GROUP BY window(id, '1 minute')",
        "the time column of `window(...)`, `id`, is BIGINT, and must be TIMESTAMP",
        WINDOW_OF_MILLIS,
    ),
    Case(
        "SELECT session_window.start, count(*) FROM clicks c GROUP BY country, "
        "session_window(c.id, '1 minute')",
        "the time column of `session_window(...)`, `id`, is BIGINT",
        "SELECT session_window.start, count(*) FROM clicks GROUP BY country, "
        "session_window(ts, '1 minute')",
    ),
    Case(
        "SELECT count(*) FROM clicks GROUP BY window(id, '1 minute')",
        "the time column of `window(...)`, `id`, is BIGINT",
        WINDOW_OF_MILLIS,
    ),
    Case(
        "SELECT window.end, count(*) FROM clicks GROUP BY window(tss, '1 minute')",
        "the time column of `window(...)`, `tss`, does not exist",
        "SELECT window.end, count(*) FROM clicks GROUP BY window(ts, '1 minute')",
    ),
    Case(
        "SELECT window.start, count(*) FROM (SELECT struct(id AS t) AS meta FROM clicks) "
        "GROUP BY window(meta.t, '1 minute')",
        "Spark cannot compute `window(...)` of `meta.t`",
        WINDOW_OF_MILLIS,
    ),
    Case(
        "SELECT window.start, count(*) FROM clicks GROUP BY window(ts, '0 minutes')",
        "Spark cannot compute `window(...)` of `ts`",
        "SELECT window.start, count(*) FROM clicks GROUP BY window(ts, '1 minute')",
    ),
]


@pytest.fixture(scope="module")
def views(spark: SparkSession) -> SparkSession:
    make_views(spark)
    return spark


def refusal(spark: SparkSession, query: str, mode: str) -> SparkRefusal:
    with pytest.raises(PySparkException) as caught:
        check_streaming(spark.sql(query), mode)
    return explain_refusal(caught.value)


@pytest.mark.thirds
@pytest.mark.parametrize("case", CASES, ids=range(len(CASES)))
def test_a_refusal_is_a_sentence_and_advice_that_runs(views: SparkSession, case: Case) -> None:
    found = refusal(views, case.query, case.mode)
    assert found.is_known, found
    assert case.words in found.sentence
    assert found.hint
    assert "{" not in found.sentence + found.hint
    check_streaming(views.sql(case.instead), case.instead_mode)


def test_deduplication_within_a_watermark_needs_one(views: SparkSession) -> None:
    with pytest.raises(PySparkException) as caught:
        check_streaming(views.table("plain").dropDuplicatesWithinWatermark(["id"]), "append")
    assert "needs one" in explain_refusal(caught.value).sentence
    check_streaming(views.table("clicks").dropDuplicatesWithinWatermark(["id"]), "append")


def test_every_rule_is_tried(views: SparkSession) -> None:
    """A rule that no real error meets would be a guess about Spark."""
    found = {refusal(views, case.query, case.mode).sentence for case in CASES}
    patterns = [re.sub(r"\\\{\d\\\}", ".+", re.escape(rule.sentence)) for rule in RULES]
    untried = [each for each in patterns if not any(re.fullmatch(each, one) for one in found)]
    assert [each.replace("\\", "") for each in untried] == [
        "deduplication within the watermark needs one"  # SQL has no words for it
    ]


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ("SELECT id.nope FROM clicks", "Can't extract a value"),
        ("SELEC", "Syntax error at or near 'SELEC'"),
        ("SELECT count(*) FROM clicks GROUP BY window(ts, '1 x')", "x"),
        ("SELECT count(*) FROM clicks GROUP BY window(ts, '1 month')", "greater than a month"),
    ],
)
def test_other_errors_keep_the_words_of_spark(views: SparkSession, query: str, words: str) -> None:
    found = refusal(views, query, "append")
    assert not found.is_known
    assert words in found.sentence
    assert found.hint == ""
    assert not re.search(r"^\[|SQLSTATE|\n", found.sentence)


def test_the_start_of_a_query_refuses_the_same(views: SparkSession, tmp_path: Path) -> None:
    """What is explained is what a query's own start raises, not only what the check says."""
    writer = views.sql("SELECT * FROM clicks ORDER BY ts").writeStream.format("noop")
    with pytest.raises(PySparkException) as caught:
        writer.option("checkpointLocation", str(tmp_path)).start()
    assert "cannot be sorted" in explain_refusal(caught.value).sentence


def test_no_stack_trace_is_written_beside_the_sentence(
    views: SparkSession, capfd: pytest.CaptureFixture[str]
) -> None:
    over = next(case for case in CASES if "OVER" in case.query)
    refusal(views, over.query, over.mode)
    assert "org.apache.spark" not in capfd.readouterr().err
    assert not any(logging.getLogger(name).isEnabledFor(logging.ERROR) for name in LOUD)


# --- what Spark lets through ---------------------------------------------------------------------


def test_an_aggregate_that_is_never_final_is_refused(views: SparkSession) -> None:
    """Spark looks at the first aggregate alone, and fails the first batch for another one."""
    query = f"SELECT country, n FROM {MINUTES} UNION ALL SELECT country, count(*) FROM clicks "
    with pytest.raises(QueryRefused, match="none ever is") as caught:
        check_streaming(views.sql(query + "GROUP BY country"), "append")
    assert "`aggregate by country`" in caught.value.message
    check_streaming(views.sql(query + "GROUP BY country, window(ts, '1 hour')"), "append")


LIVES = "(SELECT id, ts, timestamp_millis(id) AS expires FROM clicks) a"
EARLY, SILENT, FINE = "while they can still match", "never does", ""


@pytest.mark.parametrize(
    ("join", "bound", "words"),
    [
        ("{a} JOIN views b", "b.seen BETWEEN a.ts AND a.expires", EARLY),
        ("views b JOIN {a}", "b.seen BETWEEN a.ts AND a.expires", EARLY),
        ("{a} LEFT JOIN views b", "b.seen < a.expires AND b.seen > a.ts", EARLY),
        ("{a} LEFT SEMI JOIN views b", "b.seen BETWEEN a.ts AND a.expires", EARLY),
        ("{a} LEFT JOIN views b", "b.seen <= a.expires", SILENT),
        (
            "{a} FULL JOIN views b",
            "b.seen BETWEEN a.expires - INTERVAL 1 DAY AND a.expires",
            SILENT,
        ),
        ("{a} JOIN views b", "b.seen <= a.expires", FINE),
        ("{a} JOIN views b", "b.seen BETWEEN a.ts AND a.ts + INTERVAL 1 HOUR", FINE),
        ("{a} LEFT JOIN views b", "b.seen BETWEEN a.ts AND a.ts + INTERVAL 1 HOUR", FINE),
        ("{a} RIGHT JOIN views b", "b.seen >= a.ts", FINE),
        ("{a} LEFT JOIN views b", "b.seen = a.ts", FINE),
        (
            "{a} FULL JOIN views b",
            "b.seen BETWEEN a.ts AND a.expires AND b.seen <= a.ts + INTERVAL 1 HOUR",
            FINE,
        ),
    ],
)
def test_a_join_that_would_lose_rows_is_refused(
    views: SparkSession, join: str, bound: str, words: str
) -> None:
    frame = views.sql(f"SELECT a.id FROM {join.format(a=LIVES)} ON a.id = b.id AND {bound}")
    if words == FINE:
        check_streaming(frame, "append")
        return
    with pytest.raises(QueryRefused, match=words) as caught:
        check_streaming(frame, "append")
    assert words == SILENT or "clicks.ts" in caught.value.message


def test_spark_really_loses_rows_of_such_a_join(spark: SparkSession, tmp_path: Path) -> None:
    """Once this test fails, Spark has mended it: then the refusal can go."""
    seconds = [("auctions", 0, 1_000), ("auctions", 500, 501), ("auctions", 501, 502)]
    seconds += [("bids", 0, 0), ("bids", 500, 0), ("bids", 600, 0)]
    for number, (folder, at, until) in enumerate(seconds):
        place = tmp_path / folder
        place.mkdir(exist_ok=True)
        record = f'{{"id": {at if at == 500 else 1}, "at": {at}, "until": {until}}}'
        (place / f"{number}.json").write_text(record, "utf-8")
        os.utime(place / f"{number}.json", (number, number))  # the order in which they are read
    query = (
        "SELECT a.id, b.ts FROM {0} a JOIN {1} b ON a.id = b.id "
        "WHERE b.ts BETWEEN a.ts AND a.expires"
    )

    def views_of(read: Callable[[str], DataFrame]) -> DataFrame:
        for folder in ("auctions", "bids"):
            times = ("id", "timestamp_seconds(at) AS ts", "timestamp_seconds(until) AS expires")
            frame = read(str(tmp_path / folder)).selectExpr(*times).withWatermark("ts", "1 second")
            frame.createOrReplaceTempView(folder)
        return spark.sql(query.format("auctions", "bids"))

    schema = "id BIGINT, at BIGINT, until BIGINT"
    stream = spark.readStream.schema(schema).option("maxFilesPerTrigger", 1)
    found: list[Row] = []
    started = views_of(stream.json).writeStream.foreachBatch(
        lambda frame, _: found.extend(frame.collect())
    )
    started.option("checkpointLocation", str(tmp_path / "checkpoint")).trigger(
        availableNow=True
    ).start().awaitTermination()
    right = views_of(spark.read.schema(schema).json).collect()
    assert len(right) > len(set(found))
    assert set(found) < set(right)


# --- `select` and `where` of a table that topics fill


COLUMNS = "id BIGINT, tags ARRAY<STRING>"


def expressions(**changes: object) -> LandingSpec:
    output = OutputSpec(
        table="ods.events",
        schema=COLUMNS,
        partition_by=(),
        timezone="UTC",
        event_column=None,
        event_unit="ms",
        format="parquet",
        roll_bytes=1_000,
    )
    late = LateRule(1_000, "drop", 1_000, 1_000)
    spec = LandingSpec(output, "json", late, "drop", provenance=True, decode_schema=COLUMNS)
    return replace(spec, **changes)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"where": "sum(id) > 1"}, "sum"),
        ({"where": "row_number() OVER (ORDER BY id) = 1"}, "window"),
        ({"where": "explode(tags) = 'a'"}, "generator"),
        ({"where": "id"}, "BIGINT"),
        ({"where": "nope = 1"}, "nope"),
        ({"where": "id >"}, "Syntax error"),
        ({"select": ("sum(id) AS total",)}, "sum"),
        ({"select": ("row_number() OVER (ORDER BY id) AS n",)}, "window"),
        ({"select": ("explode(tags) AS tag",)}, "generator"),
        ({"select": ("id", "nope")}, "nope"),
        ({"select": ("nope + id",)}, "nope"),
    ],
)
def test_an_expression_is_over_one_record(
    spark: SparkSession, changes: dict[str, object], words: str
) -> None:
    with pytest.raises(JobFileInvalid, match="is not valid") as caught:
        refine(spark, expressions(**changes))
    assert caught.value.fields["part"] == ("where",) or "select" in changes
    if words == "nope":
        assert "column `nope` does not" in caught.value.message
        assert caught.value.hint == "the nearest ones are `id`, `tags`"
    assert words.casefold() in caught.value.message.casefold()
    assert "\n" not in caught.value.message
    assert "LocalRelation" not in caught.value.message
    assert ends_worker(caught.value)  # another try would not help


def test_expressions_that_run(spark: SparkSession) -> None:
    select = ("*", "id % 2 AS parity", "tags[0] AS tag")
    refined = refine(spark, expressions(select=select, where="id % 10 <> 3 AND size(tags) > 0"))
    assert [field.name for field in parse_ddl(refined.output.schema).fields] == [
        *("id", "tags", "parity", "tag")
    ]


# --- a Spark that does not start


def test_a_master_that_spark_does_not_know_is_reported_in_a_sentence() -> None:
    """A process of its own: a session that could not start leaves its JVM behind."""
    program = (
        "from ashore.topics.run.spark.session import start_session\n"
        "try:\n    start_session('x', 'own://nowhere', {}, [])\n"
        "except Exception as error:\n    print(repr(error)); print(error.message, error.exit_code)"
    )
    run = [sys.executable, "-c", program]
    reported = subprocess.run(run, capture_output=True, text=True, check=True, timeout=120).stdout
    assert reported.startswith("SparkNotStarted")
    assert "own://nowhere" in reported.splitlines()[1]
    assert reported.splitlines()[1].endswith("7")
    assert "\tat " not in reported
