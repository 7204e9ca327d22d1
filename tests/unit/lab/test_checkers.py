"""Checkers, each seen to turn red on what it is for."""

import re
from collections import Counter
from dataclasses import replace

import pyarrow as pa
import pytest

from ashore.proof.verify.job import verify_job
from ashore.tables.ddl import parse_ddl
from ashore.topics.decode.registry import make_decoder
from ashore_lab.drills import SCENARIOS, DrillOrder, Length, PlannedFault, run_drill
from ashore_lab.drills.checkers.exactly_once import check_exactly_once, compare, find_visible
from ashore_lab.drills.faults import Kill, Moment
from ashore_lab.drills.recorder import Recorder
from ashore_lab.drills.run import longest_stall_s
from ashore_lab.drills.scenarios import lost_answers, replay_budget
from ashore_lab.drills.scenarios.namenode_failover import compare_rows, read_registered
from ashore_lab.drills.sites.memory import MemorySite
from ashore_lab.drills.sites.site import TABLE, SiteOptions
from ashore_lab.drills.stage import check_registered
from ashore_lab.drills.verdict import Sample, Timeline
from ashore_lab.drills.workloads.numbers import SCHEMA, Numbered, Produced
from ashore_lab.testing import FakeClock


def make_site(poison_every: int = 0, **table: object) -> MemorySite:
    clock = FakeClock()
    options = SiteOptions(poison_every=poison_every, table=table)
    site = MemorySite(5, options, clock, Recorder(clock, lambda _snapshot: None))
    site.produce(60)
    assert site.live().code == 0
    return site


def check(site: MemorySite):
    with site.opened() as opened:
        return check_exactly_once(opened, site.produced, TABLE)


def test_a_good_lake_has_no_problem() -> None:
    account = check(make_site())
    assert (account.produced, account.read, account.lost, account.duplicated) == (60, 60, 0, 0)
    assert account.problems == ()


def test_dead_letters_are_compared_too() -> None:
    site = make_site(poison_every=10)
    assert check(site).problems == ()
    dead = next(find_visible(site.machine, f"ods.db/{TABLE.split('.')[1]}__dead"))
    site.machine.delete(dead)
    assert check(site).lost == 6


def test_a_bad_record_that_is_dropped_is_lost() -> None:
    site = make_site(poison_every=10, on_invalid="drop")
    with site.opened() as opened:
        assert verify_job(opened).exit_code == 0, "verify knows that this was asked for"
    assert check(site).lost == 6


def test_a_record_that_was_changed_is_found() -> None:
    site = make_site()
    other = Produced(Numbered("clicks", 6))  # another seed: the same numbers, other content
    other.counts[:] = site.produced.counts
    with site.opened() as opened:
        account = check_exactly_once(opened, other, TABLE)
    assert account.altered == 60
    assert account.problems


def test_a_file_that_cannot_be_read_is_a_problem() -> None:
    site = make_site()
    path = next(find_visible(site.machine, "ods.db/clicks"))
    site.machine.delete(path)
    site.machine.create(path, b"PAR1 and nothing more")
    assert "cannot be read" in check(site).problems[0]


def test_comparing_names_what_is_lost_doubled_and_made_up() -> None:
    produced = Produced(Numbered("clicks", 1, partitions=2))
    produced.counts[:] = [3, 2]
    seen = Counter({(0, 0): 1, (0, 1): 3, (1, 0): 1, (1, 7): 1})
    account = compare(produced, seen, [(1, 0)])
    assert (account.lost, account.duplicated, account.altered) == (2, 2, 2)
    assert [problem.partition(":")[0] for problem in account.problems] == [
        "lost",
        "duplicated",
        "altered",
        "made up",
    ]


def timeline(*samples: tuple[float, int, int]) -> Timeline:
    return Timeline((), tuple(Sample(*each) for each in samples), is_simulated=True)


@pytest.mark.parametrize(
    ("samples", "stall_s"),
    [
        ([], 0),
        ([(0, 0, 0), (9, 0, 0)], 0),  # nothing was there to land
        ([(0, 0, 5), (3, 5, 0), (9, 5, 0)], 3),
        ([(0, 0, 9), (1, 3, 6), (2, 3, 6), (6, 6, 3), (7, 9, 0)], 5),
        ([(0, 0, 9), (4, 0, 9)], 4),  # to the end
        ([(0, 5, 0), (2, 5, 4), (3, 9, 0)], 1),  # from when there was something
    ],
)
def test_time_without_progress(samples: list[tuple[float, int, int]], stall_s: float) -> None:
    assert longest_stall_s(timeline(*samples)) == stall_s


