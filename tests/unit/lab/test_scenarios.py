"""Every scenario in memory: green as it is, red when the protocol is broken.

`make check` plays some of them, `make test` all, each with one broken protocol; `make test-all` has
each with every one.
"""

from dataclasses import replace

import pytest
from tests.marks import but
from tests.unit.lab.mutants import MUTANTS, OWN_MUTANTS

from ashore_lab.drills import SCENARIOS, Drill, DrillOrder, Length, Verdict, run_drill
from ashore_lab.drills.scenarios import kill_driver, replay_budget, zombie_writer

NAMES = [drill.name for drill in SCENARIOS]
SEED = 11
QUICK = {"metastore-outage"}
MOST_SLOW = but(pytest.mark.slow, NAMES, QUICK.__contains__)
BROKEN = [
    pytest.param(
        *(name, mutant),
        marks=[pytest.mark.slow] * (name not in QUICK)
        + [pytest.mark.long] * (name not in QUICK and (number - turn) % len(MUTANTS) != 0),
    )
    for number, name in enumerate(NAMES)
    for turn, mutant in enumerate(MUTANTS)
]
OWN_MOST_SLOW = but(pytest.mark.slow, OWN_MUTANTS, lambda name: OWN_MUTANTS[name][0] in QUICK)


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """A kill every 20 batches instead of every 300, and no packed log, for a rehearsal."""
    monkeypatch.setattr(replay_budget, "BATCHES", 20)
    monkeypatch.setattr(replay_budget, "BUDGET", 0.06)
    monkeypatch.setattr(zombie_writer, "ARCHIVES_MIN", 0)


def rehearsal(drill: Drill) -> Length:
    """Return a length that is played within a second, in memory whatever the drill needs."""
    return replace(drill.short, rounds=min(drill.short.rounds, 4), records=24, is_real=False)


def rehearse(name: str) -> Verdict:
    drill = next(each for each in SCENARIOS if each.name == name)
    return run_drill(DrillOrder(drill, SEED, rehearsal(drill)))


@pytest.mark.parametrize("name", MOST_SLOW)
def test_a_drill_is_green(name: str) -> None:
    verdict = rehearse(name)
    assert verdict.exit_code == 0, (verdict.problems, verdict.doubts)
    assert verdict.figures.faults > 0
    assert verdict.figures.records > 0


@pytest.mark.thirds
@pytest.mark.parametrize(("name", "mutant"), BROKEN)
def test_a_broken_protocol_turns_it_red(
    name: str, mutant: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    MUTANTS[mutant](monkeypatch)
    verdict = rehearse(name)
    assert verdict.exit_code == 5
    assert verdict.problems
    if mutant == "skip a move":
        assert verdict.figures.lost > 0
    if mutant == "move twice under two names":
        assert verdict.figures.duplicated > 0
    if mutant == "prepare twice":  # readers see it, or, after a kill before the moves, the log does
        assert verdict.figures.duplicated > 0 or "duplicated" in "".join(verdict.problems)


@pytest.mark.thirds
@pytest.mark.parametrize("mutant", OWN_MOST_SLOW)
def test_what_a_drill_is_for_turns_it_red(mutant: str, monkeypatch: pytest.MonkeyPatch) -> None:
    name, apply = OWN_MUTANTS[mutant]
    apply(monkeypatch)
    drill = next(each for each in SCENARIOS if each.name == name)
    rounds = min(drill.short.rounds, 80)  # the first 40 storage calls of both lives
    length = replace(drill.short, rounds=rounds, records=24, is_real=False)
    assert run_drill(DrillOrder(drill, SEED, length)).exit_code == 5


@pytest.mark.parametrize("name", NAMES)
def test_its_faults_follow_from_seed_and_length(name: str) -> None:
    drill = next(each for each in SCENARIOS if each.name == name)
    for length in (drill.short, drill.long, drill.long.for_minutes(7)):
        schedule = drill.schedule(SEED, length)
        assert schedule == drill.schedule(SEED, length)
        assert schedule, "no fault is planned"
        assert max(each.round for each in schedule) < length.rounds
        assert [each.round for each in schedule] == sorted(each.round for each in schedule)


@pytest.mark.slow
def test_a_release_that_cannot_be_rolled_back_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    OWN_MUTANTS["write a format that is new"][1](monkeypatch)
    (problem,) = set(rehearse("upgrade").problems)
    assert problem.endswith("cannot read formats [1, 2]")


def test_the_long_form_kills_twenty_times_at_every_step() -> None:
    long = kill_driver.DRILL.long
    schedule = kill_driver.DRILL.schedule(SEED, long)
    assert len(schedule) == 20
    assert {each.place for each in schedule} == set(kill_driver.STEPS)
    assert long.records >= 30_000
    assert long.is_real


def test_minutes_decide_how_many_rounds() -> None:
    length = kill_driver.DRILL.long.for_minutes(0.5)
    assert (length.rounds, length.option) == (2, "--minutes 0.5")
    assert len(kill_driver.DRILL.schedule(SEED, length)) == 2
