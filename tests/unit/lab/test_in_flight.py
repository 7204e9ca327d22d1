"""What was in flight when a fault struck, and what a drill is worth in which nothing was."""

import threading
from dataclasses import replace

import pytest

from ashore_lab.drills import SCENARIOS, Drill, DrillOrder, Length, Verdict, run_drill
from ashore_lab.drills.checkers.in_flight import InFlight
from ashore_lab.drills.faults import Kill, Moment
from ashore_lab.drills.plan import PlannedFault
from ashore_lab.drills.scenarios import kill_driver, poison_records
from ashore_lab.drills.stage import Stage

pytestmark = pytest.mark.slow

SHORT = Length(rounds=1, records=24, text="")


def play_kill(moment: Moment) -> Verdict:
    """Play a drill with one kill."""

    def play(stage: Stage) -> None:
        site = stage.site()
        site.produce(SHORT.records)
        site.live(Kill(moment))
        stage.drain(site)

    planned = (PlannedFault(0, "kill", moment.step, moment.number),)
    drill = replace(kill_driver.DRILL, plan=lambda _dice, _length: planned, play=play)
    return run_drill(DrillOrder(drill, 1, SHORT))


@pytest.mark.parametrize("step", ["open", "plan", "write"])
def test_a_kill_with_nothing_in_flight_proves_nothing(step: str) -> None:
    verdict = play_kill(Moment(step))
    assert verdict.exit_code == 6
    assert len(verdict.doubts) == 1
    assert verdict.doubts[0].startswith("kill: nothing ")


def test_what_was_in_flight_is_reported() -> None:
    written, prepared = play_kill(Moment("prepare")), play_kill(Moment("move"))
    assert (written.exit_code, prepared.exit_code) == (0, 0)
    assert any("in no entry" in note for note in written.notes)
    assert any("are not moved" in note for note in prepared.notes)


def test_what_a_kill_must_find_is_more_than_a_backlog() -> None:
    assert InFlight(unread=9).is_backlog
    assert not InFlight(unread=9).is_half_done
    assert not InFlight(files=3).is_half_done  # all of them are moved
    assert InFlight(staged=1).is_half_done
    assert InFlight(pending=1, files=3).is_half_done
    assert str(InFlight()) == "nothing"


@pytest.mark.parametrize("drill", [kill_driver.DRILL, poison_records.DRILL], ids=lambda it: it.name)
def test_a_short_form_kills_where_something_is_half_done(drill: Drill) -> None:
    for seed in range(300):
        places = {each.place for each in drill.schedule(seed, drill.short)}
        assert {"prepare", "move"} <= places


@pytest.mark.slow
def test_every_fault_of_every_drill_says_what_was_in_flight() -> None:
    for drill in SCENARIOS:
        length = replace(drill.short, rounds=1, records=24, is_real=False)
        verdict = run_drill(DrillOrder(drill, 3, length))
        struck = [mark for mark in verdict.timeline.marks if mark.kind.startswith("fault")]
        assert struck, drill.name
        assert all("; in flight: " in mark.text for mark in struck), drill.name


def test_a_drill_that_hangs_is_red_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    release = threading.Event()

    def play(stage: Stage) -> None:
        stage.site().produce(SHORT.records)
        release.wait(60)

    drill = replace(kill_driver.DRILL, play=play)
    length = replace(SHORT, limit_s=0.2)
    try:
        verdict = run_drill(DrillOrder(drill, 1, length))
    finally:
        release.set()
    assert verdict.exit_code == 5
    assert "not over after 0.2 s" in verdict.problems[0]
    assert "release.wait" in "\n".join(verdict.notes)  # where it hung
    assert verdict.took_s < 30


def test_a_drill_that_goes_round_in_circles_in_memory_is_red_and_ends() -> None:
    ended = threading.Event()

    def play(stage: Stage) -> None:
        site = stage.site()
        site.produce(SHORT.records)
        try:
            while True:
                site.live()
        finally:
            ended.set()

    drill = replace(kill_driver.DRILL, play=play)
    verdict = run_drill(DrillOrder(drill, 1, replace(SHORT, limit_s=0.2)))
    assert verdict.exit_code == 5
    assert ended.wait(30)  # no thread goes on for ever


def test_every_length_has_a_limit() -> None:
    for drill in SCENARIOS:
        minutes = drill.long.for_minutes(30)
        for length in (drill.short, drill.long, minutes):
            assert length.limit_s < float("inf")
        assert drill.short.limit_s <= 600
        assert minutes.limit_s >= 2 * 30 * 60
