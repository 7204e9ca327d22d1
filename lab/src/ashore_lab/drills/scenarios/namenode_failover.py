"""Two groups of jobs read one topic; the HDFS of one group failed over again and again.

The control group's HDFS has one NameNode and is healthy. Both land into tables of one metastore,
and in the end the tables are compared, record by record: nothing may show which group had a bad
week. NameNodes are switched in order, and while moves are in flight; killed; frozen, or cut off
from all clients, with no switch for long; and both cut off while the job dies and is started again.
"""

import random
from collections import Counter
from collections.abc import Mapping
from functools import partial

from ashore.storage.base import Storage
from ashore_lab.drills.checkers.exactly_once import find_visible, read_files
from ashore_lab.drills.drill import Drill
from ashore_lab.drills.faults import BATCH_STEPS, JobFault, Kill, Moment, Out, Outage
from ashore_lab.drills.plan import Length, PlannedFault, Schedule, Server
from ashore_lab.drills.scenarios.outages import count_deferred
from ashore_lab.drills.sites.site import KILLED, Site, SiteOptions
from ashore_lab.drills.stage import Stage

Rows = Counter[tuple[tuple[str, object], ...]]

# In which batch of its process each strikes; with the fourth the process dies. A NameNode that was
# killed starts again meanwhile: the second switch needs it.
ORDER = (
    (2, Out.SWITCH),
    (3, Out.NAMENODE_KILLED),
    (4, Out.NAMENODE_CUT_OFF),
    (5, Out.NAMENODES),
    (1, Out.SWITCH),
    (2, Out.NAMENODE_FROZEN),
)
# One in each round, in this order; with which it begins, the seed says.
LONG_ORDER = (
    Out.NAMENODE_CUT_OFF,
    Out.NAMENODES,
    Out.SWITCH,
    Out.NAMENODE_FROZEN,
    Out.NAMENODE_KILLED,
    Out.SWITCH,
)
IN_MOVES = {Out.SWITCH, Out.NAMENODE_KILLED}
STEPS = BATCH_STEPS[:-1]
BATCHES = len(ORDER) + 1
PATIENCE_S = 60.0  # a process gives up in longer outages: then there is one in each round
DEADLINE_S = 4.0  # of a storage call; short, so that few of them fit into an outage


def plan(dice: random.Random, length: Length) -> Schedule:
    """Let all happen in each round, batch after batch, or one in each, by turns, where it is long.

    Those of IN_MOVES strike while files are moved.
    """
    is_long = length.outage_s > PATIENCE_S
    first = dice.randrange(len(LONG_ORDER)) if is_long else 0
    return tuple(
        PlannedFault(index, out, "move" if out in IN_MOVES else dice.choice(STEPS), batch)
        for index in range(length.rounds)
        for batch, out in (
            ((2, LONG_ORDER[(first + index) % len(LONG_ORDER)]),) if is_long else ORDER
        )
    )


def play(stage: Stage) -> None:
    """Produce; land it in both groups; compare the tables."""
    records = max(1, stage.length.records // BATCHES)
    tested = stage.site(_options(records, records, "hdfs", None))
    control = stage.site(_options(stage.length.records, records, "hdfs alone", tested))
    tested.expect(2)  # in the short form it dies once
    control.expect(stage.length.rounds)
    for number in range(stage.length.rounds):
        planned = [each for each in stage.schedule if each.round == number]
        tested.produce(stage.length.records)
        stage.together(partial(_fail_over, stage, tested, planned), lambda: stage.drain(control))
        if stage.problems:
            break  # further rounds would only take long
    deaths = sum(each.kind == Out.NAMENODES for each in stage.schedule)
    struck, expected = stage.recorder.faults, len(stage.schedule) + deaths
    stage.require_proof(struck == expected, f"{struck} of {expected} faults came in time")
    tested.mend()
    for site, group in ((tested, "tested"), (control, "control")):
        deferred = count_deferred(site)
        if deferred:  # a metastore that was slow, or whose HDFS was away; the next process does it
            stage.drain(site)
        stage.notes.append(
            f"{deferred} registrations of the {group} group were deferred, and made good"
        )
    _compare(stage, tested, control)


def _options(batch_records: int, records: int, lake: str, twin_of: Site | None) -> SiteOptions:
    return SiteOptions(
        batch_records=batch_records,
        lake=lake,
        has_metastore=True,
        countries_every=max(1, records // 2),  # new partitions in each batch
        twin_of=twin_of,
        sections={"deadline": f"{DEADLINE_S:g}s"},
    )


def _fail_over(stage: Stage, site: Site, planned: list[PlannedFault]) -> None:
    """Run the job through the outages of a round; where both NameNodes are away it dies as well."""
    faults: list[JobFault] = []
    for each in planned:
        moment, out = Moment(each.place, each.number), Out(each.kind)
        away_s = 0.0 if out is Out.SWITCH else stage.length.outage_s
        faults.append(Outage(moment, out, away_s))
        if out is Out.NAMENODES:
            end = site.live(*faults, Kill(moment))
            stage.require_proof(end.code == KILLED, f"the job did not die, but ended: {end.code}")
            faults = []
    stage.ride_out(site, *faults, within_s=stage.length.outage_s)


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
    title="An HDFS fails over again and again; a twin group on a healthy one shows what is right",
    shows="no failover, however long or ill-timed, makes a table differ from its twin",
    short=Length(
        rounds=1,
        records=2_800,
        text="six failovers, without Spark; NameNodes are away for 1.5 s, at length for 11 minutes",
        is_real=True,
        has_spark=False,
        outage_s=1.5,
    ),
    long=Length(
        rounds=18,
        records=30_000,
        text="18 failovers, 30,000 records each; NameNodes are away for 11 minutes",
        is_real=True,
        rounds_per_minute=0.1,
        outage_s=660.0,
    ),
    plan=plan,
    play=play,
    needs=frozenset({Server.HDFS, Server.HDFS_ALONE, Server.METASTORE}),
)


def read_registered(storage: Storage, locations: Mapping[str, str]) -> Rows:
    """Return how often each row is in the partitions that a metastore names. Raises StorageError.

    Arguments:
        storage: the lake.
        locations: where each partition is, below the lake.

    """
    rows: Rows = Counter()
    directories = locations.values()
    paths = [path for directory in directories for path in find_visible(storage, directory)]
    rows.update(tuple(sorted(row.items())) for row in read_files(storage, paths))
    return rows


def compare_rows(tested: Rows, control: Rows) -> list[str]:
    """Return what differs in any column, or in how often a row is there. Pure."""
    found = (
        ("rows of the control group are missing", control - tested),
        ("rows are not those of the control group", tested - control),
    )
    return [f"{rows.total():,} {text}, such as {next(iter(rows))}" for text, rows in found if rows]
