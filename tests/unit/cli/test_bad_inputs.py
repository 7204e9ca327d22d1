"""What the command line answers where it, or what a job file names, is not there."""

import socket
import time
from pathlib import Path

import pytest
from tests.unit.cli.test_commands import JOB, invoke

from ashore.base.clock import SystemClock
from ashore.cli.services import endpoint_text
from ashore.storage.open import find_unreachable


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (("services", "up", "kafak"), 7, "did you mean `kafka`?"),
        (("services", "down", "hvie"), 7, "did you mean `hive`?"),
        (("services", "control", "hdfs", "shwo"), 7, "did you mean `show`?"),
    ],
)
def test_a_mistyped_word_is_answered_with_the_one_that_was_meant(
    arguments: tuple[str, ...], code: int, words: str
) -> None:
    found, out, err = invoke(*arguments)
    assert (found, out) == (code, "")
    assert words in err


def test_an_endpoint_is_shown_as_people_write_it() -> None:
    assert endpoint_text({}) == ""
    assert endpoint_text({"bootstrap_servers": "127.0.0.1:9092"}) == "127.0.0.1:9092"
    assert endpoint_text({"uri": "hdfs://a", "conf_dir": "/c"}) == "uri: hdfs://a, conf_dir: /c"


def job_on(tmp_path: Path, lake: str) -> Path:
    path = tmp_path / "job.yaml"
    path.write_text(JOB.replace("file://{lake}", lake).format())
    return path


def test_a_nameservice_that_nobody_knows_has_its_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("HADOOP_CONF_DIR", raising=False)
    path = job_on(tmp_path, "hdfs://nn1/x")
    code, _, err = invoke("run", path)
    assert code == 2
    assert f"{path}:2: lake: 'nn1' " in err
    assert "not a nameservice" in err
    assert "hdfs://nn1:8020/" in err


def test_a_namenode_that_is_not_there_is_told_in_seconds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ashore.topics.use.preflight.REACH_S", 0.5)
    path = job_on(tmp_path, f"hdfs://127.0.0.1:{free_port()}/x")
    began_s = time.monotonic()
    code, _, err = invoke("run", path)
    assert time.monotonic() - began_s < 10
    assert code == 1
    assert f"{path}:2: lake: no NameNode" in err
    assert ": 127.0.0.1" in err
    assert "start the NameNode" in err
    assert "create the directory" not in err


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def test_one_server_that_listens_is_enough() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        addresses = [f"127.0.0.1:{free_port()}", f"127.0.0.1:{server.getsockname()[1]}"]
        assert find_unreachable(addresses, 5.0, SystemClock()) == ()


def test_why_a_server_cannot_be_reached_is_told() -> None:
    address = f"127.0.0.1:{free_port()}"
    assert find_unreachable([address], 0.3, SystemClock()) == (f"{address}: Connection refused",)
