"""The clock of the driver was wrong, and was set right in the midst of the work.

It jumps by minutes, hours and years, forwards and back, while there are records to read. Far ahead,
nothing is planned by it: the job waits, gives up, and the next process continues once the clock is
right. And a log that a clock of another year has written already, by a release that did not look,
is refused until an operator sets it back.
"""

import random

from ashore.base.clock import AHEAD_MS_MAX
from ashore.errors import AshoreError, ClockAhead, LogAhead
from ashore.log.entries import Prepare
from ashore.log.positions import BatchTime
from ashore.log.store.reader import read_log
from ashore.topics.open_job import OpenJob
from ashore.topics.use import reset_clock
from ashore_lab.drills.drill import Drill
from ashore_lab.drills.faults import BATCH_STEPS, ClockJump, Moment
from ashore_lab.drills.plan import Length, PlannedFault, Schedule
from ashore_lab.drills.sites.site import NAME, Site, SiteOptions
from ashore_lab.drills.stage import Stage

BATCHES = 3
MINUTE_S = 60
YEAR_MIN = 366 * 24 * 60
CLOCK, LOG = "clock", "log"
JUMPS = (
    (CLOCK, 50),
    (CLOCK, -120),
    (CLOCK, YEAR_MIN),
    (LOG, 10 * YEAR_MIN),
    (CLOCK, -YEAR_MIN),
    (CLOCK, 30 * 60),
)
TABLE = {
    "event_time": {"column": "ts", "unit": "ms"},
    "partition_by": ["date", "hour"],
}


def plan(dice: random.Random, length: Length) -> Schedule:
    """Let the clock jump once in each round, by another time; or the log be ahead."""
    planned = []
    for index in range(length.rounds):
        what, minutes = JUMPS[index % len(JUMPS)]
        step = "between lives" if what == LOG else dice.choice(BATCH_STEPS)
        kind = f"{what} {minutes:+d} min"
        planned.append(PlannedFault(index, kind, step, dice.randint(1, BATCHES - 1)))
    return tuple(planned)


def play(stage: Stage) -> None:
    """Land while the clock jumps; set it right, or the log back; land the rest."""
    records = stage.length.records
    site = stage.site(SiteOptions(batch_records=max(1, records // BATCHES), table=TABLE))
    for planned in stage.schedule:
        site.produce(records)
        what, minutes, _ = planned.kind.split()
        seconds = int(minutes) * MINUTE_S
        if what == LOG:
            _set_back(stage, site, seconds)
        else:
            _jump(stage, site, ClockJump(Moment(planned.place, planned.number), seconds))
    stage.drain(site)


def _jump(stage: Stage, site: Site, jump: ClockJump) -> None:
    """Let the clock jump, and set it right at the start of the next process."""
    before_ms, is_far = _latest_ms(site), jump.seconds * 1000 > AHEAD_MS_MAX
    end = site.live(jump)
    expected = ClockAhead.exit_code if is_far else 0
    stage.require(end.code == expected, f"{jump}: the job ended with {end.code}: {end.message}")
    if is_far:
        stage.require("clock shows" in end.message, f"{jump}: the job says {end.message}")
        ahead_ms = _latest_ms(site) - before_ms
        stage.require(ahead_ms < jump.seconds * 500, f"{jump}: the log believes it")
    site.produce(stage.length.records // BATCHES)
    end = site.live(ClockJump(Moment("open"), -jump.seconds))
    stage.require(end.code == 0, f"after {jump}: the job ended with {end.code}: {end.message}")


def _set_back(stage: Stage, site: Site, seconds: float) -> None:
    """Let a writer that believes its clock take over; be refused; set the log back."""
    with site.opened() as opened:
        far_ms = opened.clock.now_ms() + round(1000 * seconds)
        flight = site.flight(must_be_half_done=False)
        text = f"a writer believes a clock that is {seconds:+,.0f} s off"
        stage.recorder.fault("clock believed", text, flight)
        _believe(opened, site.table, far_ms)
        stage.require(_latest_ms(site) == far_ms, "the log is not ahead")
        end = site.live()
        is_refused = end.code == LogAhead.exit_code and "the log has the time" in end.message
        stage.require(is_refused, f"a log ahead: the job ended with {end.code}: {end.message}")
        try:
            done = reset_clock.apply(opened, "drill: the clock was ahead", takes_over=True)
        except AshoreError as error:
            stage.require(False, f"the log is not set back: {error.message}")
        else:
            stage.require(len(done) == 1, "there was nothing to set back")
    stage.drain(site)
    stage.require(_latest_ms(site) < far_ms - 500 * seconds, "the log is ahead again")


def _believe(opened: OpenJob, table: str, far_ms: int) -> None:
    """Do what a writer does that believes a clock of another year: batch, watermark and all."""
    committer = opened.committer(NAME)
    committer.log.open()
    closing = committer.finish()
    time = BatchTime(far_ms, ((table, far_ms),))
    body = Prepare(committer.log.fold.next_batch, time, (), (), (), (), None)
    committer.log.append(body, closing)


def _latest_ms(site: Site) -> int:
    with site.opened() as opened:
        fold = read_log(opened.storage, NAME)
    return max([fold.latest_ms, *fold.watermarks.values()])


DRILL = Drill(
    name="clock-jump",
    title="The driver's clock jumps by minutes and by years",
    shows="a clock far ahead writes no time into the log, and a log that is ahead can be set back",
    short=Length(rounds=len(JUMPS), records=600, text="six jumps, up to ten years, in memory"),
    long=Length(
        rounds=len(JUMPS),
        records=30_000,
        text="six jumps, up to ten years, of real processes",
        is_real=True,
        rounds_per_minute=1,
    ),
    plan=plan,
    play=play,
)
