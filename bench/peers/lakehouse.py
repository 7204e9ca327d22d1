"""Lakehouse tables: how peers address them, and what a reader finds in them.

What it is: one table a topic, `peers.records`, in a catalog in SQLite (Iceberg) or in a directory
(Delta); its files by pyiceberg and delta-rs, its rows by DuckDB.
What it promises: a file counts only if the current snapshot or version names it. No reader here is
code of Ashore.
What it must not know: how a peer lands.
"""

import json
import sqlite3
from collections.abc import Callable, Collection
from contextlib import closing
from pathlib import Path
from typing import Any

import pyarrow as pa
from deltalake import DeltaTable
from pyiceberg.catalog import load_catalog
from pyiceberg.table import StaticTable

from bench.peers.measure import Stored
from bench.peers.packages import open_duckdb
from bench.peers.peer import Order
from bench.processes import ChildFailed

CATALOG = "ashore"
DATABASE, NAME = "peers", "records"
TABLE = f"{DATABASE}.{NAME}"
TYPES = {
    "BIGINT": pa.int64(),
    "DOUBLE": pa.float64(),
    "STRING": pa.string(),
    "BOOLEAN": pa.bool_(),
}


def table_directory(root: Path) -> Path:
    """Return where a table is, below the directory of its topic."""
    return root / f"{DATABASE}.db" / NAME


def jdbc_options(order: Order, topic: str) -> dict[str, str]:
    """Return how Iceberg's Java opens the catalog of a topic."""
    return {
        "catalog-impl": "org.apache.iceberg.jdbc.JdbcCatalog",
        "uri": f"jdbc:sqlite:{_catalog_path(order.root(topic))}",
        "warehouse": f"file://{order.root(topic)}",
    }


def create_table(order: Order, topic: str) -> None:
    """Make the catalog of a topic and an empty Iceberg table of its shape in it."""
    root = order.root(topic)
    root.mkdir(parents=True)
    with closing(load_catalog(CATALOG, type="sql", uri=f"sqlite:///{_catalog_path(root)}")) as made:
        made.create_namespace(DATABASE)
        schema = pa.schema([(name, TYPES[kind]) for name, kind in order.shape.columns])
        made.create_table(TABLE, schema, location=f"file://{table_directory(root)}")


def count_rows(root: Path) -> int:
    """Return the rows of the current snapshot, by its summary."""
    location = find_metadata(root)
    metadata = json.loads(_path(location).read_text("utf-8")) if location else {}
    for each in metadata.get("snapshots", ()):
        if each["snapshot-id"] == metadata.get("current-snapshot-id"):
            return int(each["summary"]["total-records"])
    return 0


def find_metadata(root: Path) -> str | None:
    """Return the address of the metadata that the catalog of a topic names now."""
    path = _catalog_path(root)
    if not path.exists():
        return None
    query = "SELECT metadata_location FROM iceberg_tables WHERE table_name = ?"
    with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as database:
        try:
            found = database.execute(query, (NAME,)).fetchone()
        except sqlite3.OperationalError:  # a catalog that is being made
            return None
    return str(found[0]) if found else None


def lister(order: Order, topic: str) -> Callable[[], set[Path]]:
    """Return what lists the files that a reader of a topic's table finds now."""
    root = order.root(topic)
    versions = _DeltaFiles(table_directory(root)) if _is_delta(order) else _IcebergFiles(root)
    return versions.list


def measure_table(order: Order, topic: str) -> Stored:
    """Return what a reader finds. Raises ChildFailed if a row is missing or there twice."""
    files = lister(order, topic)()
    rows, different = _count(files)
    if rows != different:
        raise ChildFailed(f"{order.peer} has {rows:,} rows of {different:,} records")
    metadata = table_directory(order.root(topic)) / (
        "_delta_log" if _is_delta(order) else "metadata"
    )
    return Stored(
        len(files),
        sum(path.stat().st_size for path in files),
        rows,
        sum(path.stat().st_size for path in metadata.rglob("*") if path.is_file()),
    )


class _IcebergFiles:
    def __init__(self, root: Path) -> None:
        self._root = root
        self._location: str | None = None
        self._files: set[Path] = set()

    def list(self) -> set[Path]:
        location = find_metadata(self._root)
        if location and location != self._location:
            planned = StaticTable.from_metadata(location).scan().plan_files()
            self._files = {_path(task.file.file_path) for task in planned}
            self._location = location
        return self._files


class _DeltaFiles:
    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._version = -1
        self._files: set[Path] = set()

    def list(self) -> set[Path]:
        log = self._directory / "_delta_log"
        if (log / f"{self._version + 1:020}.json").exists():
            found = DeltaTable(self._directory)
            self._files = {_path(uri) for uri in found.file_uris()}
            self._version = found.version()
        return self._files


def _count(files: Collection[Path]) -> tuple[int, int]:
    """Return rows and different ids, by DuckDB."""
    if not files:
        return 0, 0
    with closing(open_duckdb()) as database:
        names = [str(path) for path in sorted(files)]
        query = "SELECT count(*), count(DISTINCT id) FROM read_parquet(?)"
        counted: Any = database.execute(query, [names]).fetchone()
    return int(counted[0]), int(counted[1])


def _is_delta(order: Order) -> bool:
    return order.peer.endswith("-delta")


def _catalog_path(root: Path) -> Path:
    return root / "iceberg.db"


def _path(address: str) -> Path:
    return Path(address.removeprefix("file://").removeprefix("file:"))
