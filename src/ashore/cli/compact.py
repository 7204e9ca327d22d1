"""The command `compact`.

What it promises: with `--explain` nothing is changed.
"""

from dataclasses import dataclass
from typing import Annotated

import typer

from ashore.base.units import format_count, format_size
from ashore.cli.options import AsJson, Debug, Explain, JobFile, TakeOver, parse_size
from ashore.cli.output import print_answer, reported_errors, shown_progress
from ashore.log.plan_compact import CompactRule
from ashore.proof.compact import CompactTable, apply_compaction, plan_compaction
from ashore.topics.open_job import open_job


def compact(  # noqa: PLR0913, PLR0917 - each parameter is an option of the command
    job_file: JobFile,
    table: Annotated[
        str | None, typer.Argument(help="A table of the job; without it, all of them.")
    ] = None,
    target: Annotated[str, typer.Option(metavar="SIZE", help="The size of new files.")] = "128MB",
    min_files: Annotated[
        int, typer.Option(min=2, help="Leave partitions with fewer small files as they are.")
    ] = 10,
    sort: Annotated[
        str,
        typer.Option(metavar="COLUMNS", help="Sort the rows of new files: `user,ts`."),
    ] = "",
    explain: Explain = False,
    take_over: TakeOver = False,
    as_json: AsJson = False,
    debug: Debug = False,
) -> None:
    """Put small files of Iceberg and Delta tables together. Older snapshots stay readable."""
    with reported_errors(as_json=as_json, debug=debug), open_job(job_file) as opened:
        sort_by = tuple(each.strip() for each in sort.split(",") if each.strip())
        rule = CompactRule(parse_size(target), min_files, sort_by=sort_by)
        plan = plan_compaction(opened, table, rule)
        answers = {(each.name, each.table): _Answer(each) for each in plan}
        if not explain:
            with shown_progress(quiet=as_json) as progress:
                done = apply_compaction(opened, plan, takes_over=take_over, progress=progress)
            for each in done:
                answer = answers[each.plan.name, each.plan.table]
                answer.written = each.files_written
                answer.snapshots, answer.abandoned = each.snapshots, each.abandoned
        lines = [each.line(is_done=not explain) for each in answers.values()]
        document = {"tables": [each.document() for each in answers.values()], "done": not explain}
        print_answer(lines or ["no table has snapshots"], document, as_json=as_json)


@dataclass(slots=True)
class _Answer:
    """What is printed about one table."""

    plan: CompactTable
    written: int = 0
    snapshots: tuple[int, ...] = ()
    abandoned: tuple[str, ...] = ()

    def line(self, *, is_done: bool) -> str:
        plan = self.plan
        if plan.refused or not plan.groups:
            return f"{plan.table}: nothing to compact: {plan.refused or self._few()}"
        size = format_size(plan.size_bytes)
        text = (
            f"{plan.table}: {plan.files_replaced:,} of {format_count(plan.files, 'file')}, {size}"
        )
        if not is_done:
            return f"{text}, become {len(plan.groups):,}"
        written = f"wrote {format_count(self.written, 'file')}"
        text += f": {written} in {format_count(len(self.snapshots), 'snapshot')}"
        return text + "".join(f"; abandoned: {each}" for each in self.abandoned)

    def _few(self) -> str:
        return f"{format_count(self.plan.files, 'file')}, too few of them small in one partition"

    def document(self) -> dict[str, object]:
        plan = self.plan
        return {
            "slice": plan.name.slice,
            "table": plan.table,
            "files": plan.files,
            "files_replaced": plan.files_replaced,
            "files_planned": len(plan.groups),
            "bytes": plan.size_bytes,
            "refused": plan.refused,
            "files_written": self.written,
            "snapshots": list(self.snapshots),
            "abandoned": list(self.abandoned),
        }
