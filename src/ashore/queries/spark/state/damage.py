"""Why state could not be read, with the file where Spark names it.

What it promises: a file is named as it is in the checkpoint, not in the copy that was read. Where
Spark only says that some file is damaged, those that it may be are named.
"""

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from ashore.errors import CheckpointUnfit
from ashore.jobs.requests import StateBatch, StateTable
from ashore.topics.run.spark.causes import (
    DETAIL_LENGTH_MAX,
    innermost_cause,
    outermost_cause,
    text_of,
)

_REFUSED = re.compile(r"\[STDS_\w+")  # how all that its reader of state refuses is marked
_NAMED_MAX = 4  # of files of which one is damaged
_PARTITION = re.compile(r"\bpart(?:ition)?Id=(\d+)")
_TABLE = re.compile(r"\b(\d{6,})\.sst\b")
_WHOLE = {".snapshot", ".zip"}
_CHANGES = {".delta", ".changelog"}
_TABLES = {".sst"}


def explain_damage(
    error: Exception, table: StateTable, states: Sequence[StateBatch]
) -> CheckpointUnfit:
    """Return why the rows of a table could not be read.

    Arguments:
        error: what Spark has raised.
        table: that was read.
        states: that it was read of; files are searched in their copies.

    """
    text = text_of(error)
    if _REFUSED.search(text):
        return CheckpointUnfit(
            f"{states[0].place}: Spark does not read the rows of operator {table.operator}, "
            f"{table.name}: {_without_copies(outermost_cause(error), states)}",
            hint="choose another operator or store, with --operator and --store",
            why="not_read",
            detail=text[:DETAIL_LENGTH_MAX],
        )
    found = next((each for state in states for each in _find_files(text, table, state)), None)
    what = found or f"one of {_list_files(text, table, states[0])}"
    return CheckpointUnfit(
        f"{what} cannot be read: {_without_copies(innermost_cause(text), states)}",
        hint="choose another batch, or restore the file",
        why="damaged",
        detail=text[:DETAIL_LENGTH_MAX],
    )


def _find_files(text: str, table: StateTable, state: StateBatch) -> Iterator[str]:
    """Yield the files that an error names: by path, or a table of RocksDB by its number."""
    root = _root(state)
    for below in re.findall(rf"{re.escape(str(root))}/([^\s,;:()\[\]'\"]+\.\w+)", text):
        path = root / below
        # A snapshot that it cannot read Spark only logs, and looks for older files instead.
        whole = [path] if path.exists() else _files(path.parent, _WHOLE)
        yield from (_place(each, state) for each in whole)
    numbers = set(_TABLE.findall(text))
    for path in sorted(root.glob(f"state/{table.operator}/**/SSTs/*.sst")):
        if path.name.partition("-")[0] in numbers:
            yield _place(path, state)


def _list_files(text: str, table: StateTable, state: StateBatch) -> str:
    """Return what a restore reads of the partition that failed; of all, where that is not said."""
    operator = _root(state) / "state" / str(table.operator)
    partition = _PARTITION.search(text)
    directory = operator / partition[1] if partition else operator
    found = [_place(each, state) for each in _files(directory, _WHOLE | _CHANGES | _TABLES)]
    more = f" and {len(found) - _NAMED_MAX} more" if len(found) > _NAMED_MAX else ""
    return ", ".join(found[:_NAMED_MAX]) + more


def _files(directory: Path, ends: set[str]) -> list[Path]:
    return sorted(each for each in directory.rglob("[0-9]*") if each.suffix in ends)


def _place(path: Path, state: StateBatch) -> str:
    return f"{state.place}/{path.relative_to(_root(state))}"


def _root(state: StateBatch) -> Path:
    return Path(state.checkpoint.uri.removeprefix("file://"))


def _without_copies(text: str, states: Sequence[StateBatch]) -> str:
    """Return a text with places in the checkpoint instead of in its copies."""
    for state in states:
        text = text.replace(f"file:{_root(state)}", state.place)
    return text
