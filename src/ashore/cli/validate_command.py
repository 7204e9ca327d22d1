"""The command `ashore validate`.

What it promises: nothing is read or written; where there is no SQL, no Spark is started.
What it must not know: what is valid.
"""

import typer

from ashore.cli import validate_view
from ashore.cli.options import AsJson, Debug, JobFile
from ashore.cli.output import print_answer, reported_errors
from ashore.control import jobs
from ashore.control.preflight import check_tables
from ashore.jobs.launch import JobLaunch, LaunchOptions


def validate(job_file: JobFile, as_json: AsJson = False, debug: Debug = False) -> None:
    """Plan the SQL of a job and show sources, state and columns. Nothing is read or written."""
    with reported_errors(as_json=as_json, debug=debug):
        with jobs.open_job(job_file) as opened:  # what the file alone can tell is told at once
            has_sql = opened.job.sql is not None
            check_tables(opened.job, opened.known_topics(), opened.known_tables())
        if not has_sql:
            print_answer(
                ["the job file is valid; it has no SQL to plan"], {"queries": []}, as_json=as_json
            )
            return
        launch = JobLaunch("validate", job_file, LaunchOptions(debug=debug))
        raise typer.Exit(validate_view.show_validate(launch, as_json=as_json))
