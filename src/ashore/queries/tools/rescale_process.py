"""Rescaling: the state of a query in another number of partitions.

What it is: `rescale_copy`, from a checkpoint to a new one; `rescale_job`, which makes the new one
the job's, and `undo_rescale`, which takes that back.
What it promises: the checkpoint that was there is only read. The new one counts once its state was
compared with the old one: as many rows in each store, with the same digest. Until then it is a
directory in which Spark starts no query, and an attempt that no job takes.
"""

from collections.abc import Callable
from dataclasses import asdict, dataclass

from ashore.base.clock import Clock
from ashore.errors import CheckpointUnfit
from ashore.jobs.events import Rescaled, StateStep, StoreRows
from ashore.jobs.requests import CheckpointAddress, RescaleRequest, SparkRequest
from ashore.queries.state.checkpoint import Checkpoint
from ashore.queries.state.copies import copy_checkpoint
from ashore.queries.state.rescaling import RescalePlan, finish, lay_out, plan_rescale
from ashore.queries.state.savepoints.restore import require_empty
from ashore.queries.state.survey import take_survey
from ashore.queries.tools.addresses import require_newest
from ashore.queries.tools.rollback import StoppedQuery
from ashore.queries.tools.state_process import run_state_process, take_answer
from ashore.topics.open_job import OpenJob
from ashore.topics.use.requirements import require_stopped

Report = Callable[[StateStep], None]


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

    def address(self, checkpoint: Checkpoint) -> CheckpointAddress:
        """Return where the state process finds a checkpoint."""
        return CheckpointAddress(checkpoint.uri, self.options)


def rescale_copy(
    source: Checkpoint, target: Checkpoint, partitions: int, rescaler: Rescaler
) -> RescaleResult:
    """Make a checkpoint with another number of state partitions, beside the one that is there.

    If interrupted: the target is a directory in which Spark starts no query.

    Raises CheckpointUnfit, StorageError; JobProcessEnded, with the error of the state process.
    """
    require_empty(target)
    plan = plan_rescale(source, partitions)
    return _rescale(source, target, plan, rescaler)


def rescale_job(
    opened: OpenJob, query: StoppedQuery, partitions: int, rescaler: Rescaler, *, takes_over: bool
) -> RescaleResult:
    """Give the state of a job's query another number of partitions, for the next start.

    If interrupted: the job resumes from the checkpoint that it has.

    Raises as `rescale_copy`; LogGrows where the job runs, unless it `takes_over`; LogDamaged.
    """
    newest = require_newest(query.attempts, query.fills)
    plan_rescale(newest, partitions)  # refused before anything is taken over
    epoch = take_over(opened, query, takes_over=takes_over)
    with query.attempts.remake(epoch, newest) as target:
        return _rescale(newest, target, plan_rescale(newest, partitions), rescaler)


@dataclass(frozen=True, slots=True)
class Undo:
    """A rescale that can be taken back: the checkpoint from before it."""

    before: Checkpoint
    from_partitions: int
    to_partitions: int
    batch: int


def plan_undo(query: StoppedQuery) -> Undo:
    """Return how the last rescale is taken back. Nothing is changed.

    Raises CheckpointUnfit where it was none, where batches have run since, or where the checkpoint
    from before it was cleaned; StorageError.
    """
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


def undo_rescale(opened: OpenJob, query: StoppedQuery, *, takes_over: bool) -> Undo:
    """Let the next start continue with the checkpoint from before the last rescale.

    If interrupted: the next start resumes from one of the two.

    Raises as `plan_undo`; LogGrows where the job runs, unless it `takes_over`; LogDamaged.
    """
    plan_undo(query)
    epoch = take_over(opened, query, takes_over=takes_over)
    undo = plan_undo(query)
    with query.attempts.remake(epoch, undo.before) as target:
        copy_checkpoint(undo.before, target)
    return undo


def take_over(opened: OpenJob, query: StoppedQuery, *, takes_over: bool) -> int:
    """Open the log of a query that does not run, finish what is unclosed; return the epoch."""
    require_stopped(opened, takes_over=takes_over)
    committer = opened.committer(query.name)
    committer.take_over()
    return committer.log.fold.epoch


def _no_undo(newest: Checkpoint, text: str) -> CheckpointUnfit:
    return CheckpointUnfit(
        f"{newest.place}: no rescale can be undone: {text}; nothing was changed",
        hint="rescale it to the number that you need: no row is lost either way",
        why="no_rescale",
    )


def _rescale(
    source: Checkpoint, target: Checkpoint, plan: RescalePlan, rescaler: Rescaler
) -> RescaleResult:
    began_s = rescaler.clock.monotonic_s()
    lay_out(source, target, plan)
    request = RescaleRequest(
        spark=rescaler.spark,
        source=rescaler.address(source),
        target=rescaler.address(target),
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
