"""What new users have written, or left out, and were answered badly: all of it in one table.

A case is a whole job file, or a change of a valid one. Its answer is one problem: the line, the
key, words of what is wrong, and what to write instead. What needs a server is in
`tests/integration/test_bad_inputs.py`, what needs Spark in `tests/spark/test_refusals.py`.
"""

from dataclasses import dataclass

import pytest
from tests.unit.jobs.texts import VALID, changed, problems

from ashore.topics.loop.job import columns_of

SCHEMA = '"id BIGINT, user STRING, ts BIGINT, country STRING, amount DOUBLE, text STRING"'
BOMB = "\n".join(
    ["a: &a0 [x]"] + [f"b{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 9)]
)


@dataclass(frozen=True, slots=True)
class Case:
    """A bad input and its answer. `change` is of the valid file; else `text` is the whole file."""

    change: tuple[str, str] | None
    line: int
    key: str
    message: str
    instead: str
    text: str = ""
    others: tuple[str, ...] = ()  # keys of further problems that the file really has

    @property
    def file(self) -> str:
        return changed(VALID, self.change) if self.change else self.text


def schema(ddl: str) -> tuple[str, str]:
    return SCHEMA, f'"{ddl}"'


def zone(name: str) -> tuple[str, str]:
    return "timezone: Asia/Shanghai", f"timezone: {name}"


def lake(uri: str) -> tuple[str, str]:
    return "lake: file:///data/lake", f"lake: {uri}"


ZONE, LAKE, DDL = "tables[0].timezone", "lake", "tables[0].schema"
SERVERS = "source.kafka.bootstrap_servers"
IS_DASHED = "job: a\nlake: file:///x\nsource: {kafka: {bootstrap_servers: 'a:1'}}\n"
CASES = {
    # --- zones
    "PST": Case(zone("PST"), 16, ZONE, "'PST' is not", "America/Los_Angeles"),
    "CST": Case(zone("CST"), 16, ZONE, "'CST'", "America/Chicago or Asia/Shanghai"),
    "an abbreviation of nowhere": Case(zone("QQT"), 16, ZONE, "'QQT'", "such as UTC or"),
    "an offset": Case(zone("UTC+8"), 16, ZONE, "'UTC+8'", "Etc/GMT-8"),
    "an offset to the west": Case(zone("'-05:00'"), 16, ZONE, "'-05:00'", "Etc/GMT+5"),
    "an offset of a half hour": Case(zone("'+05:30'"), 16, ZONE, "05:30", "offsets are not zones"),
    "a city": Case(zone("new york"), 16, ZONE, "'new york'", "did you mean `America/New_York`?"),
    # --- lakes
    "s3a": Case(lake("s3a://b/x"), 2, LAKE, "Hadoop's name", "s3://bucket/path"),
    "an unknown scheme": Case(
        lake("ftp://x/y"),
        2,
        LAKE,
        "scheme of this lake",
        "write file:///path, hdfs",
    ),
    "a port of HDFS": Case(lake("hdfs://nn:99999/x"), 2, LAKE, "no port 99999", "write the port"),
    # --- servers
    "port 99999": Case(("1:9092", "1:99999"), 5, SERVERS, "no port 99999", "write the port"),
    "port 0": Case(("1:9092", "1:0"), 5, SERVERS, "there is no port 0", "write the port"),
    "the second port": Case(
        ("127.0.0.1:9092", "a:9092,b:65536"), 5, SERVERS, "no port 65536", "write the port"
    ),
    "no port": Case(
        ("127.0.0.1:9092", "kafka"), 5, SERVERS, "not a list of host:port", "kafka:9092"
    ),
    "a metastore's port": Case(
        ("catalog: none", 'catalog: {hive: {uri: "thrift://h:99999"}}'),
        25,
        "catalog.hive.uri",
        "no port 99999",
        "write the port",
    ),
    # --- partitions
    "day": Case(
        ("[date, hour]", "[day]"),
        15,
        "tables[0].partition_by[0]",
        "nor one of `date`, `hour`, `minute`",
        "did you mean `date`?",
    ),
    "dt": Case(
        ("[date, hour]", "[dt]"), 15, "tables[0].partition_by[0]", "'dt'", "did you mean `date`?"
    ),
    "a partition that is nowhere": Case(
        ("[date, hour]", "[qqq]"), 15, "tables[0].partition_by[0]", "'qqq'", "hour, minute, or a"
    ),
    "a partition of a DOUBLE": Case(
        ("[date, hour]", "[date, amount]"),
        15,
        "tables[0].partition_by[1]",
        "amount is DOUBLE, ",
        "STRING, BOOLEAN, DATE, integer or DECIMAL",
    ),
    "partitions of all columns": Case(
        ("[date, hour]", "[id, user, ts, country, amount, text]"),
        15,
        "tables[0].partition_by",
        "would have none",
        "remove a column",
        others=("tables[0].partition_by[4]",),
    ),
    "a transform of a directory": Case(
        ("[date, hour]", '[date, "bucket(4, id)"]'),
        15,
        "tables[0].partition_by[1]",
        "bucket(4, id) is a transform",
        "add format: iceberg",
    ),
    "a transform without quotes": Case(
        ("[date, hour]", "[date, bucket(4, id)]"),
        15,
        "tables[0].partition_by[1]",
        "'bucket(4' is not one of",
        'in quotes: "bucket(16, id)"',
        others=("tables[0].partition_by[2]",),
    ),
    # --- schemas
    "a map that JSON does not have": Case(
        schema("id BIGINT, ts BIGINT, s STRUCT<m: MAP<INT, STRING>>"),
        13,
        DDL,
        "a map in JSON has STRING keys, and s is STRUCT<m: MAP<INT, STRING>>",
        "write MAP<STRING, ...>",
    ),
    "text that is a number": Case(
        None,
        5,
        DDL,
        "decode: text gives STRING, and line is BIGINT",
        'write schema: "line STRING"',
        text=IS_DASHED
        + "tables: [{topic: t, table: a.t, partition_by: [],\n"
        + '  decode: text, schema: "line BIGINT"}]\n',
    ),
    "a time without a zone in ORC": Case(
        None,
        5,
        DDL,
        "cannot read TIMESTAMP_NTZ from ORC",
        "write TIMESTAMP, or format: parquet",
        text=IS_DASHED
        + "tables: [{topic: t, table: a.t, format: orc,\n"
        + '  schema: "id INT, at TIMESTAMP_NTZ, s STRUCT<TIMESTAMP_NTZ: INT>"}]\n',
    ),
    "VARCHAR": Case(
        schema("id BIGINT, c VARCHAR(2), ts BIGINT"),
        13,
        DDL,
        "(at character 14: 'VARCHAR(2), ts BIGINT')",
        "write STRING",
    ),
    "a mistyped type": Case(
        schema("id BIGGINT, ts BIGINT"),
        13,
        DDL,
        "(at character 4: 'BIGGINT, ts BIGINT')",
        "did you mean `BIGINT`?",
    ),
    "a type of another database": Case(
        schema("id UUID, ts BIGINT"), 13, DDL, "'UUID' is not a type", "write STRING"
    ),
    "a type that is none": Case(
        schema("id QQQ, ts BIGINT"), 13, DDL, "'QQQ' is not a type", "the types are BOOLEAN, "
    ),
    "an empty schema": Case(
        schema(""), 13, DDL, "must not be empty", 'write schema: "id BIGINT, user STRING'
    ),
    # --- event times
    "a text as event time": Case(
        schema("id BIGINT, ts STRING"),
        14,
        "tables[0].event_time.column",
        "ts is STRING, and event_time does not say how it is written",
        "add format: iso8601, ",
    ),
    "a field whose struct is not named": Case(
        schema("id BIGINT, meta STRUCT<producer: STRUCT<ts: BIGINT>>"),
        14,
        "tables[0].event_time.column",
        "'ts' is not",
        "did you mean `meta.producer.ts`?",
    ),
    "a struct as event time": Case(
        schema("ts STRUCT<ms: BIGINT>"),
        14,
        "tables[0].event_time.column",
        "ts is STRUCT<ms: BIGINT>, which is not a time",
        "name one of ts.ms",
    ),
    "a format of a number": Case(
        ("{column: ts, unit: ms}", "{column: ts, format: iso8601}"),
        14,
        "tables[0].event_time.format",
        "and ts is BIGINT",
        "remove it",
    ),
    "a format that is none": Case(
        ("{column: ts, unit: ms}", "{column: user, format: yyyy-MM-ddTHH}"),
        14,
        "tables[0].event_time.format",
        "'T' is not supported",
        "write iso8601, ",
    ),
    "a list as event time": Case(
        schema("id BIGINT, ts ARRAY<INT>"),
        14,
        "tables[0].event_time.column",
        "ts is ARRAY<INT>, which is not a time",
        "name one of id",
    ),
    # --- the file as a whole
    "a YAML bomb": Case(None, 6, "", "too many values", "write the values where", text=BOMB),
    "base": Case(
        ("job: clicks", "base: clicks"),
        1,
        "base",
        "'base' is not",
        "known keys: job, labels, lake",
        others=("job",),
    ),
    "no source": Case(
        None,
        1,
        "source",
        "required",
        'add source: {kafka: {bootstrap_servers: "127.0.0.1:9092"}}',
        text="job: a\nlake: file:///x\n",
        others=("tables",),
    ),
    "no tables": Case(
        None,
        1,
        "tables",
        "required",
        "add tables: [{topic: clicks, table: ods.clicks, schema: ",
        text="job: a\nlake: file:///x\n",
        others=("source",),
    ),
    "an item without its dash": Case(
        None,
        4,
        "tables",
        "expected a list, got a mapping",
        "with a dash: `- topic: ...`",
        text=f"{IS_DASHED}tables:\n  topic: a\n  table: b.c\n",
    ),
    "tables by name": Case(
        None,
        4,
        "tables",
        "expected a list, got a mapping",
        "write tables: [{topic: clicks, ",
        text=f"{IS_DASHED}tables:\n  clicks: {{topic: a}}\n",
    ),
    "interval: 0s": Case(
        ("interval: 10s", "interval: 0s"),
        26,
        "batch.interval",
        "must be more than 0",
        "write interval: 10s",
    ),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_a_bad_input_is_answered_once_with_its_line_and_what_to_write(case: Case) -> None:
    found = problems(case.file, columns_of)
    answer = [each for each in found if each["key"] == case.key]
    assert [each["line"] for each in answer] == [case.line]
    assert case.message in str(answer[0]["message"])
    assert case.instead in str(answer[0]["instead"])
    assert sorted(str(each["key"]) for each in found if each not in answer) == sorted(case.others)
    assert " at position " not in str(answer[0]["message"])  # one place a problem
