"""The command `ashore clean`.

What it promises: with `--explain` nothing is changed.
"""

from ashore.base.units import format_size
from ashore.cli.options import AsJson, Debug, Explain, JobFile
from ashore.cli.output import print_answer, reported_errors
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
