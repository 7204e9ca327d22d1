"""A job that continues from a savepoint in another table, from the options of a person.

What it is: `begin_in_another_table`, the use case behind `ashore run --from SAVEPOINT --output
another-table`; `read_former`, what the log of the query that a savepoint is of says of the batch
that it ends with: the plan that its state means something to, its lineage, its topics' identities.
What it promises: the new table gets what comes after the savepoint, and nothing before it. The
table, the log and the checkpoint that the savepoint is of are read, never changed. State continues
only under SQL that gives it the same meaning, by the plan in the savepoint's own log; where that
is not known a person has to say so, and what was not checked is reported. A savepoint whose batch
the log has taken back is refused: no table has what it has read. Of a batch that the query was
migrated after there are two states: the mark of a savepoint shows which one it has.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from ashore.base.codec import Malformed
from ashore.base.operator import operator
from ashore.errors import CheckpointUnfit, JobFileInvalid, QueryRefused
from ashore.jobs.file import Table
from ashore.log import names
from ashore.log.entries import Begin, Migrate, Plan, Prepare, Query, Rollback
from ashore.log.entries.queries import is_empty
from ashore.log.names import SliceName
from ashore.log.plan_query import CheckpointPosition
from ashore.log.positions import StreamShard
from ashore.log.query import PlanState, QueryState
from ashore.log.store.owner import require_free
from ashore.log.store.reader import read_history, read_log
from ashore.plans.change.judge import require_continued
from ashore.plans.graph import StoredPlan, list_topics, read_stored
from ashore.plans.operator_graph import describe_graph
from ashore.plans.query import PlannedQuery
from ashore.queries.state.later_batches import AnotherTable
from ashore.queries.state.layout import Ends, OperatorFile, OperatorPath, find_migration, parse_path
from ashore.queries.state.resume import Beginning, Place, begin, preview_beginning, read_places
from ashore.queries.state.savepoints.manifest import Manifest
from ashore.queries.state.savepoints.restore import restore
from ashore.queries.state.savepoints.store import Savepoint
from ashore.queries.state.savepoints.transfer import Advance
from ashore.queries.state.versions import read_checkpoint_owner
from ashore.queries.tools.savepoints import find_savepoint
from ashore.queries.tools.stopped_query import StoppedQuery, find_query
from ashore.storage.base import Storage
from ashore.topics.loop.joins import require_streams
from ashore.topics.loop.sinks import find_sink, sink_slice, sinks_of
from ashore.topics.open_job import OpenJob
from ashore.topics.use.requirements import require_stopped


@dataclass(frozen=True, slots=True)
class FormerLog:
    """What the log of a savepoint says of its batch.

    Arguments:
        name: of its slice.
        last: the last batch that it has landed.
        lineage: of the batch of the savepoint.
        plan: that its state is of: it ran by it, or was migrated to it.
        stream_ids: the identity of each topic, as the batch read it.

    """

    name: SliceName
    last: int
    lineage: str
    plan: PlanState
    stream_ids: Mapping[str, str]


@dataclass(slots=True)
class _Found:
    """What entries say so far.

    Arguments:
        batch: of the savepoint.
        migration: that has rewritten its state; see `find_migration`.

    """

    batch: int
    migration: int
    plan: PlanState | None = None  # as of the last entry, as are the migrations in force
    migrations: tuple[int, ...] = ()
    lineage: str = ""  # of the batch; empty: it is not in the table
    ends: Mapping[Place, int] | None = None  # of the batch
    has_state: bool = False  # the query was at that batch with a state of that migration
    is_rewritten: bool = False  # that state was written by the migration, not by the batch
    ran_by: PlanState | None = None  # what its state meant then

    def take(self, body: object) -> None:
        """Take the next entry in."""
        match body:
            case Plan():
                self.plan = PlanState(body.digest, body.document)
            case Begin():
                self.plan = PlanState(body.digest, body.document) if body.digest else None
                self._reach(body.query, None)
            case Prepare(query=Query() as query):
                shards = ((each.key, each.offsets.end) for each in body.shards)
                ends = {(key.source, key.stream, key.shard): end for key, end in shards}
                self._reach(query, ends)
            case Migrate():
                self._migrate(body)
            case Rollback():
                if body.query.batch_id < self.batch:
                    self._forget()
                if body.undo is not None:
                    self._migrate(body.undo)

    def is_as_read(self, places: Mapping[Place, int]) -> bool:
        """Return whether the batch has ended at some places, as far as its query reads them."""
        return all(
            places.get(place, end if self.is_rewritten else None) == end
            for place, end in (self.ends or {}).items()
        )

    def _forget(self) -> None:
        self.lineage, self.ends, self.ran_by = "", None, None
        self.has_state = self.is_rewritten = False

    def _reach(self, query: Query, ends: Mapping[Place, int] | None) -> None:
        if query.batch_id == self.batch:
            self._forget()
            self.lineage, self.ends = query.lineage, ends
            self._look()

    def _migrate(self, body: Migrate) -> None:
        self.plan = PlanState(body.digest, body.document)
        if body.undoes is None:
            self.migrations = (*self.migrations, body.attempt)
        else:
            self.migrations = self.migrations[:-1]
        if body.batch == self.batch:
            self._look()
            self.is_rewritten |= body.undoes is None and body.attempt == self.migration

    def _look(self) -> None:
        """Note the plan of the batch, where its state is that of the savepoint."""
        if (self.migrations or (0,))[-1] == self.migration:
            self.has_state, self.ran_by = True, self.plan


def read_former(
    storage: Storage, name: SliceName, savepoint: Savepoint, manifest: Manifest
) -> FormerLog | None:
    """Return what the log of a savepoint says; None: it is not here, or has no plan.

    Raises CheckpointUnfit where the log has taken the batch back, or has it with the state of
    another migration; LogDamaged, StorageError.
    """
    fold, batch = read_log(storage, name), manifest.batch
    if fold.query is None or fold.query.query_id != manifest.query_id:
        return None
    found = _Found(batch, find_migration(each.path for each in manifest.files))
    for entry in read_history(storage, name):
        found.take(entry.body)
    places = read_places(name, savepoint.checkpoint.read_ends(batch))
    if fold.query.batch_id < batch or not found.is_as_read(places):
        raise CheckpointUnfit(
            f"the savepoint {savepoint.place} is from before a rollback: the table of {name} no "
            f"longer has its batch {batch}; nothing was changed",
            hint="name a later savepoint, or start the table from the start",
            why="other_lineage",
        )
    if found.lineage and not found.has_state:
        raise CheckpointUnfit(
            f"the savepoint {savepoint.place} does not have the state that {name} had after batch "
            f"{batch}: a migration has rewritten one of the two, and was undone, or is not in the "
            "log; nothing was changed",
            hint="name a later savepoint, or start the table from the start",
            why="other_migration",
        )
    if not found.lineage or found.ran_by is None:
        return None
    ids = {key.stream: state.stream_id for key, state in sorted(fold.current().items())}
    return FormerLog(name, fold.query.batch_id, found.lineage, found.ran_by, ids)


# What Spark calls the operators whose names it writes into a checkpoint; others are not compared.
_SPARK_NAMES = {
    "StateStoreSaveExec": "stateStoreSave",
    "StreamingDeduplicateExec": "dedupe",
    "StreamingGlobalLimitExec": "globalLimit",
    "StreamingSymmetricHashJoinExec": "symmetricHashJoin",
}


@dataclass(frozen=True, slots=True)
class BegunElsewhere:
    """A query that continues from a savepoint in another table at its next start.

    Arguments:
        query: the table or topic that it fills.
        place: of the savepoint.
        batch: the last one that the other table has, as far as this one is concerned.
        owner: whose savepoint it is; None: it does not say.
        notes: what a person should know, each a sentence: what was not checked, too.

    """

    query: str
    place: str
    batch: int
    owner: SliceName | None
    notes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Opened:
    savepoint: Savepoint
    manifest: Manifest
    owner: SliceName | None
    former: FormerLog | None  # what its own log says; None: it is not in this lake

    @property
    def ends(self) -> Ends:
        """Where its last batch ended."""
        return self.savepoint.checkpoint.read_ends(self.manifest.batch)


@dataclass(frozen=True, slots=True)
class _Chosen:
    opened: _Opened
    query: StoppedQuery
    beginning: Beginning
    notes: tuple[str, ...]


def begin_in_another_table(
    opened: OpenJob,
    request: AnotherTable,
    plan: Callable[[], Sequence[PlannedQuery]],
    advance: Advance,
    report: Callable[[BegunElsewhere], None],
) -> None:
    """Let queries of a job continue from savepoints, in tables that nothing has filled yet.

    If interrupted: each query has begun, or not; call it again.

    Arguments:
        opened: the job.
        request: the savepoints.
        plan: returns what the queries of the job would do; it may take long.
        advance: called as files are done.
        report: called with each query that has begun.

    Raises as `begin`; JobFileInvalid, TableOwned; QueryRefused where the SQL gives the state
    another meaning; CheckpointUnfit where a savepoint does not fit; SourceError; LogGrows where the
    job runs, unless it `takes_over`. What can be refused is refused before the first query is
    changed.

    """
    read = [_open(opened, where, request) for where in request.savepoints]
    queries = [_choose(opened, each) for each in read]
    if len({each.name for each in queries}) < len(queries):
        raise CheckpointUnfit(
            f"{queries[0].fills} has more than one savepoint to continue from",
            hint="name one savepoint of each query",
            why="twice",
        )
    planned = {each.query: each.plan for each in plan()}
    chosen = [
        _judge(opened, one, query, planned.get(query.fills), same_sql=request.same_sql)
        for one, query in zip(read, queries, strict=True)
    ]
    require_stopped(opened, takes_over=request.takes_over)
    for each in chosen:
        saved, query = each.opened, each.query
        with begin(opened.committer(query.name), query.attempts, each.beginning) as target:
            restore(saved.savepoint, target, opened.clock, advance)
        report(
            BegunElsewhere(
                query.fills,
                saved.savepoint.place,
                saved.manifest.batch,
                saved.owner,
                each.notes,
            )
        )


def _open(opened: OpenJob, where: str, request: AnotherTable) -> _Opened:
    """Read a savepoint. Raises CheckpointUnfit if of another job, unless that is allowed."""
    savepoint = find_savepoint(where, opened.clock)
    manifest, owner = savepoint.read_manifest(), read_checkpoint_owner(savepoint.checkpoint)
    if (owner is None or owner.job != opened.job.job) and not request.of_another_job:
        whose = "does not say which job it is of" if owner is None else f"is of {owner}"
        raise CheckpointUnfit(
            f"the savepoint {savepoint.place} {whose}, and this is job {opened.job.job}; nothing "
            "was changed",
            hint="if the job is to continue from it, add `--of-another-job`",
            why="other_job",
        )
    former = read_former(opened.storage, owner, savepoint, manifest) if owner else None
    return _Opened(savepoint, manifest, owner, former)


def _choose(opened: OpenJob, saved: _Opened) -> StoppedQuery:
    """Return the query that continues from a savepoint: the one that has landed nothing.

    Raises CheckpointUnfit, JobFileInvalid, TableOwned.
    """
    job = opened.job
    slices = {name: sink_slice(job.job, sink) for name, sink in sinks_of(job).items()}
    logs = {name: read_log(opened.storage, each) for name, each in slices.items()}
    # One that was let begin before, and has not run since, may be let begin once more.
    batch = saved.manifest.batch
    begun = [name for name, fold in logs.items() if fold.query and _is_new(fold.query, batch)]
    free = [*begun, *(name for name, fold in logs.items() if is_empty(fold))]
    chosen = [name for name in free if slices[name] == saved.owner] or begun or free
    if len(chosen) > 1:
        raise JobFileInvalid(
            f"{len(free)} queries of {job.path} have an empty log: {', '.join(sorted(free))}",
            hint="which of them continues from the savepoint is unclear: run a job file first that "
            "has only that one",
        )
    if not free:
        filled = ", ".join(sorted(slices)) or "no table"
        raise CheckpointUnfit(
            f"{job.path} has no query whose log is empty (it fills {filled}); nothing was changed",
            hint="name a job file whose query fills another table or topic, which no query has "
            "filled; if it already continued from the savepoint, run the job without --from",
            why="not_empty",
        )
    (name,) = chosen
    require_empty_table(opened, name)
    return find_query(opened, name)


def _is_new(known: QueryState, batch: int) -> bool:
    """Return whether a query has landed nothing yet since its log began after a batch."""
    return (known.first, known.batch_id) == (batch + 1, batch)


def require_empty_table(opened: OpenJob, name: str) -> None:
    """Raise where a table is another job's, or holds something."""
    sink = find_sink(opened.job, name)
    if not isinstance(sink, Table):
        return
    require_free(opened.storage, sink.sink_tables, opened.job.job)
    for table in sink.sink_tables:
        listed = [names.leaf(each.path) for each in opened.storage.list(names.table_path(table))]
        found = sorted(each for each in listed if names.is_visible(each))
        if found:
            raise CheckpointUnfit(
                f"table {table} is not empty: {found[0]} is in it; nothing was changed",
                hint="name a job file that fills another table",
                why="not_empty",
            )