@pytest.mark.slow
def test_a_budget_that_is_not_kept_is_a_problem(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replay_budget, "BATCHES", 20)  # a kill every 20 batches is too many
    length = replace(replay_budget.DRILL.short, rounds=2, records=40)
    verdict = run_drill(DrillOrder(replay_budget.DRILL, 1, length))
    assert verdict.figures.read_twice == 4
    assert verdict.exit_code == 5
    assert "the budget is 0.50%" in verdict.problems[0]


def test_a_drill_in_which_no_fault_strikes_is_not_green() -> None:
    length = Length(rounds=1, records=24, text="")
    far = PlannedFault(0, "kill", "move", 99)

    def play(stage) -> None:
        site = stage.site()
        site.produce(length.records)
        assert site.live(Kill(Moment(far.place, far.number))).code == 0

    drill = replace(lost_answers.DRILL, plan=lambda _dice, _length: (far,), play=play)
    verdict = run_drill(DrillOrder(drill, 1, length))
    assert (verdict.exit_code, verdict.doubts) == (6, ("no fault has struck",))


def test_every_storage_call_of_both_lives_has_its_turn() -> None:
    drill = next(each for each in SCENARIOS if each.name == "lost-answers")
    planned = {(each.place, each.number) for each in drill.schedule(1, drill.short)}
    one = run_drill(DrillOrder(drill, 1, replace(drill.short, rounds=1)))
    assert one.exit_code == 0
    lives = [
        re.fullmatch(r"(life .*): calls 1 to .* of (\d+) were struck", note) for note in one.notes
    ]
    known = [(life[1], int(life[2])) for life in lives if life]
    assert [life for life, _ in known] == ["life 0", "life 1"]
    for life, calls in known:
        assert {(life, number + 1) for number in range(calls)} <= planned


@pytest.mark.parametrize("record", range(10, 210, 10))
def test_every_form_of_poison_is_no_row(record: int) -> None:
    workload = Numbered("clicks", 1, partitions=1, poison_every=10)
    good, bad = workload.value(0, record + 1), workload.value(0, record)
    decoded = make_decoder("json", parse_ddl(SCHEMA)).decode(pa.array([good, bad], pa.binary()))
    assert [row.index for row in decoded.bad] == [1]


def make_registered(**options: object) -> MemorySite:
    clock = FakeClock()
    asked = SiteOptions(has_metastore=True, countries_every=20, **options)  # type: ignore[arg-type]
    site = MemorySite(5, asked, clock, Recorder(clock, lambda _snapshot: None))
    if asked.twin_of is None:
        site.produce(60)
    assert site.live().code == 0
    return site


def locations(site: MemorySite) -> dict[str, str]:
    return dict(site.registered() or {})


def test_every_partition_with_files_is_to_be_registered() -> None:
    site = make_registered()
    known = locations(site)
    assert len(known) == 9
    assert check_registered(site.machine, TABLE, known) == []
    (forgotten, path), *_ = known.items()
    rest = {key: each for key, each in known.items() if key != forgotten}
    (problem,) = check_registered(site.machine, TABLE, rest)
    assert problem == f"not registered: 1 partitions of {TABLE} ({path})"
    (problem,) = check_registered(site.machine, TABLE, {**known, "XX": "ods.db/clicks/country=XX"})
    assert problem.startswith("registered without files: 1 partitions")


def test_twins_are_compared_row_by_row() -> None:
    first = make_registered()
    second = make_registered(twin_of=first)
    tested = read_registered(first.machine, locations(first))
    control = read_registered(second.machine, locations(second))
    assert tested.total() == control.total() == 60
    assert compare_rows(tested, control) == []
    row = next(iter(tested))
    changed = tested - Counter([row]) + Counter([(*row[:-1], ("ts", 0))])
    missing, more = compare_rows(changed, control)
    assert missing.startswith("1 rows of the control")
    assert more.startswith("1 rows are not")
    (twice,) = compare_rows(tested + Counter([row]), control)
    assert twice.startswith("1 rows are not")


def test_a_twin_that_is_not_registered_has_no_rows() -> None:
    site = make_registered()
    _forgotten, *rest = locations(site).items()
    assert read_registered(site.machine, dict(rest)).total() < 60
