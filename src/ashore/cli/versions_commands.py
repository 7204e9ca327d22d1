"""The commands of `ashore versions`.

What it promises: reads only. `ashore versions JOB.yaml` is `ashore versions list JOB.yaml`.
What it must not know: how versions are compared.
"""

from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from ashore.cli.options import AsJson, Debug, JobFile
from ashore.cli.output import print_answer, reported_errors
from ashore.cli.versions_view import diff_document, diff_lines, list_document, list_lines
from ashore.fleet.server.pages.versions_svg import draw_diff
from ashore.proof.status.versions import compare, list_versions
from ashore.topics.open_job import open_job

Query = Annotated[
    str | None,
    typer.Option(metavar="TABLE", help="The table or topic that the query fills."),
]


class _ListByDefault(TyperGroup):
    """A group whose first argument may be the job file."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Return the command that is meant; `list` where none is named."""
        is_named = bool(args) and args[0] in self.commands
        return super().resolve_command(ctx, args if is_named else ["list", *args])


versions = typer.Typer(
    cls=_ListByDefault,
    help="Versions of a job's queries: what was run from which batch on, and what differs.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)


@versions.command("list")
def versions_list(
    job_file: JobFile, query: Query = None, as_json: AsJson = False, debug: Debug = False
) -> None:
    """List versions, oldest first: releases, first batch, and how many operators keep state."""
    with reported_errors(as_json=as_json, debug=debug), open_job(job_file) as opened:
        found = list_versions(opened, query)
        print_answer(list_lines(found), list_document(found), as_json=as_json)


@versions.command("diff")
def versions_diff(  # noqa: PLR0913, PLR0917 - each parameter is an option of the command
    job_file: JobFile,
    before: Annotated[
        int | None, typer.Argument(metavar="A", help="A version. Default: the last but one.")
    ] = None,
    after: Annotated[
        int | None, typer.Argument(metavar="B", help="Another one. Default: the last.")
    ] = None,
    query: Query = None,
    svg: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Draw both plan graphs side by side, for a browser.",
            dir_okay=False,
        ),
    ] = None,
    as_json: AsJson = False,
    debug: Debug = False,
) -> None:
    """Show what differs between two versions: SQL, settings, operators and columns."""
    with reported_errors(as_json=as_json, debug=debug), open_job(job_file) as opened:
        found = compare(opened, before, after, query)
        if svg is not None:
            svg.write_text(draw_diff(found), "utf-8")
        print_answer(diff_lines(found), diff_document(found), as_json=as_json)
