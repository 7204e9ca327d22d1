"""The JSON Schema of the job file against the loader, by a validator that knows neither.

What the loader accepts the schema accepts, whatever is done to a file. The other way round it holds
for what a schema can say: unknown and missing keys, kinds of values, choices, forms of names.
"""

import fastjsonschema
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.examples import examples
from tests.unit.jobs.test_mutations import VALUES, mutate, written
from tests.unit.jobs.texts import EXAMPLE, SMALL, VALID, first_words

from ashore.errors import JobFileInvalid
from ashore.jobs.file import parse_job
from ashore.jobs.file.document import read_document
from ashore.jobs.file.json_schema import job_schema
from ashore.jobs.file.load import _TEXT_MAPPINGS

ACCEPTS = fastjsonschema.compile(job_schema())


def is_accepted(text: str) -> bool:
    """Whether an editor shows nothing. Values are as YAML 1.2 reads them, as in the loader."""
    try:
        ACCEPTS(read_document(text, _TEXT_MAPPINGS).data)
    except fastjsonschema.JsonSchemaValueException:
        return False
    return True


def problems_of(text: str) -> list[str]:
    environment = {"HOME": "/home7", "X": "file:///x"}
    try:
        parse_job(text, path="f", check_schema=first_words, environment=environment)
    except JobFileInvalid as error:
        return [str(each["message"]) for each in error.fields["problems"]]  # type: ignore[attr-defined]
    return []


GOOD = {
    "example": EXAMPLE,
    "valid": VALID,
    "small": SMALL,
    "no spark": SMALL + "spark: none\n",
    "sql text": SMALL + "  - table: ods.big\nsql: SELECT 1\n",
    "tables in SQL": SMALL.partition("tables:")[0]
    + "sql: CREATE TABLE ods.a (id BIGINT); SELECT 1\n",
    "sql mapping": SMALL
    + "sql: {file: a.sql, producer: {linger.ms: 50}, topics: [{topic: t, on_error: null}]}\n",
    "variables": SMALL.replace("file:///data/lake", "${X}/lake"),
    "numbers as options": SMALL.replace('9092"}}', '9092", options: {fetch.max.bytes: 5}}}'),
    "starts": SMALL.replace(
        '"}}', '"}, first_start: {clicks: {timestamp: 1700000000000}, /b/: latest}}'
    ),
    "yaml's timestamp": SMALL.replace(
        '"}}', '"}, first_start: {default: {timestamp: 2026-11-21T08:00:00Z}}}'
    ),
    "an expression": SMALL.replace("topic: clicks", "topic: /cl.*/").replace(
        "ods.clicks", '"ods.{topic}"'
    ),
    "hive": SMALL + "catalog: {hive: {uri: 'thrift://h:1', strategy: seal}}\n",
    "merge keys": SMALL.replace("job: clicks", "job: clicks\nbatch: &b {interval: 5s}"),
}
BAD = {
    "unknown key": SMALL + "nope: 1\n",
    "unknown key below": SMALL + "batch: {nope: 1}\n",
    "no job": SMALL.replace("job: clicks\n", ""),
    "no tables": SMALL.partition("tables:")[0],
    "empty tables": SMALL.partition("tables:")[0] + "tables: []\n",
    "tables as a mapping": SMALL.partition("tables:")[0] + "tables: {topic: a, table: b.c}\n",
    "a number": SMALL + "grace: 10\n",
    "a bare number as text": SMALL + "grace: '10'\n",
    "a wrong unit": SMALL + "grace: 10sec\n",
    "a size": SMALL + "batch: {max_bytes: 10s}\n",
    "a choice": SMALL + "durability: closed\n",
    "a negative count": SMALL + "batch: {max_records: -1}\n",
    "a fraction": SMALL + "batch: {max_records: 1.5}\n",
    "a truth": SMALL.replace("schema:", "provenance: yes\n    schema:"),
    "twice": SMALL.replace("schema:", "partition_by: [date, date]\n    schema:"),
    "an empty schema": SMALL.replace("id BIGINT, ts BIGINT", " "),
    "a table without database": SMALL.replace("ods.clicks", "clicks"),
    "a job's name": SMALL.replace("job: clicks", "job: _clicks"),
    "servers": SMALL.replace("127.0.0.1:9092", "kafka"),
    "an option that is ours": SMALL.replace('9092"}}', '9092", options: {group.id: x}}}'),
    "an option of the producer": SMALL + "sql: {text: SELECT 1, producer: {qqq: 1}}\n",
    "a lake": SMALL.replace("file:///data/lake", "/data/lake"),
    "a lake of Hadoop": SMALL.replace("file:///data/lake", "s3a://b/x"),
    "a start": SMALL.replace('"}}', '"}, first_start: {a: newest}}'),
    "a start's key": SMALL.replace('"}}', '"}, first_start: {a: {time: 1}}}'),
    "a catalog": SMALL + "catalog: hive\n",
    "no spark": SMALL + "spark: null\n",
    "a master": SMALL + "spark: {master: my cluster}\n",
    "a topic": SMALL.replace("topic: clicks", "topic: 'my topic'"),
    "an address": SMALL.replace("schema:", "seal: {http: 'scheduler:80'}\n    schema:"),
    "dead letters of SQL": SMALL
    + "sql: {text: SELECT 1, topics: [{topic: t, on_error: dead_letter}]}\n",
}


@pytest.mark.parametrize("text", GOOD.values(), ids=GOOD)
def test_what_loads_is_accepted(text: str) -> None:
    assert problems_of(text) == []
    assert is_accepted(text)


@pytest.mark.parametrize("text", BAD.values(), ids=BAD)
def test_what_a_schema_can_say_is_refused_by_both(text: str) -> None:
    assert problems_of(text)
    assert not is_accepted(text)


@pytest.mark.slow
@settings(max_examples=examples(300), deadline=None)
@given(st.data())
def test_a_mutated_file_that_loads_is_accepted(data: st.DataObject) -> None:
    text = written(mutate(data, 2, st.one_of(LIKELY, VALUES)))
    if not problems_of(text):
        assert is_accepted(text)


# What stands somewhere in a job file: many a file loads with one of it elsewhere.
LIKELY = st.sampled_from(
    [
        *(None, "none", "null", "fail", "5s", " 1.5h ", "1GiB", 7, True, "a", "/a/", "x.y"),
        *("hdfs://n/a", "${HOME}/x", "SELECT 1", [], ["date"], ["id", "user"]),
        *({}, {"hive": None}, {"master": "yarn"}),
    ]
)


@settings(max_examples=examples(200), deadline=None)
@given(st.sampled_from([*GOOD.values()]), st.sampled_from(["nope", "Job", "tables.x", "$schema"]))
def test_an_unknown_key_is_refused_by_both(text: str, key: str) -> None:
    broken = f"{text}{key}: 1\n"
    assert problems_of(broken)
    assert not is_accepted(broken)
