"""What the metadata of an Iceberg table says of a commit; what pyiceberg's own commits would do."""

import io
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.exceptions import CommitFailedException
from pyiceberg.partitioning import UNPARTITIONED_PARTITION_SPEC
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.table.metadata import new_table_metadata
from pyiceberg.table.sorting import UNSORTED_SORT_ORDER
from pyiceberg.table.update import AssertRefSnapshotId
from pyiceberg.transforms import BucketTransform, IdentityTransform
from pyiceberg.types import (
    ListType,
    NestedField,
    StructType,
    TimestampNanoType,
    TimestamptzNanoType,
)

from ashore.base.clock import SystemClock
from ashore.errors import (
    BatchFailed,
    FileConflict,
    SchemaConflict,
    TableOwned,
    TableReplaced,
    TableRolledBack,
)
from ashore.log.files import BatchPlace, DataFile, FilePlace, Role, TableCommit, Target
from ashore.log.names import SliceName
from ashore.log.plan_commit import CommitTable
from ashore.storage import MemoryStorage
from ashore.storage.open import open_storage
from ashore.tables.catalog import CatalogTable
from ashore.tables.ddl import Schema as Columns
from ashore.tables.ddl import parse_ddl
from ashore.tables.iceberg import commit as commits
from ashore.tables.iceberg.catalogs import CatalogAddress
from ashore.tables.iceberg.file_io import Lake
from ashore.tables.iceberg.iceberg_tables import IcebergTables
from ashore.tables.iceberg.schema import find_conflicts
from ashore.tables.names import partition_path, partition_values
from ashore.topics.decode.arrow_types import with_field_ids
from ashore.topics.route.placement import Bucketer, split_rows

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
        schema = with_field_ids(pa.schema([("id", pa.int64())]), self.tables.field_ids()[TABLE])
        content = pa.table({"id": [number, number]}, schema)
        placed = self.write(content, target, number, rows=rows)
        (drawn,) = self.tables.draw(NAME, [TABLE, "ods.other"], self.last)
        return CommitTable(drawn, number, (placed,))

    def write(
        self, content: pa.Table, target: Target, number: int, *, rows: int | None = None
    ) -> tuple[FilePlace, Target]:
        buffer = io.BytesIO()
        pq.write_table(content, buffer)
        data = buffer.getvalue()
        count = content.num_rows if rows is None else rows
        file = DataFile(0, 0, f"{number:016x}", count, len(data), "", (), None, None)
        place = BatchPlace(NAME, 1, number).place(file, target)
        self.storage.create(place.final, data)
        return place, target

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


@pytest.mark.parametrize(
    ("root", "location", "path"),
    [
        ("file:///lake", "file:///lake/a/b", "a/b"),
        ("file:///lake", "file:/lake/a/b", "a/b"),
        ("file:///lake", "/lake/a/b", "a/b"),
        ("file:///lake", "file:/lakes/a", None),
        ("file:///lake", "s3://lake/a", None),
        ("s3://bucket/lake", "s3a://bucket/lake/a//b", "a//b"),
        ("s3://bucket/lake", "s3n://bucket/lake/a", "a"),
        ("s3://bucket/lake", "s3://bucket/other/a", None),
        ("hdfs://nodes/lake", "hdfs://nodes/lake/a", "a"),
    ],
)
def test_a_file_is_found_however_its_writer_spells_the_lake(
    root: str, location: str, path: str | None
):
    class At(MemoryStorage):
        def describe(self) -> str:
            return root

    assert Lake(At(SystemClock())).path(location) == path


def test_a_commit_that_is_repeated_changes_nothing(site: Site):
    steps = [site.land(number) for number in range(3)]
    for step in steps:
        site.tables.commit(NAME, step)
    assert site.ids() == [0, 0, 1, 1, 2, 2]
    assert len(site.table().snapshots()) == 3


def test_a_table_that_another_log_of_the_name_has_filled_is_refused(site: Site):
    site.land(5)
    site.last = {}  # the log was removed, and begins again with entry 0
    with pytest.raises(TableOwned, match="at entry 5, which this log does not have"):
        site.land(0)
    assert site.ids() == [5, 5]


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


