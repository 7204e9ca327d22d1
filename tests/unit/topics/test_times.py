"""Times that a file cannot hold, at any depth of any column."""

import io

import pyarrow as pa
import pytest

from ashore.base.time_format import FIRST_DAY, FIRST_US, LAST_DAY, LAST_US
from ashore.topics.decode.registry import open_encoder
from ashore.topics.decode.times import TimeInKey, find_unwritable, null_unwritable

INSTANT, WALL, DATE = pa.timestamp("us", "UTC"), pa.timestamp("us"), pa.date32()
DAY_US = 86_400_000_000
GREGORIAN_DAY = -141_427  # 1582-10-15
GREGORIAN_US = GREGORIAN_DAY * DAY_US


def column(counts, kind):
    return pa.array(counts, pa.int32() if kind == DATE else pa.int64()).view(kind)


def counts(array):
    return array.cast(pa.int32() if array.type == DATE else pa.int64()).to_pylist()


@pytest.mark.parametrize(
    ("extension", "kind", "good", "bad"),
    [
        *(
            (extension, kind, [FIRST_US, -1, 0, LAST_US], [FIRST_US - 1, LAST_US + 1, -(2**63)])
            for extension in ("parquet", "jsonl")
            for kind in (INSTANT, WALL)
        ),
        *(
            (extension, DATE, [FIRST_DAY, LAST_DAY], [FIRST_DAY - 1, LAST_DAY + 1, 2**31 - 1])
            for extension in ("parquet", "jsonl")
        ),
        (
            "orc",
            INSTANT,
            [GREGORIAN_US, -1_000_000, 0, 1, LAST_US],
            [GREGORIAN_US - 1_000_000, -1, -999_999, -1_500_000, LAST_US + 1, -(2**63)],
        ),
        ("orc", DATE, [GREGORIAN_DAY, LAST_DAY], [GREGORIAN_DAY - 1, LAST_DAY + 1]),
    ],
)
def test_each_format_has_its_first_and_last_time(extension, kind, good, bad):
    assert find_unwritable(pa.table({"a": column([None, *good], kind)}), extension) is None
    mixed = column([bad[0], None, *good, *bad[1:]], kind)
    found = find_unwritable(pa.table({"x": range(len(mixed)), "a": mixed}), extension)
    assert found.to_pylist() == [True, False, *[False] * len(good), *[True] * len(bad[1:])]
    left, count = null_unwritable(mixed, extension)
    assert count == len(bad)
    assert counts(left) == [None, None, *good, *[None] * len(bad[1:])]
    file = io.BytesIO()
    encoder = open_encoder(extension, file, pa.schema([("a", kind)])) if kind != WALL else None
    if encoder:
        encoder.write(pa.table({"a": left}))
        encoder.close({})


BAD = LAST_US + 1


def nested():
    """Rows of which 1, 3, 4 and 6 hold such a time."""
    times = column([0, BAD, None, 5, BAD, BAD, 7, 8], INSTANT)
    lists = pa.ListArray.from_arrays(pa.array([0, 0, 2, 3, 5, 6, 6, 8], pa.int32()), times)
    other = column([0, None, 0, 0, 0, 0, BAD], INSTANT)
    is_null = pa.array([False, False, False, False, False, True, False])
    return pa.StructArray.from_arrays([lists, other], ["l", "t"], mask=is_null)


@pytest.mark.parametrize(("start", "rows"), [(0, 7), (1, 5), (2, 5), (4, 2)])
def test_times_in_structs_and_lists_of_a_slice(start, rows):
    piece = nested().slice(start, rows)
    found = find_unwritable(pa.table({"s": piece}), "parquet")
    wanted = [False, True, False, True, True, False, True][start : start + rows]
    assert (found.to_pylist() if found else [False] * rows) == wanted
    left, count = null_unwritable(piece, "parquet")
    left.validate(full=True)
    assert find_unwritable(pa.table({"s": left}), "parquet") is None
    assert count == sum(wanted)  # one in each of these rows
    assert left.is_null().to_pylist() == piece.is_null().to_pylist()
    for before, after in zip(piece, left, strict=True):
        if before.is_valid:
            assert len(before["l"]) == len(after["l"])
            old = counts(before["l"].values) if before["l"].is_valid else []
            assert [None if each == BAD else each for each in old] == (
                counts(after["l"].values) if after["l"].is_valid else []
            )


def test_a_map_may_lose_a_value_and_no_key():
    kind = pa.map_(pa.string(), DATE)
    values = column([5, LAST_DAY + 1], DATE)
    found = pa.MapArray.from_arrays(pa.array([0, 1, 2], pa.int32()), ["a", "b"], values, type=kind)
    left, count = null_unwritable(found, "jsonl")
    assert (count, counts(left.items)) == (1, [5, None])
    keyed = pa.map_(DATE, pa.string())
    found = pa.MapArray.from_arrays(pa.array([0, 1, 2], pa.int32()), values, ["a", "b"], type=keyed)
    assert find_unwritable(pa.table({"m": found}), "jsonl").to_pylist() == [False, True]
    with pytest.raises(TimeInKey):
        null_unwritable(found, "jsonl")
