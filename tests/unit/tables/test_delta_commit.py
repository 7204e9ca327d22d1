"""What the log of a Delta table says of a commit. Tables are read by delta-rs, which wrote none."""

import io
import json
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake
from deltalake.exceptions import CommitFailedError
from deltalake.transaction import AddAction

from ashore.base.clock import SystemClock
from ashore.errors import (
    CatalogError,
    FileConflict,
    FilesLost,
    SchemaConflict,
    TableOwned,
    TableReplaced,
    TableRolledBack,
)
from ashore.log.files import BatchPlace, DataFile, Role, TableCommit, Target
from ashore.log.names import SliceName
from ashore.log.plan_commit import CommitTable
from ashore.storage.open import open_storage
from ashore.tables.catalog import CatalogTable
from ashore.tables.ddl import parse_ddl
from ashore.tables.delta import table_log
from ashore.tables.delta.actions import _lower, _upper
from ashore.tables.delta.delta_tables import DeltaTables
from ashore.topics.decode.arrow_types import to_arrow

NAME = SliceName("shop", "main")
TABLE = "ods.clicks"
DDL = "id BIGINT, text STRING, at TIMESTAMP, wall TIMESTAMP_NTZ, share DOUBLE"


class Site:
    """A lake on disk, and the commits of one slice."""

    def __init__(self, directory: Path, ddl: str = DDL) -> None:
        self.lake = f"file://{directory}"
        self.path = f"{directory}/ods.db/clicks"
        self.ddl = ddl
        self.storage = open_storage(self.lake)
        self.last: dict[str, TableCommit] = {}
        self.tables = DeltaTables(self.storage, SystemClock())
        self.tables.ensure([self.expected(ddl)])

    def expected(self, ddl: str, partitions: str = "date STRING") -> CatalogTable:
        return CatalogTable(
            *("ods", "clicks", parse_ddl(ddl), parse_ddl(partitions)),
            *(f"{self.lake}/ods.db/clicks", "delta", NAME.job),
        )

    def restart(self, ddl: str) -> None:
        self.ddl = ddl
        self.tables = DeltaTables(self.storage, SystemClock())
        self.tables.ensure([self.expected(ddl)])

    def table(self) -> DeltaTable:
        return DeltaTable(self.path)

    def step(self, number: int, *, rows: int = 2, day: str | None = "2026-11-21") -> CommitTable:
        partition = f"date={(day or '__HIVE_DEFAULT_PARTITION__').replace('/', '%2F')}"
        target = Target(TABLE, Role.MAIN, partition, (("date", day),), "", "parquet")
        buffer = io.BytesIO()
        schema = to_arrow(parse_ddl(self.ddl))
        row = {"id": number, "text": "x" * 40, "at": datetime(2026, 11, 21, tzinfo=UTC)}
        row |= {"small": 7, "pair": {"x": 8, "y": "new"}, "list": [{"x": 9}]}
        pq.write_table(pa.Table.from_pylist([row, {**row, "id": number + 100}], schema), buffer)
        data = buffer.getvalue()
        file = DataFile(0, 0, f"{number:016x}", rows, len(data), "", (), None, None)
        place = BatchPlace(NAME, 1, number).place(file, target)
        self.storage.create(place.final, data)
        (drawn,) = self.tables.draw(NAME, [TABLE, "ods.other"], self.last)
        return CommitTable(drawn, number, ((place, target),))

    def land(self, number: int, **what: object) -> CommitTable:
        step = self.step(number, **what)
        self.tables.commit(NAME, step)
        self.last = {TABLE: step.commit}
        return step

    def ids(self) -> list[int]:
        return sorted(self.table().to_pyarrow_table().column("id").to_pylist())


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path)


def test_a_commit_that_is_repeated_changes_nothing(site: Site):
    steps = [site.land(number) for number in range(3)]
    for step in steps:
        site.tables.commit(NAME, step)
        DeltaTables(site.storage, SystemClock()).commit(NAME, step)  # of a process that began later
    assert site.ids() == [0, 1, 2, 100, 101, 102]
    assert site.table().version() == 3
    assert site.table().transaction_version("ashore.shop.main") == 2


