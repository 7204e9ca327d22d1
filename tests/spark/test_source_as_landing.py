"""The source `ashore` and a landing job over the same records: the same rows, the same reasons.

The records are those of the page that shows how `from_json` differs, in all types.
"""

from collections.abc import Iterator, Mapping
from typing import NamedTuple

import pyarrow.parquet as pq
import pytest
from tests.spark.ashore_source import read_batch
from tests.spark.site import Site
from tests.spark.test_json_as_spark import RECORDS, VALUES

from ashore.tables.ddl import parse_ddl
from ashore.topics.decode.arrow_types import to_arrow


class Case(NamedTuple):
    """A schema of one column, how it is decoded, and records."""

    schema: str
    decode: str
    values: list[bytes | None]


def cases() -> Iterator[Case]:
    for kind, values in VALUES.items():
        yield Case(f"v {kind}", "json", [f'{{"v":{value}}}'.encode() for value in values])
    odd: list[bytes | None] = [each.encode() for each in RECORDS]
    yield Case("v BIGINT NOT NULL", "json", [*odd, None, b"\xff", b'{"u": 1}'])
    yield Case("v STRING", "text", [b"a", b"", b"\xff", None])
    yield Case("v BINARY", "bytes", [b"a", b"", b"\xff", None])


CASES = list(cases())


def landed(site: Site, table: str, columns: list[str]) -> dict[int, object]:
    """Return a column of a table by the offset of its record, as its files have it."""
    found: dict[int, object] = {}
    for path in site.files(table):
        rows = pq.read_table(path, partitioning=None).select(columns).to_pylist()
        for row in rows:
            offset, value = (row[name] for name in columns)
            assert offset not in found
            found[offset] = value
    return found


def source_options(site: Site, topic: str, case: Case, reader: str) -> Mapping[str, str]:
    return {
        "kafka.bootstrap.servers": site.servers,
        "subscribe": topic,
        "schema": case.schema,
        "decode": case.decode,
        "columns": "offset, value, decoded, reason",
        "reader": reader,
    }


@pytest.fixture
def topics(site: Site) -> list[str]:
    """Fill a topic for each case, and land all of them in one job."""
    names = [site.topic() for _ in CASES]
    tables = []
    for number, (name, case) in enumerate(zip(names, CASES, strict=True)):
        site.produce(name, case.values)
        tables.append(
            {
                "topic": name,
                "table": f"ods.case{number}",
                "schema": case.schema,
                "decode": case.decode,
                "partition_by": [],
                "provenance": True,
            }
        )
    site.writer(site.job_file(*tables)).drain()
    return names


def test_rows_and_reasons_are_those_of_landing(site: Site, topics: list[str]) -> None:
    for number, (topic, case) in enumerate(zip(topics, CASES, strict=True)):
        expected = landed(site, f"ods.case{number}", ["kafka_offset", "v"])
        reasons = landed(site, f"ods.case{number}__dead", ["offset", "reason"])
        values = landed(site, f"ods.case{number}__dead", ["offset", "value"])
        frame = read_batch(site.spark, dict(source_options(site, topic, case, "auto")))
        table = frame.toArrow()
        rows = table.to_pylist()
        found = {row["offset"]: row["decoded"]["v"] for row in rows if row["decoded"]}
        # repr: not-a-number is not equal to itself, -0.0 is equal to 0.0.
        assert repr(sorted(found.items())) == repr(sorted(expected.items())), case.schema
        dead = [row for row in rows if row["reason"] is not None]
        assert {row["offset"]: row["reason"] for row in dead} == reasons, case.schema
        assert {row["offset"]: row["value"] for row in dead} == values, case.schema
        assert len(rows) == len(case.values)
        kind = to_arrow(parse_ddl(case.schema)).field("v").type
        assert table.schema.field("decoded").type.field("v").type == kind, case.schema


def test_the_reader_without_the_native_module_makes_the_same_rows(
    site: Site, topics: list[str]
) -> None:
    case, topic = CASES[-3], topics[-3]
    native, python = (
        read_batch(site.spark, dict(source_options(site, topic, case, reader))).collect()
        for reader in ("native", "python")
    )
    assert native == python
