"""A topic was deleted and created again, with the same name and the same partitions.

Offsets begin at 0 again and soon pass the place where the job was: nothing in them looks wrong. The
job must not take the new topic for the old one. It stops, and continues once an operator says so.
"""

import random

from ashore.errors import StreamReplaced
from ashore.log.store.reader import read_log
from ashore.topics.use.take_over import rejoin_topic
from ashore_lab.drills.drill import Drill
from ashore_lab.drills.faults import Happens, Moment
from ashore_lab.drills.plan import Length, PlannedFault, Schedule
from ashore_lab.drills.sites.site import NAME, Site, SiteOptions
from ashore_lab.drills.stage import Stage
from ashore_lab.drills.verdict import Flight

BATCHES = 3
KIND = "topic created again"
IDLE, READ = "idle", "prepare"  # when all has landed; when a batch has just been read


def plan(dice: random.Random, length: Length) -> Schedule:
    """Replace the topic once in each round, by turns while nothing and while a batch is read."""
    return tuple(
        PlannedFault(index, KIND, *((READ, dice.randint(1, BATCHES)) if index % 2 else (IDLE, 1)))
        for index in range(length.rounds)
    )


def play(stage: Stage) -> None:
    """Land, replace the topic, land on."""
    site = stage.site(SiteOptions(batch_records=max(1, stage.length.records // BATCHES)))
    site.expect(3 * len(stage.schedule), at_once=2)
    for planned in stage.schedule:
        site.produce(stage.length.records)
        if planned.place == IDLE:
            stage.drain(site)
            site.create_again()
            known = Flight(f"{site.landed():,} records that the log has", site.landed() > 0)
            stage.recorder.fault(KIND, "while the job was idle", known)
            site.produce(2 * stage.length.records)  # beyond where the job was
            _require_refusal(stage, site)
        else:
            site.live(Happens(Moment(READ, planned.number), KIND, site.create_again))
            _lose_unread(site)
            site.produce(2 * stage.length.records)
            _require_refusal(stage, site)
        with site.opened() as opened:
            joined = rejoin_topic(opened, site.produced.workload.topic, takes_over=False)
        expected = site.produced.workload.partitions
        stage.require(joined == expected, f"{joined} of {expected} partitions were joined again")
        stage.drain(site)


def _require_refusal(stage: Stage, site: Site) -> None:
    """Start the job: it must stop for the new topic, and land nothing of it."""
    landed = site.landed()
    end = site.live()
    is_reported = end.code == StreamReplaced.exit_code and "created again" in end.message
    stage.require(is_reported, f"the job did not stop for a new topic: {end.code}: {end.message}")
    stage.require(site.landed() == landed, "records of another topic were landed unasked")


def _lose_unread(site: Site) -> None:
    """Take down what went away with the topic before the job had it."""
    produced = site.produced
    *before, ends = ((0,) * produced.workload.partitions, *produced.workload.restarts)
    with site.opened() as opened:
        shards = read_log(opened.storage, NAME).current()
    for key, state in shards.items():
        partition = int(key.shard)
        read = before[-1][partition] + state.next
        produced.lose(partition, range(read, ends[partition]))


DRILL = Drill(
    name="topic-recreated",
    title="A topic is deleted and created again under a running job",
    shows="a new topic is never taken for the old one, whatever its offsets are",
    short=Length(
        rounds=1,
        records=1_000,
        text="once, on a real broker, without Spark; at length also while a batch is read",
        is_real=True,
        has_spark=False,
    ),
    long=Length(
        rounds=6,
        records=10_000,
        text="6 times, 30,000 records each",
        is_real=True,
        rounds_per_minute=2,
    ),
    plan=plan,
    play=play,
)
