"""What needs a person: gravest first, nothing twice, each with what to do."""

from dataclasses import replace
from pathlib import Path

import pytest
from tests.unit.proof.lakes import make_lake

from ashore.errors import JobFileInvalid
from ashore.fleet.records.server_files import Desired, DesiredState, ProcessRecord
from ashore.fleet.server.condition import Level, SeenJob, find_needs
from ashore.fleet.server.pages.fleet_page import SORTS, view_fleet, view_row
from ashore.fleet.server.pages.render import coded
from ashore.fleet.supervise.decide import Act, Decision, Phase
from ashore.fleet.supervise.supervisor import ManagedJob
from ashore.jobs.file import parse_job
from ashore.proof.status.health import FleetRow
from ashore.proof.status.status import Warned, read_status
from ashore.topics.loop.shares import SEE_STATUS
from ashore.topics.use.run_job import AGAIN

DESIRED = Desired(DesiredState.RUNNING, 0, 0, "test", 0)
PROCESS = ProcessRecord("run", "clicks", 0, 0, 7, 0, "")


def seen(name: str = "clicks", **changed: object) -> SeenJob:
    row = changed.pop("row", FleetRow(name, None, (), None))
    return SeenJob(name, Path(f"/jobs/{name}.yaml"), row, 1_000, **changed)  # type: ignore[arg-type]


def supervised(phase: Phase = Phase.RUNNING, why: str = "", hint: str = "") -> ManagedJob:
    process = PROCESS if phase is Phase.RUNNING else None
    decision = Decision(Act.NOTHING, phase, why, hint=hint)
    return ManagedJob("clicks", None, DESIRED, decision, 0, process, None, None, None)


def test_nothing_is_needed_of_a_job_that_runs():
    assert find_needs(seen(supervised=supervised())) == ()


def test_a_decision_comes_first_and_commands_name_the_job_file():
    lake = make_lake()
    lake.source.delete_and_recreate("clicks", 2)
    status = read_status(lake.opened())
    found = find_needs(
        seen(row=FleetRow("clicks", status, (), None), warnings=("batch 2 failed: odd",))
    )
    assert [each.level for each in found] == [Level.DECIDE, Level.WATCH]
    assert found[0].hint.endswith("ashore rejoin /jobs/clicks.yaml clicks")


def test_a_file_that_cannot_be_read_says_how_to_correct_it():
    error = JobFileInvalid("line 3 is wrong", hint="write x")
    (found,) = find_needs(seen(row=FleetRow("clicks", None, (), error)))
    assert (found.level, found.hint) == (Level.DECIDE, "write x")
    assert found.text.endswith(": line 3 is wrong")


def test_what_the_status_says_of_records_is_there_once_and_hides_no_other_warning():
    """The job process warns of it too, in other numbers and without the reason."""
    lake = make_lake()
    found = "50 of the last 50 records of ods.clicks (100 %) are dead letters"
    warned = Warned("bad_records", "ods.clicks", f"{found}: id is text", "compare `schema`")
    status = replace(read_status(lake.opened()), warnings=(warned,))
    told = (f"{found}{SEE_STATUS}".replace("50", "40"), "batch 0 failed: No space left on device")
    needs = find_needs(seen(row=FleetRow("clicks", status, (), None), warnings=told))
    assert [each.text for each in needs if each.subject != "main"] == [told[1], warned.text]
    (alone,) = find_needs(seen(warnings=told))
    assert alone.text.startswith("40 of the last 40")
    assert alone.hint.endswith("run: ashore status /jobs/clicks.yaml")


def test_what_stands_between_backticks_is_code_and_nothing_else_is_markup():
    html = coded("compare `schema` with <b>, or `a<b`")
    assert html == ("compare <code>schema</code> with &lt;b&gt;, or <code>a&lt;b</code>")


@pytest.mark.parametrize(
    ("warning", "words"),
    [
        ("batch 0 failed: cannot write x: No space left on device", "free space"),
        ("cannot write x: Permission denied", "let the user"),
        ("batch 2: 8 records of clicks cannot be decoded", "dead letters"),
    ],
)
def test_known_warnings_say_what_to_do(warning: str, words: str):
    (found,) = find_needs(seen(warnings=(warning,)))
    assert found.level is Level.BROKEN
    assert words in found.hint


def test_what_is_said_twice_is_said_as_the_gravest():
    lake = make_lake()
    lake.source.delete("clicks")
    status = read_status(lake.opened())
    warning = "topic clicks does not exist"
    (alone,) = find_needs(seen(warnings=(warning,)))
    assert "ashore rejoin /jobs/clicks.yaml TOPIC" in alone.hint
    (both,) = find_needs(seen(row=FleetRow("clicks", status, (), None), warnings=(warning,)))
    assert (both.level, both.text) == (Level.DECIDE, warning)
    assert both.hint.endswith("ashore rejoin /jobs/clicks.yaml clicks")


def test_what_the_server_starts_again_asks_nobody_to_start_it():
    killed = supervised(Phase.BACKING_OFF, "killed", f"`dmesg` says; then {AGAIN}")
    (found,) = find_needs(seen(supervised=killed))
    assert found.hint.startswith("`dmesg` says. the server starts")


def test_what_waits_for_a_person_is_a_decision():
    waits = supervised(Phase.NEEDS_DECISION, "offsets are gone", "skip")
    (found,) = find_needs(seen(supervised=waits))
    assert (found.level, found.hint) == (Level.DECIDE, "skip")


def test_a_lake_that_does_not_answer_is_said():
    (found,) = find_needs(seen(slow_since_ms=1))
    assert "does not answer" in found.text


@pytest.mark.parametrize("sort", SORTS)
def test_jobs_are_sorted_and_filtered(sort: str):
    error = JobFileInvalid("line 3 is wrong", hint="write x")
    jobs = [
        seen(f"job-{n}", row=FleetRow("x", None, (), error if n == 7 else None)) for n in range(9)
    ]
    found = view_fleet(jobs, sort)
    assert {each.name for each in found.rows} == {each.name for each in jobs}
    assert found.needing == 1
    if sort == "need":
        assert found.rows[0].name == "job-7"
    assert [each.name for each in view_fleet(jobs, sort, "LINE wrong").rows] == ["job-7"]


def test_a_row_of_a_stuck_job_says_so_whatever_the_supervisor_thinks():
    assert view_row(seen(supervised=supervised())).state == "running"
    assert view_row(seen(supervised=supervised(phase="needs-decision"))).state == "needs decision"


def test_each_problem_of_a_job_file_has_its_line_and_what_to_write_instead():
    with pytest.raises(JobFileInvalid) as refused:
        parse_job("job: clicks\nlake: nowhere\n", path="clicks.yaml")
    found = find_needs(seen(row=FleetRow("clicks", None, (), refused.value)))
    (hint,) = [each.hint for each in found if "line 2: lake: " in each.text]
    assert hint == "write file:///path"
    assert len(found) == 3
