"""State copied for Spark to read: what is taken, and what is refused before Spark is started."""

from pathlib import Path
from typing import Any

import pytest
from tests.checkpoint_files import list_paths, opened, unpack

from ashore.base.clock import SystemClock
from ashore.errors import AshoreError, CheckpointUnfit, JobFileInvalid
from ashore.jobs.requests import RowsRequest, read_request, write_request
from ashore.queries.state.layout import OperatorFile, parse_path
from ashore.queries.state.layout.paths import StatePath, TablePath
from ashore.queries.tools import state_rows
from ashore.queries.tools.state_rows import Prepared, RowsOptions, choose_batches, prepare


def prepared(checkpoint: Path, scratch: Path, **asked: Any) -> Prepared:
    scratch.mkdir()
    return prepare(
        opened(checkpoint), RowsOptions(str(checkpoint), **asked), scratch, lambda _done, _all: None
    )


def contents(root: Path) -> dict[str, tuple[bytes, int]]:
    return {
        each: ((root / each).read_bytes(), (root / each).stat().st_mtime_ns)
        for each in list_paths(root)
    }


@pytest.mark.parametrize("case", ["rocksdb-changelog", "hdfs-backed", "format-2", "join-3"])
def test_a_copy_has_what_one_batch_needs_and_the_original_stays(tmp_path: Path, case: str) -> None:
    checkpoint = unpack(case, tmp_path)
    before = contents(checkpoint)
    found = prepared(checkpoint, tmp_path / "scratch", batch=7)
    assert contents(checkpoint) == before
    copy = tmp_path / "scratch" / "now"
    assert found.request.now.checkpoint.uri == copy.as_uri()
    assert found.request.state_format == (2 if case == "format-2" else 1)
    versions = {
        each.version for each in map(parse_path, list_paths(copy)) if isinstance(each, StatePath)
    }
    assert max(versions) == 8
    assert not list((copy / "sources").glob("*"))
    for path in copy.glob("state/*/_metadata/v2/*"):
        says = OperatorFile.parse(path.read_bytes(), "")
        assert all(str(copy) in schema for store in says.stores for schema in store.schemas)
    assert read_request(RowsRequest, write_request(found.request)) == found.request


def test_checksums_of_a_local_disk_come_along(tmp_path: Path) -> None:
    prepared(unpack("hdfs-backed", tmp_path), tmp_path / "scratch", batch=2)
    copy = tmp_path / "scratch" / "now"
    assert (copy / "state/0/0/3.snapshot").exists()
    assert (copy / "state/0/0/.3.snapshot.crc").exists()


def test_only_what_is_wanted_is_copied(tmp_path: Path) -> None:
    prepared(unpack("rocksdb", tmp_path), tmp_path / "scratch", partition=0)
    found = [parse_path(each) for each in list_paths(tmp_path / "scratch" / "now")]
    partitions = {each.store.partition for each in found if isinstance(each, StatePath | TablePath)}
    assert partitions == {0}


def test_two_batches_are_copied_beside_each_other(tmp_path: Path) -> None:
    found = prepared(unpack("rocksdb", tmp_path), tmp_path / "scratch", batch=7, before=3)
    assert found.request.before is not None
    assert (found.request.now.batch, found.request.before.batch) == (7, 3)
    assert {each.name for each in (tmp_path / "scratch").iterdir()} == {"now", "before"}


REFUSED: list[tuple[str, dict[str, Any], type[AshoreError], str]] = [
    ("rocksdb", {"batch": 99}, CheckpointUnfit, "has batches 0 to 11, not batch 99"),
    ("rocksdb", {"batch": 5, "before": 77}, CheckpointUnfit, "not batch 77"),
    ("rocksdb", {"partition": 2}, CheckpointUnfit, "has no partition 2"),
    ("rocksdb", {"operator": "7"}, CheckpointUnfit, "has no operator 7"),
    ("stateless", {}, CheckpointUnfit, "has no state"),
    ("rocksdb", {"to": "rows.csv"}, JobFileInvalid, "rows.csv is neither"),
    ("rocksdb", {"to": "/nowhere/at/all/rows.parquet"}, JobFileInvalid, "does not exist"),
    ("join-2", {"to": "rows.parquet"}, JobFileInvalid, "has 2 tables of state"),
]


@pytest.mark.parametrize(("case", "asked", "kind", "message"), REFUSED)
def test_what_cannot_be_shown_is_refused(
    tmp_path: Path, case: str, asked: dict[str, Any], kind: type[AshoreError], message: str
) -> None:
    with pytest.raises(kind, match=message) as caught:
        prepared(unpack(case, tmp_path), tmp_path / "scratch", **asked)
    assert caught.value.hint


def test_a_file_that_is_there_is_not_written_over(tmp_path: Path) -> None:
    there = tmp_path / "rows.parquet"
    there.write_text("mine")
    with pytest.raises(JobFileInvalid, match="already exists"):
        prepared(unpack("rocksdb", tmp_path), tmp_path / "scratch", to=str(there))


@pytest.mark.parametrize(
    ("path", "data"),
    [
        ("state/0/1/3.delta", None),
        ("offsets/3", b"v9\n{}\n-"),
        ("commits/3", b"v9\n{}"),
        ("state/0/_metadata/metadata", b"v7\n{}"),
        ("state/0/0/_metadata/schema", b"\x00\x02v9"),
        ("state/0/0/_metadata/schema", b"not a schema"),
    ],
)
def test_a_file_that_is_missing_or_of_another_release_is_named(
    tmp_path: Path, path: str, data: bytes | None
) -> None:
    checkpoint = unpack("hdfs-backed", tmp_path)
    damaged = checkpoint / path
    for snapshot in checkpoint.glob("state/0/*/3.snapshot"):
        snapshot.unlink()
    if data is None:
        damaged.unlink()
    else:
        damaged.write_bytes(data)
    with pytest.raises(CheckpointUnfit) as caught:
        prepared(checkpoint, tmp_path / "scratch", batch=3)
    assert str(damaged) in caught.value.message


def test_a_running_query_that_deletes_files_gives_a_newer_batch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    checkpoint = unpack("rocksdb", tmp_path)
    log, away = checkpoint / "commits" / "11", tmp_path / "11"
    log.rename(away)
    extract, tries = state_rows.extract, list[int]()

    def clean_once(survey: Any, *arguments: Any) -> None:
        tries.append(survey.required.batch)
        if len(tries) == 1:
            for path in checkpoint.glob("state/0/1/11.*"):
                path.unlink()
            away.rename(log)
        extract(survey, *arguments)

    monkeypatch.setattr(state_rows, "extract", clean_once)
    found = prepared(checkpoint, tmp_path / "scratch")
    assert tries == [10, 11]
    assert found.request.now.batch == 11


def test_the_last_two_batches_are_compared_unless_others_are_named(tmp_path: Path) -> None:
    where, clock = str(unpack("rocksdb", tmp_path)), SystemClock()
    assert choose_batches(where, None, (None, None), clock) == (10, 11)
    assert choose_batches(where, None, (3, None), clock) == (3, 11)
    assert choose_batches(where, None, (None, 4), clock) == (3, 4)
    with pytest.raises(JobFileInvalid, match="batch 5 is not before"):
        choose_batches(where, None, (5, 5), clock)
    with pytest.raises(CheckpointUnfit, match="finished batch before 0"):
        choose_batches(where, None, (None, 0), clock)


def test_a_place_without_a_checkpoint_is_none(tmp_path: Path) -> None:
    with pytest.raises(CheckpointUnfit, match="not a checkpoint"):
        choose_batches(str(tmp_path), None, (None, None), SystemClock())
