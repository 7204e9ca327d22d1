"""`ashore trace`: a file of a lake on disk, from its entry to its seals, and what is not known."""

import json
from pathlib import Path

import pytest
from tests.unit.proof.lakes import TABLE, Lake, fill
from typer.testing import CliRunner

from ashore.base.clock import SystemClock
from ashore.cli.app import app
from ashore.log.entries import Commit, Retire, RetiredPartition, Seal, SealedPartition
from ashore.log.fold import Action
from ashore.storage.open import open_storage


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    made = Lake()
    made.storage = open_storage(f"file://{tmp_path}", deadline_s=30, clock=SystemClock())  # type: ignore[assignment]
    made.source.create("clicks", 2)
    made.open()
    made.join(0, 1)
    fill(made.source, "clicks", 1, 10)
    return made


def trace(path: Path, *options: str) -> str:
    found = CliRunner().invoke(app, ["trace", str(path), *options])
    assert found.exit_code == 0, found.output
    return found.stdout


def test_a_file_is_followed_from_its_offsets_to_its_seal_and_its_end(
    tmp_path: Path, lake: Lake
) -> None:
    entry = lake.land({lake.key(1): (0, 10)})
    path = lake.final(entry)
    partition = "/".join(path.split("/")[2:-1])
    assert "no later entry" in trace(tmp_path / path)
    closed = lake.append(Commit("idle"))
    sealed = SealedPartition(TABLE, partition, 1, 10, 10, 0)
    seal = lake.append(Seal((sealed,), (Action.SUCCESS_FILE,), ()))
    retired = lake.append(Retire((RetiredPartition(TABLE, partition),), "ann", "it is old"))
    found = json.loads(trace(tmp_path / path, "--json"))
    assert [(each["entry"], each["kind"]) for each in found["steps"]] == [
        (entry.number, "prepared"),
        (closed.number, "moved"),
        (seal.number, "sealed"),
        (retired.number, "retired"),
    ]
    assert found["ranges"] == [
        {"topic": "clicks", "partition": "1", "start": 0, "end": 9, "rows": 5}  # of two files
    ]
    assert (found["table"], found["slice"], found["rows"]) == (TABLE, "main", 5)
    assert found["there"] == "final"
    (tmp_path / path).unlink()
    said = trace(tmp_path / path)
    assert "nor staged" in said
    assert f"entry {seal.number}  sealed" in said


def test_a_file_that_no_log_lists_does_not_count(tmp_path: Path, lake: Lake) -> None:
    entry = lake.land({lake.key(1): (0, 10)})
    path = Path(lake.final(entry))
    *rest, unique = path.stem.split("-")
    stranger = path.with_name("-".join([*rest, "0" * len(unique)]) + path.suffix)
    said = json.loads(trace(tmp_path / stranger, "--json"))
    assert said["steps"] == []
    assert said["unknown"][0].startswith("no log")


@pytest.mark.parametrize("path", ["x.parquet", "ods.db/clicks/x.parquet", "/etc/passwd"])
def test_what_is_no_data_file_is_refused_with_an_example(path: str) -> None:
    found = CliRunner().invoke(app, ["trace", path])
    assert found.exit_code == 2
    assert "not a data file" in found.output
