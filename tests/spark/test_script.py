"""Statements that are none of a job's, in words of who wrote them."""

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from tests.spark.streams import make_views

from ashore.errors import QueryRefused
from ashore.jobs.file.source_text import Scalar, WrittenText, written_file
from ashore.queries.spark.internals.reading import check_streaming
from ashore.queries.spark.internals.refusals import explain_refusal
from ashore.queries.spark.sql.script import Script, parse_script, select, select_by_settings

SPREAD = "SELECT floor(rand() * 4) AS r, ts, count(*) FROM clicks GROUP BY floor(rand() * 4), ts"
FOREIGN = [
    ("", "no statement"),
    (" -- INSERT INTO t SELECT 1\n /* and more */ ;", "no statement"),
    ("BEGIN INSERT INTO t SELECT 1; END", "`BEGIN ... END`"),
    ("INSERT INTO t SELECT 1; BEGIN INSERT INTO t SELECT 1; END;", "`BEGIN ... END`"),
    ("IF 1 = 1 THEN SELECT 1; END IF;", "a program"),
    (
        "SELECT 1;\nCREATE TABLE t (id INT) WITH ('connector' = 'kafka');",
        "job.sql:2:1: `CREATE",
    ),
    (
        "INSERT INTO t\n  SELECT TUMBLE_START(ts), 'TUMBLE (' FROM b GROUP BY TUMBLE (ts, 1)",
        "job.sql:2:55: `TUMBLE`",
    ),
    ("INSERT INTO t SELECT * FROM TABLE(HOP(TABLE b, DESCRIPTOR(ts)))", "job.sql:1:35: `HOP`"),
]


@pytest.mark.parametrize(("text", "words"), FOREIGN, ids=range(len(FOREIGN)))
def test_what_is_no_part_of_a_job_is_reported_in_words(
    spark: SparkSession, text: str, words: str
) -> None:
    with pytest.raises(QueryRefused) as refused:
        parse_script(spark, written_file(text, "job.sql"))
    assert words in refused.value.message
    assert refused.value.message.startswith("job.sql:")
    assert refused.value.hint


UNPARSED = """INSERT INTO a SELEC x FROM t; -- ;
INSERT INTO b SELECT ';' AS x FROM t;
INSERT INTO c SELECT (x FROM t;
INSERT OVERWRITE d SELECT 1
"""


def test_all_statements_that_cannot_be_parsed_are_named(spark: SparkSession) -> None:
    with pytest.raises(QueryRefused) as refused:
        parse_script(spark, written_file(UNPARSED, "job.sql"))
    places = [each["line"] for each in refused.value.fields["refusals"]]
    assert places == [1, 3]
    assert refused.value.fields["line"] == 1
    assert "the SQL has 2 problems:\njob.sql:1:" in refused.value.message
    assert "\njob.sql:3:" in refused.value.message


def test_all_statements_that_are_none_of_a_job_are_named(spark: SparkSession) -> None:
    text = "INSERT OVERWRITE a SELECT 1;\nINSERT INTO b SELECT 2;\nSELECT 3;"
    with pytest.raises(QueryRefused) as refused:
        parse_script(spark, written_file(text, "job.sql"))
    assert [each["line"] for each in refused.value.fields["refusals"]] == [1, 3]


def test_a_quote_that_is_not_closed_is_one_problem(spark: SparkSession) -> None:
    text = "INSERT INTO a SELECT 'x FROM t;\nINSERT INTO b SELECT 2;"
    with pytest.raises(QueryRefused) as refused:
        parse_script(spark, written_file(text, "job.sql"))
    assert "refusals" not in refused.value.fields


def test_a_literal_may_say_what_a_statement_may_not(spark: SparkSession) -> None:
    text = "INSERT INTO t SELECT 'CREATE TABLE HOP(' AS x FROM a -- TUMBLE("
    script = parse_script(spark, written_file(text, "job.sql"))
    assert len(script.inserts) == 1


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("SELECT * FROM clicks LIMIT 3", "`LIMIT` takes the first rows"),
        (SPREAD, "when a batch is run again"),
        ("SELECT DISTINCT uuid() AS u, ts FROM clicks", "when a batch is run again"),
    ],
)
def test_what_would_run_and_not_rightly_is_refused(
    spark: SparkSession, text: str, words: str
) -> None:
    make_views(spark)
    with pytest.raises(QueryRefused, match=words):
        check_streaming(spark.sql(text), "append")


# --- where what Spark complains of stands


JOB = """\
job: one
sql: |
    -- \U0001f642 takes two units of UTF-16, and is one character
    CREATE TEMPORARY VIEW german AS /* \U0001f642 */
      SELECT id, ts, {in_view} AS x FROM clicks;

    INSERT INTO t SELECT '\U0001f642' AS face, id
      FROM clicks WHERE {in_insert};
"""
BODY = JOB[JOB.index("|") :]
FINE = {"in_view": "country", "in_insert": "id > 1"}


