"""`ashore checkpoint clean`, on checkpoints that plain Spark wrote and on those of a job."""

import json
import os
import shutil
import time
from pathlib import Path
from typing import Any

import pytest
from tests.checkpoint_files import list_paths, unpack
from tests.unit.cli.test_checkpoint_commands import JOB
from tests.unit.cli.test_commands import invoke

from ashore.errors import NotDone
from ashore.jobs.heartbeat import Heart, read_heartbeat
from ashore.log.names import SliceName, checkpoint_directory
from ashore.queries.state.attempts import Attempts
from ashore.storage import LocalStorage

NOW_S = time.time()


def clean(*arguments: object) -> dict[str, Any]:
    code, out, err = invoke("checkpoint", "clean", *arguments, "--json")
    assert (code, err) == (0, "")
    found: dict[str, Any] = json.loads(out)
    return found


def age(root: Path, hours: int = 48) -> None:
    """Make all that is in a directory as old as that."""
    for each in root.rglob("*"):
        os.utime(each, (NOW_S - hours * 3600,) * 2)


def with_garbage(case: str, directory: Path) -> Path:
    """Return a checkpoint with partitions of an old number."""
    root = unpack(case, directory)
    shutil.copytree(root / "state/0/1", root / "state/0/5")
    age(root)
    return root


def test_explain_counts_what_then_goes_and_changes_nothing(tmp_path: Path) -> None:
    root = with_garbage("join-3", tmp_path)
    before = list_paths(root)

    said = clean(root, "--explain")

    assert list_paths(root) == before
    assert said["files"] == len([path for path in before if path.startswith("state/0/5/")])
    assert set(said["reasons"]) == {"partition", "checksum", "empty"}
    assert (said["left_alone"], said["done"]) == ([], False)
    assert clean(root) == {**said, "done": True}
    assert list_paths(root) == [path for path in before if not path.startswith("state/0/5/")]
    assert not (root / "state/0/5").exists()
    assert clean(root)["files"] == 0


def test_what_was_modified_within_a_day_stays_unless_told(tmp_path: Path) -> None:
    root = with_garbage("rocksdb", tmp_path)
    age(root, hours=23)
    assert clean(root)["files"] == 0
    assert clean(root, "--older-than", "22h")["files"] > 0


def test_a_directory_of_many_is_cleaned_one_after_the_other(tmp_path: Path) -> None:
    """One that cannot be understood is told of, and keeps no other from being cleaned."""
    first, second = (with_garbage(case, tmp_path) for case in ("hdfs-backed", "rocksdb"))
    odd = unpack("stateless", tmp_path)
    shutil.rmtree(odd / "commits")
    (tmp_path / "notes").mkdir()

    said = clean(tmp_path)

    assert said["checkpoints"] == [str(first), str(second), str(odd)]
    assert [each["path"] for each in said["left_alone"]] == [str(odd)]
    assert not (first / "state/0/5").exists()
    assert not (second / "state/0/5").exists()
    assert list_paths(odd)


def test_older_attempts_of_a_query_go_with_their_directories(tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    directory = checkpoint_directory(SliceName("clicks", "ods__big"))
    attempts = Attempts(LocalStorage(str(lake)), directory, f"file://{lake}/{directory}")
    attempts.take(1, is_mine=False)
    unpack("rocksdb", tmp_path).rename(lake / directory / "1")
    attempts.take(3, is_mine=False)  # a copy
    age(lake)
    (lake / directory / "4").mkdir()  # of an attempt that is not complete yet
    job_file = tmp_path / "clicks.yaml"
    job_file.write_text(JOB.format(lake=lake))
    count = len(list_paths(lake / directory / "1"))
    newest = list_paths(lake / directory / "3")

    said = clean(job_file, "--query", "ods.big", "--explain")
    assert said["reasons"]["attempt"]["count"] == count
    done = clean(job_file, "--query", "ods.big")

    assert done["files"] == said["files"] >= count
    assert sorted(each.name for each in (lake / directory).iterdir() if each.is_dir()) == ["3", "4"]
    assert set(list_paths(lake / directory / "3")) <= set(newest)
    assert attempts.newest() == attempts.attempt(3)


def test_beside_a_job_that_runs_nothing_younger_than_a_day_goes(tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    directory = checkpoint_directory(SliceName("clicks", "ods__big"))
    attempts = Attempts(LocalStorage(str(lake)), directory, f"file://{lake}/{directory}")
    attempts.take(1, is_mine=False)
    unpack("rocksdb", tmp_path).rename(lake / directory / "1")
    shutil.copytree(lake / directory / "1/state/0/1", lake / directory / "1/state/0/5")
    age(lake, hours=2)
    job_file = tmp_path / "clicks.yaml"
    job_file.write_text(JOB.format(lake=lake))
    before = list_paths(lake)
    command = ("checkpoint", "clean", job_file, "--query", "ods.big", "--older-than", "1h")
    heart = Heart("clicks", f"file://{lake}", lambda: ("idle", 0), lambda: None)
    heart.start()
    while read_heartbeat("clicks", f"file://{lake}") is None:
        time.sleep(0.01)
    try:
        code, _, err = invoke(*command)
        assert code == NotDone.exit_code
        assert "job clicks is running" in " ".join(err.split())
        assert invoke(*command, "--explain")[0] == 0
        assert clean(job_file, "--query", "ods.big")["files"] == 0
        assert list_paths(lake) == before
    finally:
        heart.end(None)
    assert invoke(*command)[0] == 0
    assert not (lake / directory / "1/state/0/5").exists()


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["nowhere"], 4, "has none in it"),
        (["nowhere", "--older-than", "soon"], 2, "--older-than 'soon' is not"),
    ],
)
def test_what_cannot_be_cleaned_is_said(
    arguments: list[str], code: int, said: str, tmp_path: Path
) -> None:
    found, _, err = invoke("checkpoint", "clean", tmp_path / arguments[0], *arguments[1:])
    assert found == code
    assert said in " ".join(err.split())


def test_a_person_is_told_what_went_and_what_did_not(tmp_path: Path) -> None:
    root = with_garbage("rocksdb-changelog", tmp_path)
    newest = max((root / "state/0/0").glob("*.zip"), key=lambda each: int(each.stem))
    newest.write_bytes(b"no archive")
    age(root)
    code, out, _ = invoke("checkpoint", "clean", root, "--explain")
    assert code == 0
    assert "no longer exists" in out
    assert "files would be deleted" in out
