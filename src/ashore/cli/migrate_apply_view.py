"""What a migration looks like, as lines and as JSON.

What it promises: the lines say no more than the document.
What it must not know: how a migration is done.
"""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from ashore.base.units import format_duration, format_size
from ashore.cli.migrate_view import judged_document, judged_lines
from ashore.control.migrating import AppliedMigration, PlannedMigration
from ashore.control.migration import JudgedQuery
from ashore.jobs.events import StateStep
from ashore.jobs.progress import StateWork
from ashore.migration.rewriting import OperatorRewrite, RewriteKind
from ashore.protocol.codec import Json

_WORK = {
    StateWork.COUNT: "counting the rows that are dropped",
    StateWork.WRITE: "writing the state",
    StateWork.COMPARE: "reading what was written",
}
_DONE = {
    RewriteKind.KEEP: "its files are kept as they are",
    RewriteKind.RECODE: "its rows are rewritten",
    RewriteKind.MERGE: "its rows are rewritten, and rows of one group are merged",
    RewriteKind.EMPTY: "it starts empty",
}


def step_line(query: str, step: StateStep) -> str:
    """Return a step of a rewriting in words."""
    stores = f", {step.stores}" if step.stores else ""
    return f"{query}: {_WORK[step.work]} of operator {step.operator}{stores}"


@dataclass(slots=True)
class ShownMigration:
    """What is shown of a migration.

    Arguments:
        judged: the verdict on each query.
        planned: what is to be done; none yet, or nothing.
        applied: what was done; none yet, or none wanted.

    """

    judged: Sequence[JudgedQuery]
    planned: tuple[PlannedMigration, ...] = ()
    applied: tuple[AppliedMigration, ...] = ()

    def judged_lines(self) -> Iterator[str]:
        """Yield the verdict on each query."""
        return judged_lines(self.judged)

    def planned_lines(self) -> Iterator[str]:
        """Yield how the state of each query is rewritten."""
        for each in self.planned:
            size = format_size(each.size_bytes)
            yield f"{each.query.fills}: the state of batch {each.batch}, {size}, is rewritten"
            yield from (f"  {_operator(one)}" for one in each.rewrite.operators)
            yield from (f"  {one.name}: it is dropped" for one in each.rewrite.dropped)
            for topic, firsts in each.firsts.items():
                begins = ", ".join(f"{shard}: {first}" for shard, first in sorted(firsts.items()))
                yield f"  {topic} is read from the offsets {{{begins}}} on"

    def applied_lines(self, to: Path) -> Iterator[str]:
        """Yield what was done. `to`: the job file with the new SQL."""
        if not self.planned:
            yield "no state has to be rewritten: nothing was changed"
        elif not self.applied:
            yield "nothing was changed"
        for each in self.applied:
            rows = sum(store.after or 0 for store in each.state.stores)
            kept = sum(store.after is None for store in each.state.stores)
            took = format_duration(1000 * each.took_s)
            yield (
                f"{each.query}: migrated after batch {each.batch} in {took}; rows written and "
                f"counted again: {rows:,}, stores kept as files: {kept}"
            )
            for dropped in each.state.dropped:
                yield f"  dropped rows of operator {dropped.operator}: {dropped.rows:,}"
            yield f"  the state from before is in {each.savepoint}"
        if self.applied:
            yield f"next: ashore run {to}; to take it back: ashore migrate undo {to}"

    def document(self) -> dict[str, Json]:
        """Return all as JSON: that of `migrate check`, what is planned, and what was done."""
        return {
            **judged_document(self.judged),
            "planned": [_planned_document(each) for each in self.planned],
            "applied": [
                {
                    "query": each.query,
                    "batch": each.batch,
                    "savepoint": each.savepoint,
                    "stores": [asdict(store) for store in each.state.stores],
                    "dropped": [asdict(store) for store in each.state.dropped],
                    "seconds": round(each.took_s, 3),
                }
                for each in self.applied
            ],
            "done": bool(self.applied),
        }


def _operator(rewrite: OperatorRewrite) -> str:
    return f"{rewrite.name}: {_DONE[rewrite.kind]}"


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
            }
            for each in planned.rewrite.operators
        ],
        "dropped": [
            {"operator": each.operator, "name": each.name} for each in planned.rewrite.dropped
        ],
        "begins": {topic: dict(firsts) for topic, firsts in planned.firsts.items()},
    }