def _judge(
    opened: OpenJob,
    saved: _Opened,
    query: StoppedQuery,
    new: StoredPlan | None,
    *,
    same_sql: bool,
) -> _Chosen:
    """Return how a query continues. Raises where it would do so with a state of another meaning."""
    if new is None:
        raise JobFileInvalid(f"no INSERT of {opened.job.path} fills {query.fills}", hint="")
    ends, former = saved.ends, saved.former
    _require_topics(query.name, ends, list_topics(new.graph.sources))
    _require_operators(query.name, saved, new)
    stream_ids = _identify(opened, ends, former)
    notes = [
        f"{query.fills} gets what comes after batch {saved.manifest.batch}, and nothing before"
    ]
    if former is None:
        _require_same_sql(query.name, saved, is_stated=same_sql)
        notes.append(
            "not checked, as the log of the savepoint is not in this lake: whether this SQL made "
            "the state (only its sources, and the ids and names of its operators, were compared), "
            "and whether its topics were created again since"
        )
    else:
        _require_same(query.name, former, new)
        if former.last > saved.manifest.batch:
            notes.append(
                f"{saved.owner} has landed up to batch {former.last}: what it reads after batch "
                f"{saved.manifest.batch} is in both tables"
            )
    beginning = _plan_beginning(query.name, saved, stream_ids)
    preview_beginning(opened.storage, query.name, beginning)
    return _Chosen(saved, query, beginning, tuple(notes))