def test_readers_see_partitions_and_bounds(site: Site):
    site.land(0, day=None)
    site.land(1, day="a/b c ü")
    rows = site.table().to_pyarrow_table().sort_by("id").to_pylist()
    assert [row["date"] for row in rows] == [None, "a/b c ü", None, "a/b c ü"]
    added = pa.table(site.table().get_add_actions(flatten=True)).sort_by("min.id").to_pylist()
    assert [each["num_records"] for each in added] == [2, 2]
    assert [(each["min.id"], each["max.id"]) for each in added] == [(0, 100), (1, 101)]
    assert added[0].get("min.share") is None
    assert added[0]["min.at"] == added[0]["max.at"] == datetime(2026, 11, 21, tzinfo=UTC)
    stats = json.loads((Path(site.path) / f"_delta_log/{1:020}.json").read_text().splitlines()[2])
    assert stats["add"]["stats"].count("2026-11-21T00:00:00.000Z") == 2
    assert site.table().to_pyarrow_table(filters=[("text", "=", "x" * 40)]).num_rows == 4


@pytest.mark.parametrize(
    ("value", "least", "most"),
    [
        ("y" * 33, "y" * 32, "y" * 32 + "\U0010ffff"),
        ("y" * 32 + "\U0010ffff", "y" * 32, None),
        (
            datetime(2026, 1, 1, 0, 0, 0, 1500, UTC),
            "2026-01-01T00:00:00.001Z",
            "2026-01-01T00:00:00.002Z",
        ),
        (date(2026, 1, 1), "2026-01-01", "2026-01-01"),
        (timedelta(1), None, None),
    ],
)
def test_bounds_are_never_narrower_than_values(value: object, least: object, most: object):
    assert (_lower(value), _upper(value)) == (least, most)


