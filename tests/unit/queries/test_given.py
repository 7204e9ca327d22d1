"""Where the time of a given record is written: at the event time of its table, as in topics."""

import json
from dataclasses import replace

import pytest
from tests.specs import landing

from ashore.errors import JobFileInvalid
from ashore.jobs.file.cases import GivenRecord
from ashore.queries.spark.sql.case_source import _value

DDL = "id BIGINT, w TIMESTAMP, meta STRUCT<ms: BIGINT, at: STRING>"
AT_MS = 1_795_248_000_000


def written(value: object, column: str, **event: str) -> object:
    spec = replace(landing(schema=DDL, event_column=column, **event), decode_schema=DDL)
    record = GivenRecord(value=value, at="2026-11-21T08:00:00Z")  # type: ignore[arg-type]
    return json.loads(_value(record, spec, AT_MS) or b"null")


def test_a_time_is_written_where_the_record_has_none() -> None:
    assert written({"id": 1}, "id") == {"id": 1}
    assert written({}, "id", event_unit="s") == {"id": AT_MS // 1000}
    assert written({}, "w") == {"w": "2026-11-21T08:00:00+00:00"}
    assert written({"meta": {"at": "x"}}, "meta.ms") == {"meta": {"at": "x", "ms": AT_MS}}
    assert written({"meta": {"ms": 5}}, "meta.ms") == {"meta": {"ms": 5}}
    iso = written({"meta": None}, "meta.at", event_format="iso8601")
    assert iso == {"meta": {"at": "2026-11-21T08:00:00+00:00"}}


@pytest.mark.parametrize(("column", "pattern"), [("meta.at", "yyyy-MM-dd"), ("made", "")])
def test_a_time_that_cannot_be_written_is_refused(column: str, pattern: str) -> None:
    with pytest.raises(JobFileInvalid, match=f"cannot be written to {column}"):
        written({}, column, event_format=pattern)
