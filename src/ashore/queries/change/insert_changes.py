"""INSERTs that come, go, or fill something else, at a migration.

What it is: `drop_query`, after which a query is not started any more; `begin_successor`, which lets
another one go on in its place; `plan_beginnings` and `begin_new`, where new ones begin to read.
What it promises: one entry is the switch of each query. A query is dropped by the entry of a
migration, to a plan that does nothing: an undo takes it back. Where one goes on as another, that
one's log begins first, so that at no moment neither has the state.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from ashore.errors import CheckpointUnfit, QueryRefused
from ashore.log.entries import Join, Joined
from ashore.log.entries.begin import is_empty
from ashore.log.fold import Fold
from ashore.log.names import query_source
from ashore.log.positions import ShardKey, StreamShard
from ashore.log.query import PlanState
from ashore.log.store.reader import read_log
from ashore.plans.change.verdicts import SourceVerdict
from ashore.plans.digests import hash_form
from ashore.plans.log_form import read_stored, released_plan, write_stored
from ashore.plans.matching import NO_EDITS
from ashore.plans.query import PlannedQuery
from ashore.plans.sources import list_topics
from ashore.queries.change.first_offsets import Begins, find_firsts
from ashore.queries.state.checkpoint import Checkpoint
from ashore.queries.state.layout import Ends
from ashore.queries.state.migration import MigrationWish, fill_released, migrate_query
from ashore.queries.state.new_table import Beginning, begin
from ashore.queries.state.resume import read_places
from ashore.queries.state.source_changes import Firsts, plan_sources
from ashore.queries.tools.another_table import require_empty_table
from ashore.queries.tools.rollback import StoppedQuery, find_query
from ashore.topics.loop.job import first_offset_of
from ashore.topics.open_job import OpenJob

POLICY = "chosen"
RELEASED = hash_form(["released"])  # what stands for the digest of statements, where there are none


@dataclass(frozen=True, slots=True)
class Successor:
    """A query that goes on in the place of another one, and fills something else.

    Arguments:
        query: of before.
        into: that goes on.
        plan: of the one that goes on.
        sources: what becomes of what is read; none: the offsets stay as they are.
        firsts: where topics begin that are new.
        by: who wants it, for its log.
        why: for what reason.

    """

    query: StoppedQuery
    into: StoppedQuery
    plan: PlanState
    sources: tuple[SourceVerdict, ...]
    firsts: Firsts
    by: str
    why: str


@dataclass(frozen=True, slots=True)
class PlannedBeginning:
    """A new query that begins where a person says. `firsts`: of all topics that it reads."""

    query: StoppedQuery
    firsts: Firsts


def find_empty(other: OpenJob, name: str) -> StoppedQuery:
    """Return the query that is to go on in the place of another one.

    Raises CheckpointUnfit where its table or its log has something; TableOwned, JobFileInvalid.
    """
    require_empty_table(other, name)
    found = find_query(other, name)
    fold = read_log(other.storage, found.name)
    has_begun = fold.query is not None and fold.query.batch_id == fold.query.first - 1
    if not is_empty(fold) and not has_begun:
        raise CheckpointUnfit(
            f"the log of {found.name} is not empty, so no other query can continue there; nothing "
            "was changed",
            hint="fill a table or topic that no query has filled; `--rename ods.old=` drops the "
            "old INSERT, and this one continues where its own log ends",
            why="not_empty",
        )
    return found


def drop_query(
    opened: OpenJob,
    query: StoppedQuery,
    wish: MigrationWish,
    save: Callable[[Checkpoint], str],
) -> None:
    """Let a query not be started any more. Takes its slice over.

    If interrupted: it starts as before, or it is dropped.

    Arguments:
        opened: the job as it is.
        query: of it.
        wish: who wants it; its plan is not looked at.
        save: takes a savepoint of its checkpoint, and returns its place.

    Raises as `migrate_query`.

    """
    fold = read_log(opened.storage, query.name)
    if fold.plan is None:
        raise QueryRefused(f"{query.name}: its log has no plan; nothing was changed")
    nothing = released_plan(read_stored(fold.plan.document).planner)
    plan = PlanState(RELEASED, write_stored(nothing))
    wanted = replace(wish, plan=plan, mapping=(), edits=NO_EDITS)
    migrate_query(opened.committer(query.name), query.attempts, wanted, save, fill_released)


def begin_successor(
    opened: OpenJob,
    other: OpenJob,
    successor: Successor,
    savepoint: str,
    fill: Callable[[Checkpoint], None],
) -> None:
    """Let the log of a query begin where another one is. Takes its slice over.

    Requires: the last batch of the other one is done.

    Arguments:
        opened: the job as it is.
        other: that has the query that goes on.
        successor: which that is, and how.
        savepoint: the place of the state of before.
        fill: writes the state to an empty attempt.

    Raises as `begin`; StreamMissing, SourceError.

    """
    name, into = successor.query.name, successor.into
    fold = read_log(opened.storage, name)
    source = successor.query.attempts.newest()
    if source is None or fold.query is None:
        raise QueryRefused(f"{name}: it has no batch; nothing was changed")
    read = _read_ends(source, successor, fold)
    known = {stream: told for (_, stream), (_, told) in fold.generations().items()}
    new = sorted({topic for topics in read.values() for topic in topics} - known.keys())
    if new:
        there = other.source.describe_streams(new)
        known |= {topic: each.stream_id for topic, each in there.items()}
    wanted = Beginning(
        position=source.read_position(),
        ends=read_places(into.name, read),
        stream_ids=known,
        lineage=fold.query.lineage,
        plan=successor.plan,
        owner=str(name),
        savepoint=savepoint,
        by=successor.by,
        why=successor.why,
    )
    begin(other.committer(into.name), into.attempts, wanted, fill)


def _read_ends(source: Checkpoint, successor: Successor, fold: Fold) -> Ends:
    """Return where the last batch ends in the topics that the query reads that goes on."""
    batch = source.read_position().committed
    if not successor.sources:
        return source.read_ends(batch)
    name = successor.query.name
    plan = plan_sources(source, name, fold, successor.sources, successor.firsts)
    return plan.offsets[batch].kafka_ends(source.path)


# ---- new ones


def plan_beginnings(
    other: OpenJob, new: Iterable[PlannedQuery], begins: Begins
) -> tuple[PlannedBeginning, ...]:
    """Return the new queries that begin where a person says.

    Arguments:
        other: the job that has them.
        new: queries that no other one goes on as.
        begins: where topics begin.

    Raises StreamMissing, SourceError, LogDamaged; JobFileInvalid where Kafka does not have such an
    offset.

    """
    return tuple(_plan_beginnings(other, new, begins))


def _plan_beginnings(
    other: OpenJob, new: Iterable[PlannedQuery], begins: Begins
) -> Iterator[PlannedBeginning]:
    for each in new:
        read = {topic for topics in list_topics(each.plan.graph.sources) for topic in topics}
        found = find_query(other, each.query)
        if begins.keys() & read and is_empty(read_log(other.storage, found.name)):
            named = find_firsts(other.source, sorted(read & begins.keys()), begins)
            rest = _find_rest(other, sorted(read - begins.keys()))
            yield PlannedBeginning(found, {**named, **rest})


def _find_rest(other: OpenJob, topics: Sequence[str]) -> Firsts:
    """Return where topics begin of which nothing is said: where the job file says."""
    if not topics:
        return {}
    first_of, source = first_offset_of(other.job), other.source
    return {
        topic: {
            shard: source.resolve_first(StreamShard(topic, shard), first_of(topic, True))
            for shard in info.shards
        }
        for topic, info in source.describe_streams(topics).items()
    }


def begin_new(other: OpenJob, planned: PlannedBeginning) -> None:
    """Write where a query begins: the first entry of its log but the one that opens it.

    If interrupted: it begins where the job file says, or where a person has said.
    Raises StreamMissing, SourceError, LogDamaged, Fenced, StorageError.
    """
    name = planned.query.name
    streams = other.source.describe_streams(sorted(planned.firsts))
    shards = tuple(
        Joined(
            ShardKey(query_source(name), topic, 1, shard), streams[topic].stream_id, first, POLICY
        )
        for topic, firsts in sorted(planned.firsts.items())
        for shard, first in sorted(firsts.items())
    )
    committer = other.committer(name)
    committer.log.open()
    if is_empty(committer.log.fold):
        committer.log.append(Join(shards), committer.finish())
