"""The command `ashore sql`.

What it promises: nothing is written; stdout has rows and nothing else.
What it must not know: how a query is run.
"""

from typing import Annotated

import typer

from ashore.cli.options import AsJsonLines, Debug, JobFile
from ashore.cli.output import reported_errors
from ashore.cli.sql_view import show_answer
from ashore.control.adhoc import parse_offsets
from ashore.jobs.launch import JobLaunch, LaunchOptions
from ashore.jobs.requests import SqlRequest, write_request
from ashore.landing.job import load_job_file

LAST = 10_000
LIMIT = 100


def sql(  # noqa: PLR0913, PLR0917 - each parameter is an option of the command
    job_file: JobFile,
    query: Annotated[
        str, typer.Argument(metavar="SELECT", help="A SELECT over the views of the job.")
    ],
    last: Annotated[
        int, typer.Option(min=1, help="How many of the newest offsets of each topic are read.")
    ] = LAST,
    offsets: Annotated[
        list[str] | None,
        typer.Option(
            metavar="topic/partition:from-to",
            help="Read these offsets of a topic, the last one not included: `clicks/0:100-200`, "
            "`clicks:100-`. May be given several times.",
        ),
    ] = None,
    limit: Annotated[int, typer.Option(min=1, help="How many rows are printed.")] = LIMIT,
    as_json: AsJsonLines = False,
    debug: Debug = False,
) -> None:
    """Try a query: run a SELECT once, on the newest records of the topics, and print its rows."""
    with reported_errors(as_json=as_json, debug=debug, in_lines=True):
        job = load_job_file(job_file)  # what the file alone can tell is told at once
        ranges = tuple(parse_offsets(each) for each in offsets or ())
        request = write_request(SqlRequest(query, last, ranges, limit))
        launch = JobLaunch(
            "sql", job_file, LaunchOptions(debug=debug, name=job.job, request=request)
        )
        raise typer.Exit(show_answer(launch, as_json=as_json))
