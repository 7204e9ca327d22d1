"""What the metadata of an Iceberg table says of a commit; what pyiceberg's own commits would do."""

import io
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.exceptions import CommitFailedException
from pyiceberg.table import Table
from pyiceberg.table.update import AssertRefSnapshotId
from pyiceberg.transforms import BucketTransform

from ashore.base.clock import SystemClock
from ashore.errors import (
    BatchFailed,
    FileConflict,
    SchemaConflict,
    TableReplaced,
    TableRolledBack,
)
from ashore.log.files import BatchPlace, DataFile, Role, TableCommit, Target
from ashore.log.names import SliceName
from ashore.log.plan_commit import CommitTable
from ashore.storage.open import open_storage
from ashore.tables.catalog import CatalogTable
from ashore.tables.ddl import parse_ddl
from ashore.tables.iceberg import commit as commits
from ashore.tables.iceberg.iceberg_tables import CatalogAddress, IcebergTables
from ashore.topics.decode.arrow_types import with_field_ids

NAME = SliceName("shop", "main")
TABLE = "ods.clicks"


class Site:
    """A lake on disk, its catalog, and the commits of one slice."""

    def __init__(self, directory: Path) -> None:
        self.lake = f"file://{directory}"
        self.storage = open_storage(self.lake)
        self.uri = f"sqlite:///{directory}/iceberg.db"
        address = CatalogAddress("ashore", (("type", "sql"), ("uri", self.uri)))
        self.tables = IcebergTables(address, self.storage, SystemClock())
        self.last: dict[str, TableCommit] = {}
        self.tables.ensure([self.expected("id BIGINT")])

    def expected(self, ddl: str, partitions: str = "date STRING") -> CatalogTable:
        return CatalogTable(
            *("ods", "clicks", parse_ddl(ddl), parse_ddl(partitions)),
            *(f"{self.lake}/ods.db/clicks", "iceberg", NAME.job),
        )

    def catalog(self) -> Catalog:
        return load_catalog("ashore", type="sql", uri=self.uri)

    def table(self) -> Table:
        return self.catalog().load_table(TABLE)

    def step(self, number: int, *, rows: int = 2) -> CommitTable:
        values = (("date", "2026-11-21"),)
        target = Target(TABLE, Role.MAIN, "date=2026-11-21", values, "", "parquet")
        buffer = io.BytesIO()
        schema = with_field_ids(pa.schema([("id", pa.int64())]), self.tables.field_ids()[TABLE])
        pq.write_table(pa.table({"id": [number, number]}, schema), buffer)
        data = buffer.getvalue()
        file = DataFile(0, 0, f"{number:016x}", rows, len(data), "", (), None, None)
        place = BatchPlace(NAME, 1, number).place(file, target)
        self.storage.create(place.final, data)
        (drawn,) = self.tables.draw(NAME, [TABLE, "ods.other"], self.last)
        return CommitTable(drawn, number, ((place, target),))

    def land(self, number: int) -> CommitTable:
        step = self.step(number)
        self.tables.commit(NAME, step)
        self.last = {TABLE: step.commit}
        return step

    def ids(self) -> list[int]:
        return sorted(self.table().scan().to_arrow().column("id").to_pylist())


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path)


def test_a_commit_that_is_repeated_changes_nothing(site: Site):
    steps = [site.land(number) for number in range(3)]
    for step in steps:
        site.tables.commit(NAME, step)
    assert site.ids() == [0, 0, 1, 1, 2, 2]
    assert len(site.table().snapshots()) == 3


