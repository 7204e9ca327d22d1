"""The metastore was away for a while; new table partitions came all the same.

Landing does not wait for it. What could not be registered is deferred in the landing log, and is
done once the metastore is back, by whichever process runs then.
"""

import math
import random

from ashore_lab.drills.drill import Drill
from ashore_lab.drills.faults import Moment, Out, Outage
from ashore_lab.drills.plan import Length, PlannedFault, Schedule, Server
from ashore_lab.drills.scenarios.outages import count_deferred
from ashore_lab.drills.sites.site import SiteOptions
from ashore_lab.drills.stage import Stage

BATCHES = 4


def plan(dice: random.Random, length: Length) -> Schedule:
    """Let the metastore be killed once in each round, before the last batch."""
    return tuple(
        PlannedFault(index, Out.METASTORE, dice.choice(("plan", "prepare")), dice.randint(1, 2))
        for index in range(length.rounds)
    )


def play(stage: Stage) -> None:
    """Let the job land without a metastore; count what it deferred, bring it back, continue."""
    records = max(1, stage.length.records // BATCHES)
    site = stage.site(
        SiteOptions(batch_records=records, lake="hdfs", has_metastore=True, countries_every=records)
    )
    site.expect(2 * len(stage.schedule))
    deferred = 0
    for planned in stage.schedule:
        site.produce(stage.length.records)
        moment = Moment(planned.place, planned.number)
        end = site.live(Outage(moment, Out.METASTORE, math.inf))
        is_landed = end.code == 0 and site.landed() == site.produced.total
        stage.require(is_landed, f"landing has waited: {end.code}: {end.message}")
        deferred += count_deferred(site)
        site.mend()
        stage.drain(site)  # there is nothing to land
        stage.require(count_deferred(site) == 0, "a registration was deferred and not made good")
    stage.require_proof(deferred > 0, "nothing was deferred: the metastore was not missed")
    stage.notes.append(f"{deferred} registrations were deferred, and made good")


DRILL = Drill(
    name="metastore-outage",
    title="The metastore is killed while new partitions come, and comes back much later",
    shows="landing does not wait for a metastore, and every partition is registered afterwards",
    short=Length(
        rounds=1,
        records=3_000,
        text="one outage of the metastore, 3,000 records, without Spark; at length ten",
        is_real=True,
        has_spark=False,
    ),
    long=Length(
        rounds=10,
        records=30_000,
        text="10 outages of the metastore, 30,000 records each",
        is_real=True,
        rounds_per_minute=2,
    ),
    plan=plan,
    play=play,
    needs=frozenset({Server.HDFS, Server.METASTORE}),
)
