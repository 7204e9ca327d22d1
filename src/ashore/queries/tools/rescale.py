"""Rescaling: the state of a query in another number of partitions.

What it is: `rescale` and `undo`, of the query of a job file or of the directory of a checkpoint:
the use cases behind `ashore checkpoint rescale`.
What it promises: what `explains` changes nothing. The checkpoint that was there is only read. The
new one counts once its state was compared with the old one: as many rows in each store, with the
same digest. Until then it is a directory in which Spark starts no query, and an attempt that no job
takes.
"""

from collections.abc import Callable
from dataclasses import asdict, dataclass

from ashore.base.clock import Clock
from ashore.errors import CheckpointUnfit, JobFileInvalid
from ashore.jobs.events import Rescaled, StateStep, StoreRows
from ashore.jobs.requests import CheckpointAddress, RescaleRequest, SparkRequest
from ashore.queries.state.checkpoint import Checkpoint, copy_checkpoint, open_directory, reach
from ashore.queries.state.rescaling import RescalePlan, finish, lay_out, plan_rescale
from ashore.queries.state.savepoints.restore import require_empty
from ashore.queries.state.survey import take_survey
from ashore.queries.tools.addresses import find_checkpoint, is_job_file, require_newest
from ashore.queries.tools.state_process import run_state_process, take_answer
from ashore.queries.tools.stopped_query import StoppedQuery, open_query_of_table, take_over
from ashore.topics.loop.job import lake_of
from ashore.topics.open_job import OpenJob

Report = Callable[[StateStep], None]
_MASTER = "local[*]"


@dataclass(frozen=True, slots=True)
class RescaleOptions:
    """What a person has typed.

    Arguments:
        where: a job file, or the directory of a checkpoint.
        query: of the job file; None where it has one.
        to: where the new checkpoint goes; None: it becomes the job's.
        explains: only what would be done is wanted.
        takes_over: even if the job runs.
        debug: what Spark says on stderr is shown.

    """

    where: str
    query: str | None = None
    to: str | None = None
    explains: bool = False
    takes_over: bool = False
    debug: bool = False


@dataclass(frozen=True, slots=True)
class RescaleResult:
    """A rescale that was done, or would be."""

    path: str  # where the checkpoint is
    from_partitions: int
    to_partitions: int
    batch: int
    stores: tuple[StoreRows, ...]
    took_s: float
    is_done: bool = True

    @property
    def rows(self) -> int:
        """In all stores together."""
        return sum(each.rows for each in self.stores)

    def to_dict(self) -> dict[str, object]:
        """Return it as `--json` prints it."""
        return {
            "path": self.path,
            "batch": self.batch,
            "from": self.from_partitions,
            "to": self.to_partitions,
            "rows": self.rows,
            "stores": [asdict(each) for each in self.stores],
            "seconds": round(self.took_s, 3),
            "done": self.is_done,
        }


@dataclass(frozen=True, slots=True)
class Rescaler:
    """What a rescale works with.

    Arguments:
        spark: that rewrites the state.
        options: how the storage of the checkpoints is reached; see `LakeAddress`.
        clock: for the time that it takes.
        report: called with each step.
        debug: what Spark says on stderr is shown.

    """

    spark: SparkRequest
    options: tuple[tuple[str, str], ...]
    clock: Clock
    report: Report
    debug: bool = False


@dataclass(frozen=True, slots=True)
class Undo:
    """A rescale that can be taken back: the checkpoint from before it."""

    before: Checkpoint
    from_partitions: int
    to_partitions: int
    batch: int


def rescale(
    request: RescaleOptions, partitions: int, clock: Clock, report: Report
) -> RescaleResult:
    """Give the state of a query another number of partitions.

    If interrupted: the new checkpoint is a directory in which Spark starts no query; a job resumes
    from the checkpoint that it has.

    Arguments:
        request: which, and where it goes.
        partitions: how many.
        clock: of storages, and for the time that it takes.
        report: called with each step.

    Raises JobFileInvalid, CheckpointUnfit, StorageError; LogGrows where the job runs, unless it
    `takes_over`; LogDamaged; JobProcessEnded, with the error of the state process.

    """
    if is_job_file(request.where):
        with open_query_of_table(request.where, request.query) as (opened, query):
            rescaler = _rescaler_of(opened, clock, report, debug=request.debug)
            newest = require_newest(query.attempts, query.fills)
            if request.to is not None or request.explains:
                return _copy(request, newest, partitions, rescaler)
            plan_rescale(newest, partitions)  # refused before anything is taken over
            epoch = take_over(opened, query, takes_over=request.takes_over)
            with query.attempts.remake(epoch, newest) as target:
                return _rescale(newest, target, plan_rescale(newest, partitions), rescaler)
    if request.to is None and not request.explains:
        raise JobFileInvalid(
            f"{request.where} is a directory: it is rescaled into another one",
            hint="name that one with --to; then start the query with it as its checkpointLocation",
        )
    source = find_checkpoint(request.where, request.query, clock)
    options = reach(source.uri).options
    rescaler = Rescaler(SparkRequest(_MASTER, ()), options, clock, report, request.debug)
    return _copy(request, source, partitions, rescaler)


