"""What the registry says when nothing runs."""

from pathlib import Path

import pytest

from ashore.errors import ServiceError
from ashore_lab.services import registry
from ashore_lab.services.notes import write_note


def test_nothing_runs_at_first_and_asking_leaves_nothing_behind(tmp_path: Path):
    seen = registry.status(tmp_path)
    assert {name: status.state for name, status in seen.items()} == {
        "hdfs": "down",
        "hive": "down",
        "kafka": "down",
        "s3": "down",
        "spark": "down",
        "zookeeper": "down",
    }
    assert seen["kafka"].to_dict() == {
        "state": "down",
        "endpoint": {},
        "processes": {},
        "frozen": [],
        "logs": [str(tmp_path / "kafka" / "kafka.log")],
        "directory": str(tmp_path / "kafka"),
    }
    assert list(tmp_path.iterdir()) == []


def test_a_note_without_its_process_means_died_and_down_clears_it(tmp_path: Path):
    write_note(tmp_path / "kafka" / "kafka.process.json", {"pid": 1, "started": 1})
    assert registry.status(tmp_path)["kafka"].state is registry.ServiceState.DIED
    assert registry.down(["kafka"], tmp_path) == []
    assert registry.status(tmp_path)["kafka"].state is registry.ServiceState.DOWN


@pytest.mark.parametrize("call", [registry.up, registry.down])
def test_a_planned_service_is_told_from_an_unknown_one(tmp_path: Path, call):
    with pytest.raises(ServiceError, match="'bookkeeper' is not in"):
        call(["bookkeeper"], tmp_path)
    with pytest.raises(ServiceError, match="unknown service 'kafak'") as caught:
        call(["kafak"], tmp_path)
    assert caught.value.hint == "did you mean `kafka`?"
    with pytest.raises(ServiceError, match="unknown service 'qqq'") as caught:
        call(["qqq"], tmp_path)
    assert "kafka, hdfs, hive, s3, spark, zookeeper" in caught.value.hint


def test_a_wrong_name_stops_before_anything_starts(tmp_path: Path):
    with pytest.raises(ServiceError):
        registry.up(["kafka", "bookkeeper"], tmp_path)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("own", "expected"), [("/o", "/o/services"), (None, "/h/.local/state/ashore/services")]
)
def test_where_services_live(monkeypatch: pytest.MonkeyPatch, own: str | None, expected: str):
    monkeypatch.setenv("HOME", "/h")
    monkeypatch.delenv("ASHORE_HOME", raising=False)
    if own:
        monkeypatch.setenv("ASHORE_HOME", own)
    assert registry.home_directory() == Path(expected)
