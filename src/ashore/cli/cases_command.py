"""The command `ashore test`.

What it promises: Kafka and the lake play no part; the exit code is 0 only if every case passed.
What it must not know: how a case is run.
"""

from pathlib import Path
from typing import Annotated

import typer

from ashore.cli.cases_view import FAILED, show_cases
from ashore.cli.options import AsJsonLines, Debug, JobFile
from ashore.cli.output import CommandAnswer, reported_errors
from ashore.errors import JobFileInvalid
from ashore.jobs.file.cases import load_cases
from ashore.jobs.launch import JobLaunch, LaunchOptions
from ashore.jobs.requests import CasesRequest, write_request
from ashore.topics.loop.job import load_job_file


def run_tests(
    job_file: JobFile,
    cases: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="CASES.yaml", help="Files of cases; without: JOB.cases.yaml beside the job."
        ),
    ] = None,
    junit: Annotated[
        Path | None, typer.Option(help="Write the results to this file, as JUnit does.")
    ] = None,
    as_json: AsJsonLines = False,
    debug: Debug = False,
) -> None:
    """Run test cases of a job's SQL: records in, rows out. All in one Spark, without Kafka."""
    with reported_errors(as_json=as_json, debug=debug, in_lines=True):
        job = load_job_file(job_file)
        if job.sql is None:
            raise JobFileInvalid(f"{job_file} has no SQL to test", hint="add sql: to the job file")
        files = cases or [job_file.with_suffix(".cases.yaml")]
        count = sum(len(load_cases(each)) for each in files)  # what is wrong is told at once
        request = write_request(CasesRequest(tuple(str(each) for each in files)))
        options = LaunchOptions(debug=debug, name=job.job, request=request)
        launch = JobLaunch("test", job_file, options)
        code = show_cases(launch, count, junit, as_json=as_json)
        raise CommandAnswer(code, "cases failed") if code == FAILED else typer.Exit(code)


test = run_tests  # pytest would take a function of this name for one of its own
