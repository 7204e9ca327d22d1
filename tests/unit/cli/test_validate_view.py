"""What the queries of a job look like on a screen."""

import json
from collections.abc import Iterator
from typing import Self

import pytest

from ashore.cli.validate_view import show_validate
from ashore.jobs.events import Event, decode_event

OPERATOR = {
    "operator_id": 0,
    "kind": "aggregate",
    "name": "aggregate by country",
    "keys": ["country"],
    "state_columns": [{"name": "count(*)", "type": "bigint"}],
    "state_partitions": 32,
    "is_bounded": None,
}
COMMON = {
    "columns": "`country` string",
    "checkpoint": "file:///lake/here",
    "sources": [{"name": "clicks", "format": "kafka", "reads": "clicks", "is_streaming": True}],
}
TABLE = {
    "table": "ods.big",
    "partition_by": [],
    "guarantee": "exactly once",
    "slice": "ods__big",
    **COMMON,
    "operators": [],
}
TOPIC = {
    "topic": "counts",
    "mode": "upsert",
    "key": ["minute", "country"],
    "guarantee": "at least once",
    "slice": "topic__counts",
    **COMMON,
    "operators": [OPERATOR],
    "warnings": ["`uuid()` has another value"],
}


class Ended:
    """A job process that has told of its queries, as it writes them."""

    def __init__(self, *queries: object) -> None:
        self._event = decode_event({"event": "validated", "queries": list(queries)})

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """There is nothing to let go of."""

    def events(self) -> Iterator[Event]:
        assert self._event is not None
        yield self._event

    def wait(self) -> int:
        return 0


def test_tables_and_topics_are_reported_apart_with_what_is_promised(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert show_validate(Ended(TABLE, TOPIC), as_json=False) == 0
    lines = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]
    assert any(line.startswith("ods.big ") and line.endswith(" ods__big") for line in lines)
    assert "guarantee exactly once" in lines
    assert any(line.startswith("topic counts ") for line in lines)
    assert any(line.startswith("mode upsert, key minute, ") for line in lines)
    assert "guarantee at least once" in lines
    assert lines.count("clicks clicks yes") == 2
    assert lines.count("warning `uuid()` has another value") == 1
    assert "no state" in lines
    assert any("aggregate by country country count(*) " in line for line in lines)


def test_as_json_it_is_what_the_job_process_reported(capsys: pytest.CaptureFixture[str]) -> None:
    assert show_validate(Ended(TABLE, TOPIC), as_json=True) == 0
    out = capsys.readouterr().out
    assert out == json.dumps({"queries": [TABLE, TOPIC]}, indent=2) + "\n"
