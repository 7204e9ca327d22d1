"""The verdict on the state of a job's queries when its SQL changes.

What it is: `judge_change`, the use case behind `migrate check`: the plans in the logs, compared
with those of another job file; `find_moved`, which INSERT continues as which, where they fill other
tables; `measure_query`, how many rows and bytes of state are dropped.
What it promises: reads only; a running job is not disturbed. An INSERT that fills another table is
taken for one of before where a person says so, or where its query is the same, and of no other: two
that are alike are never guessed. Where the files of a checkpoint do not have the number of rows,
none is reported; where only a snapshot has it, the snapshot is named.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from ashore.base import codec
from ashore.base.codec import Json, Malformed
from ashore.errors import AshoreError, JobFileInvalid, QueryRefused
from ashore.jobs.file import Table
from ashore.jobs.requests import Outline
from ashore.log.entries import Entry, Prepare
from ashore.log.files import DataFile, FileSpan
from ashore.log.fold import Fold
from ashore.log.names import SliceName
from ashore.log.positions import OffsetRange, ShardKey, ShardRange, StreamShard
from ashore.log.query import PlanState
from ashore.log.store.reader import read_history, read_log
from ashore.plans.change.backfill import plan_backfill
from ashore.plans.change.judge import judge_query
from ashore.plans.change.replay import (
    ReplayLook,
    TimeRange,
    find_missing_records,
    find_wrong_windows,
)
from ashore.plans.change.rewriting import plan_rewrite
from ashore.plans.change.verdicts import (
    LostState,
    QueryVerdict,
    SparkAlone,
    StateVerdict,
    worst_verdict,
)
from ashore.plans.digests import hash_form
from ashore.plans.graph import PlanGraph, StoredPlan, is_released, read_stored
from ashore.plans.matching import NO_EDITS, MappingEdits, choose_edits, restrict_edits
from ashore.plans.operator_graph import describe_graph
from ashore.plans.query import PlannedQuery
from ashore.queries.state.attempts import open_attempts
from ashore.queries.state.layout import CheckpointPath
from ashore.queries.state.outline import copied_outlines, try_beside_spark
from ashore.queries.state.required_files import Chain
from ashore.queries.state.survey import Survey, take_survey
from ashore.topics.decode.evolution import Change
from ashore.topics.loop.definitions import plan_define
from ashore.topics.loop.job import lake_of
from ashore.topics.loop.sinks import Sink, find_sink, require_log_of, sink_slice, sinks_of
from ashore.topics.open_job import OpenJob

INSERT_IS_NEW = "its INSERT is new: it has no state yet: it starts with the first batch"
# Returns what the queries of the new job file would do, compared with outlines of checkpoints.
Planner = Callable[[tuple[Outline, ...]], tuple[PlannedQuery, ...]]
STARTS_ANEW = "it has no state yet: it starts with the first batch"


@dataclass(frozen=True, slots=True)
class Losses:
    """What a query loses.

    `unknown`: why that could not be measured; empty: it was.
    """

    states: tuple[LostState, ...] = ()
    unknown: str = ""


@dataclass(frozen=True, slots=True)
class JudgedQuery:
    """A query of the job, or of the other job file, with the verdict on its state."""

    query: str  # the table or topic that it fills
    verdict: QueryVerdict
    replay: ReplayLook | None = None  # of one whose state is refused; None: not looked at
    losses: Losses | None = None  # of one that drops state; None: not measured
    edits: MappingEdits = NO_EDITS  # of which operator is which: what was said, or what is kept
    into: str = ""  # what its INSERT fills from now on; empty: the same
    is_filled: bool = False  # what is new in its state is filled of a replay
    table_changes: tuple[Change, ...] = ()  # how the table that it fills changes for its readers


@dataclass(frozen=True, slots=True)
class JudgeOptions:
    """What a person has typed of how two jobs are compared."""

    edits: MappingEdits | None = None  # which operator is which; None: what the logs keep of it
    query: str | None = None  # the table or topic of the only query that is asked for; None: all
    # what an INSERT fills from now on, by what it fills; empty: it is dropped. Of those that are
    # not named: an INSERT of the same query continues as it
    renames: Mapping[str, str] = field(default_factory=dict)
    fills: bool = False  # whether what is new in a state is filled of a replay


ALL = JudgeOptions()


@dataclass(frozen=True, slots=True)
class JudgedChange:
    """The verdicts on a job's state, and what its queries would do."""

    queries: tuple[JudgedQuery, ...]
    planned: tuple[PlannedQuery, ...]


