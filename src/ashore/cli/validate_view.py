"""What the queries of a job look like before they start."""

from rich.markup import escape

from ashore.cli.event_lines import take_events
from ashore.cli.output import (
    STARTING_SPARK,
    failure_document,
    out,
    print_failure,
    print_json,
    print_table,
    say,
)
from ashore.jobs.events import Event, Validated
from ashore.jobs.launch import JobLaunch
from ashore.plans.operators import StatefulOperator
from ashore.plans.query import DescribedQuery, TopicQuery, write_queries

COLUMNS_SHOWN = 6  # a sketch has dozens
SOURCES = {"source": "left", "reads": "left", "stream": "left"}
OPERATORS = {
    "id": "right",
    "operator": "left",
    "keys": "left",
    "state": "left",
    "partitions": "right",
    "forgets": "left",
}


def show_validate(launch: JobLaunch, *, as_json: bool) -> int:
    """Show what the job's queries would be, and return the exit code."""
    queries: list[DescribedQuery] = []

    def take(event: Event) -> None:
        if isinstance(event, Validated):
            queries.extend(event.queries)

    if not as_json:
        say(STARTING_SPARK)
    failed = take_events(launch, take)
    if as_json:
        reported = {"queries": write_queries(queries)}
        print_json(failure_document(failed) if failed else reported)
    elif failed:
        print_failure(failed)
    else:
        for query in queries:
            _show(query)
    return failed.exit_code if failed else 0


def _show(query: DescribedQuery) -> None:
    if isinstance(query, TopicQuery):
        key = f", key {', '.join(query.key)}" if query.key else ""
        out.print(f"\ntopic {escape(query.topic)} is written by slice {query.slice}")
        out.print(f"mode        {query.mode}{escape(key)}")
    else:
        out.print(f"\n{escape(query.table)} is written by slice {query.slice}")
    out.print(f"guarantee   {query.guarantee}")
    for warning in query.warnings:
        out.print(f"[bold]warning[/]     {escape(warning)}")
    out.print(f"columns     {escape(query.columns)}")
    out.print(f"checkpoint  {escape(query.checkpoint)}")
    sources = [[each.name, each.reads, _yes(each.is_streaming)] for each in query.sources]
    print_table("", SOURCES, [list(map(escape, each)) for each in sources])
    if not query.operators:
        out.print("no state")
        return
    print_table("", OPERATORS, [_operator(each) for each in query.operators])


def _operator(each: StatefulOperator) -> list[str]:
    state = [f"{one.name} {one.type}" for one in each.state_columns]
    more = [f"and {len(state) - COLUMNS_SHOWN} more"] if len(state) > COLUMNS_SHOWN else []
    return [
        str(each.operator_id),
        escape(each.name),
        escape(", ".join(each.keys)),
        escape(", ".join(state[:COLUMNS_SHOWN] + more)),
        str(each.state_partitions),
        _yes(each.is_bounded),
    ]


def _yes(value: bool | None) -> str:
    return "?" if value is None else "yes" if value else "no"
