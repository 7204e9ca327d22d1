"""A query compared with its log and its checkpoint, before Spark sees either.

What it is: `check_plan`, whether the state that is there means what the SQL would make of it;
`check_checkpoint`, whether checkpoint and log belong together; and what of a checkpoint runs again.
What it promises: reads only. What a start would refuse is refused here, so that `validate` asks the
same. Of a log without a plan nothing can be said: its state is that of an older release.
"""

from collections.abc import Callable, Sequence

from ashore.base.codec import Malformed
from ashore.errors import QueryRefused
from ashore.log.fold import Fold
from ashore.log.names import SliceName
from ashore.log.plan_query import (
    CutAlike,
    QueryBatch,
    Refusal,
    Refuse,
    plan_query_batch,
    plan_start,
)
from ashore.log.positions import ShardRange
from ashore.log.query import PlanState, choose_letters, link
from ashore.log.query_history import LandedBatch, read_landed_batches
from ashore.log.store.reader import read_history
from ashore.plans.change.judge import require_continued
from ashore.plans.graph import StoredPlan, list_topics, read_stored, write_stored
from ashore.plans.matching import choose_edits
from ashore.queries.spark.internals.reading import read_sources
from ashore.queries.spark.sql.batches import plan_ranges
from ashore.queries.spark.sql.frames import PlannedFrame, QueryPlan, name_planner
from ashore.queries.spark.sql.refusals import other_sources
from ashore.queries.state.checkpoint import Checkpoint
from ashore.queries.state.layout import Ends
from ashore.queries.state.versions import require_migration, require_own
from ashore.storage.base import Storage
from ashore.topics.loop.query_sink import refusal_of

_HINT = (
    "restore the previous SQL; `ashore migrate check JOB.yaml --to NEW.yaml` says what of the "
    "state could be kept, and whether a new table or topic could be filled from the start"
)


def check_plan(
    plan: QueryPlan,
    name: SliceName,
    fold: Fold,
    planned: PlannedFrame,
    report: Callable[[str], None] = lambda _text: None,
) -> PlanState | None:
    """Return the plan that the log is to have before the query continues; None: it has it.

    `report`: takes the report on SQL that has changed and may continue.
    Raises QueryRefused where the state that is there means something else.
    """
    known, version = fold.plan, planned.frame.sparkSession.version
    is_same = known is not None and known.digest == plan.digest
    if known is not None and is_same and _is_by(known, name_planner(version)):
        return None
    new = plan.describe(planned.graph, version)
    if known is not None and not is_same and fold.query is not None:
        old = _read(name, known)
        edits = choose_edits(fold.edits, known.digest, old, new)
        verdict = require_continued(f"{name}: the state in the checkpoint", old, new, _HINT, edits)
        found = verdict.operators if verdict is not None else ()
        filtered = [f"`{each.name}`" for each in found if each.differs_from_replay]
        if filtered:
            report(
                f"other rows reach {' and '.join(filtered)} from this start on: its results differ "
                "from those of a replay"
            )
    return PlanState(plan.digest, write_stored(new))


def _is_by(known: PlanState, planner: str) -> bool:
    """Return whether a plan needs no other: it is by this planner, or by a release to come."""
    try:
        return read_stored(known.document).planner == planner
    except Malformed:
        return True


def _read(name: SliceName, known: PlanState) -> StoredPlan:
    try:
        return read_stored(known.document)
    except Malformed as error:
        raise QueryRefused(
            f"{name}: the plan in the log cannot be read, so the new SQL cannot be compared with "
            f"it: {error}",
            hint="restore the previous SQL; did a later release write the log?",
        ) from None


def check_checkpoint(
    plan: QueryPlan, name: SliceName, fold: Fold, checkpoint: Checkpoint, storage: Storage
) -> dict[int, LandedBatch]:
    """Return the batches that would run again since a checkpoint is behind, with the one before.

    Raises CheckpointUnfit.
    """
    require_own(name, checkpoint)
    if checkpoint.read_query_id() is not None:
        require_migration(name, fold, checkpoint.read_migration())
    decision = plan_start(fold.query, checkpoint.read_position())
    match decision:
        case Refuse():
            raise refusal_of(name, decision)
        case CutAlike(first, last):
            past = read_landed_batches(read_history(storage, name), first - 1)
            since = _read_lineages(fold, past)
            for number in range(first, last + 1):
                _check_past(plan, name, past[number], since[number - 1])
            return past
        case _:
            _check_planned(plan, name, fold, checkpoint)
            return {}


def _check_planned(plan: QueryPlan, name: SliceName, fold: Fold, checkpoint: Checkpoint) -> None:
    """Compare a batch that is planned and not done with the log, which may have its rows."""
    position, known = checkpoint.read_position(), fold.query
    number = position.planned
    if known is None or position.committed >= number or number > known.batch_id:
        return
    before, after = checkpoint.read_ends(number - 1), checkpoint.read_ends(number)
    ranges = plan_ranges(name, fold, before, after)
    left_out = choose_letters(fold.left_out, ranges)
    batch = QueryBatch(known.query_id, number, plan.digest, ranges, left_out=left_out)
    decision = plan_query_batch(fold, batch)
    if isinstance(decision, Refuse):
        raise refusal_of(name, decision)


def _read_lineages(fold: Fold, past: dict[int, LandedBatch]) -> dict[int, str]:
    """Return the lineages of batches, and the one that the first batch of the log follows."""
    known = fold.query
    begun = {known.first - 1: known.since} if known is not None else {}
    return begun | {number: each.query.lineage for number, each in past.items()}


def _check_past(plan: QueryPlan, name: SliceName, batch: LandedBatch, before: str) -> None:
    """Refuse a batch that would not run again as it did. `before`: the lineage that it follows."""
    ranges = [ShardRange(each.key, each.offsets) for each in batch.body.shards]
    if link(before, plan.digest, ranges, batch.left_out) != batch.query.lineage:
        text = f"batch {batch.query.batch_id} would run again with a different result"
        raise refusal_of(name, Refuse(Refusal.OTHER_LINEAGE, text))


def check_query(
    plan: QueryPlan, name: SliceName, fold: Fold, planned: PlannedFrame, storage: Storage
) -> None:
    """Refuse what a start would refuse. Raises QueryRefused, CheckpointUnfit."""
    checkpoint = plan.attempts.newest() or plan.attempts.attempt(1)
    check_checkpoint(plan, name, fold, checkpoint, storage)
    ends = checkpoint.read_ends(checkpoint.read_position().planned)
    check_sources(name, list_topics(read_sources(planned.frame)), ends)
    check_plan(plan, name, fold, planned)


def check_sources(name: SliceName, sources: Sequence[Sequence[str]], ends: Ends) -> None:
    """Refuse sources in another order than that of the checkpoint, before Spark plans a batch.

    Spark knows them by their order, and would write a batch's offsets before Ashore is asked.

    `sources`: in the order of Spark's plan. `ends`: of the newest batch; a source may be missing.
    Raises QueryRefused. Another number of sources is for Spark to refuse.
    """
    for index, topics in enumerate(sources):
        before = ends.get(index, {}).keys()
        if not before <= set(topics):  # topics may come: of one that goes Spark misses the offsets
            raise other_sources(
                str(name), f"{', '.join(sorted(before))} is now {', '.join(topics)}"
            )