def test_checkpoints_have_the_whole_state(site: Site, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(table_log, "CHECKPOINT_EVERY", 4)
    steps = [site.land(number) for number in range(6)]
    site.table().delete("id = 0 or id = 100")
    steps += [site.land(number) for number in range(6, 12)]
    log = Path(site.path) / "_delta_log"
    checkpoints = sorted(log.glob("*.checkpoint.parquet"))
    assert len(checkpoints) >= 3
    last = int(checkpoints[-1].name.partition(".")[0])
    for old in log.glob("*.json"):
        if int(old.stem) < last:
            old.unlink()
    expected = sorted([*range(1, 12), *range(101, 112)])
    assert site.ids() == expected
    fresh = DeltaTables(site.storage, SystemClock())
    fresh.commit(NAME, steps[0])
    assert site.ids() == expected, "its version is cleaned, its mark is not"
    assert {*fresh.readable(TABLE).files} == {
        place.final for step in steps[1:] for place, _ in step.files
    }
    site.restart(DDL)
    site.land(12)
    assert len(site.ids()) == 24


@pytest.mark.parametrize("gone", ["0[0-4]*", "0[0-5].json"])
def test_a_log_that_another_writer_has_cleaned_gets_checkpoints(
    site: Site, monkeypatch: pytest.MonkeyPatch, gone: str
):
    monkeypatch.setattr(table_log, "CHECKPOINT_EVERY", 4)
    for number in range(5):
        site.land(number)
    site.table().create_checkpoint()
    log = Path(site.path) / "_delta_log"
    for old in log.glob(f"{'0' * 18}{gone}"):
        old.unlink()
    for number in range(5, 12):
        site.land(number)
    assert max(int(each.name[:20]) for each in log.glob("*.checkpoint.parquet")) > 5
    assert len(site.ids()) == 24


def test_checkpoints_of_other_writers_are_read(site: Site):
    for number in range(3):
        site.land(number)
    site.table().create_checkpoint()
    for old in (Path(site.path) / "_delta_log").glob("*[012].json"):
        old.unlink()
    site.restart(DDL)
    site.land(3)
    assert len(site.ids()) == 8


def test_other_writers_may_append_and_delete(site: Site):
    site.land(0)
    step = site.step(1)
    write_deltalake(site.path, site.table().to_pyarrow_table(), mode="append")
    site.tables.commit(NAME, step)
    site.last = {TABLE: step.commit}
    assert site.ids() == [0, 0, 1, 100, 100, 101]
    assert site.tables.readable(TABLE).rewritten == ""
    site.table().delete("id = 1")
    site.land(2)
    assert "DELETE" in site.tables.readable(TABLE).rewritten


def test_a_feature_that_delta_rs_adds_is_known(site: Site):
    site.table().alter.set_table_properties({"delta.checkpointInterval": "2"})
    assert "variantType" in site.table().protocol().writer_features
    site.land(0)
    assert site.ids() == [0, 100]


def test_columns_are_added(site: Site):
    site.land(0)
    site.restart(f"{DDL}, added ARRAY<STRUCT<x: INT>>")
    site.land(1)
    names = [field.name for field in site.table().schema().fields]
    assert names[-2:] == ["added", "date"]
    assert len(site.ids()) == 4


def test_types_grow_where_delta_has_no_feature_for_it(tmp_path: Path):
    before = "id BIGINT, small TINYINT, pair STRUCT<x: SMALLINT>, list ARRAY<STRUCT<x: INT>>"
    after = (
        "id BIGINT, small INT, pair STRUCT<x: INT, y: STRING>, "
        "list ARRAY<STRUCT<x: INT, y: STRUCT<z: DATE>>>"
    )
    site = Site(tmp_path, before)
    site.land(0)
    site.restart(after)
    site.land(1)
    site.restart(after)
    table = site.table()
    assert [each["operation"] for each in table.history()] == [
        *("WRITE", "CHANGE COLUMNS", "WRITE", "CREATE TABLE"),
    ]
    assert table.schema().to_arrow().field("small").type == pa.int32()
    rows = table.to_pyarrow_table().sort_by("id").to_pylist()
    assert [(row["id"], row["small"]) for row in rows] == [(0, 7), (1, 7), (100, 7), (101, 7)]
    assert [row["pair"] for row in rows[:2]] == [{"x": 8, "y": None}, {"x": 8, "y": "new"}]


@pytest.mark.parametrize(
    ("before", "after", "words"),
    [
        ("id INT", "id BIGINT", "typeWidening"),
        ("id FLOAT", "id DOUBLE", "typeWidening"),
        ("id INT", "id SMALLINT", "is integer, not SMALLINT"),
        ("id DECIMAL(10,2)", "id DECIMAL(12,2)", r"is decimal\(10,2\)"),
        ("id STRUCT<x: INT>", "id STRUCT<y: INT>", "column id is"),
        ("id MAP<STRING, INT>", "id MAP<INT, INT>", "column id is"),
    ],
)
def test_other_types_are_refused(tmp_path: Path, before: str, after: str, words: str):
    site = Site(tmp_path, before)
    with pytest.raises(SchemaConflict, match=words):
        site.restart(after)
    assert site.table().version() == 0


def test_a_column_that_the_job_no_longer_has_stays(site: Site):
    site.land(0)
    site.restart("id BIGINT, at TIMESTAMP")
    site.land(1)
    rows = site.table().to_pyarrow_table().sort_by("id").to_pylist()
    assert [row["text"] for row in rows] == ["x" * 40, None, "x" * 40, None]


def test_a_rollback_is_seen_and_undone(site: Site):
    first, second = site.land(0), site.land(1)
    site.table().restore(1)
    assert site.tables.readable(TABLE).rewritten == ""
    with pytest.raises(TableRolledBack, match="version 2"):
        site.step(2)
    with pytest.raises(TableRolledBack):
        site.tables.commit(NAME, second)
    site.tables.commit(NAME, first)
    site.table().restore(2)
    site.land(3)
    assert len(site.ids()) == 6


def test_a_table_that_was_created_again_is_another(site: Site):
    step = site.land(0)
    for old in (Path(site.path) / "_delta_log").iterdir():
        old.unlink()
    with pytest.raises(TableReplaced, match="not there"):
        site.step(1)
    site.restart(DDL)
    with pytest.raises(TableReplaced):
        site.step(2)
    with pytest.raises(TableReplaced):
        site.tables.commit(NAME, step)


def test_a_mark_of_another_log_is_no_commit(site: Site):
    """The log of the job was removed, or is an old copy: entries have the numbers of others."""
    steps = [site.land(number) for number in range(3)]
    with pytest.raises(TableOwned):
        site.tables.draw(NAME, [TABLE], {})
    copied = CommitTable(site.tables.draw(NAME, [TABLE], site.last)[0], 1, steps[1].files)
    with pytest.raises(TableOwned):
        site.tables.commit(NAME, copied)


@pytest.mark.parametrize(
    ("ddl", "partitions", "words"),
    [
        (DDL.replace("BIGINT", "STRING"), "date STRING", "column id is long, not STRING"),
        (DDL, "date STRING, hour STRING", r"partitioned by \(date\)"),
        (f"{DDL}, `a b` INT", "date STRING", "`a b`"),
        (DDL.replace("id ", "ID "), "date STRING", "id and ID differ in case"),
    ],
)
def test_a_table_that_contradicts_the_job_is_refused(
    site: Site, ddl: str, partitions: str, words: str
):
    with pytest.raises(SchemaConflict, match=words):
        site.tables._ensure(site.expected(ddl, partitions))


@pytest.mark.parametrize(
    ("action", "words"),
    [
        (
            {
                "protocol": {
                    "minReaderVersion": 3,
                    "minWriterVersion": 7,
                    "readerFeatures": ["deletionVectors"],
                    "writerFeatures": ["deletionVectors"],
                }
            },
            "deletionVectors",
        ),
        ({"protocol": {"minReaderVersion": 2, "minWriterVersion": 5}}, "minWriterVersion is 5"),
    ],
)
def test_a_protocol_that_is_not_known_is_refused(site: Site, action: dict, words: str):
    step = site.step(0)
    path = Path(site.path) / "_delta_log" / f"{1:020}.json"
    path.write_text(json.dumps(action) + "\n")
    for use in (lambda: site.tables.commit(NAME, step), lambda: site.restart(DDL)):
        with pytest.raises(SchemaConflict, match=words):
            use()
    with pytest.raises(CatalogError, match=words):
        site.tables.readable(TABLE)


def test_a_retention_of_marks_is_refused(site: Site):
    name = "delta.setTransactionRetentionDuration"
    site.table().alter.set_table_properties({name: "interval 1 days"}, raise_if_not_exists=False)
    with pytest.raises(SchemaConflict, match=name):
        site.step(0)


def test_a_file_with_other_rows_than_the_log_says_is_not_committed(site: Site):
    step = site.step(0, rows=3)
    with pytest.raises(FileConflict):
        site.tables.commit(NAME, step)
    assert site.table().version() == 0


def test_a_file_that_is_gone_is_not_committed(site: Site):
    step = site.step(0)
    ((place, _),) = step.files
    site.storage.delete(place.final)
    with pytest.raises(FilesLost) as caught:
        site.tables.commit(NAME, step)
    assert caught.value.unique == (place.file.unique,)
    assert site.table().version() == 0


# ---- delta-rs: why Ashore creates versions by itself


def test_delta_rs_accepts_a_transaction_again(site: Site):
    site.land(0)
    stale = site.table()
    again = CommitProperties(
        app_transactions=[Transaction("ashore.shop.main", 0)], max_commit_retries=0
    )

    def append(table: DeltaTable) -> None:
        add = AddAction("missing.parquet", 1, {"date": "x"}, 0, True, "{}")
        table.create_write_transaction(
            [add], "append", table.schema(), ["date"], commit_properties=again
        )

    append(site.table())
    assert site.table().version() == 2, "the same transaction, and a file that is not there"
    with pytest.raises(CommitFailedError):
        append(stale)
