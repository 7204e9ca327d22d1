"""The commands that delete: `ashore clean` and `ashore retire`.

What it promises: with `--explain` nothing is changed.
"""

from typing import Annotated

import typer

from ashore.base.units import format_size
from ashore.cli.options import AsJson, Debug, Explain, JobFile, TakeOver, Why
from ashore.cli.output import print_answer, reported_errors
from ashore.proof.retire import apply_retire, parse_age, plan_retire
from ashore.topics.open_job import open_job
from ashore.topics.use.clean import clean_job, plan_clean_job


def clean(
    job_file: JobFile, explain: Explain = False, as_json: AsJson = False, debug: Debug = False
) -> None:
    """Delete in-progress files that are no longer referenced."""
    with reported_errors(as_json=as_json, debug=debug), open_job(job_file) as opened:
        steps = plan_clean_job(opened)
        if explain:
            lines = [f"delete {step.file.path}: {step.why}" for step in steps]
            print_answer(lines or ["nothing to delete"], {"steps": lines}, as_json=as_json)
            return
        size = clean_job(opened, steps)
        line = f"deleted {len(steps)} files, {format_size(size)}"
        print_answer([line], {"files": len(steps), "bytes": size}, as_json=as_json)


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
