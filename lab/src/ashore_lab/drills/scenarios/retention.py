"""A job stood still over a long weekend, and retention continued: its next records were gone.

It died in the midst of its moves, unnoticed. Records expired under the backlog. The job
refuses to continue as if nothing were missing, and names what is; on `skip`, it does so once, and
the log says for ever which offsets were given up.
"""

import random
from collections.abc import Iterable

from ashore.errors import OffsetsGone
from ashore.log.entries import Entry, Skip
from ashore.log.positions import OffsetRange
from ashore.log.store.reader import read_history, read_log
from ashore_lab.drills.drill import Drill
from ashore_lab.drills.faults import Kill, Moment
from ashore_lab.drills.plan import Length, PlannedFault, Schedule
from ashore_lab.drills.sites.site import NAME, Site, SiteOptions
from ashore_lab.drills.stage import Stage
from ashore_lab.drills.verdict import Flight
from ashore_lab.drills.workloads.numbers import Produced

BATCHES = 3
KIND = "records expire"
STEPS = ("prepare", "move", "landed")  # at which the job died, of its first batch


def plan(dice: random.Random, length: Length) -> Schedule:
    """Let some percent of a backlog expire in each round."""
    return tuple(
        PlannedFault(index, KIND, STEPS[(index + 1) % len(STEPS)], dice.randint(10, 45))
        for index in range(length.rounds)
    )


def play(stage: Stage) -> None:
    """Let a backlog expire in part, each round on a lake of its own."""
    for planned in stage.schedule:
        options = SiteOptions(batch_records=max(1, stage.length.records // BATCHES))
        site = stage.site(options)
        site.expect(3, at_once=2)
        site.produce(stage.length.records)
        site.live(Kill(Moment(planned.place)))
        site.produce(stage.length.records)
        expired = _expire(stage, site, planned.number)
        landed = site.landed()
        end = site.live()
        stage.require(end.code == OffsetsGone.exit_code, f"it continued over a gap: {end.code}")
        unnamed = [text for text in expired if text not in end.message]
        stage.require(not unnamed, f"{end.message!r} does not name {unnamed}")
        stage.require(site.landed() == landed, "something was landed behind the gap")
        site.skip_gaps()
        stage.drain(site)
        with site.opened() as opened:
            for problem in compare_skipped(read_history(opened.storage, NAME), site.produced):
                stage.require(False, problem)
        stage.settle(site, f"{planned.number} % of a backlog had expired")


def _expire(stage: Stage, site: Site, percent: int) -> list[str]:
    """Let the first records that are still to be read expire; return each reported range."""
    with site.opened() as opened:
        shards = read_log(opened.storage, NAME).current()
    expired = []
    for key, state in sorted(shards.items()):
        partition = int(key.shard)
        backlog = site.produced.counts[partition] - state.next
        offsets = OffsetRange(state.next, state.next + max(1, backlog * percent // 100))
        site.expire(partition, offsets.end)
        site.produced.lose(partition, range(offsets.start, offsets.end))
        unread = Flight(f"{backlog:,} records to read", is_proof=offsets.end > offsets.start)
        stage.recorder.fault(KIND, f"{key} {offsets}", unread)
        expired.append(f"{key} {offsets}")
    return expired


DRILL = Drill(
    name="retention",
    title="Records expire before a job has read them",
    shows="a gap stops a job, which names it; `gap: skip` skips those offsets and no others",
    short=Length(
        rounds=1,
        records=3_000,
        text="once, with 6,000 records, on a real broker, without Spark; at length at three steps",
        is_real=True,
        has_spark=False,
    ),
    long=Length(
        rounds=6,
        records=30_000,
        text="6 times, 60,000 records each",
        is_real=True,
        rounds_per_minute=2,
    ),
    plan=plan,
    play=play,
)


def compare_skipped(entries: Iterable[Entry], produced: Produced) -> tuple[str, ...]:
    """Return what is wrong with the skips of a log of a topic's first generation.

    Pure and exact: an offset that was skipped and was there is a problem, and so is one that was
    gone and is not named.
    """
    skips = [entry.body for entry in entries if isinstance(entry.body, Skip)]
    ranges = [each for skip in skips for each in skip.ranges]
    named = [
        (int(each.key.shard), offset)
        for each in ranges
        for offset in range(each.offsets.start, each.offsets.end)
    ]
    problems = []
    if len(named) != len(set(named)):
        problems.append(f"{len(named) - len(set(named)):,} offsets are skipped twice")
    for text, wrong in (
        ("are skipped, and were there", set(named) - produced.gone),
        ("had expired, and are not named", produced.gone - set(named)),
    ):
        if wrong:
            problems.append(f"{len(wrong):,} offsets {text}: {sorted(wrong)[:5]}")
    return tuple(problems)
