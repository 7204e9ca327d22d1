"""What a migration looks like, as lines and as JSON.

What it promises: the lines say no more than the document.
What it must not know: how a migration is done.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

from ashore.base.codec import Json
from ashore.base.units import format_duration, format_size
from ashore.cli.migrate_view import judged_document, judged_lines
from ashore.jobs.events import StateProgress, StateStep
from ashore.log.progress import StateWork
from ashore.plans.change.rewriting import OperatorRewrite, RewriteKind
from ashore.queries.change.apply import AppliedChange, PlannedChange, PlannedMigration
from ashore.queries.change.check import JudgedQuery
from ashore.queries.state.source_changes import Firsts

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
        planned: what is to be done; none yet, or nothing.
        applied: what was done; None: nothing yet, or none wanted.

    """

    job_file: Path
    judged: Sequence[JudgedQuery]
    planned: PlannedChange = field(default_factory=PlannedChange)
    applied: AppliedChange | None = None

    def judged_lines(self) -> Iterator[str]:
        """Yield the verdict on each query."""
        return judged_lines(self.judged)

    def planned_lines(self) -> Iterator[str]:
        """Yield what becomes of each query."""
        for each in self.planned.migrations:
            size = format_size(each.size_bytes)
            yield f"{each.query.fills}: the state of batch {each.batch}, {size}, is rewritten"
            if each.partitions is not None:
                yield f"  it gets {each.partitions:,} state partitions"
            if each.into is not None:
                yield f"  it continues as {each.into.fills}, and is no longer started"
            yield from (f"  {_operator(one)}" for one in each.rewrite.operators)
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
        applied = self.applied or AppliedChange()
        for each in applied.migrations:
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
        for dropped_query in applied.drops:
            yield (
                f"{dropped_query.query}: dropped after batch {dropped_query.batch}; its state is "
                f"in {dropped_query.savepoint}"
            )
        for begun in applied.beginnings:
            yield f"{begun.query.fills}: begins where it was told to"
        if self.applied:
            yield f"next: ashore run {to}; to take it back: {self._undo(to)}"

    def _undo(self, to: Path) -> str:
        """Return the command that undoes it: what was dropped is in the job file of before."""
        gone = [each.query.fills for each in self.planned.drops]
        gone += [each.query.fills for each in self.planned.migrations if each.into]
        if not gone:
            return f"ashore migrate undo {to}"
        return f"ashore migrate undo {self.job_file} --query {gone[0]}"

    def document(self) -> dict[str, Json]:
        """Return all as JSON: that of `migrate check`, what is planned, and what was done."""
        applied = self.applied or AppliedChange()
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
                {"query": each.query, "savepoint": each.savepoint} for each in applied.drops
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
                for each in applied.migrations
            ],
            "done": self.applied is not None,
        }


def _begins(firsts: Firsts) -> Iterator[str]:
    for topic, shards in firsts.items():
        begins = ", ".join(f"{shard}: {first}" for shard, first in sorted(shards.items()))
        yield f"  {topic} is read from the offsets {{{begins}}} on"


def _firsts(firsts: Firsts) -> dict[str, Json]:
    return {topic: dict(shards) for topic, shards in firsts.items()}


def _operator(rewrite: OperatorRewrite) -> str:
    filled = sum(each.is_filled for each in rewrite.values)
    more = f"; {filled} of its columns are filled of a replay" if filled else ""
    return f"{rewrite.name}: {_DONE[rewrite.kind]}{more}"


def _planned_document(planned: PlannedMigration) -> Json:
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