def test_an_entry_from_before_the_order_changed_is_committed(site: Site):
    step = site.step(0)
    later = IcebergTables(site.tables._address, site.storage, SystemClock())
    later.ensure([replace(site.expected("id BIGINT"), sort_by=("id",))])
    later.commit(NAME, step)  # the next start
    site.last = {TABLE: step.commit}
    drawn = site.step(1)
    with site.table().update_sort_order() as update:
        update.desc("date", IdentityTransform())
    site.tables.commit(NAME, drawn)
    assert site.ids() == [0, 0, 1, 1]
    assert site.table().sort_order().order_id == 2


@pytest.mark.parametrize(
    ("ddl", "changes", "message"),
    [
        ("id BIGINT, tags ARRAY<STRING>", {"sort_by": ("tags",)}, "sorts no column of the type"),
        ("id BIGINT", {"sort_by": ("of_others",)}, "no column of_others"),
        ("other BIGINT", {"dropped": frozenset({"id"})}, "order has column id, which is dropped"),
    ],
)
def test_an_order_that_does_not_fit_is_refused(
    ddl: str, changes: dict[str, object], message: str, site: Site
):
    with site.table().update_sort_order() as update:
        update.desc("id", IdentityTransform())
    before = site.table().metadata_location
    later = IcebergTables(site.tables._address, site.storage, SystemClock())
    with pytest.raises(SchemaConflict, match=message):
        later.ensure([replace(site.expected(ddl), **changes)])
    assert site.table().metadata_location == before


def test_a_column_is_dropped_and_another_one_sorts_in_one_commit(site: Site):
    with site.table().update_sort_order() as update:
        update.desc("id", IdentityTransform())
    before = len(site.table().metadata.metadata_log)
    later = IcebergTables(site.tables._address, site.storage, SystemClock())
    changes = {"dropped": frozenset({"id"}), "sort_by": ("other",)}
    later.ensure([replace(site.expected("other BIGINT"), **changes)])
    table = site.table()
    assert len(table.metadata.metadata_log) == before + 1
    assert [str(each) for each in table.sort_order().fields] == ["3 ASC NULLS LAST"]


def test_a_tag_that_is_set_while_a_batch_is_written_keeps_its_snapshot(
    site: Site, monkeypatch: pytest.MonkeyPatch
):
    """A commit that drops snapshots knows all tags, also those of a moment ago."""
    monkeypatch.setattr(commits, "SNAPSHOTS_MAX", 1)
    monkeypatch.setattr(commits, "EXPIRE_EVERY", 2)
    first, *_ = [site.land(number) for number in range(3)]
    step = site.step(3)
    kept = first.commit.snapshot_id
    site.table().manage_snapshots().create_tag(kept, "of_others").commit()
    site.tables.commit(NAME, step)
    assert site.table().refs()["of_others"].snapshot_id == kept
    assert site.table().snapshot_by_id(kept) is not None


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


def test_the_type_of_keys_does_not_change(site: Site):
    for kind in ("INT", "BIGINT"):  # of values: they are widened
        site.tables._ensure(site.expected(f"id BIGINT, m MAP<STRUCT<k: INT>, {kind}>"))
    assert len(site.table().metadata.schemas) == 3
    with pytest.raises(SchemaConflict, match="column m"):
        site.tables._ensure(site.expected("id BIGINT, m MAP<STRUCT<k: BIGINT>, BIGINT>"))
    assert len(site.table().metadata.schemas) == 3


def test_a_file_with_other_rows_than_the_log_says_is_not_committed(site: Site):
    step = site.step(0, rows=3)
    with pytest.raises(FileConflict):
        site.tables.commit(NAME, step)
    assert site.table().current_snapshot() is None


TRANSFORMS = ("day(ts)", "bucket(4, id)", "truncate(2, name)", "country")


SEEN = "ods.seen"


