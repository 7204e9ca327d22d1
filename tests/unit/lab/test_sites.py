"""What a site in memory lets happen, and when."""

import math
from collections.abc import Callable
from itertools import pairwise

import pytest

from ashore.errors import Fenced, StorageError
from ashore.storage.memory import MemoryStorage
from ashore_lab.drills.faults import (
    BrokerAway,
    ClockJump,
    Countdown,
    Freeze,
    Happens,
    Kill,
    Moment,
    Out,
    Outage,
)
from ashore_lab.drills.faults.full import DiskFull, FullStorage
from ashore_lab.drills.recorder import Recorder
from ashore_lab.drills.scenarios.outages import count_deferred
from ashore_lab.drills.scenarios.slow_storage import SlowCalls, SlowStorage
from ashore_lab.drills.sites.memory import MemorySite
from ashore_lab.drills.sites.site import KILLED, SiteOptions
from ashore_lab.drills.verdict import Sample
from ashore_lab.testing import FakeClock, PendingEffects

pytestmark = pytest.mark.slow


@pytest.fixture
def recorder() -> Recorder:
    return Recorder(FakeClock(), lambda _snapshot: None)


@pytest.fixture
def site(recorder: Recorder) -> MemorySite:
    site = MemorySite(3, SiteOptions(batch_records=10), FakeClock(), recorder)
    site.produce(30)
    return site


def kinds(recorder: Recorder) -> list[str]:
    return [mark.kind for mark in recorder.timeline(is_simulated=True).marks]


def test_a_moment_comes_once_at_its_number() -> None:
    countdown = Countdown(Moment("move", 2))
    steps = ["move", "plan", "move", "move"]
    assert [countdown.has_come(step) for step in steps] == [False, False, True, False]


def test_a_killed_process_leaves_what_it_had_prepared(site: MemorySite, recorder: Recorder) -> None:
    assert site.live(Kill(Moment("move", 2))).code == KILLED
    assert site.landed() == 20
    assert site.live().code == 0
    assert site.landed() == 30
    assert recorder.restarts == 1
    assert recorder.faults == 1


def test_a_frozen_process_that_was_replaced_is_fenced(site: MemorySite, recorder: Recorder) -> None:
    def take_over() -> None:
        assert site.live().code == 0

    end = site.live(Freeze(Moment("write", 2), take_over))
    assert end.code == Fenced.exit_code
    assert site.landed() == 30
    assert recorder.restarts == 1


def test_a_broker_that_is_away_is_waited_for(site: MemorySite, recorder: Recorder) -> None:
    assert site.live(BrokerAway(Moment("plan", 2), 4.0)).code == 0
    assert site.landed() == 30
    assert "warning" in kinds(recorder)


def test_a_broker_that_stays_away_ends_the_process(site: MemorySite) -> None:
    end = site.live(BrokerAway(Moment("plan", 2), 1_000.0))
    assert (end.code, end.message) == (7, "no broker answers")
    assert site.landed() == 10


def test_the_clock_jumps_when_it_is_reported_to(site: MemorySite) -> None:
    before_ms = site.clock.now_ms()
    assert site.live(ClockJump(Moment("plan", 2), -3_600)).code == 0
    assert site.clock.now_ms() < before_ms


def test_anything_may_happen(site: MemorySite, recorder: Recorder) -> None:
    seen: list[int] = []
    happens = Happens(Moment("landed", 2), "switch", lambda: seen.append(site.landed()))
    assert site.live(happens).code == 0
    assert seen == [20]
    assert "fault: switch" in kinds(recorder)


def test_a_fault_whose_moment_does_not_come_has_not_struck(
    site: MemorySite, recorder: Recorder
) -> None:
    assert site.live(Kill(Moment("move", 9))).code == 0
    assert recorder.faults == 0


