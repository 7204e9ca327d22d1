"""The commands `ashore init` and `ashore schema`, for who writes a job file.

What it promises: a file that is there is left as it is; with `--json` stdout is one document.
"""

import os
from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

from ashore.base.clock import SystemClock
from ashore.cli.options import AsJson, Debug
from ashore.cli.output import print_answer, print_json, reported_errors, say
from ashore.errors import JobFileInvalid
from ashore.jobs.file import EnvText, KafkaOptions
from ashore.jobs.file.json_schema import job_schema
from ashore.jobs.file.values import ValueRefused
from ashore.topics.open_job import SOURCE_TIMEOUT_S
from ashore.topics.read.lazy import open_later
from ashore.topics.use.proposed_file import (
    JobProposal,
    TableProposal,
    exists_already,
    job_text,
    table_names,
    write_new,
)


def init(  # noqa: PLR0913, PLR0917 - each parameter is an option of the command
    topics: Annotated[list[str], typer.Argument(metavar="TOPIC", help="Topics to land.")],
    servers: Annotated[str, typer.Option(help="Brokers, as host:port,host:port.")],
    lake: Annotated[str, typer.Option(help="The lake's URI.")] = "file:///tmp/lake",
    out: Annotated[Path | None, typer.Option(help="The file; default: JOB.yaml here.")] = None,
    job: Annotated[str, typer.Option(help="The job's name; default: the first topic's.")] = "",
    database: Annotated[str, typer.Option(help="Of the tables.")] = "ods",
    records: Annotated[
        int, typer.Option(min=1, help="How many to look at in each partition.")
    ] = 100,
    option: Annotated[
        list[str] | None,
        typer.Option(help="Of the Kafka client, as name=value; secrets as '${name}'."),
    ] = None,
    as_json: AsJson = False,
    debug: Debug = False,
) -> None:
    """Read the newest records of topics and write a job file that lands them."""
    with reported_errors(as_json=as_json, debug=debug):
        tables = table_names(topics, database)
        name = job or next(iter(tables.values())).partition(".")[2]
        path = out or Path(f"{name}.yaml")
        if path.exists():
            raise exists_already(path)
        options = _read_options(option or [])
        source = open_later(servers, _reveal(options), SOURCE_TIMEOUT_S)
        if not as_json:
            say(f"reading the newest records of {escape(', '.join(topics))}")
        from ashore.topics.use.propose import propose_table, sample_topic  # noqa: PLC0415 - loads Arrow

        try:
            now_ms = SystemClock().now_ms()
            found = tuple(
                propose_table(sample_topic(source, topic, records), table, now_ms)
                for topic, table in tables.items()
            )
        finally:
            source.close()
        proposal = JobProposal(name, lake, servers, options, found)
        write_new(path, job_text(proposal))
        notes = [f"note: {each.topic}: {note}" for each in found for note in each.notes]
        found_lines = [_describe(each) for each in found]
        lines = [f"wrote {path}", *found_lines, *notes, f"next: ashore validate {path}"]
        print_answer(lines, {"path": str(path), **proposal.to_dict()}, as_json=as_json)


def _describe(table: TableProposal) -> str:
    """Return what the proposal makes of the records that were looked at."""
    time = table.event_time
    event_time = f"`{time.column}`" if time else "Kafka's timestamp"
    return (
        f"{table.topic}: {table.decoded:,} of {table.sampled:,} records match, as "
        f"{table.decode}; event time: {event_time}"
    )


def _read_options(texts: list[str]) -> dict[str, str]:
    pairs = [each.partition("=") for each in texts]
    for name, equals, _ in pairs:
        if not equals:
            raise JobFileInvalid(
                f"the option {name!r} has no value", hint="write --option name=value"
            )
    return {name: value for name, _, value in pairs}


def _reveal(options: dict[str, str]) -> KafkaOptions:
    """Return options with their variables replaced. Raises JobFileInvalid."""
    try:
        return KafkaOptions(
            {
                KafkaOptions.check_name(name): EnvText(value, os.environ)
                for name, value in options.items()
            }
        )
    except ValueRefused as refused:
        raise JobFileInvalid(refused.message, hint=refused.instead) from None


def schema() -> None:
    """Print the JSON Schema of the job file, for editors."""
    print_json(job_schema())
