"""Taking one query of a job back to an earlier batch, from a job file and without Spark.

What it is: the use case behind `roll-back`.
What it promises: what `plan` shows is what `apply` does, unless the job has gone on in between.
"""

from ashore.base.operator import operator
from ashore.errors import CheckpointUnfit
from ashore.log.plan_query import Refusal
from ashore.log.plan_rollback import Wish
from ashore.queries.state.rollback import RolledBack, is_there, preview_rollback, roll_back
from ashore.queries.tools.stopped_query import StoppedQuery
from ashore.topics.open_job import OpenJob
from ashore.topics.use.requirements import require_stopped


def choose_batch(query: StoppedQuery, to_batch: int | None) -> int:
    """Return the batch that is wanted: without a wish, the last one that the checkpoint calls done.

    Raises CheckpointUnfit, StorageError.
    """
    if to_batch is not None:
        return to_batch
    newest = query.attempts.newest()
    finished = newest.list_finished() if newest else []
    if not finished:
        raise CheckpointUnfit(
            f"{query.name}: there is no checkpoint with a finished batch",
            hint="restore a checkpoint first",
            why=Refusal.EMPTY_CHECKPOINT.value,
        )
    return finished[-1]


def plan(opened: OpenJob, query: StoppedQuery, batch: int) -> RolledBack:
    """Return what `apply` would do. Raises QueryRefused, CheckpointUnfit, LogDamaged."""
    return preview_rollback(opened.storage, query.name, query.attempts, _wish(batch, ""))


def apply(
    opened: OpenJob, query: StoppedQuery, batch: int, why: str, *, takes_over: bool
) -> RolledBack:
    """Roll checkpoint and table back, with an entry that says who and why.

    Where the table is at that batch nothing is done, and a job that runs is left alone. Raises
    LogGrows where the job runs, unless it `takes_over`; and as `plan`.
    """
    if is_there(opened.storage, query.name, batch):
        return plan(opened, query, batch)
    require_stopped(opened, takes_over=takes_over)
    return roll_back(opened.committer(query.name), query.attempts, _wish(batch, why))


def _wish(batch: int, why: str) -> Wish:
    return Wish(batch, operator(), why)
