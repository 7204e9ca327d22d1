"""What is decided about a job, from what is desired and what is known of it."""

from dataclasses import replace
from pathlib import Path

import pytest

from ashore.errors import JobFileInvalid
from ashore.fleet.records.job_files import JobFile
from ashore.fleet.records.server_files import Desired, DesiredState, ExitRecord, RetryRecord
from ashore.fleet.supervise.decide import (
    CONTINUES,
    FIRST_WAIT_MS,
    LONGEST_WAIT_MS,
    STEADY_MS,
    Act,
    Facts,
    Phase,
    after_exit,
    decide,
)

NOW = 1_000_000_000
FILE = JobFile("clicks", Path("clicks.yaml"), "digest", None, None)
RUNNING = Desired(DesiredState.RUNNING, 0, 1, "ann", NOW)
STOPPED = Desired(DesiredState.STOPPED, 0, 1, "ann", NOW)


def ended(code: int, attempt: int = 1, digest: str = "digest") -> ExitRecord:
    return ExitRecord("run", attempt, digest, code, NOW, "code", "what happened", "what to do")


@pytest.mark.parametrize(
    ("code", "phase", "act"),
    [
        (0, Phase.STARTING, Act.START),
        (1, Phase.STARTING, Act.START),
        (2, Phase.INVALID, Act.NOTHING),
        (3, Phase.FENCED, Act.NOTHING),
        (4, Phase.NEEDS_DECISION, Act.NOTHING),
        (5, Phase.NEEDS_DECISION, Act.NOTHING),
        (7, Phase.STARTING, Act.START),
        (8, Phase.STARTING, Act.START),
        (9, Phase.INVALID, Act.NOTHING),
        (70, Phase.NEEDS_DECISION, Act.NOTHING),
        (130, Phase.STARTING, Act.START),
        (137, Phase.STARTING, Act.START),
    ],
)
def test_exit_codes_decide(code: int, phase: Phase, act: Act) -> None:
    found = decide(Facts(FILE, RUNNING, is_alive=False, last=ended(code)), NOW)
    assert (found.phase, found.act) == (phase, act)
    if act is Act.NOTHING:
        assert found.why == "what happened"
        assert found.hint


def test_a_person_who_starts_a_job_clears_what_it_ended_with() -> None:
    again = Desired(DesiredState.RUNNING, 0, 2, "ann", NOW)
    for code in (2, 3, 4, 70):
        assert decide(Facts(FILE, again, is_alive=False, last=ended(code)), NOW).act is Act.START


def test_a_changed_file_lets_a_refused_job_start_and_no_other() -> None:
    for code, act in ((2, Act.START), (9, Act.START), (3, Act.NOTHING), (4, Act.NOTHING)):
        last = ended(code, digest="older")
        assert decide(Facts(FILE, RUNNING, is_alive=False, last=last), NOW).act is act


def test_waits_grow_and_are_bounded_and_a_steady_run_begins_anew() -> None:
    retry, waits = None, []
    for _ in range(30):
        retry = after_exit(ended(1), NOW, retry, NOW)
        waits.append(retry.not_before_ms - NOW)
    assert waits[:4] == [FIRST_WAIT_MS, 2 * FIRST_WAIT_MS, 4 * FIRST_WAIT_MS, 8 * FIRST_WAIT_MS]
    assert max(waits) == waits[-1] == LONGEST_WAIT_MS
    assert after_exit(ended(1), NOW - STEADY_MS, retry, NOW).failures == 1


def test_a_job_waits_its_time_and_says_until_when() -> None:
    retry = RetryRecord("run", 3, NOW + 500)
    facts = Facts(FILE, RUNNING, is_alive=False, last=ended(1), retry=retry)
    found = decide(facts, NOW)
    assert (found.phase, found.until_ms) == (Phase.BACKING_OFF, NOW + 500)
    assert decide(facts, NOW + 500).act is Act.START


def test_a_pause_ends_by_itself() -> None:
    paused = Desired(DesiredState.PAUSED, 0, 1, "ann", NOW, until_ms=NOW + 10)
    alive = Facts(FILE, paused, is_alive=True)
    dead = Facts(FILE, paused, is_alive=False, last=ended(0))
    assert decide(alive, NOW).act is Act.STOP
    assert decide(dead, NOW).phase is Phase.PAUSED
    assert decide(dead, NOW + 10).act is Act.START


def test_a_restart_stops_the_process_of_an_earlier_generation_alone() -> None:
    again = Desired(DesiredState.RUNNING, 1, 2, "ann", NOW)
    facts = {"is_alive": True, "has_begun": True}
    assert decide(Facts(FILE, again, generation=0, **facts), NOW).act is Act.STOP
    assert decide(Facts(FILE, again, generation=1, **facts), NOW).phase is Phase.RUNNING
    assert decide(Facts(FILE, again, generation=None, **facts), NOW).act is Act.NOTHING


def test_an_operation_that_stops_a_job_is_left_to_it() -> None:
    held = Desired(DesiredState.STOPPED, 0, 1, "ann", NOW, held_by="17-a")
    for is_alive in (True, False):
        found = decide(Facts(FILE, held, is_alive=is_alive, is_held=True), NOW)
        assert (found.act, found.phase) == (Act.NOTHING, Phase.STOPPING)
        assert "operation 17-a" in found.why
    assert decide(Facts(FILE, held, is_alive=True), NOW).act is Act.STOP
    assert decide(Facts(FILE, held, is_alive=False), NOW).phase is Phase.STOPPED
    wanted = replace(held, state=DesiredState.RUNNING)
    assert decide(Facts(FILE, wanted, is_alive=False, is_held=True), NOW).act is Act.START


def test_a_file_that_is_gone_or_wrong_starts_nothing_and_stops_nothing() -> None:
    wrong = JobFile("clicks", Path("clicks.yaml"), "", JobFileInvalid("no", hint="yes"), None)
    assert decide(Facts(None, RUNNING, is_alive=False), NOW).phase is Phase.MISSING
    assert decide(Facts(None, RUNNING, is_alive=True, has_begun=True), NOW).act is Act.NOTHING
    found = decide(Facts(wrong, RUNNING, is_alive=False), NOW)
    assert (found.phase, found.why, found.hint) == (Phase.INVALID, "no", "yes")
    assert decide(Facts(wrong, STOPPED, is_alive=False), NOW).phase is Phase.INVALID
    alive = decide(Facts(wrong, RUNNING, is_alive=True, has_begun=True), NOW)
    assert (alive.act, alive.phase, alive.hint) == (Act.NOTHING, Phase.INVALID, "yes")
    assert alive.why == f"no; {CONTINUES}"