def written(**parts: str) -> WrittenText:
    """The SQL of JOB, as a job file gives it."""
    raw = BODY.format(**{**FINE, **parts})
    text = "".join(line[4:] or line for line in raw.splitlines(keepends=True)[1:])
    return WrittenText(text, "job.yaml", Scalar(raw, 2, 6, "|"))


def where(of: WrittenText, part: str) -> str:
    """Return where `part` stands in JOB."""
    before = "job: one\nsql: " + of.scalar.raw[: of.scalar.raw.index(part)]
    return f"job.yaml:{before.count(chr(10)) + 1}:{len(before) - before.rfind(chr(10))}"


def found(spark: SparkSession, script: Script) -> tuple[str, str]:
    """Make views and INSERT; return where the error stands, and what it says."""
    statement, session = script.inserts[0], spark.newSession()
    make_views(session)
    try:
        for statement in script.views:
            session.sql(script.in_its_place(statement))
        statement = script.inserts[0]
        for make in (select_by_settings, select):
            check_streaming(make(session, script, statement), "append")
    except PySparkException as error:
        return str(script.find(error, statement)), explain_refusal(error).sentence
    return "", ""


WRONG = ["nope", "foo(id)", "sum(id, 2)", "id + array(1)", "clicks.id.deep"]


@pytest.mark.parametrize("part", WRONG)
@pytest.mark.parametrize("place", ["in_view", "in_insert"])
def test_an_error_of_analysis_stands_where_the_file_has_it(
    spark: SparkSession, part: str, place: str
) -> None:
    sql = written(**{place: part if place == "in_view" else f"({part}) IS NULL"})
    at, sentence = found(spark, parse_script(spark, sql))
    assert at == where(sql, part), sentence
    assert "\n" not in sentence
    assert "line " not in sentence


def test_statements_are_cut_by_characters(spark: SparkSession) -> None:
    sql = written()
    script = parse_script(spark, sql)
    assert found(spark, script) == ("", "")
    (view,), (insert,) = script.views, script.inserts
    assert view.text.startswith("CREATE TEMPORARY VIEW")
    assert view.text.endswith("FROM clicks")
    assert sql.text[view.query_start :].startswith("SELECT id, ts")
    assert insert.text.endswith("id > 1")
    assert sql.text[insert.start :].startswith("INSERT INTO t")


def test_an_error_without_a_place_is_that_of_its_statement(spark: SparkSession) -> None:
    sql = written(in_view="first(ts)", in_insert="id > 1 GROUP BY country")
    assert found(spark, parse_script(spark, sql))[0] == where(sql, "SELECT id, ts")
    sql = written(in_insert="id > 1 GROUP BY country")
    assert found(spark, parse_script(spark, sql))[0] == where(sql, "INSERT INTO t")


def test_a_syntax_error_stands_where_the_file_has_it(spark: SparkSession) -> None:
    for part in ("id id id", "* FROM", "CAST(id AS NOTYPE)"):
        with pytest.raises(QueryRefused) as refused:
            parse_script(spark, written(in_insert=f"id > {part}"))
        place, _, words = refused.value.message.partition(": ")
        assert place.startswith("job.yaml:8:"), words
        assert "\n" not in words
        assert "BEGIN" not in words


def test_a_row_stands_where_the_file_has_what_computes_it(spark: SparkSession) -> None:
    """Of a view Spark counts within its SELECT."""
    sql = written()
    script = parse_script(spark, sql)
    at = script.locate("", 7, 8, script.inserts[0])  # BEGIN is the script's first line
    assert str(at) == where(sql, "clicks WHERE")
    of_view = script.locate("german", 1, 8, script.inserts[0])
    assert str(of_view) == where(sql, "id, ts")
    assert str(script.locate("", 0, 0, script.inserts[0])) == where(sql, "INSERT INTO t")
    assert str(script.locate("other", 1, 1, script.inserts[0])) == where(sql, "INSERT INTO t")


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ("SELECT * FROM nowhere", "the table or view `nowhere` does not exist"),
        ("SELECT * FROM read_files('x')", "Could not resolve `read_files`"),
        ("SELECT foo(id) FROM clicks", "the function `foo` does not exist"),
        ("CREATE TEMPORARY VIEW clicks AS SELECT 1", "the view `clicks` already exists"),
        ("SELECT date_trunc(id) FROM clicks", "requires 2 parameters but the actual number is 1."),
    ],
)
def test_no_advice_is_given_that_a_job_cannot_follow(
    spark: SparkSession, query: str, words: str
) -> None:
    make_views(spark)
    with pytest.raises(PySparkException) as caught:
        spark.sql(query)
    reported = explain_refusal(caught.value)
    assert words in reported.sentence
    for alien in ("DROP", "Search path", "search path", "schema and catalog", "Please", "  "):
        assert alien not in reported.sentence + reported.hint