def _require_topics(name: SliceName, ends: Ends, reads: Sequence[Sequence[str]]) -> None:
    before = [sorted(ends[index]) for index in sorted(ends)]
    is_same = len(before) == len(reads) and all(
        set(one) <= set(other) for one, other in zip(before, reads, strict=True)
    )
    if not is_same:
        was, now = ("; ".join(", ".join(each) for each in some) for some in (before, reads))
        raise QueryRefused(
            f"{name}: the savepoint has read {was}; the query reads {now}; nothing was changed",
            hint="Spark knows the topics of a query by their order: write the query that the "
            "savepoint is of",
        )


def _require_same_sql(name: SliceName, saved: _Opened, *, is_stated: bool) -> None:
    if is_stated:
        return
    raise QueryRefused(
        f"{name}: nothing here says which SQL made the state of {saved.savepoint.place}: its own "
        "log is not in this lake; nothing was changed",
        hint="if the SQL is the same, add `--same-sql`: other SQL would misread the state, "
        "and give wrong rows",
    )


def _require_same(name: SliceName, former: FormerLog, new: StoredPlan) -> None:
    try:
        old = read_stored(former.plan.document)
    except Malformed as error:
        raise QueryRefused(
            f"{name}: the plan in the log of {former.name} cannot be read: {error}",
            hint="did a later release write the log?",
        ) from None
    hint = "write the SQL that the savepoint was taken from, or start this table from the start"
    require_continued(f"{name}: the state of the savepoint", old, new, hint)


