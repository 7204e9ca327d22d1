"""`ashore checkpoint`, on checkpoints that plain Spark wrote and on those of a job."""

import json
from pathlib import Path
from typing import Any

import pytest
from tests.checkpoint_files import list_paths, opened, unpack
from tests.unit.cli.test_commands import invoke
from tests.unit.plans.test_version_changes import graph_of
from tests.unit.queries.test_state_tables import version_of

from ashore.log.entries import next_version
from ashore.log.names import SliceName, checkpoint_directory
from ashore.log.store.log import LandingLog, LogContext
from ashore.plans.version import write_version
from ashore.queries.state.attempts import Attempts
from ashore.queries.state.versions import copy_version
from ashore.storage import LocalStorage, MemoryStorage
from ashore_lab.testing import FakeClock

JOB = """\
job: clicks
lake: file://{lake}
source: {{kafka: {{bootstrap_servers: "127.0.0.1:1"}}}}
tables:
  - {{topic: clicks, table: ods.clicks, schema: "id BIGINT", land: false, on_invalid: drop}}
  - {{table: ods.big, format: jsonl}}
  - {{table: ods.small, format: jsonl}}
sql: |
  INSERT INTO ods.big SELECT id FROM clicks WHERE id > 10;
  INSERT INTO ods.small SELECT id FROM clicks WHERE id < 10;
"""


def inspect(*arguments: object) -> dict[str, Any]:
    code, out, err = invoke("checkpoint", "inspect", *arguments, "--json")
    assert (code, err) == (0, "")
    found: dict[str, Any] = json.loads(out)
    return found


def test_inspect_tells_what_a_checkpoint_holds(tmp_path: Path) -> None:
    found = inspect(unpack("rocksdb-changelog", tmp_path), "--batch", 10)
    (operator,) = found.pop("operators")
    files, rate, restore = found.pop("files"), found.pop("load_rate"), found.pop("restore")
    assert found == {
        "query_id": "8f28567c-6f23-4014-ad25-42a4336bdc5a",
        "batch": 10,
        "planned": 11,
        "batches": [0, 11],
        "watermark_ms": 1795244700000,
        "job_version": None,
        "partitions": 2,
        "provider": "RocksDBStateStoreProvider",
        "formats": {"offsets": 1, "commits": 1, "state": 1},
        "sources": {"0": '{"logOffset":5}'},
        "replay_rate": {"bytes_per_s": 2.5e6, "file_s": 0.02},
    }
    parts = operator.pop("by_partition")
    assert operator["schemas"][0]["value"] == [{"name": "count", "type": "long", "nullable": False}]
    assert {key: operator[key] for key in ("id", "name", "keys", "partitions", "rows")} == {
        "id": 0,
        "name": "stateStoreSave",
        "keys": ["window", "country"],
        "partitions": 2,
        "rows": None,  # a change follows the snapshot
    }
    assert operator["bytes"] == sum(each["bytes"] for each in parts)
    assert [(each["partition"], each["snapshot"], each["changes"]) for each in parts] == [
        (0, 10, 1),
        (1, 10, 1),
    ]
    part = parts[0]
    assert part["replay_s"] == pytest.approx(part["change_bytes"] / 2.5e6 + 0.02)
    snapshot_s = (part["bytes"] - part["change_bytes"]) / rate["snapshot_bytes_per_s"]
    wanted_s = rate["store_s"] + snapshot_s + part["replay_s"]
    assert part["restore_s"] == pytest.approx(wanted_s)
    assert restore == {
        "core_s": pytest.approx(sum(each["restore_s"] for each in parts)),
        "slowest_partition_s": max(each["restore_s"] for each in parts),
    }
    counted = [each["files"] for kind, each in files.items() if not kind.endswith("required")]
    assert sum(counted) == files["required"]["files"] + files["not_required"]["files"] == 162


def test_inspect_counts_rows_where_a_snapshot_says_them(tmp_path: Path) -> None:
    (operator,) = inspect(unpack("rocksdb-changelog", tmp_path))["operators"]
    assert (operator["rows"], [each["rows"] for each in operator["by_partition"]]) == (3, [2, 1])


