"""The commands `ashore checkpoint inspect` and `ashore checkpoint diff`.

What it promises: the checkpoint is only read. A JVM is started where rows are wanted.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from itertools import groupby
from statistics import median
from typing import TYPE_CHECKING, Annotated

import typer

from ashore.base.clock import SystemClock
from ashore.base.units import format_duration, format_size, format_time
from ashore.cli.options import AsJson, Batch, Debug, Query, Where
from ashore.cli.output import (
    STARTING_SPARK,
    print_json,
    print_lines,
    print_table,
    reported_errors,
    say,
    shown_progress,
)
from ashore.queries.state.inspection import Amount, InspectedOperator, Inspection, StorePart
from ashore.queries.state.layout import SchemaField, StoreSchema
from ashore.queries.state.replay import LOAD_RATES, REPLAY_BYTES_PER_S, REPLAY_FILE_S
from ashore.queries.state.versions import KeptVersion
from ashore.queries.tools.inspect import inspect

if TYPE_CHECKING:
    from ashore.jobs.events import StateProgress, StateStep
    from ashore.queries.tools.state_rows import RowsFound, RowsOptions

LIMIT = 20  # rows that are shown of each table, unless it is said

Operator = Annotated[
    str | None,
    typer.Option(metavar="ID|NAME", help="An operator, as `inspect` shows it, or as it is named."),
]
Store = Annotated[
    str | None,
    typer.Option(metavar="NAME", help="Of a join: left or right. Of custom state: a variable."),
]
Partition = Annotated[int | None, typer.Option(min=0, help="Only this partition.")]
Key = Annotated[
    list[str] | None,
    typer.Option(
        metavar="NAME=VALUE",
        help="Only keys that have this value: `country=DE`, `window.start=2026-11-21 08:00:00`; "
        "`country` alone: NULL. May be given several times.",
    ),
]
Limit = Annotated[
    int | None,
    typer.Option(
        min=1, help=f"How many rows of each table. By default {LIMIT}; all, where --to is given."
    ),
]
To = Annotated[
    str | None,
    typer.Option(metavar="FILE", help="Write the rows to this file: .parquet or .arrow."),
]


def checkpoint_inspect(  # noqa: PLR0913, PLR0917 - each parameter is an option of the command
    where: Where,
    query: Query = None,
    batch: Batch = None,
    rows: Annotated[
        bool, typer.Option("--rows", help="Show the rows of its state. This starts Spark.")
    ] = False,
    operator: Operator = None,
    store: Store = None,
    partition: Partition = None,
    key: Key = None,
    limit: Limit = None,
    to: To = None,
    as_json: AsJson = False,
    debug: Debug = False,
) -> None:
    """Show offsets, watermark, operators, state by partition, and files of a checkpoint."""
    with reported_errors(as_json=as_json, debug=debug):
        if not rows:
            _require_rows(operator, store, partition, key, limit, to)
            found = inspect(where, query, batch, SystemClock())
            if as_json:
                print_json(inspection_document(found))
            else:
                show_inspection(found)
            return
        from ashore.cli import state_rows_view  # noqa: PLC0415 - see `_read`
        from ashore.queries.tools.state_rows import RowsOptions  # noqa: PLC0415 - see `_read`

        rows_of = operator, store, partition, tuple(key or ()), _choose_limit(limit, to)
        request = RowsOptions(where, query, batch, None, *rows_of, to, debug)
        shown = _read(request, as_json=as_json)
        if as_json:
            print_json(state_rows_view.rows_document(shown, to))
        else:
            state_rows_view.show_rows(shown, to)


def checkpoint_diff(  # noqa: PLR0913, PLR0917 - each parameter is an option of the command
    where: Where,
    before: Annotated[
        int | None,
        typer.Argument(min=0, metavar="A", help="A finished batch. Default: the one before B."),
    ] = None,
    after: Annotated[
        int | None, typer.Argument(min=0, metavar="B", help="A later one. Default: the newest.")
    ] = None,
    query: Query = None,
    operator: Operator = None,
    store: Store = None,
    partition: Partition = None,
    key: Key = None,
    limit: Limit = None,
    to: To = None,
    as_json: AsJson = False,
    debug: Debug = False,
) -> None:
    """Show which rows of the state differ between two batches: added, removed, changed."""
    with reported_errors(as_json=as_json, debug=debug):
        from ashore.cli import state_rows_view  # noqa: PLC0415 - see `_read`
        from ashore.queries.tools.state_rows import RowsOptions, choose_batches  # noqa: PLC0415 - see `_read`

        first, last = choose_batches(where, query, (before, after), SystemClock())
        rows_of = operator, store, partition, tuple(key or ()), _choose_limit(limit, to)
        request = RowsOptions(where, query, last, first, *rows_of, to, debug)
        shown = _read(request, as_json=as_json)
        if as_json:
            print_json(state_rows_view.diff_document(shown, to))
        else:
            state_rows_view.show_diff(shown, to)


def _choose_limit(limit: int | None, to: str | None) -> int | None:
    """Return how many rows of each table are wanted; None: all, which a file takes."""
    return LIMIT if limit is None and to is None else limit


def _require_rows(*options: object) -> None:
    names = ("--operator", "--store", "--partition", "--key", "--limit", "--to")
    named = [name for name, value in zip(names, options, strict=True) if value]
    if named:
        raise typer.BadParameter(f"{', '.join(named)} choose rows: give --rows as well")


def _read(request: "RowsOptions", *, as_json: bool) -> "RowsFound":
    """Return rows of state. What starts Spark takes longer to import than to look at files."""
    from ashore.jobs.events import StateProgress, StateStep  # noqa: PLC0415
    from ashore.queries.tools.state_rows import RowsProgress, read_state_rows  # noqa: PLC0415

    with shown_progress(quiet=as_json) as progress:
        what = ["reading"]

        def report(event: "StateStep | StateProgress") -> None:
            match event:
                case StateStep():
                    what[0] = f"reading operator {event.operator}, {event.stores}"
                case StateProgress(done, total):
                    progress(what[0], done, total)

        listener = RowsProgress(
            copied=lambda done, total: progress("copying files", done, total),
            starting=lambda: say(f"{STARTING_SPARK} (8 s)"),
            report=report,
        )
        return read_state_rows(request, SystemClock(), listener)


_BAR = 20  # columns of the longest bar
_PARTITIONS_MAX = 40  # that are shown one by one; of more, the largest


def show_inspection(found: Inspection) -> None:
    """Print what a checkpoint holds."""
    print_lines(_head(found))
    rows = [[name, end or "none yet"] for name, end in found.sources.items()]
    print_table("", {"source": "left", "offset": "left"}, rows)
    for operator in found.operators:
        _show_operator(operator)
    kinds = [
        *[(str(kind), amount) for kind, amount in found.kinds.items()],
        (f"read by a restart after batch {found.batch}", found.required),
        ("not read by it", found.others),
    ]
    print_table(
        "",
        {"files": "left", "count": "right", "size": "right"},
        [[name, f"{each.files:,}", format_size(each.size_bytes)] for name, each in kinds],
    )


def inspection_document(found: Inspection) -> dict[str, object]:
    """Return what `inspect --json` prints."""
    return {
        "query_id": found.query_id,
        "batch": found.batch,
        "planned": found.planned,
        "batches": [found.done[0], found.done[-1]],
        "watermark_ms": found.watermark_ms,
        "job_version": _version_document(found.version),
        "partitions": found.partitions,
        "provider": found.provider,
        "formats": dict(found.formats),
        "sources": dict(found.sources),
        "operators": [_operator_document(each) for each in found.operators],
        "files": {
            **{str(kind): _amount(each) for kind, each in found.kinds.items()},
            "required": _amount(found.required),
            "not_required": _amount(found.others),
        },
        "replay_rate": {"bytes_per_s": REPLAY_BYTES_PER_S, "file_s": REPLAY_FILE_S},
        "restore": {"core_s": found.restore_s, "slowest_partition_s": found.slowest_s},
        "load_rate": asdict(LOAD_RATES[found.provider]) if found.provider in LOAD_RATES else None,
    }


def _head(found: Inspection) -> Iterator[str]:
    yield f"query {found.query_id}"
    kept = f"batches {found.done[0]} to {found.done[-1]} are kept"
    planned = f", batch {found.planned} is planned" if found.planned > found.done[-1] else ""
    yield f"batch {found.batch} ({kept}{planned})"
    if found.version is not None:
        yield _describe_version(found.version)
    if found.watermark_ms is not None:
        yield f"watermark {format_time(found.watermark_ms)}"
    if found.operators:
        cut = "" if found.partitions is None else f" in {found.partitions} partitions"
        yield f"state{cut}, {found.provider}"
        if found.restore_s is not None:
            spent, slowest = _seconds(found.restore_s), _seconds(found.slowest_s)
            yield f"restore: about {spent} of one core; the slowest partition {slowest}"
    else:
        yield "no state"
    yield "formats: " + ", ".join(f"{name} v{version}" for name, version in found.formats.items())


def _describe_version(version: KeptVersion) -> str:
    words = f"job version {version.number} of {version.owner}"
    if version.content is None:
        return f"{words}, written by another release"
    releases = version.content.releases
    return f"{words}, by Ashore {releases.ashore} on Spark {releases.spark}"


def _version_document(version: KeptVersion | None) -> dict[str, object] | None:
    if version is None:
        return None
    owner, content = version.owner, version.content
    operators = content.operators if content else ()
    return {
        "version": version.number,
        "job": owner.job,
        "slice": owner.slice,
        "ashore": content.releases.ashore if content else None,
        "spark": content.releases.spark if content else None,
        "operators": [
            {"id": each.operator_id, "graph_id": each.id, "name": each.name} for each in operators
        ],
    }


def _show_operator(operator: InspectedOperator) -> None:
    print_lines(["", *_describe(operator)])
    sizes = _by_partition(operator.parts)
    shown = set(sorted(sizes, key=lambda at: -sizes[at])[:_PARTITIONS_MAX])
    largest = max(sizes.values(), default=0)
    rows = [
        _part_row(each, sizes[each.partition] / largest)
        for each in operator.parts
        if each.partition in shown
    ]
    columns = {
        "partition": "left",
        "rows": "right",
        "size": "right",
        "snapshot": "right",
        "changes": "right",
        "replay": "right",
        "restore": "right",
        "": "left",
    }
    print_table("", columns, rows)
    print_lines(_describe_skew(sizes, len(shown)))


def _describe(operator: InspectedOperator) -> Iterator[str]:
    counted = "not known without a restore" if operator.rows is None else f"{operator.rows:,}"
    yield f"operator {operator.operator} {operator.name}, rows: {counted}"
    for schema in (each for some in operator.schemas.values() for each in some):
        family = "" if schema.family == "default" else f"{schema.family}: "
        yield f"  {family}{_fields(schema.key) or 'no key'} -> {_fields(schema.value)}"


def _part_row(part: StorePart, share: float) -> list[str]:
    """Return the line of a store. `share`: its partition, beside the largest one."""
    return [
        f"{part.partition}/{part.store}".rstrip("/"),
        "" if part.rows is None else f"{part.rows:,}",
        format_size(part.size_bytes),
        "none" if part.snapshot is None else str(part.snapshot),
        f"{part.changes:,}",
        _seconds(part.replay_s),
        _seconds(part.restore_s),
        "█" * round(_BAR * share),
    ]


def _seconds(spent_s: float | None) -> str:
    return "" if spent_s is None else format_duration(spent_s * 1000)


def _describe_skew(sizes: Mapping[int, int], shown: int) -> Iterator[str]:
    if len(sizes) > shown:
        yield f"the largest {shown} of {len(sizes)} partitions"
    if len(sizes) > 1 and (middle := median(sizes.values())):
        yield f"the largest partition has {max(sizes.values()) / middle:.1f} times the median"


def _by_partition(parts: Sequence[StorePart]) -> dict[int, int]:
    grouped = groupby(parts, key=lambda each: each.partition)
    return {partition: sum(each.size_bytes for each in some) for partition, some in grouped}


def _fields(fields: Sequence[SchemaField]) -> str:
    return ", ".join(f"{each.name} {each.type}" for each in fields)


def _operator_document(operator: InspectedOperator) -> dict[str, object]:
    return {
        "id": operator.operator,
        "name": operator.name,
        "keys": list(operator.keys),
        "partitions": operator.partitions,
        "rows": operator.rows,
        "bytes": operator.size_bytes,
        "schemas": [
            _schema_document(store, each)
            for store, some in operator.schemas.items()
            for each in some
        ],
        "by_partition": [_part_document(each) for each in operator.parts],
    }


def _schema_document(store: str, schema: StoreSchema) -> dict[str, object]:
    return {
        "store": store or "default",
        "family": schema.family,
        "key": [_field_document(each) for each in schema.key],
        "value": [_field_document(each) for each in schema.value],
    }


def _field_document(field: SchemaField) -> Mapping[str, object]:
    return {"name": field.name, "type": field.type, "nullable": field.is_nullable}


def _part_document(part: StorePart) -> dict[str, object]:
    return {
        "partition": part.partition,
        "store": part.store or "default",
        "rows": part.rows,
        "bytes": part.size_bytes,
        "snapshot": part.snapshot,
        "changes": part.changes,
        "change_bytes": part.change_bytes,
        "replay_s": part.replay_s,
        "restore_s": part.restore_s,
    }


def _amount(amount: Amount) -> dict[str, int]:
    return {"files": amount.files, "bytes": amount.size_bytes}
