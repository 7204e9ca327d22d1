"""What a verdict on a change of SQL, and a migration, look like: as lines and as JSON.

What it promises: the lines say no more than the document.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ashore.base.codec import Json
from ashore.base.units import format_duration, format_size, format_time
from ashore.jobs.events import StateProgress, StateStep
from ashore.jobs.file.mapping import write_mapping
from ashore.log.progress import StateWork
from ashore.plans.change.replay import ReplayLook
from ashore.plans.change.rewriting import OperatorRewrite, RewriteKind
from ashore.plans.change.verdicts import (
    LostState,
    MappedPair,
    OperatorVerdict,
    QueryVerdict,
    SourceVerdict,
    SparkAlone,
    StateVerdict,
    worst_verdict,
)
from ashore.plans.matching import NO_EDITS, MappingEdits
from ashore.queries.change.check import JudgedQuery, Losses
from ashore.topics.decode.evolution import Compatibility
from ashore.topics.loop.definitions import ACCEPT

if TYPE_CHECKING:  # `migrate check` does not load what writes a checkpoint
    from ashore.queries.change.apply import AppliedChange
    from ashore.queries.change.plan import PlannedChange, PlannedMigration
    from ashore.queries.state.source_changes import Firsts

_NEXT = {
    StateVerdict.FULL: "a start with the new SQL uses the state as it is",
    StateVerdict.CONVERT: "the state has to be rewritten, and nothing of it is lost",
    StateVerdict.PARTIAL: "the state has to be rewritten, and parts of it start empty",
    StateVerdict.LOST: "the state has to be rewritten, and parts of it are dropped",
    StateVerdict.REFUSED: "the state cannot be kept",
}
# The worse first.
_OF_TABLES = {
    Compatibility.REFUSED: (
        "a start with the new SQL refuses the change of the table: revert it, or write to another "
        "table"
    ),
    Compatibility.RISKY: (
        f"a start with the new SQL refuses the change of the table without {ACCEPT}: readers may "
        "then see wrong values"
    ),
}


def judged_lines(found: Sequence[JudgedQuery]) -> Iterator[str]:
    """Yield the verdict on each query, operator and column."""
    for query in found:
        yield f"{query.query}: {query.verdict.verdict}"
        yield from (f"  {why}" for why in (*query.verdict.why, *_spark_of_query(query.verdict)))
        yield from (f"  {text}" for text in _edits_lines(query.edits))
        yield from _changed_sources(query.verdict.sources)
        pairs = {pair.new: pair for pair in query.verdict.mapping}
        for operator in query.verdict.operators:
            yield from _operator(operator, pairs.get(operator.new or ""))
            yield from (f"    {says}" for says in _spark_of(operator, query.verdict))
            yield from (f"    {text}" for text in _loss_of(operator, query.losses))
        yield from (f"  {text}" for text in _losses_of_query(query.losses))
        yield from (f"  {text}" for text in _replay_of(query.replay))
        yield from (f"  table: {each.text}" for each in query.table_changes)
    if not found:
        yield "the job has no SQL: it keeps no state"
        return
    verdict = worst_verdict(each.verdict.verdict for each in found)
    yield f"{verdict}: {_NEXT[verdict]}"
    worst_change = find_worst_change(found)
    if worst_change is not None:
        yield _OF_TABLES[worst_change]


def find_worst_change(found: Sequence[JudgedQuery]) -> Compatibility | None:
    """Return what a start refuses of the tables that queries fill; None: it refuses nothing."""
    changes = {each.verdict for query in found for each in query.table_changes}
    return next((each for each in _OF_TABLES if each in changes), None)


def _changed_sources(sources: Sequence[SourceVerdict]) -> Iterator[str]:
    """Yield the changes of sources that are to be reported."""
    for source in sources:
        if source.why:
            yield f"  source {source.name}: {source.verdict}"
            yield from (f"    {why}" for why in source.why)


def _operator(operator: OperatorVerdict, pair: MappedPair | None) -> Iterator[str]:
    yield f"  {operator.name} [{_ids(operator)}]: {operator.verdict}"
    if pair is not None:
        yield f"    paired with a score of {pair.score:.2f}: {pair.why}"
    yield from (f"    {why}" for why in operator.why)
    for column in operator.columns:
        why = f": {column.why}" if column.why else ""
        yield f"    {column.verdict:<8} {column.name}{why}"


def _loss_of(operator: OperatorVerdict, losses: Losses | None) -> Iterator[str]:
    """Yield how much an operator loses."""
    for each in losses.states if losses else ():
        if each.old is not None and each.old == operator.old:
            part = "of its state, " if operator.new else "its state, "
            yield f"{part}{_amount(each)}, {'a part' if operator.new else 'all'} is dropped"


def _losses_of_query(losses: Losses | None) -> Iterator[str]:
    if losses is not None and losses.unknown:
        yield f"how many rows and bytes are dropped is not known: {losses.unknown}"
    for each in losses.states if losses else ():
        if each.old is None:
            yield f"its state, {_amount(each)}, is dropped"


def _amount(lost: LostState) -> str:
    size = format_size(lost.size_bytes)
    if lost.rows is None:
        return f"{size} (no file counts its rows)"
    if lost.is_estimate:
        return f"about {lost.rows:,} rows (as of the last snapshots) in {size}"
    return f"{lost.rows:,} rows in {size}"


def _losses_document(losses: Losses | None) -> Json:
    if losses is None:
        return None
    return {
        "error": losses.unknown or None,
        "states": [
            {
                "operator": each.old,
                "rows": each.rows,
                "is_estimate": each.is_estimate,
                "bytes": each.size_bytes,
            }
            for each in losses.states
        ],
    }


def _replay_of(look: ReplayLook | None) -> Iterator[str]:
    """Yield whether a new table or topic would have all, filled from the start of the topics."""
    if look is None:
        return
    if look.is_complete:
        yield (
            "a fresh start with a replay is complete, into a new table or topic: Kafka still has "
            "all that was read since the log began"
        )
    elif look.unknown:
        yield f"whether a fresh start with a replay is complete is not known: {look.unknown}"
    for each in look.missing:
        yield (
            f"a fresh start with a replay lacks up to {each.offsets.size:,} records of "
            f"{each.key}: Kafka has deleted the offsets {each.offsets}"
        )
    if look.missing and look.times is None:
        yield "when these records were is not known: the logs have only their offsets"
    elif look.times is not None:
        first, last = format_time(look.times.first_ms), format_time(look.times.last_ms)
        yield f"those of them in {' and '.join(look.tables)} lie between {first} and {last}"
    for window in look.windows:
        first, end = format_time(window.first_ms), format_time(window.end_ms)
        yield f"so a replay may get each {window.text} wrong from {first} to {end}"


def _replay_document(look: ReplayLook | None) -> Json:
    if look is None:
        return None
    return {
        "complete": None if look.unknown else look.is_complete,
        "error": look.unknown or None,
        "missing": [
            {
                "topic": each.key.stream,
                "partition": int(each.key.shard),
                "start": each.offsets.start,
                "end": each.offsets.end,
            }
            for each in look.missing
        ],
        "tables": [*look.tables],
        "first_ms": look.times.first_ms if look.times else None,
        "last_ms": look.times.last_ms if look.times else None,
        "windows": [
            {"window": each.text, "first_ms": each.first_ms, "end_ms": each.end_ms}
            for each in look.windows
        ],
    }


def _spark_of_query(query: QueryVerdict) -> Iterator[str]:
    """Yield what Spark says where no operator is judged, and that it says nothing."""
    spark = query.spark
    if spark is not None and spark.accepts is None:
        yield f"what Spark alone would do is not known: {spark.error}"
    elif spark is not None and spark.accepts and not query.operators and query.why:
        yield "Spark's own check of the state accepts it"


def _spark_of(operator: OperatorVerdict, query: QueryVerdict) -> Iterator[str]:
    """Yield what Spark alone would do, where that differs from the verdict."""
    spark, verdict = operator.spark, operator.verdict
    if spark is None or query.spark is None:
        return
    if spark.accepts is False and verdict is not StateVerdict.REFUSED:
        yield f"Spark alone refuses: {spark.error}"
    elif spark.accepts and verdict is not StateVerdict.FULL and query.spark.accepts:
        yield "Spark alone would start and give wrong numbers"
    elif spark.accepts and verdict is not StateVerdict.FULL:
        yield "Spark's own check of this state accepts it"


def _ids(operator: OperatorVerdict) -> str:
    if operator.old == operator.new:
        return operator.new or ""
    return f"{operator.old or 'new'} -> {operator.new or 'gone'}"


def judged_document(found: Sequence[JudgedQuery]) -> dict[str, Json]:
    """Return all as JSON; the verdict of the whole is that of its worst part."""
    return {
        "verdict": worst_verdict(each.verdict.verdict for each in found).value,
        "queries": [
            {
                "query": each.query,
                "verdict": each.verdict.verdict.value,
                "why": [*each.verdict.why],
                "spark": _spark_document(each.verdict.spark),
                "replay": _replay_document(each.replay),
                "lost": _losses_document(each.losses),
                "edits": _edits_document(each.edits),
                "table": [
                    {"verdict": change.verdict.value, "text": change.text}
                    for change in each.table_changes
                ],
            }
            for each in found
        ],
        "operators": [
            _operator_document(query.query, each)
            for query in found
            for each in query.verdict.operators
        ],
        "sources": [
            {
                "query": query.query,
                "name": each.name,
                "old": each.old,
                "new": each.new,
                "verdict": each.verdict.value,
                "why": [*each.why],
            }
            for query in found
            for each in query.verdict.sources
        ],
        "mapping": [
            {
                "query": query.query,
                "old": each.old,
                "new": each.new,
                "by": each.why.name.lower(),
                "score": each.score,
            }
            for query in found
            for each in query.verdict.mapping
        ],
    }


def _operator_document(query: str, operator: OperatorVerdict) -> Json:
    return {
        "query": query,
        "name": operator.name,
        "old": operator.old,
        "new": operator.new,
        "verdict": operator.verdict.value,
        "why": [*operator.why],
        "differs_from_replay": operator.differs_from_replay,
        "spark": _spark_document(operator.spark),
        "columns": [
            {"name": each.name, "verdict": each.verdict.value, "why": each.why}
            for each in operator.columns
        ],
    }


def _spark_document(spark: SparkAlone | None) -> Json:
    return None if spark is None else {"accepts": spark.accepts, "error": spark.error or None}


def _edits_lines(edits: MappingEdits) -> Iterator[str]:
    """Yield what a person has said of which operator is which."""
    if edits != NO_EDITS:
        yield f"a mapping holds: {edits.describe()}"


def _edits_document(edits: MappingEdits) -> Json:
    return {
        name: [{"old": old, "new": new} for old, new in some]
        for name, some in (("pin", edits.pinned), ("forbid", edits.forbidden))
    }


def mapping_text(found: Sequence[JudgedQuery]) -> str:
    """Return the pairs as a mapping file, to be edited, with what is forbidden already."""
    return write_mapping(
        ((each.old, each.new, each.why.value) for query in found for each in query.verdict.mapping),
        (each for query in found for each in query.edits.forbidden),
    )


_WORK = {
    StateWork.COUNT: "counting the rows that are dropped",
    StateWork.REPLAY: "replaying the records up to the last batch, to fill what is new",
    StateWork.WRITE: "writing the state",
    StateWork.COMPARE: "reading what was written",
    StateWork.SAMPLE: "comparing some keys with the old state",
}
_DONE = {
    RewriteKind.KEEP: "its files are kept as they are",
    RewriteKind.RECODE: "its rows are rewritten",
    RewriteKind.MERGE: "its rows are rewritten, and rows of one group are merged",
    RewriteKind.EMPTY: "it starts empty",
    RewriteKind.MOVE: "its rows are moved as they are",
}


def step_line(query: str, step: StateStep) -> str:
    """Return a step of a rewriting in words."""
    if step.work is StateWork.REPLAY:
        return f"{query}: {_WORK[step.work]}"
    if step.work is StateWork.LOAD:
        return f"{query}: running a batch without rows on a copy of the new state"
    stores = f", {step.stores}" if step.stores else ""
    return f"{query}: {_WORK[step.work]} of operator {step.operator}{stores}"


@dataclass(slots=True)
class ShownSteps:
    """Steps of a rewriting as they come.

    Arguments:
        say: takes a line for each step.
        progress: takes what is done, how much of it, of how much, and more words.

    """

    say: Callable[[str], None]
    progress: Callable[..., None]
    _step: str = ""

    def show(self, query: str, event: StateStep | StateProgress) -> None:
        """Show what a query is at."""
        match event:
            case StateStep():
                self._step = step_line(query, event)
                self.say(self._step)
            case StateProgress(done, total, rows, size):
                more = f"{rows:,} rows, {format_size(size)}" if rows else ""
                self.progress(self._step, done, total, more)


@dataclass(slots=True)
class ShownMigration:
    """What is shown of a migration.

    Arguments:
        job_file: of the job as it was.
        judged: the verdict on each query.
        planned: what is to be done, which may be nothing.
        applied: what was done; None: nothing.

    """

    job_file: Path
    judged: Sequence[JudgedQuery]
    planned: "PlannedChange"
    applied: "AppliedChange | None" = None

    def planned_lines(self) -> Iterator[str]:
        """Yield the result of each query."""
        for each in self.planned.migrations:
            size = format_size(each.size_bytes)
            yield f"{each.query.fills}: the state of batch {each.batch}, {size}, is rewritten"
            if each.partitions is not None:
                yield f"  it gets {each.partitions:,} state partitions"
            if each.into is not None:
                yield f"  it continues as {each.into.fills}, and is no longer started"
            yield from (f"  {_rewritten(one)}" for one in each.rewrite.operators)
            yield from (f"  {one.name}: it is dropped" for one in each.rewrite.dropped)
            yield from _begins(each.firsts)
        for drop in self.planned.drops:
            size = format_size(drop.size_bytes)
            yield (
                f"{drop.query.fills}: it is dropped after batch {drop.batch}; its state, {size}, "
                "stays in a savepoint"
            )
        for begun in self.planned.beginnings:
            yield f"{begun.query.fills}: it is new"
            yield from _begins(begun.firsts)

    def applied_lines(self, to: Path) -> Iterator[str]:
        """Yield what was done. `to`: the job file with the new SQL."""
        if self.planned.is_empty:
            yield "no state has to be rewritten: nothing was changed"
        elif self.applied is None:
            yield "nothing was changed"
        if self.applied is None:
            return
        for each in self.applied.migrations:
            rows = sum(store.after or 0 for store in each.state.stores)
            kept = sum(store.after is None for store in each.state.stores)
            took = format_duration(1000 * each.took_s)
            yield (
                f"{each.query}: migrated after batch {each.batch} in {took}; rows written and "
                f"counted again: {rows:,}, stores kept as files: {kept}"
            )
            for dropped in each.state.dropped:
                yield f"  dropped rows of operator {dropped.operator}: {dropped.rows:,}"
            if each.into:
                yield f"  it continues as {each.into}"
            yield f"  the state from before is in {each.savepoint}"
        for dropped_query in self.applied.drops:
            yield (
                f"{dropped_query.query}: dropped after batch {dropped_query.batch}; its state is "
                f"in {dropped_query.savepoint}"
            )
        for begun in self.applied.beginnings:
            yield f"{begun.query.fills}: begins at the offsets of --begin"
        risky = find_worst_change(self.judged) is Compatibility.RISKY
        run = f"ashore run {to} {ACCEPT}" if risky else f"ashore run {to}"
        yield f"next: {run}; to take it back: {self._undo(to)}"

    def _undo(self, to: Path) -> str:
        """Return the command that undoes it: what was dropped is in the job file of before."""
        removed = [each.query.fills for each in self.planned.drops]
        removed += [each.query.fills for each in self.planned.migrations if each.into]
        if not removed:
            return f"ashore migrate undo {to}"
        return f"ashore migrate undo {self.job_file} --query {removed[0]}"

    def document(self) -> dict[str, Json]:
        """Return all as JSON: that of `migrate check`, what is planned, and what was done."""
        applied = self.applied
        return {
            **judged_document(self.judged),
            "planned": [_planned_document(each) for each in self.planned.migrations],
            "dropped": [
                {"query": each.query.fills, "batch": each.batch, "bytes": each.size_bytes}
                for each in self.planned.drops
            ],
            "begun": [
                {"query": each.query.fills, "begins": _firsts(each.firsts)}
                for each in self.planned.beginnings
            ],
            "savepoints": [
                {"query": each.query, "savepoint": each.savepoint}
                for each in (applied.drops if applied else ())
            ],
            "applied": [
                {
                    "query": each.query,
                    "into": each.into or None,
                    "batch": each.batch,
                    "savepoint": each.savepoint,
                    "stores": [asdict(store) for store in each.state.stores],
                    "dropped": [asdict(store) for store in each.state.dropped],
                    "seconds": round(each.took_s, 3),
                }
                for each in (applied.migrations if applied else ())
            ],
            "done": applied is not None,
        }


def _begins(firsts: "Firsts") -> Iterator[str]:
    for topic, shards in firsts.items():
        begins = ", ".join(f"{shard}: {first}" for shard, first in sorted(shards.items()))
        yield f"  {topic} is read from the offsets {{{begins}}} on"


def _firsts(firsts: "Firsts") -> dict[str, Json]:
    return {topic: dict(shards) for topic, shards in firsts.items()}


def _rewritten(rewrite: OperatorRewrite) -> str:
    filled = sum(each.is_filled for each in rewrite.values)
    more = f"; {filled} of its columns are filled of a replay" if filled else ""
    return f"{rewrite.name}: {_DONE[rewrite.kind]}{more}"


def _planned_document(planned: "PlannedMigration") -> Json:
    return {
        "query": planned.query.fills,
        "batch": planned.batch,
        "bytes": planned.size_bytes,
        "operators": [
            {
                "operator": each.operator,
                "name": each.name,
                "rewrite": each.kind.value,
                "old": each.old,
                "filled": sum(value.is_filled for value in each.values),
            }
            for each in planned.rewrite.operators
        ],
        "dropped": [
            {"operator": each.operator, "name": each.name} for each in planned.rewrite.dropped
        ],
        "into": planned.into.fills if planned.into else None,
        "partitions": planned.partitions,
        "begins": _firsts(planned.firsts),
    }