def test_inspect_names_the_families_of_a_join(tmp_path: Path) -> None:
    (operator,) = inspect(unpack("join-3", tmp_path))["operators"]
    families = [each["family"] for each in operator["schemas"]]
    assert families == [
        *("left-keyToNumValues", "left-keyWithIndexToValue"),
        *("right-keyToNumValues", "right-keyWithIndexToValue"),
    ]
    assert operator["keys"] == ["field0", "field1", "index"]


def test_a_partition_of_a_join_restores_all_its_stores_before_it_is_ready(tmp_path: Path) -> None:
    found = inspect(unpack("join-2", tmp_path))
    (operator,) = found["operators"]
    spent_s: dict[int, float] = {}
    for each in operator["by_partition"]:
        spent_s[each["partition"]] = spent_s.get(each["partition"], 0.0) + each["restore_s"]
    assert len(operator["by_partition"]) == 4 * len(spent_s)
    assert found["restore"]["slowest_partition_s"] == pytest.approx(max(spent_s.values()))


def test_a_restore_with_the_hdfs_backed_provider_is_estimated_too(tmp_path: Path) -> None:
    found = inspect(unpack("hdfs-backed", tmp_path))
    parts = found["operators"][0]["by_partition"]
    assert all(each["replay_s"] is None or not each["changes"] for each in parts)
    assert found["restore"]["core_s"] == pytest.approx(sum(each["restore_s"] for each in parts))
    assert found["restore"]["core_s"] > 0


@pytest.mark.parametrize("case", ["stateless", "named-sources", "hdfs-backed", "format-2"])
def test_inspect_for_people(case: str, tmp_path: Path) -> None:
    code, out, _ = invoke("checkpoint", "inspect", unpack(case, tmp_path))
    assert code == 0
    expected = {
        "stateless": ["no state", "batch 5 (batches 0 to 5 are kept)"],
        "named-sources": ["offsets v2", "clicks", "without a restore"],
        "hdfs-backed": ["HDFSBackedStateStoreProvider", "country string -> count long"],
        "format-2": ["state v2", "rows: 3", "█"],
    }
    assert [each for each in expected[case] if each not in out] == []


def test_inspect_tells_the_version_of_the_job(tmp_path: Path) -> None:
    checkpoint, name = opened(unpack("rocksdb", tmp_path)), SliceName("clicks", "main")
    storage = MemoryStorage()
    log = LandingLog(LogContext(storage, FakeClock(), lambda: "0" * 16), name)
    log.open()
    log.append(next_version(log.fold, "d", write_version(version_of(graph_of("q11")))), None)
    copy_version(storage, name, log.fold, checkpoint)
    where = checkpoint.uri
    assert inspect(where)["job_version"] == {
        "version": 1,
        "job": "clicks",
        "slice": "main",
        "ashore": "0.1.0",
        "spark": "4.2.0",
        "operators": [{"id": 0, "graph_id": "3f2a9c1b", "name": "aggregate by bidder"}],
    }
    _, out, _ = invoke("checkpoint", "inspect", where)
    assert "version 1 of clicks/main, " in out
    assert "Ashore 0.1.0 on Spark 4.2.0" in out


# ---- savepoints


def command(*arguments: object) -> dict[str, Any]:
    code, out, err = invoke("checkpoint", *arguments, "--json")
    assert (code, err) == (0, "")
    found: dict[str, Any] = json.loads(out)
    return found


def test_a_savepoint_is_taken_listed_verified_restored_and_deleted(tmp_path: Path) -> None:
    live, shelf, back = unpack("join-3", tmp_path), tmp_path / "saved", tmp_path / "back"
    planned = command("savepoint", live, "--to", shelf, "--batch", 7, "--explain")
    assert not shelf.exists()
    taken = command("savepoint", live, "--to", shelf, "--batch", 7)
    assert (taken["batch"], taken["files"]) == (planned["batch"], planned["files"])
    assert taken["bytes"] >= planned["bytes"]  # longer paths in the metadata of the operator
    assert taken.keys() >= {"path", "seconds", "linked", "query_id"}
    (listed,) = command("list", shelf)["savepoints"]
    assert (listed["path"], listed["complete"], listed["batch"]) == (taken["path"], True, 7)
    assert command("verify", taken["path"])["problems"] == []
    assert inspect(taken["path"])["batch"] == 7

    assert command("restore", taken["path"], "--to", back, "--explain")["files"] == taken["files"]
    assert not back.exists()
    restored = command("restore", taken["path"], "--to", back)
    assert (restored["path"], restored["batch"]) == (str(back), 7)
    assert command("delete", taken["path"], "--explain")["files"] == taken["files"] + 1
    assert command("delete", taken["path"])["files"] == taken["files"] + 1
    assert command("list", shelf) == {"savepoints": []}
    assert inspect(back)["batches"] == [7, 7]


