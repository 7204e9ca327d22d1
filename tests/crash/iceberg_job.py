"""A job that lands in an Iceberg table, whose storage and catalog calls a test strikes at.

What it is: processes of the job, one after the other, over one lake in memory and one catalog in a
file of SQLite, and the checker, which reads the table through pyiceberg's metadata alone.
What it promises: deterministic but for ids: a call has the same number in every run.
"""

import io
import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

import pyarrow.parquet as pq
from pyiceberg.catalog import Catalog
from pyiceberg.exceptions import CommitFailedException, TableAlreadyExistsError
from pyiceberg.table import CommitTableResponse, Table
from tests.crash.harness import NAME, Process, World, check_readers, named_places

from ashore.errors import StorageError
from ashore.jobs.file import Job, parse_job
from ashore.log.positions import StreamShard
from ashore.storage import MemoryStorage
from ashore.storage.open import LakeAddress
from ashore.tables.catalog import NoCatalog
from ashore.tables.iceberg.catalogs import CatalogAddress, open_catalog, require_fence
from ashore.tables.iceberg.commit import find_data_files
from ashore.tables.iceberg.file_io import Lake, StorageFileIO
from ashore.tables.iceberg.iceberg_tables import IcebergTables
from ashore.topics.loop.assembly import Environment, JobAssembly
from ashore_lab.drills.sites.memory import TaskRunner
from ashore_lab.testing import FakeClock, Fault, FaultyStorage, RecordedSource

TABLE = "ods.clicks"
CATALOG_CALLS = ("load_table", "create_table", "commit_table")

T = TypeVar("T")


def build_job(table_format: str = "iceberg", **table: object) -> Job:
    """Return the job; `table`: other keys of its table."""
    return parse_job(json.dumps(job_document(table_format, **table)))


def job_document(table_format: str = "iceberg", **other: object) -> dict[str, object]:
    """Return the job's file; `other`: other keys of its table."""
    table = {
        "topic": "clicks",
        "table": TABLE,
        "schema": "date STRING, ts BIGINT, at TIMESTAMP",
        "event_time": {"column": "ts"},
        "partition_by": ["date"],
        "late": {"policy": "rehome"},
        "format": table_format,
        "on_invalid": "drop",
        "seal": {"actions": []},
        **other,
    }
    return {
        "job": NAME.job,
        "lake": "file:///lake",
        "source": {
            "kafka": {"bootstrap_servers": "127.0.0.1:9092"},
            "first_start": {"default": "earliest"},
        },
        "tables": [table],
        "batch": {"max_records": 3},
    }


def build_clicks(clock: FakeClock) -> RecordedSource:
    source = RecordedSource(clock=clock)
    source.create("clicks", 1)
    append(source, range(5))
    return source


def append(
    source: RecordedSource, numbers: Iterable[int], topic: str = "clicks", **fields: object
) -> None:
    """Append records to a topic; the offset of each is its number. `fields`: others of each."""
    for number in numbers:
        at = f"2026-11-{20 + number % 2}T10:00:00Z"
        value = {"date": "ab"[number % 2], "ts": number, "at": at, **fields}
        source.append(StreamShard(topic, "0"), json.dumps(value).encode())


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

    def require_fence(self, database: str) -> None:
        require_fence(self._inner, database)

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
    job: Job = field(default_factory=build_job, kw_only=True)
    accepted_by: str = field(default="", kw_only=True)
    properties: Mapping[str, str] = field(default_factory=dict, kw_only=True)  # of the catalog

    def __post_init__(self) -> None:
        self.lake = Lake(self.machine)

    def catalog(self) -> Catalog:
        return open_catalog(self.address(), self.lake)

    def address(self) -> CatalogAddress:
        properties = self.properties or {"uri": f"sqlite:///{self.directory}/catalog.db"}
        return CatalogAddress("ashore", tuple({"type": "sql", **properties}.items()))

    def start(self, faults: Sequence[Fault] = (), **_: object) -> Process:
        storage = FaultyStorage(self.machine, faults, pending=self.pending)
        tables = IcebergTables(self.address(), storage, self.clock)
        tables._opened = FaultyIceberg(self.catalog(), storage, tables._lake)
        environment = Environment(
            LakeAddress(self.machine.describe()),
            storage,
            self.source,
            NoCatalog(),
            self.clock,
            entropy=self.entropy,
            accepted_by=self.accepted_by,
            formats=tables,
        )
        runner = TaskRunner(self.source, storage, self.entropy)
        loop = JobAssembly(self.job, environment).slice(runner, 1)
        return Process(loop, storage, storage)


def iceberg_world(directory: Path, job: Job | None = None) -> IcebergWorld:
    for old in directory.glob("catalog.db*"):
        old.unlink()
    clock = FakeClock(monotonic_start_s=0.0)
    storage, source = MemoryStorage(clock), build_clicks(clock)
    return IcebergWorld(storage, source, clock, directory=directory, job=job or build_job())


def land(world: IcebergWorld, numbers: Iterable[int] = ()) -> None:
    """Land what the topic has, and these records."""
    append(world.source, numbers)
    world.clock.sleep(1)
    ended = world.start().run()
    assert ended is None, ended


def expire(table: Table) -> Table:
    """Drop all tags and all snapshots but the newest, as another tool may."""
    tags = [name for name in table.refresh().refs() if name != "main"]
    for tag in tags:
        table.manage_snapshots().remove_tag(tag).commit()
    head = table.refresh().current_snapshot()
    assert head is not None
    old = [each.snapshot_id for each in table.snapshots() if each.snapshot_id != head.snapshot_id]
    if old:
        table.maintenance.expire_snapshots().by_ids(old).commit()
    return table.refresh()


def scan_offsets(world: IcebergWorld, name: str = TABLE) -> Counter[int]:
    """Return the offsets of the rows that pyiceberg's own reader finds."""
    rows = world.catalog().load_table(name).scan().to_arrow()
    return Counter(rows.column("kafka_offset").to_pylist())


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
