"""The command `ashore reset-clock`.

What it promises: with `--explain` nothing is changed.
What it must not know: what is set back.
"""

from ashore.cli.options import AsJson, Debug, Explain, JobFile, TakeOver, Why
from ashore.cli.output import print_answer, reported_errors
from ashore.topics.open_job import open_job
from ashore.topics.use.reset_clock import apply, plan


def reset_clock(
    job_file: JobFile,
    why: Why = "",
    explain: Explain = False,
    take_over: TakeOver = False,
    as_json: AsJson = False,
    debug: Debug = False,
) -> None:
    """Set back the times of a log whose clock was ahead. Rows stay where they are."""
    with reported_errors(as_json=as_json, debug=debug), open_job(job_file) as opened:
        found = plan(opened) if explain else apply(opened, why, takes_over=take_over)
        nothing = "no log of the job is ahead of this machine's clock: nothing to do"
        lines = [line for each in found for line in each.explain()] if found else [nothing]
        document = {"slices": [each.to_dict() for each in found], "done": not explain}
        print_answer(lines, document, as_json=as_json)