def judge_change(opened: OpenJob, plan: Planner, request: JudgeOptions = ALL) -> JudgedChange:
    """Return the verdicts on the state of a job with another job file. Reads only.

    `plan`: returns the queries of the other job file.
    Raises as `plan` and `judge_job`.
    """
    with copied_outlines(opened, request.query) as outlines:
        planned = tuple(outlines.explain(each) for each in plan(outlines.copies))
    judged = judge_job(opened, planned, request)
    if request.fills:
        judged = tuple(_filled(opened, each, planned) for each in judged)
    return JudgedChange(measure_losses(opened, look_at_replays(opened, judged, planned)), planned)


def require_same_job(opened: OpenJob, other: OpenJob) -> None:
    """Raise JobFileInvalid where two job files are of two jobs: no log is that of both."""
    if opened.job.job != other.job.job:
        raise JobFileInvalid(
            f"{other.job.path} is job {other.job.job}, {opened.job.path} is job {opened.job.job}",
            hint="a new version keeps the `job` of the old one: its logs and checkpoints are named "
            "by it",
        )


def judge_job(
    opened: OpenJob, planned: Sequence[PlannedQuery], request: JudgeOptions = ALL
) -> tuple[JudgedQuery, ...]:
    """Return the verdict on the state of each query, in the order of the job file.

    Raises JobFileInvalid, CheckpointUnfit, LogDamaged, StorageError; QueryRefused where an edit
    names no operator, or a rename no query.
    """
    job, query = opened.job, request.query
    sinks = sinks_of(job) if query is None else {query: find_sink(job, query)}
    folds = {filled: _read(opened, filled, sink) for filled, sink in sinks.items()}
    others = sinks_of(job).keys() - sinks.keys()
    new = {each.query: each for each in planned if each.query not in others}
    into = find_moved(folds, new, request.renames)
    found = []
    for filled, fold in folds.items():
        name = sink_slice(job.job, sinks[filled])
        query_after = new.pop(into.get(filled, filled), None)
        judged, used = _judge(name, fold, query_after, request.edits)
        changes = _compare_table(fold, query_after)
        one = JudgedQuery(filled, judged, edits=used, table_changes=changes)
        found.append(_moved(one, into.get(filled, "")))
    if query is None:
        found += [_judge_new(opened, each, request.edits) for each in new.values()]
    if request.edits is not None:
        _check_edits(found, request.edits)
    return tuple(found)


def _judge_new(opened: OpenJob, new: PlannedQuery, edits: MappingEdits | None) -> JudgedQuery:
    """Judge a query that the job does not have: it may have had it once."""
    name = SliceName(opened.job.job, new.slice)
    fold = read_log(opened.storage, name)
    if fold.query is None:
        return JudgedQuery(new.query, _anew(INSERT_IS_NEW))
    verdict, used = _judge(name, fold, new, edits)
    changes = _compare_table(fold, new)
    return JudgedQuery(new.query, verdict, edits=used, table_changes=changes)


def _compare_table(fold: Fold, new: PlannedQuery | None) -> tuple[Change, ...]:
    """Return how the table that a query fills changes, as a start compares it with the log."""
    if new is None or new.table is None:
        return ()
    return tuple(change for _, change in plan_define(fold.tables, (new.table,)).changes)


def _read(opened: OpenJob, filled: str, sink: Sink) -> Fold:
    name = sink_slice(opened.job.job, sink)
    fold = read_log(opened.storage, name)
    require_log_of(fold, name, filled if isinstance(sink, Table) else "")
    return fold


