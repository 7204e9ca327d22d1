"""A job that lands in an Iceberg table, whose storage and catalog calls a test strikes at.

What it is: processes of the job, one after the other, over one lake in memory and one catalog in a
file of SQLite, and the checker, which reads the table through pyiceberg's metadata alone.
What it promises: deterministic but for ids: a call has the same number in every run.
"""

import io
import json
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

import pyarrow.parquet as pq
from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.exceptions import CommitFailedException, TableAlreadyExistsError
from pyiceberg.table import CommitTableResponse, Table
from tests.crash.harness import NAME, Process, World, check_readers, named_places

from ashore.errors import StorageError
from ashore.jobs.file import Job, parse_job
from ashore.log.positions import StreamShard
from ashore.storage import MemoryStorage
from ashore.storage.open import LakeAddress
from ashore.tables.catalog import NoCatalog
from ashore.tables.iceberg.commit import find_data_files
from ashore.tables.iceberg.file_io import Lake, StorageFileIO
from ashore.tables.iceberg.iceberg_tables import CatalogAddress, IcebergTables
from ashore.topics.loop.assembly import Environment, JobAssembly
from ashore_lab.drills.sites.memory import TaskRunner
from ashore_lab.testing import FakeClock, Fault, FaultyStorage, RecordedSource

TABLE = "ods.clicks"
CATALOG_CALLS = ("load_table", "create_table", "commit_table")

T = TypeVar("T")


def build_job(table_format: str = "iceberg") -> Job:
    table = {
        "topic": "clicks",
        "table": TABLE,
        "schema": "date STRING, ts BIGINT",
        "event_time": {"column": "ts"},
        "partition_by": ["date"],
        "late": {"policy": "rehome"},
        "format": table_format,
        "on_invalid": "drop",
        "seal": {"actions": []},
    }
    document = {
        "job": NAME.job,
        "lake": "file:///lake",
        "source": {
            "kafka": {"bootstrap_servers": "127.0.0.1:9092"},
            "first_start": {"default": "earliest"},
        },
        "tables": [table],
        "batch": {"max_records": 3},
    }
    return parse_job(json.dumps(document))


def build_clicks(clock: FakeClock) -> RecordedSource:
    source = RecordedSource(clock=clock)
    source.create("clicks", 1)
    values = [json.dumps({"date": "ab"[number % 2], "ts": number}).encode() for number in range(5)]
    source.append(StreamShard("clicks", "0"), *values)
    return source


class FaultyIceberg:
    """The calls of a catalog that Ashore makes, with the faults of a process.

    The catalog itself has the lake without faults, as a server elsewhere does.
    """

    def __init__(self, inner: Catalog, process: FaultyStorage, lake: Lake) -> None:
        self._inner = inner
        self._process = process
        self._lake = lake

    def load_table(self, name: str) -> Table:
        return self._with_own_files(self._call("load_table", lambda: self._inner.load_table(name)))

    def create_table(self, name: str, *given: object, **named: object) -> Table:
        make = self._inner.create_table
        return self._with_own_files(self._call("create_table", lambda: make(name, *given, **named)))

    def create_namespace_if_not_exists(self, name: str) -> None:
        self._inner.create_namespace_if_not_exists(name)

    def commit_table(self, table: Table, *what: object) -> CommitTableResponse:
        return self._call("commit_table", lambda: self._inner.commit_table(table, *what))

    def close(self) -> None:
        self._inner.close()

    def _with_own_files(self, table: Table) -> Table:
        table.io = StorageFileIO(self._lake.properties)
        return table

    def _call(self, kind: str, effect: Callable[[], T]) -> T:
        def late() -> None:
            try:
                effect()
            except (CommitFailedException, TableAlreadyExistsError, ValueError):
                return  # the server has refused it

        try:
            return self._process.apply((kind, TABLE), effect, late)
        except StorageError as error:
            raise TimeoutError(error.message) from None


@dataclass
class IcebergWorld(World):
    """What outlives a process; the catalog too."""

    directory: Path = field(kw_only=True)

    def __post_init__(self) -> None:
        self.lake = Lake(self.machine)

    def catalog(self) -> Catalog:
        uri = f"sqlite:///{self.directory}/catalog.db"
        return load_catalog("ashore", type="sql", uri=uri, **self.lake.properties)

    def start(self, faults: Sequence[Fault] = (), **_: object) -> Process:
        storage = FaultyStorage(self.machine, faults, pending=self.pending)
        tables = IcebergTables(CatalogAddress("ashore", ()), storage, self.clock)
        tables._opened = FaultyIceberg(self.catalog(), storage, tables._lake)
        environment = Environment(
            LakeAddress(self.machine.describe()),
            storage,
            self.source,
            NoCatalog(),
            self.clock,
            entropy=self.entropy,
            formats=tables,
        )
        runner = TaskRunner(self.source, storage, self.entropy)
        loop = JobAssembly(build_job(), environment).slice(runner, 1)
        return Process(loop, storage, storage)


def iceberg_world(directory: Path) -> IcebergWorld:
    for old in directory.glob("catalog.db*"):
        old.unlink()
    clock = FakeClock(monotonic_start_s=0.0)
    return IcebergWorld(MemoryStorage(clock), build_clicks(clock), clock, directory=directory)


def read_offsets(world: IcebergWorld) -> Counter[int]:
    """Return the offsets of the rows that readers of the table see."""
    offsets = Counter[int]()
    root = world.lake.root
    for file in find_data_files(world.catalog().load_table(TABLE)):
        data = world.machine.read(file.file_path.removeprefix(root))
        offsets.update(pq.read_table(io.BytesIO(data)).column("kafka_offset").to_pylist())
    return offsets


def check_end(world: IcebergWorld) -> None:
    """Check that each record is read once, by files that the log names, in snapshots of its own."""
    entries = check_readers(IgnoresMetadata(world.machine))
    assert read_offsets(world) == Counter(range(5))
    table, root = world.catalog().load_table(TABLE), world.lake.root
    named = {place.final for place in named_places(entries)}
    assert {each.file_path.removeprefix(root) for each in find_data_files(table)} == named
    ordered = [each for entry in entries for each in getattr(entry.body, "commits", ())]
    made = [each.snapshot_id for each in table.snapshots()]
    assert made == [each.snapshot_id for each in ordered], "each is made once, in the log's order"


class IgnoresMetadata:
    """A storage without the folder of metadata, which the log does not name."""

    def __init__(self, inner: MemoryStorage) -> None:
        self._inner = inner

    def __getattr__(self, name: str) -> object:
        return getattr(self._inner, name)

    def list(self, directory: str) -> list[object]:
        return [each for each in self._inner.list(directory) if "/metadata" not in each.path]
