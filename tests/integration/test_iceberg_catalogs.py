"""What Ashore asks of an Iceberg catalog: one contract, each test on each catalog.

All are real but Glue, which is moto's.

The lake is a local disk. Each call of a catalog is struck by every fault: a stop before and after
it, an answer that is lost, a request that comes late or twice.
"""

import itertools
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from functools import cached_property
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.catalog import Catalog
from pyiceberg.exceptions import CommitFailedException, NoSuchTableError
from pyiceberg.schema import Schema
from pyiceberg.table import CommitTableResponse, Table
from pyiceberg.table.update import SetPropertiesUpdate
from pyiceberg.types import LongType, NestedField, TimestamptzNanoType
from requests import PreparedRequest, Response
from sqlalchemy.exc import DBAPIError
from tests.crash import iceberg_job
from tests.crash.harness import FAULTS
from tests.crash.iceberg_job import (
    CATALOG_CALLS,
    TABLE,
    FaultyIceberg,
    IcebergWorld,
    append,
    build_clicks,
    build_job,
    check_end,
    iceberg_world,
    land,
    scan_offsets,
)
from tests.crash.test_iceberg_writers import foreign_row
from tests.glue import run_glue
from tests.postgresql import make_postgresql
from tests.shares import share_of

from ashore.errors import CatalogError, SchemaConflict, TableReplaced, TableRolledBack
from ashore.storage.open import open_storage
from ashore.tables.catalog.hive_wire import thrift
from ashore.tables.iceberg import commit as commits
from ashore.tables.iceberg import metastore
from ashore.tables.iceberg.catalogs import Requests, open_catalog
from ashore.tables.iceberg.orphans import list_named
from ashore_lab.services.hive import Hive
from ashore_lab.services.iceberg_rest import IcebergRest
from ashore_lab.testing import FakeClock

# Asked for by its name, which alone would not keep it from tests that kill the metastore.
HIVE = pytest.param("hive_metastore", marks=pytest.mark.breaks("hive"))
CATALOGS = ("rest", "postgresql", HIVE, "glue")
COMMITS = 12  # of a writer
MakeWorld = Callable[[], IcebergWorld]
Commit = Callable[[], CommitTableResponse]


class CatalogWorld(IcebergWorld):
    """One client for all that a test does: its connections are closed at the end."""

    @cached_property
    def client(self) -> Catalog:
        return super().catalog()

    def catalog(self) -> Catalog:
        return self.client


@pytest.fixture(scope="module")
def rest(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mapping[str, str]]:
    with IcebergRest(tmp_path_factory.mktemp("rest")) as server:
        yield {"type": "rest", "uri": server.uri}


@pytest.fixture(scope="module")
def postgresql(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mapping[str, str]]:
    with make_postgresql() as server:
        if server is None:  # the same code, over SQLite
            yield {"type": "sql", "uri": f"sqlite:///{tmp_path_factory.mktemp('sql')}/catalog.db"}
            return
        with server.running():
            yield {"type": "sql", "uri": server.url}


@pytest.fixture(scope="module")
def glue() -> Iterator[Mapping[str, str]]:
    with run_glue() as properties:
        yield properties


@pytest.fixture
def hive_metastore(hive: Hive) -> Mapping[str, str]:
    return {"type": "hive", "uri": hive.uri}