def _moved(judged: JudgedQuery, into: str) -> JudgedQuery:
    """Say of a query that its INSERT fills something else from now on."""
    if not into:
        return judged
    why = (*judged.verdict.why, f"its INSERT fills {into}: its state and its offsets move there")
    found = worst_verdict([judged.verdict.verdict, StateVerdict.CONVERT])
    return replace(judged, verdict=replace(judged.verdict, verdict=found, why=why), into=into)


def _judge(
    name: SliceName, fold: Fold, new: PlannedQuery | None, edits: MappingEdits | None
) -> tuple[QueryVerdict, MappingEdits]:
    """Return the verdict on a query, and the edits that it has been judged with."""
    if fold.query is None:
        return _anew(STARTS_ANEW), NO_EDITS
    if new is None:
        return _removed(fold), NO_EDITS
    if fold.plan is None:
        why = "its log has no plan: an earlier release made its state, and nothing can be compared"
        return QueryVerdict(StateVerdict.REFUSED, (why,), (), ()), NO_EDITS
    try:
        old = read_stored(fold.plan.document)
    except Malformed as error:
        why = f"the plan in the log of {name} cannot be read: {error}"
        return QueryVerdict(StateVerdict.REFUSED, (why,), (), ()), NO_EDITS
    if edits is None:
        used = choose_edits(fold.edits, fold.plan.digest, old, new.plan)
    else:
        used = restrict_edits(edits, old, new.plan)
    return add_spark(judge_query(old, new.plan, used), new), used


def _removed(fold: Fold) -> QueryVerdict:
    if fold.plan is not None and _is_released(fold.plan):
        return _anew("its INSERT was dropped by a migration before: nothing is left to do")
    why = "its INSERT was removed: its state and its checkpoint are no longer used"
    return QueryVerdict(StateVerdict.LOST, (why,), (), ())


def look_at_replays(
    opened: OpenJob, found: Sequence[JudgedQuery], planned: Sequence[PlannedQuery]
) -> tuple[JudgedQuery, ...]:
    """Return verdicts with whether those queries could begin anew whose state is refused.

    Raises LogDamaged, StorageError.
    """
    graphs = {each.query: each.plan.graph for each in planned}
    sinks = sinks_of(opened.job)
    looked = []
    for each in found:
        if each.verdict.verdict is not StateVerdict.REFUSED or each.query not in sinks:
            looked.append(each)
            continue
        fold = read_log(opened.storage, sink_slice(opened.job.job, sinks[each.query]))
        look = look_at_replay(opened, fold, graphs.get(each.query))
        looked.append(replace(each, replay=look))
    return tuple(looked)


def _filled(opened: OpenJob, judged: JudgedQuery, planned: Sequence[PlannedQuery]) -> JudgedQuery:
    """Return a verdict where what is new is filled of a replay.

    Raises QueryRefused where it cannot be, or Kafka has deleted records of it.
    """
    new = next((each for each in planned if each.query == (judged.into or judged.query)), None)
    sinks, can_be = sinks_of(opened.job), {StateVerdict.PARTIAL, StateVerdict.LOST}
    if new is None or judged.query not in sinks or judged.verdict.verdict not in can_be:
        return judged
    name = sink_slice(opened.job.job, sinks[judged.query])
    fold = read_log(opened.storage, name)
    if fold.plan is None or fold.query is None:
        return judged
    rewrite = plan_rewrite(read_stored(fold.plan.document), new.plan, judged.verdict)
    found = plan_backfill(new.plan, rewrite, judged.verdict)
    if not found.is_needed:
        return judged
    _require_replay(opened, name, fold)
    return replace(judged, verdict=found.verdict, is_filled=True)