def _require_operators(name: SliceName, saved: _Opened, new: StoredPlan) -> None:
    stateful = [each for each in describe_graph(new.graph).operators if each.state is not None]
    expected = {
        each.state.operator_id: _SPARK_NAMES.get(each.engine_class)
        for each in stateful
        if each.state is not None
    }
    found = dict(_read_operators(saved))
    is_same = expected.keys() == found.keys() and all(
        known in {None, found[number]} for number, known in expected.items()
    )
    if not is_same:
        was = ", ".join(f"{number}: {found[number]}" for number in sorted(found)) or "none"
        now = ", ".join(f"{each.state.operator_id}: {each.name}" for each in stateful if each.state)
        raise QueryRefused(
            f"{name}: the savepoint has the state of operators {was}; the query has "
            f"{now or 'none'}; nothing was changed",
            hint="write the SQL that the savepoint is of",
        )


def _read_operators(saved: _Opened) -> Iterator[tuple[int, str]]:
    for store, files in saved.savepoint.parts(saved.manifest):
        for each in files:
            if isinstance(parse_path(each.path), OperatorPath):
                known = OperatorFile.parse(store.read(each.path), store.full_path(each.path))
                yield known.operator, known.name


def _identify(opened: OpenJob, ends: Ends, former: FormerLog | None) -> Mapping[str, str]:
    """Return the identities of the topics that a savepoint has read.

    Raises CheckpointUnfit where one was created again, or ends before; StreamMissing, SourceError.
    """
    read = sorted({topic for topics in ends.values() for topic in topics})
    streams = opened.source.describe_streams(read)
    require_streams(read, streams)
    for topic in read:
        known = former.stream_ids.get(topic) if former else None
        if known not in {None, streams[topic].stream_id}:
            raise _unfit_topic(topic, "was created again since the savepoint")
    reached = {
        StreamShard(topic, shard): end
        for topics in ends.values()
        for topic, shards in topics.items()
        for shard, end in shards.items()
    }
    for shard, there in opened.source.read_offsets(list(reached)).items():
        if there.end < reached[shard]:
            text = f"ends at offset {there.end} of {shard}, the savepoint at {reached[shard]}"
            raise _unfit_topic(shard.stream, text)
    return {topic: streams[topic].stream_id for topic in read}


def _unfit_topic(topic: str, text: str) -> CheckpointUnfit:
    return CheckpointUnfit(
        f"topic {topic} {text}; nothing was changed",
        hint="the offsets of the savepoint are those of another topic: start the table from the "
        "start",
        why="other_topic",
    )


def _plan_beginning(name: SliceName, saved: _Opened, stream_ids: Mapping[str, str]) -> Beginning:
    found, former = saved.manifest, saved.former
    ends: dict[Place, int] = read_places(name, saved.ends)
    return Beginning(
        position=CheckpointPosition(found.query_id, found.planned, found.batch),
        ends=ends,
        stream_ids=stream_ids,
        lineage=former.lineage if former else None,
        plan=former.plan if former else None,
        owner=str(saved.owner or ""),
        savepoint=saved.savepoint.place,
        by=operator(),
        why=f"ashore run --from {saved.savepoint.place} --output another-table",
    )
