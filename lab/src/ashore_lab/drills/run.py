"""The engine: plays one drill and says what came of it.

What it is: `run_drill`: schedule, stage, scenario, checkers, verdict.
What it promises: whatever happens there is a verdict, but for Ctrl-C; a scenario that breaks off is
red, and its lakes are checked all the same. One that is not over in time is red as well.
"""

import sys
import threading
import traceback
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass

from ashore.base.clock import Clock, SystemClock
from ashore.errors import AshoreError
from ashore_lab.drills.drill import Drill
from ashore_lab.drills.plan import Length
from ashore_lab.drills.recorder import Recorder, Snapshot
from ashore_lab.drills.stage import RealSites, Stage
from ashore_lab.drills.verdict import Figures, Timeline, Verdict
from ashore_lab.testing import FakeClock

STACK = 6  # frames of a thread that are shown


@dataclass(frozen=True, slots=True)
class DrillOrder:
    """What is to be played."""

    drill: Drill
    seed: int
    length: Length


def run_drill(
    order: DrillOrder,
    watch: Callable[[Snapshot], None] = lambda _snapshot: None,
    real_sites: RealSites | None = None,
) -> Verdict:
    """Play a drill to its end and return the verdict.

    Arguments:
        order: what to play.
        watch: called after everything that happens, by any thread; must not raise.
        real_sites: makes sites on real servers; needed where the length is real.

    """
    machine = SystemClock()
    clock: Clock = machine if order.length.is_real else FakeClock(monotonic_start_s=0.0)
    recorder = Recorder(clock, watch)
    schedule = order.drill.schedule(order.seed, order.length)
    stage = Stage((order.seed, order.length, schedule), clock, recorder, real_sites)
    began_ms, began_s = machine.now_ms(), machine.monotonic_s()
    try:
        _play_in_time(order, stage)
    finally:
        recorder.end()
        stage.abandon()
    timeline = recorder.timeline(is_simulated=not order.length.is_real)
    accounts = stage.accounts
    figures = Figures(
        records=sum(each.produced for each in accounts),
        faults=recorder.faults,
        restarts=recorder.restarts,
        lost=sum(each.lost for each in accounts),
        duplicated=sum(each.duplicated for each in accounts),
        altered=sum(each.altered for each in accounts),
        stalled_s=round(longest_stall_s(timeline), 3),
        read_twice=stage.read_twice,
    )
    stage.require_proof(figures.faults > 0, "no fault has struck")
    stage.require_proof(figures.records > 0, "nothing was produced")
    for doubt in recorder.empty_strikes():
        stage.require_proof(False, doubt)
    stage.notes[:0] = recorder.flights()
    return Verdict(
        drill=order.drill.name,
        title=order.drill.title,
        seed=order.seed,
        length=order.length,
        began_ms=began_ms,
        took_s=round(machine.monotonic_s() - began_s, 3),
        figures=figures,
        problems=tuple(stage.problems),
        doubts=tuple(stage.doubts),
        notes=tuple(stage.notes),
        schedule=schedule,
        timeline=timeline,
    )


def _play_in_time(order: DrillOrder, stage: Stage) -> None:
    """Play in a thread that is given up once the limit is over: what hangs must be reported too."""
    limit_s, playing = order.length.limit_s, Future[None]()

    def play() -> None:
        try:
            _play(order.drill, stage)
        except BaseException as error:  # noqa: BLE001 - raised where the drill was begun
            playing.set_exception(error)
        else:
            playing.set_result(None)

    before = set(threading.enumerate())
    threading.Thread(target=play, name="drill", daemon=True).start()
    try:
        playing.result(limit_s)
    except TimeoutError:
        if playing.done():
            raise
        stage.require(False, f"the drill was not over after {limit_s:g} s; lakes were not checked")
        stage.notes.extend(_describe_threads(set(threading.enumerate()) - before))


def _describe_threads(threads: set[threading.Thread]) -> list[str]:
    """Return where each of these threads is, for who looks for what hangs."""
    frames = sys._current_frames()  # noqa: SLF001 - made for just this
    return [
        f"{each.name} was here:\n" + "".join(traceback.format_stack(frames[each.ident])[-STACK:])
        for each in sorted(threads, key=lambda thread: thread.name)
        if each.ident in frames
    ]


def _play(drill: Drill, stage: Stage) -> None:
    try:
        drill.play(stage)
    except AshoreError as error:
        stage.require(False, f"the drill broke off: {error.code}: {error.message}")
    stage.settle_all()


def longest_stall_s(timeline: Timeline) -> float:
    """Return the longest time in which nothing landed although there was something to land.

    Pure. Counted from the last sample at which something had landed, or at which there began to be
    something to land, to the next one that shows more.
    """
    longest_s, since_s, landed = 0.0, None, 0
    for sample in timeline.samples:
        if since_s is not None:
            longest_s = max(longest_s, sample.at_s - since_s)
        if sample.landed > landed or sample.lag == 0 or since_s is None:
            since_s = sample.at_s if sample.lag > 0 else None
        landed = max(landed, sample.landed)
    return longest_s