def _require_replay(opened: OpenJob, name: SliceName, fold: Fold) -> None:
    look = look_at_replay(opened, fold)
    why = look.unknown
    if look.missing:
        why = f"Kafka has deleted {look.missing[0]}, which the state has"
    elif fold.query is not None and fold.query.first:
        why = "its log begins with a savepoint, and what came before is not known"
    if why:
        raise QueryRefused(
            f"{name}: nothing can be filled of a replay: {why}; nothing was changed",
            hint="without `--backfill` what is new begins empty",
        )


def measure_losses(opened: OpenJob, found: Sequence[JudgedQuery]) -> tuple[JudgedQuery, ...]:
    """Return verdicts with how many rows and bytes those queries drop that lose state.

    Raises LogDamaged, StorageError.
    """
    return tuple(
        replace(each, losses=measure_query(opened, each.query, each.verdict))
        if has_losses(each.verdict) and each.query in sinks_of(opened.job)
        else each
        for each in found
    )


def _is_released(plan: PlanState) -> bool:
    try:
        return is_released(read_stored(plan.document))
    except Malformed:
        return False


def _anew(why: str) -> QueryVerdict:
    return QueryVerdict(StateVerdict.FULL, (why,), (), ())


def _check_edits(found: Sequence[JudgedQuery], edits: MappingEdits) -> None:
    """Raise QueryRefused where an edit names no operator that keeps state: it would do nothing."""
    operators = [each for query in found for each in query.verdict.operators]
    known = {"old": {each.old for each in operators}, "new": {each.new for each in operators}}
    for old, new in (*edits.pinned, *edits.forbidden):
        for side, id_ in (("old", old), ("new", new)):
            if id_ not in known[side]:
                there = ", ".join(sorted(each for each in known[side] if each)) or "none"
                raise QueryRefused(
                    f"the mapping names {id_}, and no stateful operator of the {side} SQL has this "
                    f"id; there is {there}",
                    hint="`ashore migrate check --write-mapping FILE` writes the ids",
                )


def add_spark(verdict: QueryVerdict, new: PlannedQuery) -> QueryVerdict:
    """Return a verdict with what Spark says of the query and of each operator, if it was asked.

    Pure. No verdict is changed: what Spark compares says nothing of what numbers mean, and what it
    refuses may be rewritten.

    `new`: the query that was judged.
    """
    says = new.spark
    if says is None:
        return verdict
    if says.unknown:
        return replace(verdict, spark=SparkAlone(None, says.unknown))
    operators = describe_graph(new.plan.graph).operators
    numbers = {each.id: each.state.operator_id for each in operators if each.state}
    return replace(
        verdict,
        spark=_alone(says.error),
        operators=tuple(
            replace(each, spark=_alone(says.error_of(numbers.get(each.new or ""))))
            for each in verdict.operators
        ),
    )


def _alone(error: str) -> SparkAlone:
    return SparkAlone(not error, error)


def look_at_replay(opened: OpenJob, fold: Fold, graph: PlanGraph | None = None) -> ReplayLook:
    """Return what a query would miss that begins anew and reads again all that it has read.

    The source is asked for the earliest offsets that it has now; where it does not answer, that is
    said. Missing records are found by offsets; by event times where tables have the same records.

    `graph`: of the new query, whose windows are shown; None: none are.
    Raises LogDamaged, StorageError.
    """
    try:
        earliest = _ask_earliest(opened, fold)
    except AshoreError as error:
        return ReplayLook(unknown=error.message)
    missing = find_missing_records(fold.shards.values(), earliest)
    if not missing:
        return ReplayLook()
    tables, times = _find_times(opened, fold, missing)
    windows = () if graph is None or times is None else find_wrong_windows(graph, times)
    return ReplayLook(missing, tables=tables, times=times, windows=windows)


def _ask_earliest(opened: OpenJob, fold: Fold) -> dict[ShardKey, int]:
    """Return the first offset of each shard whose topic is the one that was read."""
    current = fold.current()
    streams = sorted({key.stream for key in current})
    infos = opened.source.describe_streams(streams)
    shards = {
        key: StreamShard(key.stream, key.shard)
        for key, state in current.items()
        if key.stream in infos
        and infos[key.stream].stream_id == state.stream_id
        and key.shard in infos[key.stream].shards
    }
    offsets = opened.source.read_offsets(list(shards.values()))
    return {key: offsets[shard].earliest for key, shard in shards.items() if shard in offsets}


