"""What the queries of a job look like on a screen."""

from collections.abc import Iterator
from typing import Self

import pytest

from ashore.cli.validate_view import show_validate
from ashore.jobs.events import Validated

COMMON = {
    "columns": "`country` string",
    "checkpoint": "file:///lake/here",
    "sources": [{"name": "clicks", "reads": "clicks", "is_streaming": True}],
    "operators": [],
}
TABLE = {"table": "ods.big", "slice": "ods__big", "guarantee": "each row once", **COMMON}
TOPIC = {
    "topic": "counts",
    "slice": "topic__counts",
    "mode": "upsert",
    "key": ["minute", "country"],
    "guarantee": "each row at least once",
    **COMMON,
}


class Ended:
    """A job process that has told of its queries."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """There is nothing to let go of."""

    def events(self) -> Iterator[Validated]:
        yield Validated([TABLE, TOPIC])

    def wait(self) -> int:
        return 0


def test_tables_and_topics_are_told_apart_with_what_is_promised(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert show_validate(Ended(), as_json=False) == 0
    lines = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]
    assert "ods.big is fed by slice ods__big" in lines
    assert "guarantee each row once" in lines
    assert "topic counts is written by slice topic__counts" in lines
    assert "mode upsert, key minute, country" in lines
    assert "guarantee each row at least once" in lines