def test_verify_ends_with_4_where_a_file_is_damaged(tmp_path: Path) -> None:
    live = unpack("rocksdb", tmp_path)
    taken = command("savepoint", live, "--to", tmp_path / "saved", "--copy")
    assert taken["linked"] == 0
    metadata = Path(taken["path"]) / "checkpoint/metadata"
    metadata.write_bytes(metadata.read_bytes()[::-1])
    code, out, _ = invoke("checkpoint", "verify", taken["path"])
    assert code == 4
    assert f"{metadata} is damaged" in out


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["savepoint", "{live}", "--to", "/proc/nowhere"], "nowhere/savepoint-5-"),
        (["savepoint", "{live}", "--to", "{live}/metadata"], "metadata/savepoint-5-"),
        (
            ["savepoint", "{live}", "--to", "{here}/saved", "--batch", "9"],
            "{live} has batches 0 to",
        ),
        (["savepoint", "{here}", "--to", "{here}/saved"], "{here} is not a checkpoint of Spark"),
        (["restore", "{live}", "--to", "{here}/back"], "{live} is not a complete savepoint"),
        (["verify", "{live}"], "{live}/savepoint.json is missing"),
        (["delete", "{live}"], "{live} is not a savepoint"),
    ],
)
def test_what_cannot_be_done_is_refused_and_nothing_is_changed(
    tmp_path: Path, arguments: list[str], text: str
) -> None:
    names = {"live": unpack("stateless", tmp_path), "here": tmp_path}
    before = list_paths(tmp_path)
    asked = [each.format(**names) for each in arguments]
    code, out, _ = invoke("checkpoint", *asked, "--json")
    assert text.format(**names) in json.loads(out)["error"]["message"]
    assert code in {1, 4}
    assert list_paths(tmp_path) == before


# ---- where


@pytest.fixture
def job_file(tmp_path: Path) -> Path:
    path = tmp_path / "job.yaml"
    path.write_text(JOB.format(lake=tmp_path / "lake"))
    return path


def test_a_job_file_is_asked_for_the_newest_attempt_of_a_query(job_file: Path) -> None:
    lake = job_file.parent / "lake"
    path = checkpoint_directory(SliceName("clicks", "ods__small"))
    attempts = Attempts(LocalStorage(str(lake)), path, f"file://{lake}/{path}")
    attempts.take(1, is_mine=False)
    (lake / attempts.attempt(1).path).parent.mkdir(parents=True, exist_ok=True)
    unpack("stateless", lake / path)
    (lake / path / "stateless").rename(lake / attempts.attempt(1).path)
    found = inspect(job_file, "--query", "ods.small")
    assert (found["batch"], found["operators"]) == (5, [])


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["{job}"], "{job} has 2 queries: ods.big, ods.small"),
        (["{job}", "--query", "ods.bigger"], "no query of {job} fills ods.bigger"),
        (["{job}", "--query", "ods.big"], "the query that fills ods.big "),
        (["{here}", "--query", "ods.big"], "{here} is not a job file"),
        (["/"], "/ is not the directory"),
        (["hdfs://nameservice"], "hdfs://nameservice is not the directory"),
        (["{here}/nothing"], "{here}/nothing is not a checkpoint"),
        (["{here}"], "{here} is not a checkpoint"),
    ],
)
def test_a_place_without_a_checkpoint_is_named(
    job_file: Path, arguments: list[str], text: str
) -> None:
    names = {"job": job_file, "here": job_file.parent}
    asked = [each.format(**names) for each in arguments]
    code, out, _ = invoke("checkpoint", "inspect", *asked, "--json")
    error = json.loads(out)["error"]
    assert error["message"].startswith(text.format(**names))
    assert error["hint"]
    assert code in {2, 4}
