"""The command `ashore sql`.

What it promises: nothing is written; stdout has rows and nothing else.
"""

import json
import sys
from typing import Annotated

import typer
from rich.markup import escape

from ashore.cli.event_lines import print_event, take_events
from ashore.cli.options import AsJsonLines, Debug, JobFile
from ashore.cli.output import (
    STARTING_SPARK,
    cell_text,
    print_failure,
    print_table,
    reported_errors,
    say,
)
from ashore.jobs.events import Answered, Event, Note, Reading, Talk
from ashore.jobs.launch import JobLaunch, LaunchOptions
from ashore.jobs.requests import SqlRequest, write_request
from ashore.queries.tools.adhoc import parse_offsets
from ashore.topics.loop.job import load_job_file

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
        job = load_job_file(job_file)  # errors of the file alone are reported at once
        ranges = tuple(parse_offsets(each) for each in offsets or ())
        request = write_request(SqlRequest(query, last, ranges, limit))
        launch = JobLaunch(
            "sql", job_file, LaunchOptions(debug=debug, name=job.job, request=request)
        )
        raise typer.Exit(show_answer(launch, as_json=as_json))


def show_answer(launch: JobLaunch, *, as_json: bool) -> int:
    """Show the rows of a query, and return the exit code.

    A table on a terminal, or each row as a JSON object on a line of its own. Numbers are shown as
    Spark wrote them: no digit is lost on the way.
    """
    answers: list[Answered] = []

    def take(event: Event) -> None:
        match event:
            case Reading():
                topics = ", ".join(event.topics)
                read = f"{event.offsets:,} offsets of {topics}" if topics else "no topic"
                say(f"reading {read}")
            case Answered():
                answers.append(event)
            case Note() | Talk():
                say(escape(event.message))

    say(STARTING_SPARK)
    failed = take_events(launch, take)
    if failed is not None:
        print_event(failed) if as_json else print_failure(failed)
    elif answers:
        _show_rows(answers[-1], as_json=as_json)
    return failed.exit_code if failed else 0


def _show_rows(answer: Answered, *, as_json: bool) -> None:
    if as_json:
        sys.stdout.writelines(f"{row}\n" for row in answer.rows)
    else:
        rows = [json.loads(row, parse_int=str, parse_float=str) for row in answer.rows]
        shown = [[escape(cell_text(row.get(name))) for name in answer.columns] for row in rows]
        print_table("", dict.fromkeys(answer.columns, "left"), shown)
    count = len(answer.rows)
    more = "; there are more: --limit shows them" if answer.has_more else ""
    say(f"{count:,} row{'' if count == 1 else 's'}{more}")
