"""What is to be done for new SQL of a job whose state is kept: the plan of a migration.

What it is: `plan_change`, for verdicts that a person accepts. `migrate apply --explain` prints its
plan, and `apply_change` executes the steps of it.
What it promises: nothing is written. A query that is refused, or loses more than was accepted, is
named before the first one is changed.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from ashore.base.operator import operator
from ashore.errors import (
    CheckpointUnfit,
    JobFileInvalid,
    QueryRefused,
    StateNotAccepted,
    StreamMissing,
)
from ashore.log.entries import MigratedOperator
from ashore.log.entries.queries import is_empty
from ashore.log.positions import StreamShard
from ashore.log.query import PlanState
from ashore.log.store.reader import read_log
from ashore.plans.change.backfill import plan_backfill
from ashore.plans.change.rewriting import StateRewrite, move_kept, plan_rewrite
from ashore.plans.change.sources import moves_offsets
from ashore.plans.change.verdicts import SourceVerdict, StateVerdict, worst_verdict
from ashore.plans.digests import hash_form
from ashore.plans.graph import list_topics, read_stored, released_plan, write_stored
from ashore.plans.matching import NO_EDITS
from ashore.plans.query import PlannedQuery
from ashore.queries.change.check import JudgedChange, JudgedQuery
from ashore.queries.state.migration import (
    MigrationWish,
    plan_target,
    require_done,
    require_rewritable,
)
from ashore.queries.state.source_changes import Firsts
from ashore.queries.tools.another_table import require_empty_table
from ashore.queries.tools.stopped_query import StoppedQuery, find_query
from ashore.topics.loop.job import first_offset_of
from ashore.topics.loop.sinks import sinks_of
from ashore.topics.open_job import OpenJob
from ashore.topics.read.source import FirstOffset, Source

RELEASED = hash_form(["released"])  # what stands for the digest of statements, where there are none
_BEGIN = re.compile(
    r"(?P<topic>[\w.-]+)(?:=(?P<policy>earliest|latest)|/(?P<partition>\d+)=(?P<offset>\d+))"
)
_ALL = ""  # of a policy: it is that of each partition
_HINT = "write clicks=latest, or clicks/0=1200 for each partition that begins elsewhere"

Begins = Mapping[str, Mapping[str, str]]
"""By topic, then by partition, or by `_ALL`: an offset, or a policy."""


@dataclass(frozen=True, slots=True)
class ApplyOptions:
    """What a person has typed."""

    accepted: str  # the worst verdict that is agreed to, a `StateVerdict`
    begins: tuple[str, ...]  # where topics begin that are new to a query: see `read_begins`
    why: str  # for what reason, for the log
    # that each state which is rewritten is to have; None: as many as it has
    partitions: int | None = None


@dataclass(frozen=True, slots=True)
class PlannedMigration:
    """A query whose state is to be rewritten."""

    query: StoppedQuery
    wish: MigrationWish  # how the query changes
    rewrite: StateRewrite  # how its state changes
    # the verdicts on what it reads; none: its offsets stay as they are
    sources: tuple[SourceVerdict, ...]
    firsts: Firsts  # where topics begin that are new to its log
    batch: int  # the last one, whose state it is
    size_bytes: int  # of the files that its last batch needs
    # the query that continues in its place and fills something else; None: it does itself
    into: StoppedQuery | None = None
    partitions: int | None = None  # that its state gets; None: as many as it has
    # of `into`, for its log. The plan of the wish does nothing then
    into_plan: PlanState | None = None


@dataclass(frozen=True, slots=True)
class PlannedDrop:
    """A query that the job has no more."""

    query: StoppedQuery
    wish: MigrationWish
    batch: int  # the last one
    size_bytes: int  # of the files that its last batch needs: they stay in the savepoint


@dataclass(frozen=True, slots=True)
class PlannedBeginning:
    """A new query that begins where a person says. `firsts`: of all topics that it reads."""

    query: StoppedQuery
    firsts: Firsts


@dataclass(frozen=True, slots=True)
class PlannedChange:
    """What is done for other SQL, in this order: migrated queries, dropped ones, new ones."""

    migrations: tuple[PlannedMigration, ...] = ()
    drops: tuple[PlannedDrop, ...] = ()
    beginnings: tuple[PlannedBeginning, ...] = ()

    @property
    def is_empty(self) -> bool:
        """Whether nothing is to be done."""
        return not (self.migrations or self.drops or self.beginnings)


def require_partitions_free(other: OpenJob, request: ApplyOptions) -> None:
    """Refuse other partitions where the new job file names a number itself.

    What it names has to be what the state has: the old number before the migration, and the new one
    after it. Raises QueryRefused.
    """
    written = other.job.sql.state_partitions if other.job.sql else None
    if request.partitions is not None and written is not None:
        raise QueryRefused(
            f"the new job file has `state_partitions: {written}`; nothing was changed",
            hint="remove the key there: the job continues with as many partitions as its state has",
        )


def plan_change(
    opened: OpenJob, other: OpenJob, change: JudgedChange, request: ApplyOptions
) -> PlannedChange:
    """Return what is to be done, and how. Nothing is written.

    `other`: the job with the new SQL. `request`: what a person has agreed to.
    Raises QueryRefused with what cannot be rewritten; StateNotAccepted where a verdict is worse
    than what is accepted; CheckpointUnfit where a checkpoint is not done, or a table that a query
    is to fill is not empty; JobFileInvalid where a `--begin` does not fit; TableOwned,
    SourceError, LogDamaged, StorageError.
    """
    begins = read_begins(request.begins)
    new = {each.query: each for each in change.planned}
    changed = [each for each in change.queries if each.verdict.verdict is not StateVerdict.FULL]
    migrations, drops = list[PlannedMigration](), list[PlannedDrop]()
    for each in changed:
        if (each.into or each.query) in new:  # it continues, be it as another one
            migrations.append(_plan_query(opened, other, each, new, request))
        else:
            drops.append(_plan_drop(opened, each, request))
    for each in changed:
        require_accepted(each, request)
    _require_partitions(request.partitions, migrations)
    placed = tuple(
        replace(each, firsts=find_firsts(other.source, _new_topics(opened, each), begins))
        for each in migrations
    )
    known = {each.into or each.query for each in changed}
    judged = {each.query for each in change.queries}
    come = [new[name] for name in new if name in judged - known]
    beginnings = plan_beginnings(other, come, begins)
    places = [*(each.firsts for each in placed), *(each.firsts for each in beginnings)]
    require_used(begins, {topic for firsts in places for topic in firsts})
    return PlannedChange(placed, tuple(drops), beginnings)


def _require_partitions(partitions: int | None, migrations: list[PlannedMigration]) -> None:
    if partitions is not None and not any(each.rewrite.operators for each in migrations):
        raise QueryRefused(
            "no state has to be rewritten, so none gets other partitions; nothing was changed",
            hint="`ashore checkpoint rescale` changes the number of state partitions",
        )


def _plan_drop(opened: OpenJob, judged: JudgedQuery, request: ApplyOptions) -> PlannedDrop:
    query = find_query(opened, judged.query)
    fold = read_log(opened.storage, query.name)
    if fold.plan is None:
        raise QueryRefused(f"{query.name}: its log has no plan; nothing was changed")
    target = plan_target(require_done(query.name, fold, query.attempts.newest()))
    wish = MigrationWish(fold.plan.digest, _released(fold.plan), (), operator(), request.why)
    return PlannedDrop(query, wish, target.batch, target.size_bytes)


def _plan_query(
    opened: OpenJob,
    other: OpenJob,
    judged: JudgedQuery,
    planned: Mapping[str, PlannedQuery],
    request: ApplyOptions,
) -> PlannedMigration:
    # One that the job does not have now it had once: the new job file alone names its table.
    home = opened if judged.query in sinks_of(opened.job) else other
    query, new = find_query(home, judged.query), planned[judged.into or judged.query]
    fold = read_log(opened.storage, query.name)
    if fold.plan is None:
        raise QueryRefused(f"{query.name}: {'; '.join(judged.verdict.why)}; nothing was changed")
    rewrite = plan_rewrite(read_stored(fold.plan.document), new.plan, judged.verdict)
    if judged.is_filled:
        rewrite = plan_backfill(new.plan, rewrite, judged.verdict).rewrite
    partitions = request.partitions if rewrite.operators else None
    source = require_done(query.name, fold, query.attempts.newest())
    target = plan_target(source, partitions)
    require_rewritable(source, target.batch)
    if target.partitions is not None:
        rewrite = move_kept(rewrite)
    mapping = tuple(
        MigratedOperator(each.old, each.new, each.why.name.lower())
        for each in judged.verdict.mapping
    )
    plan = PlanState(new.digest, write_stored(new.plan))
    sources = judged.verdict.sources
    wish = MigrationWish(fold.plan.digest, plan, mapping, operator(), request.why, judged.edits)
    if judged.into:
        wish = replace(wish, plan=_released(fold.plan), mapping=(), edits=NO_EDITS)
    return PlannedMigration(
        query,
        wish,
        rewrite,
        sources if any(moves_offsets(each) for each in sources) else (),
        {},
        target.batch,
        target.size_bytes,
        find_empty(other, judged.into) if judged.into else None,
        target.partitions,
        plan if judged.into else None,
    )


def _released(plan: PlanState) -> PlanState:
    """Return the plan of a query that is no longer started: it does nothing."""
    nothing = released_plan(read_stored(plan.document).planner)
    return PlanState(RELEASED, write_stored(nothing))


def _new_topics(opened: OpenJob, planned: PlannedMigration) -> tuple[str, ...]:
    """Return the topics that a query is to read, and that its log has never read."""
    fold = read_log(opened.storage, planned.query.name)
    known = {key.stream for key in fold.current()}
    read = (
        topic for each in planned.sources if each.new is not None for topic in each.name.split(",")
    )
    return tuple(dict.fromkeys(topic for topic in read if topic not in known))


def require_accepted(judged: JudgedQuery, request: ApplyOptions) -> None:
    """Raise StateNotAccepted where a query loses more than a person has agreed to."""
    verdict, accepted = judged.verdict.verdict, StateVerdict(request.accepted)
    if worst_verdict((verdict, accepted)) is not accepted:
        raise StateNotAccepted(
            f"{judged.query}: the verdict on its state is {verdict}; nothing was changed",
            hint="`ashore migrate check` names what starts empty or is dropped; to agree, add "
            f"`--accept {verdict}`",
            query=judged.query,
            verdict=verdict.value,
        )


def find_empty(other: OpenJob, name: str) -> StoppedQuery:
    """Return the query that is to continue in the place of another one.

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


