"""Two groups of jobs read one topic; the HDFS of one group failed over again and again.

The control group's HDFS has one NameNode and is healthy. Both land into tables of one metastore,
and in the end the tables are compared, record by record: nothing may tell which group had a bad
week. NameNodes are switched in order, and while moves are in flight; killed; frozen, or cut off
from everybody, with no switch for long; and both cut off while the job dies and is started again.
"""

import random

from ashore.drills.checkers.same_tables import compare_rows, read_registered
from ashore.drills.drill import Drill, Length, Planned, Schedule
from ashore.drills.faults import BATCH_STEPS, Kill, Moment, Out, Outage
from ashore.drills.sites.site import KILLED, Site, SiteOptions
from ashore.drills.stage import Stage

ORDER = (
    Out.SWITCH,
    Out.NAMENODE_KILLED,
    Out.NAMENODE_FROZEN,
    Out.SWITCH,
    Out.NAMENODE_CUT_OFF,
    Out.NAMENODES,
)
IN_MOVES = 2  # of these strike while moves are in flight
BATCHES = len(ORDER) + 1
DEADLINE_S = 6.0  # of a storage call; short, so that few of them fit into an outage


def plan(dice: random.Random, length: Length) -> Schedule:
    """Let everything happen once in each round, batch after batch; the first two in moves."""
    return tuple(
        Planned(
            index, out, "move" if number < IN_MOVES else dice.choice(BATCH_STEPS[:-1]), number + 2
        )
        for index in range(length.rounds)
        for number, out in enumerate(ORDER)
    )


def play(stage: Stage) -> None:
    """Produce; land it in both groups; compare the tables."""
    records = max(1, stage.length.records // BATCHES)
    tested = stage.site(_options(records, "hdfs", None))
    control = stage.site(_options(records, "hdfs alone", tested))
    for number in range(stage.length.rounds):
        planned = [each for each in stage.schedule if each.round == number]
        tested.produce(stage.length.records)
        _fail_over(stage, tested, planned)
        stage.drain(control)
        if stage.problems:
            break  # what goes on would only take long
    struck, wanted = stage.recorder.faults, len(stage.schedule) + stage.length.rounds
    stage.require_proof(struck == wanted, f"{struck} of {wanted} faults came in time")
    tested.mend()
    _compare(stage, tested, control)


def _options(records: int, lake: str, twin_of: Site | None) -> SiteOptions:
    return SiteOptions(
        batch_records=records,
        lake=lake,
        has_metastore=True,
        countries_every=max(1, records // 8),  # many partitions: moves take their time
        twin_of=twin_of,
        sections={"deadline": f"{DEADLINE_S:g}s"},
    )


def _fail_over(stage: Stage, site: Site, planned: list[Planned]) -> None:
    """Run the job through the outages of a round; in the last one it dies as well."""
    outages = [
        Outage(Moment(each.place, each.number), Out(each.kind), stage.length.outage_s)
        for each in planned
    ]
    end = site.live(*outages, Kill(outages[-1].at))
    stage.require_proof(end.code == KILLED, f"the job was not killed, but ended with {end.code}")
    stage.ride_out(site, within_s=stage.length.outage_s)


def _compare(stage: Stage, tested: Site, control: Site) -> None:
    """Read both tables where the metastore says that they are."""
    rows = []
    for site in (tested, control):
        with site.opened() as opened:
            rows.append(read_registered(opened.storage, site.registered() or {}))
    for problem in compare_rows(*rows):
        stage.require(False, f"the tables differ: {problem}")
    total = tested.produced.total
    stage.require(rows[0].total() == total, f"{rows[0].total():,} rows of {total:,} can be read")
    stage.notes.append(f"{rows[0].total():,} rows of one table, {rows[1].total():,} of the other")


DRILL = Drill(
    name="namenode-failover",
    title="An HDFS fails over again and again; a twin group on a healthy one tells what is right",
    shows="no failover, however long or ill-timed, makes a table differ from its twin",
    short=Length(
        rounds=1,
        records=2_800,
        text="six failovers; NameNodes are away for 3 s where at length they are for 11 minutes",
        is_real=True,
        outage_s=3.0,
    ),
    long=Length(
        rounds=3,
        records=30_000,
        text="18 failovers, 30,000 records each six; NameNodes are away for 11 minutes",
        is_real=True,
        rounds_per_minute=1 / 45,
        outage_s=660.0,
    ),
    plan=plan,
    play=play,
)
