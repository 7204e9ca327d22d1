"""The command `ashore reset-clock`.

What it promises: with `--explain` nothing is changed.
What it must not know: what is set back.
"""

from typing import Annotated

import typer

from ashore.cli import output
from ashore.cli.options import AsJson, Debug, Explain, JobFile, TakeOver
from ashore.cli.output import escape, print_json, reported_errors
from ashore.control.jobs import open_job
from ashore.control.reset_clock import apply, plan


def reset_clock(
    job_file: JobFile,
    why: Annotated[str, typer.Option(help="The reason, kept in the log.")] = "",
    explain: Explain = False,
    take_over: TakeOver = False,
    as_json: AsJson = False,
    debug: Debug = False,
) -> None:
    """Set back the times of a log whose clock was ahead. Rows stay where they are."""
    with reported_errors(as_json=as_json, debug=debug), open_job(job_file) as opened:
        found = plan(opened) if explain else apply(opened, why, takes_over=take_over)
        if as_json:
            print_json({"slices": [each.to_dict() for each in found], "done": not explain})
            return
        if not found:
            output.out.print("no log of the job is ahead of this machine's clock: nothing to do")
        for each in found:
            for line in each.explain():
                output.out.print(escape(line))