# ---- new queries


def plan_beginnings(
    other: OpenJob, new: Iterable[PlannedQuery], begins: Begins
) -> tuple[PlannedBeginning, ...]:
    """Return the new queries that begin where a person says.

    `new`: queries that no other one continues as.
    Raises StreamMissing, SourceError, LogDamaged; JobFileInvalid where Kafka does not have such an
    offset.
    """
    found = []
    for each in new:
        read = {topic for topics in list_topics(each.plan.graph.sources) for topic in topics}
        query = find_query(other, each.query)
        if begins.keys() & read and is_empty(read_log(other.storage, query.name)):
            named = find_firsts(other.source, sorted(read & begins.keys()), begins)
            rest = _find_rest(other, sorted(read - begins.keys()))
            found.append(PlannedBeginning(query, {**named, **rest}))
    return tuple(found)


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


# ---- first offsets


def read_begins(typed: Sequence[str]) -> Begins:
    """Return what `clicks=latest` or `clicks/0=1200` say. Raises JobFileInvalid."""
    found: dict[str, dict[str, str]] = {}
    for text in typed:
        read = _BEGIN.fullmatch(text)
        if read is None:
            raise JobFileInvalid(f"--begin {text} names no offset of a topic", hint=_HINT)
        partition = _ALL if read["policy"] else str(int(read["partition"]))
        of_topic = found.setdefault(read["topic"], {})
        if partition in of_topic:
            raise JobFileInvalid(f"--begin {text}: it is said twice where it begins", hint=_HINT)
        of_topic[partition] = read["policy"] or read["offset"]
    return found