def _find_times(
    opened: OpenJob, fold: Fold, missing: Sequence[ShardRange]
) -> tuple[tuple[str, ...], TimeRange | None]:
    """Return which tables have landed any of these offsets, and their event times."""
    ranges = {_identify(fold, each.key): each.offsets for each in missing}
    landed = read_log(opened.storage, opened.name)
    shards = {key: ranges.get(_identify(landed, key)) for key in landed.shards}
    expired = {key: offsets for key, offsets in shards.items() if offsets is not None}
    tables, times = set[str](), list[int]()
    for table, file in _find_files(read_history(opened.storage, opened.name), expired):
        if file.event_min_ms is not None and file.event_max_ms is not None:
            tables.add(table)
            times += [file.event_min_ms, file.event_max_ms]
    return tuple(sorted(tables)), TimeRange(min(times), max(times)) if times else None


def _identify(fold: Fold, key: ShardKey) -> tuple[str, str]:
    """Return what a shard is in any log: each counts generations for itself."""
    return fold.shards[key].stream_id, key.shard


def _find_files(
    entries: Iterable[Entry], expired: Mapping[ShardKey, OffsetRange]
) -> Iterator[tuple[str, DataFile]]:
    """Yield files with records of some offsets. Stops where all of them are behind."""
    waiting = dict(expired)
    for entry in entries:
        if not waiting:
            return
        body = entry.body
        if isinstance(body, Prepare):
            for file in body.files:
                if any(_overlaps(body, span, expired) for span in file.spans):
                    yield body.targets[file.target].table, file
            for read in body.shards:
                if read.key in waiting and read.offsets.end >= waiting[read.key].end:
                    del waiting[read.key]


def _overlaps(body: Prepare, span: FileSpan, deleted: Mapping[ShardKey, OffsetRange]) -> bool:
    offsets = deleted.get(body.shards[span.shard].key)
    return offsets is not None and span.start < offsets.end and offsets.start < span.end


_RENAME_HINT = "`ashore migrate check JOB.yaml --to NEW.yaml` names INSERTs that come and go"


# ---- INSERTs that fill other tables


def read_renames(typed: Sequence[str]) -> dict[str, str]:
    """Return what `ods.a=ods.b` says; `ods.a=` says that it is dropped. Raises JobFileInvalid."""
    found: dict[str, str] = {}
    for text in typed:
        old, sign, new = text.partition("=")
        if not sign or not old or old in found or (new and new in found.values()):
            raise JobFileInvalid(
                f"--rename {text} does not say which table an INSERT fills from now on",
                hint="write --rename ods.old=ods.new, each table once; --rename ods.old= drops it",
            )
        found[old] = new
    return found


def find_moved(
    folds: Mapping[str, Fold], new: Mapping[str, PlannedQuery], renames: Mapping[str, str]
) -> dict[str, str]:
    """Return what INSERTs fill from now on that fill something else.

    All are by what their INSERTs fill. `renames`: what a person says; empty: it is dropped.
    Raises QueryRefused where a rename names no query.
    """
    dropped = {name: plan for name, plan in _plans(folds) if name not in new}
    come = {name: each.plan for name, each in new.items() if name not in folds}
    for old, into in renames.items():
        _require_there(
            old, dropped, "the job has no INSERT that the new job file drops, of the name"
        )
        if into:
            _require_there(into, come, "the new job file adds no INSERT of the name")
    chosen = {old: into for old, into in renames.items() if into}
    dropped = {name: plan for name, plan in dropped.items() if name not in renames}
    come = {name: plan for name, plan in come.items() if name not in chosen.values()}
    for old, plan in dropped.items():
        alike = [name for name, each in come.items() if _is_same(plan, each)]
        others = [name for name, each in dropped.items() if _is_same(plan, each)]
        if len(alike) == len(others) == 1:
            chosen[old] = alike[0]
    return chosen


