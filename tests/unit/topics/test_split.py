import pyarrow as pa

from ashore.topics.route.placement import Buckets, split_rows


def split(table, buckets):
    return [
        (buckets.values[bucket], table if rows is None else table.take(rows))
        for bucket, rows in split_rows(buckets)
    ]


def test_one_bucket_copies_nothing():
    table = pa.table({"a": [1, 2, 3]})
    (values, part), *rest = split(table, Buckets(pa.array([0, 0, 0], pa.int32()), (("x",),)))
    assert part is table
    assert (values, rest) == (("x",), [])


def test_no_rows_no_parts():
    assert split(pa.table({"a": []}), Buckets(pa.array([], pa.int32()), ())) == []


def test_rows_keep_their_order_and_parts_own_their_memory():
    rows = 10_000
    table = pa.table({"a": range(rows), "s": [str(i) for i in range(rows)]})
    ids = pa.array([0 if i % 1000 else 1 for i in range(rows)], pa.int32())
    (_, large), (_, small) = split(table, Buckets(ids, (("x",), ("y",))))
    assert small["a"].to_pylist() == list(range(0, rows, 1000))
    assert large["a"].to_pylist() == [i for i in range(rows) if i % 1000]
    assert small.get_total_buffer_size() < 2000


def test_many_buckets():
    ids = [(i * 7) % 500 for i in range(5000)]
    buckets = Buckets(pa.array(ids, pa.int32()), tuple((str(i),) for i in range(500)))
    rows = {bucket: rows.to_pylist() for bucket, rows in split_rows(buckets)}
    assert rows == {b: [i for i, each in enumerate(ids) if each == b] for b in range(500)}
