"""`status --check`: what ails a job, what it is worth, and many jobs at once."""

from pathlib import Path

import pytest
from tests.unit.cli.test_commands import JOB as JOB_FILE
from tests.unit.cli.test_commands import invoke
from tests.unit.proof.lakes import CLICKS_0, TABLE, Lake, fill, make_lake

from ashore.log import names
from ashore.log.entries import Closing, Commit, DeferredAction, FailedTries
from ashore.log.plan_commit import find_moves
from ashore.log.store.reader import find_missing
from ashore.proof.status.health import Allowed, check_health, read_fleet, worst_ailment
from ashore.proof.status.status import read_status
from ashore.topics import open_job
from ashore.topics.use.recover import plan_recover

ANYTHING = Allowed()


def ailing(lake: Lake, allowed: Allowed = ANYTHING) -> tuple[int, str]:
    found = check_health(lake.opened(), read_status(lake.opened()), allowed)
    return worst_ailment(found), "; ".join(each.text for each in found)


def test_a_job_that_is_well() -> None:
    assert ailing(make_lake(), Allowed(0, 0)) == (0, "")
    assert ailing(Lake())[0] == 1  # it never started


def test_lag_and_age_have_limits() -> None:
    lake = make_lake()
    lake.append(Commit("idle"))
    fill(lake.source, "clicks", 1, 25)
    assert ailing(lake, Allowed(25, None))[0] == 0
    assert ailing(lake, Allowed(24, None)) == (1, "lag 25 is above 24")
    lake.clock.advance(9)
    assert ailing(lake, Allowed(None, 9_000))[0] == 0
    lake.clock.advance(1)
    code, text = ailing(lake, Allowed(None, 9_000))
    assert code == 1
    assert "25 offsets wait" in text


def test_an_old_entry_is_no_ailment_where_nothing_waits() -> None:
    lake = make_lake()
    lake.append(Commit("idle"))
    lake.clock.advance(100_000)
    assert ailing(lake, Allowed(0, 1_000))[0] == 0


def test_what_needs_a_decision_is_worth_4() -> None:
    lake = make_lake()
    lake.source.append(CLICKS_0, b"{}", b"{}")
    lake.source.expire(CLICKS_0, 101)
    code, text = ailing(lake)
    assert code == 4
    assert "Kafka no longer has" in text


def test_lost_files_are_looked_for() -> None:
    lake = make_lake()
    assert ailing(lake)[0] == 0
    moves = find_moves(plan_recover(lake.opened()))
    lake.storage.delete(moves[0].final)
    code, text = ailing(lake)
    assert code == 4
    assert text.startswith("1 prepared files are lost: ")
    assert "ashore recover JOB.yaml --explain" in text


def test_a_log_that_is_ahead_is_worth_4() -> None:
    lake = make_lake()
    lake.append(Commit("stop"))
    lake.clock.jump_wall(-7_200)
    code, text = ailing(lake)
    assert code == 4
    assert "has the time 2026-11-" in text


def test_a_hole_in_the_log_is_found() -> None:
    lake = make_lake()
    assert find_missing(lake.storage, lake.name) is None
    lake.storage.delete(names.entry_path(lake.name, 1))
    assert find_missing(lake.storage, lake.name) == range(1, 2)


def test_an_unclosed_entry_and_an_unreachable_broker() -> None:
    lake = make_lake()
    lake.clock.advance(2_520)
    code, text = ailing(lake)
    assert code == 1
    assert "unclosed for 42.0 min" in text
    lake.append(Commit("idle"))
    lake.source.is_reachable = False
    code, text = ailing(lake)
    assert (code, text.startswith("lag is not known: no broker")) == (6, True)


def test_deferred_actions_that_fail_are_not_healthy() -> None:
    lake = make_lake()
    deferred = DeferredAction("register:x", "register", TABLE, "date=2026-11-21/hour=00")
    failed = FailedTries("register", 3, lake.clock.now_ms(), "no metastore")
    lake.append(Commit("idle"), closing=Closing(3, 2, 0, False, (deferred,), (), (failed,)))
    code, text = ailing(lake)
    assert code == 1
    assert "no metastore" in text


@pytest.fixture
def fleet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    monkeypatch.setattr(open_job, "SOURCE_TIMEOUT_S", 0.3)
    monkeypatch.setenv("ASHORE_HOME", str(tmp_path / "home"))
    (tmp_path / "lake").mkdir()
    paths = [tmp_path / f"job-{number}.yaml" for number in range(4)]
    for path in paths:
        text = JOB_FILE.replace("job: clicks", f"job: {path.stem}")
        path.write_text(text.format(lake=tmp_path / "lake"))
    paths[2].write_text("job: [broken")
    return paths


@pytest.mark.slow
def test_a_fleet_is_one_table_and_a_bad_file_spoils_no_other(fleet: list[Path]) -> None:
    rows = read_fleet(fleet, None)
    assert [row.name for row in rows] == [path.stem for path in fleet]
    assert [row.status and str(row.status.state) for row in rows] == [
        *("never started", "never started", None, "never started")
    ]
    code, out, _ = invoke("status", *fleet)
    assert code == 6  # one could not be read
    assert any(line.startswith("job-2: ") for line in out.splitlines())  # and why
    assert invoke("status", fleet[0], fleet[1])[0] == 0
    assert invoke("status", fleet[0], fleet[1], "--check")[0] == 1
    assert invoke("status", fleet[0], "--check")[0] == 1
    assert invoke("status", fleet[0])[0] == 0
    assert invoke("status", fleet[0], "--max-lag", 1)[0] == 2
