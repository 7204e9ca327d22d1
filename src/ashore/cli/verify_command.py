"""The command `ashore verify`.

What it promises: nothing is changed.
What it must not know: what a proof is.
"""

from typing import Annotated

import typer

from ashore.base.unique import unique
from ashore.cli import verify_view
from ashore.cli.options import AsJson, Debug, JobFile
from ashore.cli.output import CommandAnswer, print_json, reported_errors, shown_progress
from ashore.proof.verify import SampleRate, parse_rate
from ashore.topics import open_job


def verify(
    job_file: JobFile,
    since: Annotated[
        str | None,
        typer.Option(help="Check contents only of what was written since: 2h, 3d, ISO 8601."),
    ] = None,
    values: Annotated[
        str | None,
        typer.Option(help="Compare a sample of rows with Kafka, value by value: 0.01, 1%, 1."),
    ] = None,
    seed: Annotated[
        int | None, typer.Option(help="With --values: choose the rows of an earlier run again.")
    ] = None,
    as_json: AsJson = False,
    debug: Debug = False,
) -> None:
    """Compare log, files and Kafka: prove that nothing is lost and nothing duplicated."""
    with reported_errors(as_json=as_json, debug=debug), open_job.open_job(job_file) as opened:
        sample = None
        if values is not None:
            chosen = int(unique()[:8], 16) if seed is None else seed
            sample = SampleRate(parse_rate(values), chosen)
        elif seed is not None:
            raise typer.BadParameter("--seed requires --values")
        with shown_progress(quiet=as_json) as progress:
            progress("log", 0, 0)
            from ashore.proof.verify.job import verify_job  # noqa: PLC0415 - loads Arrow

            result = verify_job(opened, since=since, sample=sample, progress=progress)
        if as_json:
            print_json(result.to_dict())
        else:
            verify_view.show(result)
        raise CommandAnswer(result.exit_code, result.answer)
