"""The checkpoint of a query was deleted under the running job, with all attempts in it.

The job lands a topic and counts it by hour, and it was asked for savepoints while it ran. It dies,
and without a checkpoint it refuses to start: its table holds counts that only the state could have
continued. It continues from its last savepoint, once with the output since then rolled back, once
with it kept and only the state rebuilt.
"""

import random
import shutil
from functools import partial

from ashore.base.clock import SystemClock
from ashore.errors import NotDone, QueryStopped, fail
from ashore.log.names import SliceName, checkpoint_directory
from ashore.log.store.reader import read_log
from ashore.queries.state.later_batches import OutputSince
from ashore.queries.state.savepoints.save import Saved, open_shelf
from ashore.queries.tools.addresses import find_checkpoint
from ashore.queries.tools.from_savepoint import ResumedQuery, ResumeOptions, resume_from
from ashore.queries.tools.savepoint_request import SavepointOptions, save_query
from ashore_lab.drills.drill import Drill
from ashore_lab.drills.faults import Kill, Moment
from ashore_lab.drills.plan import Length, PlannedFault, Schedule
from ashore_lab.drills.scenarios.counts import COUNTS, check_counts, counted_options
from ashore_lab.drills.sites.real import RealSite
from ashore_lab.drills.sites.site import JOB, KILLED
from ashore_lab.drills.stage import Stage
from ashore_lab.drills.verdict import Flight

CLOCK = SystemClock()
KIND = "checkpoint deleted"
QUERY = SliceName(JOB, "ods__per_hour")
OUTPUTS = (OutputSince.ROLL_BACK, OutputSince.CATCH_UP)  # of the same table
KILLS = 4  # in memory
SAVEPOINTS = 2  # of each round; the job continues from the last one
FLOW_S = 30  # in which as many records come as a batch may have
WITHIN_S = 200.0  # for a batch to land, where Spark has just started on a busy machine
POLL_S = 0.1


def plan(dice: random.Random, length: Length) -> Schedule:
    """Delete the checkpoint in each round, one to three batches after the last savepoint."""
    return tuple(
        PlannedFault(index, KIND, OUTPUTS[index % len(OUTPUTS)], dice.randint(1, 3))
        for index in range(length.rounds)
    )


def play(stage: Stage) -> None:
    """Land and count, lose the checkpoint, resume from a savepoint; count again what was produced.

    In memory there are no queries: there the job is killed, and lands the rest.
    """
    site = stage.site(counted_options(stage.length.records))
    if not isinstance(site, RealSite):
        for _ in range(KILLS):
            site.produce(stage.length.records)  # one batch
            site.live(Kill(Moment("prepare", 1)))
        stage.drain(site)
        return
    shelf = site.directory / "savepoints"
    for planned in stage.schedule:
        incident = _Incident(stage, site, shelf.as_uri())
        stage.together(incident.run_job, partial(incident.happen, planned.number))
        site.expect(2)  # not before: one that waits would be asked for the savepoint
        incident.require_refusal()
        incident.go_on(OutputSince(planned.place))
        # On a fast machine fewer have come by now; what is left has to be counted too.
        site.produce(max(0, stage.length.records - site.produced.total))
        stage.drain(site)
    check_counts(stage, site)


class _Incident:
    """One checkpoint that is lost, and what is done about it."""

    def __init__(self, stage: Stage, site: RealSite, shelf: str) -> None:
        self._stage = stage
        self._site = site
        self._shelf = shelf
        self._last: Saved | None = None

    def run_job(self) -> None:
        """Let the job run while records come, until it is killed."""
        end = self._site.live_while(max(1, self._stage.length.records // FLOW_S))
        self._stage.require(end.code == KILLED, f"the job ended: {end.code}: {end.message}")

    def happen(self, batches: int) -> None:
        """Take savepoints, delete the checkpoint `batches` later, and kill the job."""
        try:
            for _ in range(SAVEPOINTS):
                self._wait_for(self._count_batches() + 1)
                self._last = self._save()
            self._wait_for(self._count_batches() + batches)
            self._delete()
        finally:
            self._site.kill()

    def _save(self) -> Saved:
        """Ask the job, which runs, for a savepoint."""
        job_file = str(self._site.job_file)
        found = find_checkpoint(job_file, COUNTS, CLOCK)
        request = SavepointOptions(
            job_file, COUNTS, found, open_shelf(self._shelf, CLOCK, links=False)
        )
        messages: list[str] = []
        saved = save_query(request, CLOCK, lambda _done, _total: None, messages.append)
        is_asked = any("has accepted it" in line for line in messages)
        self._stage.require(is_asked, f"the job has not taken the savepoint itself: {messages}")
        batch = saved.manifest.batch
        self._stage.recorder.note("savepoint", f"savepoint of batch {batch} while the job runs")
        return saved

    def _delete(self) -> None:
        """Delete all attempts. They are moved away first: the job may be about to write there."""
        since = self._count_batches() - 1 - self._saved().manifest.batch
        flight = Flight(f"{since} batches that had landed since the savepoint", since > 0)
        live = self._site.directory / "lake" / checkpoint_directory(QUERY)
        gone = self._site.directory / f"gone-{self._stage.recorder.faults}"
        live.rename(gone)
        self._stage.recorder.fault(KIND, f"{checkpoint_directory(QUERY)} is gone", flight)
        shutil.rmtree(gone)

    def require_refusal(self) -> None:
        """Start the job: its query must not run without its state. The topic may land."""
        before = self._count_batches()
        end = self._site.live()
        is_refused = end.code == QueryStopped.exit_code and "there is no checkpoint" in end.message
        self._stage.require(
            is_refused, f"without a checkpoint the job ended with {end.code}: {end.message}"
        )
        counted = self._count_batches() - before
        self._stage.require(counted == 0, f"{counted} batches were counted without a state")

    def go_on(self, output: OutputSince) -> None:
        """Put the last savepoint in the place of the checkpoint, as `ashore run --from` does."""
        found: list[ResumedQuery] = []
        place = self._saved().savepoint.place
        asked = ResumeOptions((place,), output)
        with self._site.opened() as opened:
            resume_from(opened, asked, lambda _done, _total: None, found.append)
        for each in found:
            landed = f"{each.since.rows:,} rows in {each.since.batches:,} batches had landed since"
            self._stage.notes.append(f"{output}: from batch {each.since.batch}; {landed}")
            has_landed = each.since.batches > 0
            self._stage.require_proof(has_landed, "nothing had landed since the savepoint")

    def _saved(self) -> Saved:
        return self._last or fail("no savepoint was taken")

    def _wait_for(self, batches: int) -> None:
        until_s = CLOCK.monotonic_s() + WITHIN_S
        while self._count_batches() < batches:
            if CLOCK.monotonic_s() > until_s:
                raise NotDone(f"the job landed no batch within {WITHIN_S:g} s")
            CLOCK.sleep(POLL_S)

    def _count_batches(self) -> int:
        with self._site.opened() as opened:
            query = read_log(opened.storage, QUERY).query
        return 0 if query is None else query.batch_id + 1


DRILL = Drill(
    name="checkpoint-lost",
    title="The checkpoint of a query is deleted under the running job",
    shows="a query comes back from its last savepoint, and counts nothing twice and no less",
    short=Length(
        rounds=1,
        records=3_000,
        text="once, output rolled back; at length also kept, by turns",
        is_real=True,
    ),
    long=Length(
        rounds=6,
        records=30_000,
        text="6 times, output rolled back and kept by turns, a thousand records a second",
        is_real=True,
        rounds_per_minute=1,
    ),
    plan=plan,
    play=play,
)
