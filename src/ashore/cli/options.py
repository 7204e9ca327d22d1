"""Arguments and options that commands share, spelled once.

What it is: annotations of parameters, and what groups of commands have in common.
What it promises: an option has one name and one meaning wherever it is taken from here.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer
from typer.core import TyperGroup

from ashore.base.units import parse_duration_ms, parse_size_bytes

JobFile = Annotated[Path, typer.Argument(metavar="JOB.yaml", help="The job file.")]
Directory = Annotated[
    Path,
    typer.Argument(metavar="DIR", exists=True, file_okay=False, help="The directory of job files."),
]
AsJson = Annotated[bool, typer.Option("--json", help="One JSON document on stdout.")]
AsJsonLines = Annotated[bool, typer.Option("--json", help="JSON on stdout, one object per line.")]
Debug = Annotated[bool, typer.Option("--debug", help="Show tracebacks.")]
Explain = Annotated[bool, typer.Option("--explain", help="Show what would be done, do nothing.")]
TakeOver = Annotated[
    bool, typer.Option("--take-over", help="Take over even if the job is still running.")
]
Why = Annotated[str, typer.Option(help="The reason, kept in the log.")]

Where = Annotated[
    str,
    typer.Argument(
        metavar="WHERE",
        help="A job file, or the directory of any checkpoint of Spark: a path or hdfs://...",
    ),
]
Query = Annotated[
    str | None,
    typer.Option(help="Of a job file with several queries: the table or topic that one fills."),
]
Batch = Annotated[int | None, typer.Option(min=0, help="A finished batch. By default the newest.")]


def parse_duration(text: str) -> int:
    """Return the milliseconds that an option says, as `90s`. Raises BadParameter."""
    return _parsed(parse_duration_ms, text)


def parse_size(text: str) -> int:
    """Return the bytes that an option says, as `32MB`. Raises BadParameter."""
    return _parsed(parse_size_bytes, text)


def _parsed(parse: Callable[[str], int], text: str) -> int:
    try:
        return parse(text)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None


def new_group(text: str, cls: type[TyperGroup] | None = None) -> typer.Typer:
    """Return a group of commands, such as `ashore drill`, with its help."""
    return typer.Typer(
        cls=cls,
        help=text,
        no_args_is_help=True,
        add_completion=False,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
    )
