"""The actions of a Delta table's log that Ashore writes and reads.

What it is: one version of a table as JSON lines, made and read; the add of a data file, with
statistics from its footer.
What it promises: a bound of a column is never narrower than its values, so that no reader skips a
row that it looks for; where Delta's bounds cannot say that, there is none.
"""

import datetime as dt
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, unquote

import pyarrow.parquet as pq

from ashore.errors import CatalogError
from ashore.log import names
from ashore.log.files import FilePlace, Target
from ashore.tables.ddl import Atom, DataType, Schema

Action = dict[str, Any]  # one key, the kind; its value is what the protocol says

RESTORED_ELSEWHERE = -1  # by a time: which version that was is not said

_COLUMNS_MAX = 32  # that have statistics, as in other writers of Delta
_TEXT_MAX = 32  # characters of a bound
_HIGHEST = "\U0010ffff"  # follows every other character, in UTF-8 and in UTF-16
_BOUNDED = {
    Atom.TINYINT,
    Atom.SMALLINT,
    Atom.INT,
    Atom.BIGINT,
    Atom.STRING,
    Atom.DATE,
    Atom.TIMESTAMP,
    Atom.TIMESTAMP_NTZ,
}  # not FLOAT: Parquet's bounds leave NaN out, which is above all in Spark


@dataclass(frozen=True, slots=True)
class VersionSummary:
    """What one version of a table did, beside its files."""

    number: int
    operation: str
    transactions: Mapping[str, int]  # application id, its version
    removes: bool  # files
    is_own: bool  # Ashore made it: where it removes files, the landing log has their rows
    restored: int | None  # the version that the table was set back to


def encode_version(actions: Iterable[Action]) -> bytes:
    """Return the content of a file of the log."""
    lines = (json.dumps(each, ensure_ascii=False, separators=(",", ":")) for each in actions)
    return "".join(f"{line}\n" for line in lines).encode()


def parse_version(path: str, data: bytes) -> list[Action]:
    """Return the actions of a file of the log. Raises CatalogError."""
    try:
        found = [json.loads(line) for line in data.decode().split("\n") if line.strip()]
        if all(isinstance(each, dict) for each in found):
            return found
    except ValueError as error:
        raise _unreadable(path, str(error)) from error
    raise _unreadable(path, "a line is not an object")


def _unreadable(path: str, why: str) -> CatalogError:
    return CatalogError(
        f"{path} is not a version of a Delta table: {why}",
        hint="nothing was written; restore the file",
        path=path,
    )


def summarize(number: int, actions: Iterable[Action]) -> VersionSummary:
    """Return what a version did."""
    transactions: dict[str, int] = {}
    operation, removes, is_own, restored = "", False, False, None
    for action in actions:
        if txn := action.get("txn"):
            transactions[txn["appId"]] = int(txn["version"])
        if info := action.get("commitInfo"):
            operation, is_own = str(info.get("operation", "")), "ashore" in info
            if operation == "RESTORE":
                target = (info.get("operationParameters") or {}).get("version")
                restored = RESTORED_ELSEWHERE if target is None else int(target)
        removes = removes or bool(action.get("remove"))
    return VersionSummary(number, operation, transactions, removes, is_own, restored)


def add_file(
    place: FilePlace, target: Target, columns: Schema, footer: pq.FileMetaData, now_ms: int
) -> Action:
    """Return the add of a file at its final path."""
    path = names.join(target.partition, names.leaf(place.final))
    return {
        "add": {
            "path": quote(path, safe="/="),
            "partitionValues": dict(target.values),
            "size": place.file.size_bytes,
            "modificationTime": now_ms,
            "dataChange": True,
            "stats": json.dumps(_statistics(columns, footer), ensure_ascii=False),
        }
    }


def lake_path(table: str, path: str, root: str) -> str:
    """Return where a file of a table is in the lake, from its path in the log.

    `root`: the lake's address, with a slash. A file elsewhere has its whole address.
    """
    plain = unquote(path)
    if "://" in plain:
        return plain.removeprefix(root)
    return names.join(names.table_path(table), plain)


def _statistics(columns: Schema, footer: pq.FileMetaData) -> dict[str, object]:
    """Return Delta's statistics of the columns without parts, as far as a footer has them."""
    types = {field.name: field.type for field in columns.fields[:_COLUMNS_MAX]}
    least: dict[str, object] = {}
    most: dict[str, object] = {}
    nulls: dict[str, int] = {}
    for index in range(footer.num_columns):
        data_type = types.get(footer.schema.column(index).path)
        groups = [footer.row_group(row).column(index) for row in range(footer.num_row_groups)]
        found = [group.statistics for group in groups]
        if data_type is None or not all(each and each.has_null_count for each in found):
            continue
        name = footer.schema.column(index).path
        nulls[name] = sum(each.null_count for each in found)
        low, high = _bounds(data_type, [each for each in found if each.num_values])
        least |= {} if low is None else {name: low}
        most |= {} if high is None else {name: high}
    return {
        "numRecords": footer.num_rows,
        "minValues": least,
        "maxValues": most,
        "nullCount": nulls,
    }


def _bounds(
    data_type: DataType, found: Sequence[pq.Statistics]
) -> tuple[object | None, object | None]:
    """Return the lower and the upper bound of a column; None: it has none."""
    if data_type not in _BOUNDED or not found or not all(each.has_min_max for each in found):
        return None, None
    try:
        least, most = min(each.min for each in found), max(each.max for each in found)
    except (OverflowError, ValueError):  # a time that Python has no value for
        return None, None
    return _lower(least), _upper(most)


def _lower(value: object) -> object:
    match value:
        case int():
            return value
        case str():
            return value[:_TEXT_MAX]
        case dt.datetime():
            return _instant(value.replace(microsecond=value.microsecond // 1000 * 1000))
        case dt.date():
            return value.isoformat()
        case _:
            return None


def _upper(value: object) -> object:
    match value:
        case str() if len(value) > _TEXT_MAX:
            kept, rest = value[:_TEXT_MAX], value[_TEXT_MAX:]
            return None if rest.startswith(_HIGHEST) else kept + _HIGHEST
        case dt.datetime() if value.microsecond % 1000:
            return _lower(value + dt.timedelta(milliseconds=1))
        case _:
            return _lower(value)


def _instant(value: dt.datetime) -> str:
    """Return a time in milliseconds, which all readers take; an instant ends in Z."""
    text = value.replace(tzinfo=None).isoformat(timespec="milliseconds")
    return f"{text}Z" if value.tzinfo else text
