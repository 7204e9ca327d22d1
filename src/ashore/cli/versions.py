"""The commands of `ashore versions`.

What it promises: reads only. `ashore versions JOB.yaml` is `ashore versions list JOB.yaml`. The
lines say no more than the document.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from ashore.base import codec
from ashore.base.codec import Json
from ashore.base.units import format_time
from ashore.cli.options import AsJson, Debug, JobFile, new_group
from ashore.cli.output import print_answer, reported_errors
from ashore.fleet.server.pages.versions_svg import draw_diff
from ashore.log.query import EditsState
from ashore.plans.matching import MappingEdits
from ashore.plans.version_changes import ChangeKind, ColumnChange, OperatorChange, SettingChange
from ashore.proof.status.query_versions import (
    ComparedVersions,
    QueryVersions,
    RecordedVersion,
    compare,
    list_versions,
)
from ashore.topics.open_job import open_job

Query = Annotated[
    str | None, typer.Option(metavar="TABLE", help="The table or topic that the query fills.")
]


class _ListByDefault(TyperGroup):
    """A group whose first argument may be the job file."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Return the command that is meant; `list` where none is named."""
        is_named = bool(args) and args[0] in self.commands
        return super().resolve_command(ctx, args if is_named else ["list", *args])


versions = new_group(
    "Versions of a job's queries: what was run from which batch on, and what differs.",
    _ListByDefault,
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


SIGNS = {
    ChangeKind.SAME: " ",
    ChangeKind.CHANGED: "~",
    ChangeKind.ADDED: "+",
    ChangeKind.REMOVED: "-",
}


def list_lines(found: Sequence[QueryVersions]) -> Iterator[str]:
    """Yield a line for each version, below the query that it is of."""
    for query in found:
        yield query.query
        for each in query.versions:
            releases = each.content.releases
            states = "; ".join(one.name for one in each.content.operators) or "no state"
            yield (
                f"  {each.version:>3}  {format_time(each.written_ms)}  from batch {each.batch}  "
                f"Ashore {releases.ashore}, Spark {releases.spark}  {states}"
            )
        if query.edits is not None:
            edits = _edits(query.edits).describe()
            yield f"  mapping, by the migration in entry {query.edits.entry}: {edits}"
        if not query.versions:
            yield "  no version yet: the next start writes one"
    if not found:
        yield "the job has no SQL, so it has no versions"


def list_document(found: Sequence[QueryVersions]) -> dict[str, Json]:
    """Return all versions as JSON, each as its log has it."""
    return {
        "queries": [
            {
                "query": query.query,
                "versions": [_document(each) for each in query.versions],
                "edits": codec.encode(query.edits),
            }
            for query in found
        ]
    }


def _edits(kept: EditsState) -> MappingEdits:
    return MappingEdits(
        tuple((each.old, each.new) for each in kept.pinned),
        tuple((each.old, each.new) for each in kept.forbidden),
    )


def _document(version: RecordedVersion) -> Json:
    return {
        "version": version.version,
        "entry": version.entry,
        "batch": version.batch,
        "written_ms": version.written_ms,
        "digest": version.digest,
        **codec.encode_object(version.content),
    }


# ---- differences


def diff_lines(found: ComparedVersions) -> Iterator[str]:
    """Yield what differs between two versions."""
    diff = found.diff
    yield f"{found.query}: version {found.before.version} to {found.after.version}"
    if not diff.is_comparable:
        yield "the plans were made by different releases: some differences may come from that alone"
    yield from _section("SQL", list(diff.sql))
    yield from _section("settings", [_setting(each) for each in diff.settings])
    yield from _section("releases and state", [_setting(each) for each in diff.releases])
    yield from _section("columns", [_column(each) for each in diff.columns])
    operators = [line for each in diff.operators for line in _operator(each)]
    has_changed = any(each.change is not ChangeKind.SAME for each in diff.operators)
    yield from _section("operators", operators if has_changed else [])


def _section(title: str, lines: list[str]) -> Iterator[str]:
    if not lines:
        yield f"{title}: no difference"
        return
    yield f"{title}:"
    yield from (f"  {line}" for line in lines)


def _setting(change: SettingChange) -> str:
    was = "not there" if change.before is None else change.before
    now = "not there" if change.after is None else change.after
    return f"{change.key}: was {was}, is {now}"


def _column(change: ColumnChange) -> str:
    match change.before, change.after:
        case None, after if after is not None:
            return f"+ {change.name} {after.type}: {after.of}"
        case before, None if before is not None:
            return f"- {change.name} {before.type}: {before.of}"
        case before, after if before is not None and after is not None:
            was, now = f"{before.type}: {before.of}", f"{after.type}: {after.of}"
            return f"~ {change.name}: was {was}; is {now}"
        case _:
            return change.name


def _operator(change: OperatorChange) -> Iterator[str]:
    operator = change.operator
    yield f"{SIGNS[change.change]} {operator.name} [{operator.id}]{_number(change)}"
    if change.change is ChangeKind.CHANGED:
        yield from (f"    - {each}" for each in change.gone)
        yield from (f"    + {each}" for each in change.come)


def _number(change: OperatorChange) -> str:
    """Return which directory of the checkpoint an operator has; both, where they differ."""
    numbers = [
        str(each.state.operator_id)
        for each in (change.before, change.after)
        if each is not None and each.state is not None
    ]
    return f", state/{' to state/'.join(dict.fromkeys(numbers))}" if numbers else ""


def diff_document(found: ComparedVersions) -> dict[str, Json]:
    """Return what differs, as JSON: operators in the order in which rows flow."""
    diff = found.diff
    return {
        "query": found.query,
        "before": found.before.version,
        "after": found.after.version,
        "is_comparable": diff.is_comparable,
        "sql": [*diff.sql],
        "settings": [codec.encode(each) for each in diff.settings],
        "releases": [codec.encode(each) for each in diff.releases],
        "columns": [codec.encode(each) for each in diff.columns],
        "operators": [
            {
                "change": each.change.value,
                "why": each.why.value if each.why else None,
                "before": codec.encode(each.before),
                "after": codec.encode(each.after),
                "gone": [*each.gone],
                "come": [*each.come],
            }
            for each in diff.operators
        ],
    }