def test_snapshots_expire_and_the_marks_stay(site: Site, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(commits, "SNAPSHOTS_MAX", 3)
    monkeypatch.setattr(commits, "EXPIRE_EVERY", 1)
    monkeypatch.setattr(commits, "MANIFESTS_MAX", 4)
    steps = [site.land(number) for number in range(12)]
    table = site.table()
    assert len(table.snapshots()) == 4
    assert len(table.current_snapshot().manifests(table.io)) <= 4
    assert site.ids() == sorted([*range(12), *range(12)])
    site.tables.commit(NAME, steps[0])  # long expired
    assert len(site.ids()) == 24


def test_a_slice_that_was_idle_is_no_rollback(site: Site):
    """Its snapshot is kept by its tag; those between it and the newest one have expired."""
    site.land(0)
    table = site.table()
    for _ in range(3):
        table.append(table.scan().to_arrow())
    table.refresh().maintenance.expire_snapshots().by_ids(
        [each.snapshot_id for each in table.snapshots()[1:3]]
    ).commit()
    site.land(1)
    assert len(site.ids()) == 2 * 2**3 + 2


@pytest.mark.parametrize("expires", [False, True])
def test_a_rollback_is_seen(site: Site, expires: bool):
    first, second = site.land(0), site.land(1)
    table = site.table()
    table.manage_snapshots().rollback_to_snapshot(first.commit.snapshot_id).commit()
    if expires:
        table.refresh().manage_snapshots().remove_tag("ashore-shop-main").commit()
        lost = [second.commit.snapshot_id]
        table.refresh().maintenance.expire_snapshots().by_ids(lost).commit()
    table.refresh().append(table.scan().to_arrow())
    with pytest.raises(TableRolledBack, match=str(second.commit.snapshot_id)):
        site.step(2)
    with pytest.raises(TableRolledBack):
        site.tables.commit(NAME, second)


def test_a_table_that_was_created_again_is_another(site: Site):
    step = site.land(0)
    schema, spec = site.table().schema(), site.table().spec()
    site.catalog().drop_table(TABLE)
    site.catalog().create_table(TABLE, schema, f"{site.lake}/ods.db/clicks", spec)
    with pytest.raises(TableReplaced):
        site.step(1)
    with pytest.raises(TableReplaced):
        site.tables.commit(NAME, step)


def test_files_keep_their_partition_spec_when_the_table_gets_another(site: Site):
    step = site.step(0)
    with site.table().update_spec() as update:
        update.add_field("id", BucketTransform(4), "bucket")
    site.tables.commit(NAME, step)
    site.last = {TABLE: step.commit}
    site.land(1)
    table = site.table()
    assert {each.partition_spec_id for each in table.current_snapshot().manifests(table.io)} == {0}
    assert site.ids() == [0, 0, 1, 1]


def test_columns_that_change_under_a_batch_have_it_written_again(site: Site):
    with site.table().update_schema() as update:
        update.delete_column("id")
    with site.table().update_schema() as update:
        update.add_column("id", site.table().schema().find_type("date"))
    with pytest.raises((BatchFailed, SchemaConflict)):
        site.step(0)


@pytest.mark.parametrize(
    ("ddl", "partitions", "words"),
    [
        ("id STRING", "date STRING", "column id is long, not STRING"),
        ("id BIGINT", "date STRING, hour STRING", r"partitioned by \(identity\(date\)\)"),
    ],
)
def test_a_table_that_contradicts_the_job_is_refused(
    site: Site, ddl: str, partitions: str, words: str
):
    with pytest.raises(SchemaConflict, match=words):
        site.tables._ensure(site.expected(ddl, partitions))


def test_a_file_with_other_rows_than_the_log_says_is_not_committed(site: Site):
    step = site.step(0, rows=3)
    with pytest.raises(FileConflict):
        site.tables.commit(NAME, step)
    assert site.table().current_snapshot() is None


# ---- pyiceberg: what would happen if its transactions committed


def test_pyiceberg_deletes_the_manifests_of_a_commit_that_has_landed(
    site: Site, monkeypatch: pytest.MonkeyPatch
):
    site.land(0)
    table = site.table()
    with table.transaction() as change:
        change.set_properties({"commit.retry.num-retries": "0"})
    commit_table = table.catalog.commit_table

    def answer_conflict(*given: object) -> None:
        commit_table(*given)
        raise CommitFailedException("409 of a server that has repeated the request itself")

    monkeypatch.setattr(table.catalog, "commit_table", answer_conflict)
    with pytest.raises(CommitFailedException):
        table.append(table.scan().to_arrow())
    assert len(site.table().snapshots()) == 2, "it has landed"
    with pytest.raises(FileNotFoundError):
        site.ids()


def test_pyiceberg_keeps_one_requirement_of_a_kind(site: Site):
    site.land(0)
    with site.table().transaction() as change:
        for ref in ("main", "ashore-shop-main"):
            known = site.table().metadata.refs[ref].snapshot_id
            required = AssertRefSnapshotId(ref=ref, snapshot_id=known)
            change._stage((), (required,))
        assert len(change._requirements) == 1


def test_pyiceberg_cuts_the_history_where_snapshots_expire(site: Site):
    first, _ = site.land(0), site.land(1)
    table = site.table()
    table.maintenance.expire_snapshots().by_id(first.commit.snapshot_id).commit()
    assert table.refresh().current_snapshot().parent_snapshot_id is None