def test_housekeeping_deletes_what_a_killed_process_has_left(site: MemorySite) -> None:
    site.live(Kill(Moment("prepare", 1)))
    assert site.live().code == 0
    staged = "ods.db/clicks/.ashore/drill/main/1"
    assert site.machine.list(staged)
    site.keep_house()
    assert not site.machine.list(staged)


@pytest.mark.parametrize(
    "write",
    [
        lambda disk: disk.create("a/b", b"12345678"),
        lambda disk: disk.open_write("a/c").write(b"12345678"),
    ],
)
def test_a_full_disk_takes_nothing_until_there_is_room(
    site: MemorySite, write: Callable[[FullStorage], object]
) -> None:
    disk = FullStorage(site.machine, DiskFull(10, 60.0), site.clock)
    disk.create("a/a", b"123")
    for _ in range(2):
        with pytest.raises(StorageError, match="No space left"):
            disk.create("a/d", b"12345678")
    assert disk.was_full
    site.clock.advance(61)
    write(disk)


def test_samples_of_a_level_stretch_are_its_ends() -> None:
    clock = FakeClock()
    recorder = Recorder(clock, lambda _snapshot: None)
    for landed in (0, 0, 0, 0, 5, 5):
        recorder.sample(5, landed)
        clock.advance(1)
    recorder.settled()
    recorder.sample(2, 0)
    found = recorder.timeline(is_simulated=True).samples
    assert [Sample(round(each.at_s), *each[1:]) for each in found] == [
        Sample(0, 0, 5),
        Sample(3, 0, 5),
        Sample(4, 5, 0),
        Sample(5, 5, 0),
        Sample(6, 5, 2),
    ]


@pytest.mark.parametrize("step", ["write", "prepare", "move"])
@pytest.mark.parametrize("out", Out)
def test_an_outage_that_ends_is_ridden_out(
    site: MemorySite, recorder: Recorder, out: Out, step: str
) -> None:
    assert site.live(Outage(Moment(step, 2), out, 4.0)).code == 0
    assert site.landed() == 30
    assert f"fault: {out}" in kinds(recorder)


@pytest.mark.parametrize("out", [Out.STORAGE_NODES, Out.NAMENODES, Out.QUOTA])
def test_an_outage_without_end_ends_every_process_until_it_is_mended(
    site: MemorySite, out: Out
) -> None:
    assert site.live(Outage(Moment("write", 2), out, math.inf)).code != 0
    assert site.live().code != 0
    assert site.landed() == 10
    site.mend()
    assert site.live().code == 0
    assert site.landed() == 30


def test_without_a_metastore_partitions_are_owed(recorder: Recorder) -> None:
    options = SiteOptions(batch_records=10, has_metastore=True)
    site = MemorySite(3, options, FakeClock(), recorder)
    site.produce(30)
    assert site.live(Outage(Moment("plan"), Out.METASTORE, math.inf)).code == 0
    assert (site.landed(), site.registered()) == (30, {})
    assert count_deferred(site) == 3
    site.mend()
    assert site.live().code == 0
    assert (len(site.registered() or {}), count_deferred(site)) == (3, 0)


def test_slow_calls_have_no_rhythm_and_are_the_same_for_a_seed() -> None:
    """Whoever makes six calls, the last of which is slow, and begins again, must get on."""

    def slow_calls(seed: str) -> list[int]:
        clock = FakeClock()
        slow = SlowCalls(of=6, seconds=1.0, seed=seed)
        storage = SlowStorage(MemoryStorage(clock), slow, clock, PendingEffects())
        found = []
        for number in range(300):
            before_s = clock.monotonic_s()
            storage.stat("d/a")
            found += [number] if clock.monotonic_s() > before_s else []
        return found

    struck = slow_calls("1")
    assert struck == slow_calls("1") != slow_calls("2")
    gaps = [after - before for before, after in pairwise(struck)]
    assert 30 < len(struck) < 75
    assert max(gaps) > 12
    assert min(gaps) < 3
