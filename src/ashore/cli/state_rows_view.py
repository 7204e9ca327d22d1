"""What `ashore checkpoint inspect --rows` and `ashore checkpoint diff` print.

What it promises: a view of a value: no clock, no storage. Numbers are shown as Spark wrote them;
what a terminal would not show, or would act on, is escaped.
"""

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING

from ashore.cli.output import cell_text, print_lines, print_table, printable, say
from ashore.jobs.events import StateChanges, StateRows

if TYPE_CHECKING:
    from ashore.queries.tools.state_rows import RowsFound

_MARKS = {"added": "+", "removed": "-", "changed": "~"}


def show_rows(found: "RowsFound", to: str | None) -> None:
    """Print rows of state, a table for each operator and store."""
    print_lines([f"{found.place}, batch {found.batch}"])
    for each in found.tables:
        if isinstance(each, StateRows):
            print_lines(["", _head(each)])
            _show(each, to, "no rows")
    say(_named_by(found))


def show_diff(found: "RowsFound", to: str | None) -> None:
    """Print what differs between two batches."""
    print_lines([f"{found.place}, from batch {found.before} to batch {found.batch}"])
    for each in found.tables:
        if isinstance(each, StateChanges):
            print_lines(["", f"{_head(each.shown)}: {_counts(each)}"])
            _show(each.shown, to, "no row differs")
    say(_named_by(found))


def rows_document(found: "RowsFound", to: str | None) -> dict[str, object]:
    """Return what `inspect --rows --json` prints."""
    tables = [_table(each, to) for each in found.tables if isinstance(each, StateRows)]
    return {**_checkpoint(found), "tables": tables}


def diff_document(found: "RowsFound", to: str | None) -> dict[str, object]:
    """Return what `diff --json` prints."""
    tables = [
        {
            **_table(each.shown, to),
            "added": each.added,
            "removed": each.removed,
            "changed": None if each.is_bag else each.changed,
        }
        for each in found.tables
        if isinstance(each, StateChanges)
    ]
    return {**_checkpoint(found), "from_batch": found.before, "tables": tables}


def _head(rows: StateRows) -> str:
    return f"operator {rows.operator} {rows.operator_name}, {rows.table}"


def _counts(changes: StateChanges) -> str:
    words = f"{changes.added:,} added, {changes.removed:,} removed"
    return words if changes.is_bag else f"{words}, {changes.changed:,} changed"


def _show(rows: StateRows, to: str | None, nothing: str) -> None:
    if rows.written is not None:
        print_lines([f"{rows.written:,} row{'' if rows.written == 1 else 's'} written to {to}"])
        return
    lines = [_cells(json.loads(each, parse_int=str, parse_float=str)) for each in rows.rows]
    names = list(dict.fromkeys(name for line in lines for name in line))
    if lines:
        columns = dict.fromkeys(map(printable, names), "left")
        print_table("", columns, [[line.get(name, "") for name in names] for line in lines])
    else:
        print_lines([nothing])
    if rows.has_more:
        say(f"the first {len(rows.rows):,} rows; there are more: --limit shows them")


def _cells(row: Mapping[str, object]) -> dict[str, str]:
    """Return the cells of a row by column; keys first, a value that has a key's name after it."""
    cells: dict[str, str] = {}
    for part in ("change", "partition"):
        if part in row:
            cells[part] = str(row[part])
    if "change" in cells:
        cells = {"": _MARKS[cells.pop("change")], **cells}
    for part in ("key", "value"):
        for name, value in _flat(row.get(part)):
            cells[name if name not in cells else f"{part}.{name}"] = value
    for name, value in _flat(row.get("before")):
        cells[f"before.{name}"] = value
    return cells


def _flat(value: object, before: str = "") -> list[tuple[str, str]]:
    """Return the leaves of an object: windows have a start and an end."""
    if not isinstance(value, Mapping):
        return []
    found = []
    for name, each in value.items():
        if isinstance(each, Mapping) and each.keys() == {"start", "end"}:
            found += _flat(each, f"{before}{name}.")
        else:
            found.append((f"{before}{name}", printable(cell_text(each))))
    return found


def _named_by(found: "RowsFound") -> str:
    shown = [each.shown if isinstance(each, StateChanges) else each for each in found.tables]
    if found.version is not None and any(each.is_named for each in shown):
        return f"columns are named as in the SQL of job version {found.version.number}"
    if found.version is None:
        return "columns are named by Spark: the checkpoint has no version of a job"
    return f"columns are named by Spark: job version {found.version.number} keeps other ones"


def _checkpoint(found: "RowsFound") -> dict[str, object]:
    return {
        "checkpoint": found.place,
        "batch": found.batch,
        "job_version": found.version.number if found.version else None,
    }


def _table(rows: StateRows, to: str | None) -> dict[str, object]:
    return {
        "operator": rows.operator,
        "name": rows.operator_name,
        "store": rows.table,
        "key_columns": list(rows.keys),
        "value_columns": list(rows.values),
        "names": "sql" if rows.is_named else "spark",
        "rows": [json.loads(each) for each in rows.rows],
        "has_more": rows.has_more,
        **({} if rows.written is None else {"written": rows.written, "to": to}),
    }