def _rescaler_of(opened: OpenJob, clock: Clock, report: Report, *, debug: bool) -> Rescaler:
    application = opened.job.spark_application
    spark = SparkRequest(application.master, tuple(sorted(application.conf.items())))
    return Rescaler(spark, lake_of(opened.job).options, clock, report, debug)


def _copy(
    request: RescaleOptions, source: Checkpoint, partitions: int, rescaler: Rescaler
) -> RescaleResult:
    plan = plan_rescale(source, partitions)
    if request.explains:
        path = request.to or source.place
        return RescaleResult(path, plan.partitions, partitions, plan.batch, (), 0.0, is_done=False)
    target = open_directory(request.to or "", rescaler.clock, dict(rescaler.options))
    require_empty(target)
    return _rescale(source, target, plan, rescaler)


def _rescale(
    source: Checkpoint, target: Checkpoint, plan: RescalePlan, rescaler: Rescaler
) -> RescaleResult:
    began_s = rescaler.clock.monotonic_s()
    lay_out(source, target, plan)
    request = RescaleRequest(
        spark=rescaler.spark,
        source=CheckpointAddress(source.uri, rescaler.options),
        target=CheckpointAddress(target.uri, rescaler.options),
        batch=plan.batch,
        partitions=plan.new_partitions,
        state_format=plan.state_format,
    )
    events = run_state_process("rescale", source.uri, request, debug=rescaler.debug)
    rescaled = take_answer(events, Rescaled, rescaler.report)
    finish(source, target)
    return RescaleResult(
        target.place,
        plan.partitions,
        plan.new_partitions,
        plan.batch,
        rescaled.stores,
        rescaler.clock.monotonic_s() - began_s,
    )


# ---- undo


def undo(request: RescaleOptions) -> Undo:
    """Let the next start of a job continue with the checkpoint from before its last rescale.

    If interrupted: the next start resumes from one of the two.

    Raises CheckpointUnfit where it was none, where batches have run since, or where the checkpoint
    from before it was cleaned; JobFileInvalid, StorageError, LogDamaged; LogGrows where the job
    runs, unless it `takes_over`.
    """
    if not is_job_file(request.where):
        raise JobFileInvalid(
            f"{request.where} is not a job file: there is nothing to undo",
            hint="start the query with the original checkpoint: it was only read",
        )
    with open_query_of_table(request.where, request.query) as (opened, query):
        planned = _plan_undo(query)
        if request.explains:
            return planned
        epoch = take_over(opened, query, takes_over=request.takes_over)
        planned = _plan_undo(query)
        with query.attempts.remake(epoch, planned.before) as target:
            copy_checkpoint(planned.before, target)
        return planned


def _plan_undo(query: StoppedQuery) -> Undo:
    newest = require_newest(query.attempts, query.fills)
    before = query.attempts.before(newest)
    if before is None:
        raise _no_undo(newest, "there is no previous checkpoint")
    now, then = take_survey(newest).required, take_survey(before).required
    if now.query_id != then.query_id or now.batch != then.batch:
        raise _no_undo(newest, f"batches have run since: {then.batch} was the last one then")
    cut_now, cut_then = now.offsets.partitions, then.offsets.partitions
    if cut_now is None or cut_then is None or cut_now == cut_then:
        raise _no_undo(newest, "the state has as many partitions as the checkpoint before it")
    return Undo(before, cut_now, cut_then, now.batch)


def _no_undo(newest: Checkpoint, text: str) -> CheckpointUnfit:
    return CheckpointUnfit(
        f"{newest.place}: no rescale can be undone: {text}; nothing was changed",
        hint="rescale it to the number that you need: no row is lost either way",
        why="no_rescale",
    )
