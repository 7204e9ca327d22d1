"""Files that are put together: their rows as they were, or sorted, and compared by value."""

import hashlib
import io
from collections.abc import Sequence
from math import nan

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ashore.errors import InvariantBroken
from ashore.log import names
from ashore.log.files import BatchPlace, DataFile, Role, TableCommit, Target
from ashore.log.names import SliceName
from ashore.log.plan_compact import FileGroup, ListedFile
from ashore.log.positions import BatchTime
from ashore.storage import MemoryStorage
from ashore.storage.open import LakeAddress
from ashore.topics.write import rewrite
from ashore.topics.write.batch import Order
from ashore_lab.testing import FakeClock

NAME = SliceName("clicks", "main")
TARGET = Target("ods.clicks", Role.MAIN, "", (), "id BIGINT, share DOUBLE", "parquet")
COMMIT = TableCommit("ods.clicks", "uuid", 0, 0, 7)
ROWS = [
    [{"id": 3, "share": 0.5, "tags": ["a"]}, {"id": 1, "share": None, "tags": None}],
    [{"id": 2, "share": nan, "tags": []}, {"id": 1, "share": -0.0, "tags": ["b", None]}],
    [{"id": None, "share": 1.5, "tags": ["c"]}, {"id": 0, "share": nan, "tags": ["d"]}],
]
SCHEMA = pa.schema([("id", pa.int64()), ("share", pa.float64()), ("tags", pa.list_(pa.string()))])


def store(storage: MemoryStorage) -> tuple[ListedFile, ...]:
    listed = []
    for number, rows in enumerate(ROWS):
        buffer = io.BytesIO()
        pq.write_table(pa.Table.from_pylist(rows, SCHEMA), buffer)
        data = buffer.getvalue()
        checksum = hashlib.blake2b(data, digest_size=8).hexdigest()
        file = DataFile(0, 0, f"{number:016x}", len(rows), len(data), checksum, (), None, None)
        place = BatchPlace(NAME, 1, number).place(file, TARGET)
        storage.create(place.final, data)
        listed.append(ListedFile(place.final, TARGET, file, (), COMMIT))
    return tuple(listed)


def write(sort_by: Sequence[str]) -> list[dict[str, object]]:
    """Put the files together and return the rows of the new one."""
    return pq.read_table(io.BytesIO(write_file(sort_by))).to_pylist()


def write_file(sort_by: Sequence[str]) -> bytes:
    storage = MemoryStorage(FakeClock())
    order = Order(LakeAddress("memory:"), NAME, 1, len(ROWS), BatchTime(0))
    group = FileGroup(store(storage), tuple(sort_by))
    file = rewrite.rewrite_group(order, storage, 0, group)
    staged = names.join(
        names.staging_directory(TARGET.table, NAME, 1), names.pending_name(len(ROWS), file.unique)
    )
    return storage.read(staged)


def plain(rows: Sequence[dict[str, object]]) -> list[str]:
    return [repr(row) for row in rows]


BEFORE = [row for rows in ROWS for row in rows]


@pytest.mark.parametrize(
    ("sort_by", "places"),
    [
        ([], [0, 1, 2, 3, 4, 5]),
        (["id"], [5, 1, 3, 2, 0, 4]),
        (["share"], [3, 0, 4, 2, 5, 1]),
        (["id", "share"], [5, 3, 1, 2, 0, 4]),
        (["tags"], [0, 1, 2, 3, 4, 5]),
        (["of_others", "id"], [5, 1, 3, 2, 0, 4]),
    ],
)
def test_rows_are_sorted_and_equal_ones_stay_in_their_order(
    sort_by: list[str], places: list[int]
) -> None:
    assert plain(write(sort_by)) == plain([BEFORE[place] for place in places])


@pytest.mark.parametrize(
    ("sort_by", "run_bytes", "columns"),
    [
        (["id"], 1 << 20, ["id"]),
        (["of_others", "id", "tags"], 1 << 20, ["id"]),
        (["id", "share"], 1 << 20, ["id"]),  # Arrow takes -0.0 and 0.0 for equal
        (["share", "id"], 1 << 20, []),
        ([], 1 << 20, []),
        (["id"], 1, []),
    ],
)
def test_the_footer_names_the_columns_by_which_all_rows_are_sorted(
    sort_by: list[str], run_bytes: int, columns: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rewrite, "RUN_BYTES", run_bytes)
    footer = pq.read_metadata(io.BytesIO(write_file(sort_by)))
    sorting = footer.row_group(0).sorting_columns
    assert [footer.schema.column(each.column_index).path for each in sorting] == columns
    assert not any(each.descending or each.nulls_first for each in sorting)


def test_more_rows_than_memory_takes_are_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rewrite, "RUN_BYTES", 1)
    assert [row["id"] for row in write(["id"])] == [1, 3, 1, 2, 0, None]


def test_rows_that_come_twice_while_they_are_sorted_are_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(
        rewrite.pc, "sort_indices", lambda rows, **_: pa.array([0] * len(rows), pa.uint64())
    )
    with pytest.raises(InvariantBroken, match="came or went"):
        write(["id"])


def test_rows_in_another_order_than_the_one_asked_for_are_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sort, calls = rewrite._sort_run, iter([True])

    def turned(run, sort_by):
        for table in sort(run, sort_by):
            yield table.take([*range(len(table))][::-1]) if next(calls, False) else table

    monkeypatch.setattr(rewrite, "_sort_run", turned)
    with pytest.raises(InvariantBroken, match="other values"):
        write(["id"])
