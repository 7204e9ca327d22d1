"""The commands `ashore checkpoint inspect` and `ashore checkpoint diff`.

What it promises: the checkpoint is only read. A JVM is started where rows are wanted.
What it must not know: what is in a checkpoint.
"""

from typing import TYPE_CHECKING, Annotated

import typer

from ashore.base.clock import SystemClock
from ashore.cli import checkpoint_view
from ashore.cli.options import AsJson, Batch, Debug, Query, Where
from ashore.cli.output import (
    STARTING_SPARK,
    print_json,
    reported_errors,
    say,
    shown_progress,
)
from ashore.queries.tools.inspect import inspect

if TYPE_CHECKING:
    from ashore.jobs.events import StateProgress, StateStep
    from ashore.queries.tools.rows import RowsAsked, RowsFound

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
                print_json(checkpoint_view.inspection_document(found))
            else:
                checkpoint_view.show_inspection(found)
            return
        from ashore.cli import state_rows_view  # noqa: PLC0415 - see `_read`
        from ashore.queries.tools.rows import RowsAsked  # noqa: PLC0415 - see `_read`

        asked = RowsAsked(
            where,
            query,
            batch,
            None,
            operator,
            store,
            partition,
            tuple(key or ()),
            _choose_limit(limit, to),
            to,
            debug,
        )
        shown = _read(asked, as_json=as_json)
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
        int | None,
        typer.Argument(min=0, metavar="B", help="A later one. Default: the newest."),
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
        from ashore.queries.tools.rows import RowsAsked, choose_batches  # noqa: PLC0415 - see `_read`

        first, last = choose_batches(where, query, (before, after), SystemClock())
        asked = RowsAsked(
            where,
            query,
            last,
            first,
            operator,
            store,
            partition,
            tuple(key or ()),
            _choose_limit(limit, to),
            to,
            debug,
        )
        shown = _read(asked, as_json=as_json)
        if as_json:
            print_json(state_rows_view.diff_document(shown, to))
        else:
            state_rows_view.show_diff(shown, to)


def _choose_limit(limit: int | None, to: str | None) -> int | None:
    """Return how many rows of each table are wanted; None: all, which a file takes."""
    return LIMIT if limit is None and to is None else limit


def _require_rows(*options: object) -> None:
    names = ("--operator", "--store", "--partition", "--key", "--limit", "--to")
    given = [name for name, value in zip(names, options, strict=True) if value]
    if given:
        raise typer.BadParameter(f"{', '.join(given)} choose rows: give --rows as well")


def _read(asked: "RowsAsked", *, as_json: bool) -> "RowsFound":
    """Return rows of state. What starts Spark takes longer to import than to look at files."""
    from ashore.jobs.events import StateProgress, StateStep  # noqa: PLC0415
    from ashore.queries.tools.rows import RowsProgress, read_state_rows  # noqa: PLC0415

    with shown_progress(quiet=as_json) as progress:
        what = ["reading"]

        def told(event: "StateStep | StateProgress") -> None:
            match event:
                case StateStep():
                    what[0] = f"reading operator {event.operator}, {event.stores}"
                case StateProgress(done, total):
                    progress(what[0], done, total)

        listener = RowsProgress(
            copied=lambda done, total: progress("copying files", done, total),
            starting=lambda: say(f"{STARTING_SPARK} (8 s)"),
            told=told,
        )
        return read_state_rows(asked, SystemClock(), listener)
