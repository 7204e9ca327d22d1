import pyarrow as pa
import pytest

from ashore.errors import CountsDisagree, InvariantBroken
from ashore.topics.read.record_columns import FETCHED
from ashore.topics.write.runs import split_shards, split_topics


def fetched(*records):
    rows = [
        {"topic": topic, "partition": partition, "offset": offset, "key": b"k", "value": b"value"}
        for topic, partition, offset in records
    ]
    return pa.RecordBatch.from_pylist(rows, schema=FETCHED)


def cut(*records):
    return [
        (run.topic, *run.partitions, *run.offsets[0], run.records.num_rows)
        for run in split_shards(fetched(*records))
    ]


def test_no_records_are_no_run():
    assert cut() == []


def test_one_record_is_a_run():
    assert cut(("a", 0, 7)) == [("a", 0, 7, 7, 1)]


def test_holes_in_offsets_do_not_end_a_run():
    assert cut(("a", 0, 1), ("a", 0, 5), ("a", 0, 6)) == [("a", 0, 1, 6, 3)]


def test_another_topic_or_partition_begins_a_run_also_where_the_offset_is_the_same():
    assert cut(("a", 0, 1), ("b", 0, 1), ("b", 1, 1)) == [
        ("a", 0, 1, 1, 1),
        ("b", 0, 1, 1, 1),
        ("b", 1, 1, 1, 1),
    ]


def test_an_offset_that_goes_back_begins_a_run():
    assert cut(("a", 0, 5), ("a", 0, 6), ("a", 0, 2)) == [("a", 0, 5, 6, 2), ("a", 0, 2, 2, 1)]


def test_a_record_read_twice_is_refused_by_name():
    with pytest.raises(CountsDisagree, match="a/0: offset 5"):
        cut(("a", 0, 4), ("a", 0, 5), ("a", 0, 5))


def test_a_record_without_its_offset_is_a_bug_of_the_reader():
    with pytest.raises(InvariantBroken):
        cut(("a", 0, 5), ("a", 0, None))


def test_size_counts_keys_and_values_and_nulls_as_nothing():
    rows = [
        {"topic": "a", "partition": 0, "offset": 0, "key": None, "value": b"12345"},
        {"topic": "a", "partition": 0, "offset": 1, "key": b"12", "value": None},
        {"topic": "a", "partition": 1, "offset": 0, "key": None, "value": None},
    ]
    runs = split_shards(pa.RecordBatch.from_pylist(rows, schema=FETCHED))
    assert [run.sizes_bytes() for run in runs] == [[7], [0]]


def test_a_short_run_does_not_keep_its_batch_alive():
    batch = fetched(*[("a", 0, offset) for offset in range(1000)], ("b", 0, 1))
    long, short = split_shards(batch)
    assert short.records.get_total_buffer_size() < 1000
    assert long.records.column("value").buffers()[2].address == batch["value"].buffers()[2].address


def test_a_run_has_neighbouring_shards_of_one_topic():
    batch = fetched(("a", 0, 1), ("a", 0, 2), ("a", 3, 1), ("b", 0, 1), ("a", 3, 2))
    runs = list(split_topics(batch))
    assert [(each.topic, each.partitions, each.offsets) for each in runs] == [
        ("a", (0, 3), [(1, 2), (1, 1)]),
        ("b", (0,), [(1, 1)]),
        ("a", (3,), [(2, 2)]),
    ]
    assert [each.bounds for each in runs] == [[(0, 2), (2, 3)], [(0, 1)], [(0, 1)]]
    assert list(split_topics(fetched())) == []


def test_a_run_has_the_sizes_of_its_shards():
    rows = [
        {"topic": "a", "partition": 0, "offset": 0, "key": None, "value": b"12345"},
        {"topic": "a", "partition": 0, "offset": 1, "key": b"12", "value": None},
        {"topic": "a", "partition": 1, "offset": 0, "key": None, "value": None},
        {"topic": "a", "partition": 2, "offset": 0, "key": b"1", "value": b"1"},
    ]
    batch = pa.RecordBatch.from_pylist(rows, schema=FETCHED)
    (run,) = split_topics(batch)
    assert run.sizes_bytes() == [7, 0, 2] == [run.sizes_bytes()[0] for run in split_shards(batch)]
    headers = pa.array([[], [{"key": "k", "value": b"12"}], [], []])
    (run,) = split_topics(batch.append_column("headers", headers))
    assert run.sizes_bytes() == [10, 0, 2]