def land_seen(site: Site, expected: CatalogTable) -> list[dict[str, object]]:
    """Land rows, each in a file of its partition, by what the log has of it; return the rows."""
    schema = pa.schema(
        [
            ("ts", pa.timestamp("us", "UTC")),
            ("id", pa.int64()),
            ("name", pa.string()),
            ("country", pa.string()),
        ]
    )
    rows: list[dict[str, object]] = [
        {
            "ts": datetime(1969 + number % 3, 12, 31, 23, 59, tzinfo=UTC),
            "id": number - 5,
            "name": ("alpha", "", None, "al")[number % 4],
            "country": ("de", None)[number % 2],
        }
        for number in range(12)
    ]
    site.tables.ensure([expected])
    table = pa.Table.from_pylist(rows, schema)
    bucketer = Bucketer(TRANSFORMS, "UTC", schema)
    buckets = bucketer.assign(table, pa.array([0] * len(rows), pa.int64()))
    file_schema = with_field_ids(bucketer.file_schema, site.tables.field_ids()[SEEN])
    placed = []
    for bucket, chosen in split_rows(buckets):
        values = buckets.values[bucket]
        target = Target(
            *(SEEN, Role.MAIN, partition_path(bucketer.partition_by, values)),
            *(partition_values(bucketer.partition_by, values), "", "parquet"),
        )
        part = table.select(file_schema.names).take(chosen).cast(file_schema)
        placed.append(site.write(part, target, bucket))
    (drawn,) = site.tables.draw(NAME, [SEEN], {})
    site.tables.commit(NAME, CommitTable(drawn, 0, tuple(placed)))
    return rows


def test_files_of_transforms_are_pruned_by_filters(site: Site):
    expected = replace(
        site.expected("ts TIMESTAMP, id BIGINT, name STRING", "country STRING"),
        name="seen",
        location=f"{site.lake}/ods.db/seen",
        partition_by=TRANSFORMS,
    )
    rows = land_seen(site, expected)
    table = site.catalog().load_table(SEEN)
    fields = [each.name for each in table.spec().fields]
    assert fields == ["ts_day", "id_bucket", "name_trunc", "country"]
    files = len(list(table.scan().plan_files()))
    for condition, is_wanted in (
        ("ts < '1970-01-01T00:00:00+00:00'", lambda row: row["ts"].year == 1969),
        ("id == -5", lambda row: row["id"] == -5),
        ("name == ''", lambda row: row["name"] == ""),
        ("name is null", lambda row: row["name"] is None),
        ("name == 'alpha'", lambda row: row["name"] == "alpha"),
        ("country == 'de'", lambda row: row["country"] == "de"),
    ):
        scan = table.scan(condition)
        found = sorted(row["id"] for row in scan.to_arrow().to_pylist())
        assert found == sorted(row["id"] for row in rows if is_wanted(row)), condition
        assert len(list(scan.plan_files())) < files, condition
    with pytest.raises(SchemaConflict, match=r"bucket\[4\]\(id\)"):
        site.tables._ensure(replace(expected, partition_by=("bucket(8, id)",)))


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


def test_nanoseconds_of_a_table_are_a_conflict(tmp_path: Path):
    """Whatever the job has there, and wherever it is; before version 3 no table has them."""
    inner = NestedField(4, "inner", TimestamptzNanoType(), required=False)
    schema = Schema(
        NestedField(1, "at", TimestampNanoType(), required=False),
        NestedField(2, "number", TimestamptzNanoType(), required=False),
        NestedField(3, "many", ListType(5, StructType(inner), False), required=False),
    )
    place = (UNPARTITIONED_PARTITION_SPEC, UNSORTED_SORT_ORDER, f"file://{tmp_path}")
    expected = CatalogTable(
        *("ods", "clicks"),
        parse_ddl("at TIMESTAMP_NTZ, number BIGINT, many ARRAY<STRUCT<inner: TIMESTAMP>>"),
        Columns(()),
        *(f"file://{tmp_path}", "iceberg", NAME.job),
    )
    metadata = new_table_metadata(schema, *place, {"format-version": "3"})
    assert list(find_conflicts(metadata, expected)) == [
        f"column {each}, with nanoseconds, and new files would have microseconds"
        for each in (
            "at is timestamp_ns",
            "number is timestamptz_ns",
            "many[].inner is timestamptz_ns",
        )
    ]
    with pytest.raises(ValueError, match="only supported in 3"):
        new_table_metadata(schema, *place, {"format-version": "2"})