def _plans(folds: Mapping[str, Fold]) -> Iterator[tuple[str, StoredPlan]]:
    """Yield the plans of queries that have run, and that no migration has dropped."""
    for name, fold in folds.items():
        if fold.query is None or fold.plan is None:
            continue
        try:
            plan = read_stored(fold.plan.document)
        except Malformed:
            continue  # its verdict says so
        if not is_released(plan):
            yield name, plan


def _is_same(old: StoredPlan, new: StoredPlan) -> bool:
    """Return whether two queries do the same: what their INSERTs fill is in the texts alone."""
    was, now = (
        (each.planner, each.views, each.functions, _digest(each.graph), each.graph.columns)
        for each in (old, new)
    )
    return was == now


def _digest(graph: PlanGraph) -> str:
    """Return what distinguishes what a plan computes from others: it is the same in any session."""
    # The nodes that only count rows are left out: they hold the time of the planning.
    operators = describe_graph(graph).operators
    described: list[Json] = [
        [each.own, [*(edge.source for edge in each.inputs)], codec.encode(each.state)]
        for each in operators
    ]
    return hash_form(described)


def _require_there(name: str, names: Mapping[str, StoredPlan], why: str) -> None:
    if name not in names:
        there = ", ".join(sorted(names)) or "none"
        raise QueryRefused(f"--rename: {why} {name}; there is {there}", hint=_RENAME_HINT)


# ---- state that is dropped


def has_losses(verdict: QueryVerdict) -> bool:
    """Return whether something of a state is dropped."""
    if verdict.why and not verdict.operators:
        return verdict.verdict is StateVerdict.LOST
    return any(each.verdict is StateVerdict.LOST for each in verdict.operators)


def measure_query(opened: OpenJob, query: str, verdict: QueryVerdict) -> Losses:
    """Return how much each operator loses, or the query as a whole where none is judged.

    `query`: the table or topic that the query fills.
    Raises JobFileInvalid, LogDamaged, StorageError.
    """
    job = opened.job
    name = sink_slice(job.job, find_sink(job, query))
    attempts = open_attempts(job, name, lake_of(job), opened.storage, opened.clock)
    fold = read_log(opened.storage, name)
    try:
        newest = attempts.newest()
        if newest is None:
            return Losses(unknown="there is no checkpoint")
        graph = read_stored(fold.plan.document).graph if fold.plan else None
        survey = try_beside_spark(lambda _: take_survey(newest))
        return Losses(tuple(measure_survey(survey, graph, verdict)))
    except (AshoreError, Malformed) as error:
        return Losses(unknown=str(error))


def measure_survey(
    survey: Survey, graph: PlanGraph | None, verdict: QueryVerdict
) -> Iterator[LostState]:
    """Yield how much each operator loses, or all together where none is judged.

    `graph`: of the plan that the state was made by; None: it is not known.
    """
    sizes = {each.of: each.size_bytes for each in survey.required.files}
    if not verdict.operators or graph is None:
        if survey.required.chains:
            yield _sum(None, survey.required.chains, sizes)
        return
    operators = describe_graph(graph).operators
    numbers = {each.id: each.state.operator_id for each in operators if each.state}
    for each in verdict.operators:
        if each.verdict is StateVerdict.LOST and each.old in numbers:
            number = numbers[each.old]
            chains = [one for one in survey.required.chains if one.store.operator == number]
            yield _sum(each.old, chains, sizes)


def _sum(
    old: str | None, chains: Iterable[Chain], sizes: Mapping[CheckpointPath, int]
) -> LostState:
    some = list(chains)
    size_bytes = sum(sizes[path] for each in some for path in each.paths)
    counted = [each.rows for each in some if each.rows is not None]
    if len(counted) < len(some):
        return LostState(old, None, is_estimate=False, size_bytes=size_bytes)
    is_estimate = any(each.changes for each in some)
    return LostState(old, sum(counted), is_estimate, size_bytes)
