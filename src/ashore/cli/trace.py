"""The command `ashore trace`."""

from typing import Annotated

import typer

from ashore.cli.options import AsJson, Debug
from ashore.cli.output import print_answer, reported_errors

DataFilePath = Annotated[
    str,
    typer.Argument(metavar="FILE", help="A data file of a table: a path, file://... or hdfs://..."),
]


def trace(path: DataFilePath, as_json: AsJson = False, debug: Debug = False) -> None:
    """Show what happened to one data file: entry, offsets, move, seals, and its owner."""
    with reported_errors(as_json=as_json, debug=debug):
        from ashore.proof.trace import trace_file  # noqa: PLC0415 - reads logs

        found = trace_file(path)
        lines = [
            f"{found.path}",
            f"table {found.table}, owned by {found.owner or 'nobody'}; it is {found.now}",
            f"slice {found.slice}, epoch {found.epoch}, batch {found.batch}, task {found.task}",
            *(
                f"  {each.topic}/{each.partition} offsets {each.start} to {each.end - 1}: "
                f"{each.rows:,} rows"
                for each in found.ranges
            ),
            *(f"{each.at}  entry {each.entry}  {each.kind}: {each.text}" for each in found.steps),
            *(f"not known: {each}" for each in found.unknown),
        ]
        print_answer(lines, found.to_dict(), as_json=as_json)
