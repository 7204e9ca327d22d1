"""The commands that delete: `ashore clean` and `ashore retire`.

What it promises: with `--explain` nothing is changed.
"""

from collections.abc import Iterator
from typing import Annotated

import typer

from ashore.base.units import format_count, format_size
from ashore.cli.options import AsJson, Debug, Explain, JobFile, TakeOver, Why
from ashore.cli.output import print_answer, reported_errors
from ashore.proof.retire import apply_retire, parse_age, plan_retire
from ashore.tables.table_format import Orphans
from ashore.topics.open_job import open_job
from ashore.topics.use.clean import CleanPlan, clean_job, plan_clean_job


def clean(
    job_file: JobFile, explain: Explain = False, as_json: AsJson = False, debug: Debug = False
) -> None:
    """Delete in-progress files and orphans of tables that nothing refers to."""
    with reported_errors(as_json=as_json, debug=debug), open_job(job_file) as opened:
        plan = plan_clean_job(opened)
        if not explain:
            clean_job(opened, plan)
        steps = [f"delete {step.file.path}: {step.why}" for step in plan.steps]
        total = f"{format_count(len(steps), 'file')}, {format_size(plan.size_bytes)}"
        lines = [*_explain_looks(plan), f"deleted {total}"]
        if explain:
            lines[-1:] = [*steps, f"to delete: {total}"] if steps else ["nothing to delete"]
        document = {
            "files": len(steps),
            "bytes": plan.size_bytes,
            "steps": steps,
            "tables": [_to_dict(each) for each in plan.orphans],
            "done": not explain,
        }
        print_answer(lines, document, as_json=as_json)


def _explain_looks(plan: CleanPlan) -> Iterator[str]:
    yield f"looked at the in-progress files of {format_count(len(plan.tables), 'table')}"
    for each in plan.orphans:
        if each.skipped:
            yield f"left {each.table} as it is: {each.skipped}"
        else:
            yield (
                f"looked at {format_count(each.files, 'file')} below {each.table}: "
                f"its metadata and {format_count(each.snapshots, 'snapshot')} name {each.named:,}, "
                f"{format_count(len(each.steps), 'orphan')}"
            )


def _to_dict(orphans: Orphans) -> dict[str, object]:
    return {
        "table": orphans.table,
        "files": orphans.files,
        "named": orphans.named,
        "snapshots": orphans.snapshots,
        "orphans": len(orphans.steps),
        "bytes": sum(step.file.size_bytes for step in orphans.steps),
        "skipped": orphans.skipped,
    }


def retire(  # noqa: PLR0913, PLR0917 - each parameter is an option of the command
    job_file: JobFile,
    table: Annotated[str, typer.Argument(help="A table of the job.")],
    partitions: Annotated[
        list[str] | None, typer.Argument(metavar="PARTITION", help="As `date=2026-11-21`.")
    ] = None,
    older_than: Annotated[
        str | None, typer.Option(help="Also time partitions that ended longer ago: `90d`.")
    ] = None,
    why: Why = "ashore retire",
    explain: Explain = False,
    take_over: TakeOver = False,
    as_json: AsJson = False,
    debug: Debug = False,
) -> None:
    """Drop partitions from log, catalog and storage. The log keeps who did it and why."""
    with reported_errors(as_json=as_json, debug=debug), open_job(job_file) as opened:
        if not partitions and older_than is None:
            raise typer.BadParameter("name partitions, or use --older-than 90d")
        age_ms = None if older_than is None else parse_age(older_than)
        plan = plan_retire(opened, table, partitions or [], age_ms)
        lines = [each.explain() for each in plan]
        deleted = 0 if explain else apply_retire(opened, plan, why, takes_over=take_over)
        steps = [
            {
                "partition": each.partition,
                "rows": each.rows,
                "files": len(each.files),
                "kept": each.kept,
            }
            for each in plan
        ]
        done = {"table": table, "partitions": steps, "deleted": deleted, "done": not explain}
        print_answer(lines or ["nothing to retire"], done, as_json=as_json)