def find_firsts(source: Source, topics: Sequence[str], begins: Begins) -> Firsts:
    """Return the first offset of each partition of some topics.

    Raises StreamMissing, SourceError; JobFileInvalid where Kafka does not have such an offset.
    """
    streams = source.describe_streams(topics)
    missing = [each for each in topics if each not in streams]
    if missing:
        raise StreamMissing(f"topic {missing[0]} does not exist", hint="create it first")
    return {
        topic: _find_topic(source, topic, streams[topic].shards, begins.get(topic, {}))
        for topic in topics
    }


def require_used(begins: Begins, topics: Iterable[str]) -> None:
    """Raise JobFileInvalid where something is said of a topic that begins nowhere."""
    unused = sorted(set(begins) - set(topics))
    if unused:
        raise JobFileInvalid(
            f"--begin names {unused[0]}, and no query that is migrated reads it for the first time",
            hint="a topic that a query has read before continues where its log ends",
        )


def _find_topic(
    source: Source, topic: str, shards: Sequence[str], begins: Mapping[str, str]
) -> dict[str, int]:
    strange = sorted(set(begins) - {_ALL, *shards})
    if strange:
        raise JobFileInvalid(f"topic {topic} has no partition {strange[0]}", hint=_HINT)
    policy = FirstOffset(begins.get(_ALL, "earliest"))
    found = {each: source.resolve_first(StreamShard(topic, each), policy) for each in shards}
    chosen = {each: int(offset) for each, offset in begins.items() if each != _ALL}
    there = source.read_offsets([StreamShard(topic, each) for each in chosen])
    for shard, offsets in there.items():
        if not offsets.earliest <= chosen[shard.shard] <= offsets.end:
            raise JobFileInvalid(
                f"{shard} is to begin at offset {chosen[shard.shard]}; Kafka has the offsets "
                f"[{offsets.earliest}, {offsets.end})",
                hint=_HINT,
            )
    return {**found, **chosen}