@pytest.fixture(params=CATALOGS)
def make_world(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[MakeWorld]:
    """Makes worlds whose lake is new and whose catalog has no table."""
    properties: Mapping[str, str] = request.getfixturevalue(request.param)
    made = list[IcebergWorld]()

    def make() -> IcebergWorld:
        lake = tmp_path / f"lake{len(made)}"
        lake.mkdir()
        clock = FakeClock(monotonic_start_s=0.0)
        world = CatalogWorld(
            open_storage(f"file://{lake}"),
            build_clicks(clock),
            clock,
            directory=tmp_path,
            properties=properties,
        )
        made.append(world)
        with suppress(NoSuchTableError):
            world.catalog().drop_table(TABLE)
        return world

    yield make
    for each in made:
        each.catalog().close()


@pytest.fixture
def world(make_world: MakeWorld) -> IcebergWorld:
    return make_world()


@pytest.mark.parametrize("fault", FAULTS)
def test_every_call_under_every_fault(fault: str, make_world: MakeWorld, tmp_path: Path) -> None:
    process = iceberg_world(tmp_path).start()
    assert process.run() is None
    calls = enumerate((call.kind for call in process.faulty.calls), 1)
    for number in share_of([number for number, kind in calls if kind in CATALOG_CALLS]):
        world = make_world()
        world.start([FAULTS[fault](number)]).run()
        world.clock.sleep(60)
        ended = world.start().run()
        assert ended is None, ended
        world.pending.release()
        assert world.start().run() is None
        check_end(world)


def strike_commits(
    monkeypatch: pytest.MonkeyPatch,
    strike: Callable[
        [FaultyIceberg, Table, Callable[[], CommitTableResponse]], CommitTableResponse
    ],
) -> None:
    class Struck(FaultyIceberg):
        def commit_table(self, table: Table, *what: object) -> CommitTableResponse:
            commit = super().commit_table
            return strike(self, lambda: commit(table, *what))

    monkeypatch.setattr(iceberg_job, "FaultyIceberg", Struck)


def test_a_request_that_comes_twice(world: IcebergWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    """The job gets the second answer: a conflict, for a commit that has happened."""

    def repeat(_: FaultyIceberg, commit: Commit) -> CommitTableResponse:
        commit()
        return commit()

    strike_commits(monkeypatch, repeat)
    assert world.start().run() is None
    check_end(world)


@pytest.mark.parametrize("takes_keys", [True, False])
@pytest.mark.parametrize("make_world", ["rest"], indirect=True)
def test_a_request_that_a_proxy_repeats(
    takes_keys: bool, world: IcebergWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a key the catalog answers as before; without one it refuses a commit that it has."""
    send, answers = Requests.send, list[tuple[int, int]]()

    def repeat(self: Requests, request: PreparedRequest, *options: Any, **named: Any) -> Response:
        first = send(self, request, *options, **named)
        if request.method != "POST":
            return first
        second = send(self, request, *options, **named)
        answers.append((first.status_code, second.status_code))
        return second

    monkeypatch.setattr(Requests, "send", repeat)
    if not takes_keys:
        monkeypatch.setattr(Requests, "takes_keys", property(lambda _: False, lambda *_: None))
    assert world.start().run() is None
    check_end(world)
    same = [first == second for first, second in answers]
    assert len(same) >= 3
    assert all(same) if takes_keys else not any(same[-2:])


def test_a_writer_that_commits_before_each_try(
    world: IcebergWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    offsets = itertools.count(-3)

    def commit_before(catalog: FaultyIceberg, commit: Commit) -> CommitTableResponse:
        if (offset := next(offsets)) < 0:
            table = catalog._inner.load_table(TABLE)
            table.append(foreign_row(table, offset))
        return commit()

    strike_commits(monkeypatch, commit_before)
    land(world)
    assert scan_offsets(world) == Counter([*range(5), *range(-3, 0)])


def test_a_table_that_is_rolled_back_or_replaced_stops_the_job(world: IcebergWorld) -> None:
    land(world)
    table = world.catalog().load_table(TABLE)
    first, last = table.snapshots()
    table.manage_snapshots().rollback_to_snapshot(first.snapshot_id).commit()
    append(world.source, [5])
    assert isinstance(world.start().run(), TableRolledBack)
    table.refresh().manage_snapshots().set_current_snapshot(last.snapshot_id).commit()
    land(world)
    assert scan_offsets(world) == Counter(range(6))

    catalog = world.catalog()
    catalog.drop_table(TABLE)
    catalog.create_table(TABLE, table.schema(), f"{table.location()}2", table.spec())
    append(world.source, [6])
    assert isinstance(world.start().run(), TableReplaced)
    assert not scan_offsets(world)


def test_snapshots_expire_and_columns_are_added(
    world: IcebergWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(commits, "SNAPSHOTS_MAX", 3)
    monkeypatch.setattr(commits, "EXPIRE_EVERY", 2)
    land(world)
    world.job = build_job(schema="date STRING, ts BIGINT, at TIMESTAMP, added STRING")
    for number in range(5, 12):
        land(world, [number])
    table = world.catalog().load_table(TABLE)
    assert len(table.snapshots()) <= 5
    assert table.schema().column_names[-2:] == ["date", "added"]
    assert scan_offsets(world) == Counter(range(12))
    world.job = build_job(schema="date STRING, ts BIGINT, at STRING")
    assert isinstance(world.start().run(), SchemaConflict)


def test_the_names_that_a_table_refers_to_are_those_of_files(world: IcebergWorld) -> None:
    """However a catalog spells the directory: what it does not refer to may be deleted."""
    land(world)
    table = world.catalog().load_table(TABLE)
    below = {Path(each.path).name for each in world.machine.list("ods.db/clicks/metadata")}
    named = {each for each in list_named(table) if not each.endswith(".parquet")}
    assert named <= below
    assert len(named) >= 6


def test_two_writers_at_once_lose_no_commit_of_each_other(world: IcebergWorld) -> None:
    land(world)
    made = list[str]()

    def write(writer: str) -> None:
        with closing(open_catalog(world.address(), world.lake)) as catalog:
            while sum(key.startswith(writer) for key in made) < COMMITS:
                key = f"{writer}{len(made)}"
                try:
                    table = catalog.load_table(TABLE)
                    catalog.commit_table(table, (), (SetPropertiesUpdate(updates={key: "there"}),))
                except (CommitFailedException, DBAPIError):
                    continue
                made.append(key)

    with ThreadPoolExecutor() as pool:
        assert list(pool.map(write, ("first", "second"))) == [None, None]
    assert len(made) == 2 * COMMITS
    assert set(made) <= world.catalog().load_table(TABLE).properties.keys()
    land(world, [5])
    assert scan_offsets(world) == Counter(range(6))


@pytest.mark.parametrize("make_world", [HIVE], indirect=True)
def test_a_metastore_that_compares_nothing_is_refused_at_the_start(
    make_world: MakeWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = make_world()
    monkeypatch.setattr(metastore, "_context", lambda *_: thrift.EnvironmentContext({}))
    ended = world.start().run()
    assert isinstance(ended, CatalogError)
    assert "compare" in ended.message
    monkeypatch.undo()
    with pytest.raises(NoSuchTableError):
        world.catalog().load_table(TABLE)
    land(world)
    assert scan_offsets(world) == Counter(range(5))


@pytest.mark.parametrize("make_world", ["rest"], indirect=True)
def test_a_table_of_format_version_3_is_refused(make_world: MakeWorld) -> None:
    world = make_world()
    catalog = world.catalog()
    schema = Schema(
        NestedField(1, "ts", LongType(), required=False),
        NestedField(2, "at", TimestamptzNanoType(), required=False),
    )
    there, version = f"{world.lake.root}ods.db/clicks", {"format-version": "3"}
    catalog.create_namespace_if_not_exists("ods")
    made = catalog.create_table(TABLE, schema, there, properties=version)
    ended = world.start().run()
    assert isinstance(ended, SchemaConflict)
    assert "format version 3" in ended.message
    assert "column at is timestamptz_ns, with nanoseconds" in ended.message
    assert catalog.load_table(TABLE).metadata == made.metadata
