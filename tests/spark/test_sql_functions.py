"""Functions of a job's own: in views and queries, on executors, and part of what a query means."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.spark.site import Site
from tests.spark.sql_jobs import PER_MINUTE_TABLE, clicks, encode, read_only, run, sql_job

from ashore.errors import JobFileInvalid, QueryRefused
from ashore.log.progress import Quiet
from ashore.queries.spark.sql.functions import read_functions
from ashore.queries.spark.sql.validate import describe_queries

PYTHON = """
import pyarrow.compute as pc
from pyspark.sql.functions import arrow_udf, udf

SUFFIX = "!"

def louder(texts):
    return pc.binary_join_element_wise(pc.utf8_upper(texts), SUFFIX, "")

@arrow_udf("STRING")
def shout(texts):
    return louder(texts)  # a whole batch

@udf("BIGINT", useArrow=True)
def twice(number):
    return 2 * number
"""
SQL = """
    CREATE TEMPORARY FUNCTION home(code STRING) RETURNS STRING RETURN concat('at ', lower(code));
    CREATE TEMPORARY VIEW loud AS SELECT id, shout(country) AS country, event_time FROM clicks;
    INSERT INTO ods.per_minute
    SELECT window.start AS minute, home(country) AS country, twice(count(*)) AS clicks
    FROM loud GROUP BY window(event_time, '1 minute'), country;
    INSERT INTO ods.plain SELECT id, home(country) AS home FROM clicks;
"""
PLAIN = {"table": "ods.plain", "partition_by": []}


def job_of(site: Site, topic: str, python: str, sql: str = SQL) -> Path:
    (site.directory / "own.py").write_text(python, "utf-8")
    path = sql_job(site, sql, read_only(topic), PER_MINUTE_TABLE, PLAIN)
    content = json.loads(path.read_text("utf-8"))
    content["sql"]["functions"] = "own.py"
    path.write_text(json.dumps(content, indent=1), "utf-8")
    return path


def rows(site: Site) -> set[tuple[str, int]]:
    frame = site.read("ods.per_minute").groupBy("country").sum("clicks")
    return {(country, clicks) for country, clicks in frame.collect()}


def test_functions_of_sql_and_of_python_are_called_and_may_not_change_below_state(
    site: Site,
) -> None:
    topic = site.topic(1)
    site.produce(topic, encode(clicks(0, 100)))
    run(site, job_of(site, topic, PYTHON))
    assert rows(site) == {("at de!", 80), ("at cn!", 40)}  # one minute of 60, each twice
    homes = {row.home for row in site.read("ods.plain").collect()}
    assert homes == {"at de", "at cn"}

    site.produce(topic, encode(clicks(100, 100)))
    run(site, job_of(site, topic, PYTHON.replace("  # a whole batch", "") + "\n# the end\n"))
    assert rows(site) == {("at de!", 240), ("at cn!", 120)}

    other = job_of(site, topic, PYTHON.replace('"!"', '"?"'))
    with pytest.raises(QueryRefused, match="Python functions have"):
        describe_queries(site.writer(other).job)


class UntilWarned(Quiet):
    """A progress that stops the job at the first warning."""

    def __init__(self) -> None:
        self.warning = ""
        self.stop: Callable[[], None]

    def warn(self, slice_name: str, message: str) -> None:
        self.warning = self.warning or message
        self.stop()


def test_what_a_function_raises_is_why_the_query_has_failed(site: Site) -> None:
    topic = site.topic(1)
    site.produce(topic, encode(clicks(0, 3)))
    python = PYTHON.replace("return louder(texts)", 'raise ValueError("no sail")')
    watched = UntilWarned()
    loop = site.writer(job_of(site, topic, python), watched).job.loop(until_drained=False)
    watched.stop = loop.stop
    loop.run()
    assert watched.warning.endswith("ods__per_minute failed in Spark: ValueError: no sail")


@pytest.mark.parametrize(
    ("python", "sql", "error", "words"),
    [
        (
            PYTHON.replace("def twice", "def upper"),
            SQL,
            JobFileInvalid,
            "upper has the name of a built-in",
        ),
        (PYTHON, SQL.replace("shout(", "shuot("), QueryRefused, "shuot"),
        (PYTHON, SQL.replace("TEMPORARY FUNCTION", "FUNCTION"), QueryRefused, "not a temporary"),
        (
            PYTHON,
            "CREATE TEMPORARY FUNCTION x AS 'a.B';" + SQL,
            QueryRefused,
            "a Java function",
        ),
    ],
)
def test_what_is_no_function_of_a_job_is_refused(
    site: Site, python: str, sql: str, error: type[Exception], words: str
) -> None:
    topic = site.topic(1)
    with pytest.raises(error, match=words):
        run(site, job_of(site, topic, python, sql))


GOOD = '''
"""What clicks are called."""
from pyspark.sql.functions import arrow_udf, udf

@arrow_udf("STRING")
def shout(text):
    return text  # as it is

@udf("INT", useArrow=True)
def Length(text):
    return len(text)

def _helper(text):
    return "# no comment"
'''


@pytest.mark.usefixtures("spark")
def test_functions_are_those_that_pyspark_has_made() -> None:
    assert read_functions(GOOD, "f.py").names == {"shout", "length"}


@pytest.mark.usefixtures("spark")
@pytest.mark.parametrize(
    ("old", "new", "is_same"),
    [
        ("  # as it is", "", True),
        ("\n\n", "\n# more\n\n\n", True),
        ("return len(text)", "return len(text) + 1", False),
        ('"# no comment"', '"# other"', False),
        ('"STRING"', '"BINARY"', False),
    ],
)
def test_the_digest_changes_with_the_code(old: str, new: str, is_same: bool) -> None:
    assert old in GOOD
    before, after = read_functions(GOOD, "f.py"), read_functions(GOOD.replace(old, new), "f.py")
    assert (before.digest == after.digest) is is_same


@pytest.mark.usefixtures("spark")
@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("x = 1\n", "f.py defines no function"),
        ("x = 1\nx = )\n", "f.py:2: the functions cannot be loaded: "),
        ("import sys\nimport no_such_package\n", "f.py:2: the functions cannot be loaded: Module"),
        ("def f():\n  return 1 / 0\n\nf()\n", "f.py:2: the functions cannot be loaded: ZeroDiv"),
        (GOOD.replace("useArrow=True", "useArrow=False"), "length is not Arrow-optimized"),
        ("x = '''\n", "f.py:"),
    ],
)
def test_what_cannot_be_loaded_is_told_with_its_line(source: str, words: str) -> None:
    with pytest.raises(JobFileInvalid) as refused:
        read_functions(source, "f.py")
    assert words in refused.value.message
    assert refused.value.hint
