"""`ashore reset-clock`, on a lake whose log a clock of 2036 has written."""

import json
from pathlib import Path

import pytest
from tests.unit.cli.test_commands import invoke

from ashore.base.clock import SystemClock
from ashore.log.entries import Commit, Prepare, ResetClock
from ashore.log.names import SliceName
from ashore.log.positions import BatchTime
from ashore.log.store.committer import Committer
from ashore.log.store.log import LandingLog, LogContext
from ashore.log.store.reader import read_history, read_log
from ashore.storage import LocalStorage

JOB = """\
job: clicks
lake: file://{lake}
source: {{kafka: {{bootstrap_servers: "127.0.0.1:1"}}}}
batch: {{interval: 10ms}}
tables:
  - {{topic: clicks, table: ods.clicks, schema: "id BIGINT"}}
"""
NAME = SliceName("clicks", "main")
YEARS_MS = 10 * 365 * 86_400_000


@pytest.fixture
def storage(tmp_path: Path) -> LocalStorage:
    storage, clock = LocalStorage(str(tmp_path / "lake")), SystemClock()
    log = LandingLog(LogContext(storage, clock, lambda: "0" * 16), NAME)
    committer = Committer(log, storage, clock)
    log.open()
    right, far = clock.now_ms() - 60_000, clock.now_ms() + YEARS_MS
    for number, now_ms in enumerate((right, far)):
        time = BatchTime(now_ms, (("ods.clicks", now_ms - 1),))
        log.append(Prepare(number, time, (), (), (), (), None), None)
        log.append(Commit("idle"), committer.finish())
    return storage


@pytest.fixture
def job_file(tmp_path: Path, storage: LocalStorage) -> Path:
    path = tmp_path / "job.yaml"
    path.write_text(JOB.format(lake=tmp_path / "lake"))
    return path


@pytest.mark.slow
def test_it_shows_what_goes_back_and_then_it_does(job_file: Path, storage: LocalStorage) -> None:
    end = read_log(storage, NAME).end
    code, shown, _ = invoke("reset-clock", job_file, "--explain")
    assert code == 0
    assert "clicks/main: " in shown
    assert "set back from 20" in shown
    assert "watermark of ods.clicks: 20" in shown
    assert "1 batches were landed ahead" in shown
    assert read_log(storage, NAME).end == end
    code, shown, _ = invoke("reset-clock", job_file, "--why", "NTP", "--json")
    (reported,) = json.loads(shown)["slices"]
    assert (code, reported["slice"], reported["batches"]) == (0, "main", 1)
    *_, last = read_history(storage, NAME)
    assert isinstance(last.body, ResetClock)
    assert (last.body.why, last.body.now_ms) == ("NTP", reported["now_ms"])
    assert abs(SystemClock().now_ms() - read_log(storage, NAME).latest_ms) < YEARS_MS / 100
    code, shown, _ = invoke("reset-clock", job_file, "--why", "again")
    assert (code, "nothing to do" in shown) == (0, True)
    assert read_log(storage, NAME).end == last.number


def test_without_a_reason_nothing_is_set_back(job_file: Path, storage: LocalStorage) -> None:
    end = read_log(storage, NAME).end
    code, _, err = invoke("reset-clock", job_file)
    assert code == 2
    assert "--why" in err
    assert read_log(storage, NAME).end == end
