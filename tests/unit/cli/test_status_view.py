"""What `ashore status` prints of a job with many topic partitions."""

import io
from collections.abc import Callable
from dataclasses import replace

import pytest
from rich.console import Console
from tests.unit.proof.lakes import make_lake

from ashore.cli import status as status_view
from ashore.proof.status.recent import EntryStatus
from ashore.proof.status.status import JobStatus, read_status


def status_with(lags: list[int | None]) -> JobStatus:
    status = read_status(make_lake().opened())
    [part] = status.slices
    shards = tuple(
        replace(part.shards[0], shard=str(number), lag=lag) for number, lag in enumerate(lags)
    )
    return replace(status, slices=(replace(part, shards=shards),))


@pytest.fixture
def show(monkeypatch: pytest.MonkeyPatch) -> Callable[[JobStatus], list[str]]:
    def shown(status: JobStatus) -> list[str]:
        out = io.StringIO()
        console = Console(file=out, width=200, highlight=False)
        monkeypatch.setattr(status_view, "out", console)
        monkeypatch.setattr("ashore.cli.output.out", console)
        status_view.show(status)
        return [line.strip() for line in out.getvalue().splitlines()]

    return shown


def test_the_partitions_with_the_most_lag_are_listed(show) -> None:
    lines = show(status_with(list(range(1_000))))
    rows = [line.split()[0] for line in lines if line.startswith("clicks/")]
    assert rows == [f"clicks/{number}" for number in range(999, 979, -1)]
    (rest,) = (line for line in lines if line.startswith("980 more "))
    assert f", lag {sum(range(980)):,}; --json" in rest


def test_a_lag_that_is_not_known_is_not_taken_for_none(show) -> None:
    lines = show(status_with([5, *[None] * 24]))
    rows = [line.split()[0] for line in lines if line.startswith("clicks/")]
    assert rows == [f"clicks/{number}" for number in range(20)]
    (rest,) = (line for line in lines if line.startswith("5 more "))
    assert "lag not known" in rest


def test_few_partitions_are_all_listed_by_name(show) -> None:
    lines = show(status_with(list(range(20))))
    rows = [line.split()[0] for line in lines if line.startswith("clicks/")]
    assert rows == [f"clicks/{number}" for number in range(20)]
    assert not any("more topic partitions" in line for line in lines)
    assert len(status_with([1] * 25).to_dict()["slices"][0]["shards"]) == 25


def test_tables_in_a_table_format_have_their_last_snapshot(show) -> None:
    status = status_with([0])
    [part] = status.slices
    entry = EntryStatus(12, "prepare", 3_000)
    tables = (
        replace(part.tables[0], table="a", snapshot_id=7, format="iceberg", snapshot=entry),
        replace(part.tables[0], table="b", snapshot_id=7, format="delta"),
        replace(part.tables[0], table="c"),
    )
    lines = show(replace(status, slices=(replace(part, tables=tables),)))
    assert "a: snapshot 7, by entry 12 (prepare, 3.0 s ago)" in lines
    assert "b: version 8 or later, by an older entry" in lines
    assert not any(line.startswith("c:") for line in lines)
