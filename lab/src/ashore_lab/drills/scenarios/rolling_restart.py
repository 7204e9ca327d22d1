"""Three brokers were restarted one after the other, while records came in large batches.

The job was down meanwhile. It starts with a backlog, and each partition has another leader epoch
than when it was landed: `ashore run`, and then the job, ask the leaders whether what was landed is
still there, and the job lands the rest. With Spark a query counts the same topic, and asks the
same.
"""

import random
from dataclasses import replace

from ashore.topics.use.preflight import check_job
from ashore_lab.drills.drill import Drill
from ashore_lab.drills.faults import BrokerAway, Moment
from ashore_lab.drills.plan import Length, PlannedFault, Schedule, Server
from ashore_lab.drills.scenarios.counts import check_counts, counted_options
from ashore_lab.drills.sites.real import RealSite
from ashore_lab.drills.sites.site import Site, SiteOptions
from ashore_lab.drills.stage import Stage
from ashore_lab.drills.verdict import Flight

KIND = "brokers restarted"
BROKERS = 3
BATCHES = 3  # of what comes in a round, unless Spark reads it
PARTITIONS = 9  # several to each broker, also while one is away: a fetch asks it for all of them
PADDING_BYTES = 1_000
AWAY_S = 2.0  # in memory


def plan(dice: random.Random, length: Length) -> Schedule:
    """Restart all brokers once in each round, beginning with any."""
    return tuple(
        PlannedFault(index, KIND, "broker", dice.randint(1, BROKERS))
        for index in range(length.rounds)
    )


def play(stage: Stage) -> None:
    """Land; restart the brokers while records come, and more come; start the job, which drains.

    In memory there is one broker: there it goes away while the job reads.
    """
    records, has_query = stage.length.records, stage.length.is_real and stage.length.has_spark
    batch_records = max(1, records // BATCHES)
    options = counted_options(records) if has_query else SiteOptions(batch_records=batch_records)
    site = stage.site(
        replace(options, partitions=PARTITIONS, brokers=BROKERS, padding_bytes=PADDING_BYTES)
    )
    site.expect(len(stage.schedule) + 1)
    site.produce(records)
    stage.drain(site)
    for planned in stage.schedule:
        if isinstance(site, RealSite):
            _restart(stage, site, planned)
            stage.drain(site)
        else:
            _lose_the_only_one(stage, site)
    if has_query and isinstance(site, RealSite):
        check_counts(stage, site)


def _restart(stage: Stage, site: RealSite, planned: PlannedFault) -> None:
    records, changed = stage.length.records, list[int]()
    stage.together(
        lambda: site.produce(records),
        lambda: changed.append(site.restart_brokers(planned.number)),
    )
    site.produce(records)
    text = f"all {BROKERS} brokers, number {planned.number} first"
    backlog = f"{2 * records:,} records in {PARTITIONS} partitions, of which {changed[0]} "
    is_proof = changed[0] == PARTITIONS
    stage.recorder.fault(KIND, text, Flight(f"{backlog}have another leader epoch", is_proof))
    with site.opened() as opened:
        check_job(opened)  # a command has less patience than the process that it starts


def _lose_the_only_one(stage: Stage, site: Site) -> None:
    site.produce(stage.length.records)
    end = site.live(BrokerAway(Moment("write", 1), AWAY_S))
    stage.require(end.code == 0, f"the job did not survive it: {end.code}: {end.message}")


DRILL = Drill(
    name="rolling-restart",
    title="Three brokers are restarted one after the other, under a backlog in large batches",
    shows="a job starts under new leader epochs, however large the batches of its backlog are",
    short=Length(
        rounds=1,
        records=6_000,
        text="each broker once, 18,000 records, without Spark and SQL; at length 5 times",
        is_real=True,
        has_spark=False,
    ),
    long=Length(
        rounds=5,
        records=50_000,
        text="each broker 5 times, 100,000 records each time, landed and counted by SQL",
        is_real=True,
        rounds_per_minute=1,
    ),
    plan=plan,
    play=play,
    needs=frozenset({Server.BROKERS}),
)
