import pytest
from hypothesis import given
from hypothesis import strategies as st

from ashore.errors import InvariantBroken
from ashore.log import names
from ashore.log.files import Role, Target
from ashore.log.names import FinalName, InsertTarget, PendingName, QuerySource, SliceName

MAIN = SliceName("clicks", "main")
uniques = st.integers(0, 2**64 - 1).map(lambda number: f"{number:016x}")
counts = st.integers(0, 10**19)


def test_the_layout_is_the_one_that_is_written_down():
    assert names.entry_path(MAIN, 42) == ".ashore/clicks/main/log/00000000000000000042.json"
    assert names.snapshot_path(MAIN, 42) == ".ashore/clicks/main/log/_snapshot-42.json"
    assert names.archive_path(MAIN, 3) == ".ashore/clicks/main/log/_archive-3.gz"
    assert names.owner_path("ods.clicks", 0) == "ods.db/clicks/.ashore/owner-0.json"
    assert names.staging_directory("ods.clicks", MAIN, 3) == "ods.db/clicks/.ashore/clicks/main/3"
    assert names.success_name(1) == "_SUCCESS"
    assert names.success_name(2) == "_SUCCESS.2"


@given(
    name=st.builds(
        FinalName,
        slice=st.from_regex(names.SLICE, fullmatch=True),
        epoch=counts,
        batch=counts,
        task=counts,
        unique=uniques,
        extension=st.sampled_from(["parquet", "orc", "jsonl"]),
    )
)
def test_a_final_name_says_what_it_was_built_from(name: FinalName):
    built = names.final_name(name)
    assert names.parse_final(built) == name
    assert names.is_visible(built)
    assert names.parse_pending(built) is None
    assert names.parse_entry(built) is None


@given(batch=counts, unique=uniques)
def test_a_pending_name_says_what_it_was_built_from(batch: int, unique: str):
    built = names.pending_name(batch, unique)
    assert names.parse_pending(built) == PendingName(batch, unique)
    assert names.parse_final(built) is None


@given(number=counts)
def test_numbers_of_log_files_round_trip(number: int):
    assert names.parse_entry(names.leaf(names.entry_path(MAIN, number))) == number
    assert names.parse_snapshot(names.leaf(names.snapshot_path(MAIN, number))) == number
    assert names.parse_archive(names.leaf(names.archive_path(MAIN, number))) == number
    assert names.parse_owner(names.leaf(names.owner_path("ods.clicks", number))) == number


PARSERS = (
    names.parse_entry,
    names.parse_snapshot,
    names.parse_archive,
    names.parse_owner,
    names.parse_pending,
    names.parse_final,
)


@pytest.mark.parametrize(
    "file_name",
    [
        "",
        "42.json",
        "0000000000000000042.json",
        "000000000000000000042.json",
        "00000000000000000042.json.bak",
        "00000000000000000042.json\n",
        "٠٠٠٠٠٠٠٠٠٠٠٠٠٠٠٠٠٠٤٢.json",
        "_snapshot-007.json",
        "_snapshot--7.json",
        "_snapshot-.json",
        "_archive-01.gz",
        "owner-01.json",
        "007-00000000c0ffee00.in-progress",
        "7-c0ffee.in-progress",
        "7-00000000C0FFEE00.in-progress",
        "a-main-3-42-7-00000000c0ffee00.parquet",
        "a-main-3-42-00007-00000000c0ffee00.parquet",
        "a-main-03-42-0007-00000000c0ffee00.parquet",
        "b-main-3-42-0007-00000000c0ffee00.parquet",
        "part-00000-a1b2.snappy.parquet",
    ],
)
def test_a_name_with_another_spelling_is_nobodys(file_name: str):
    assert [parse(file_name) for parse in PARSERS] == [None] * len(PARSERS)


@given(st.text(max_size=40))
def test_what_parses_builds_the_same_name(file_name: str):
    pending, final = names.parse_pending(file_name), names.parse_final(file_name)
    assert pending is None or names.pending_name(*pending) == file_name
    assert final is None or names.final_name(final) == file_name


def test_a_bare_listing_tells_which_batch_is_missing():
    listing = [
        names.final_name(FinalName("main", 1, batch, task, f"{16 * batch + task:016x}", "parquet"))
        for batch in (0, 1, 3, 4)
        for task in range(3)
    ]
    batches = {names.parse_final(file_name).batch for file_name in listing}
    assert set(range(max(batches) + 1)) - batches == {2}


@pytest.mark.parametrize(
    ("path", "is_visible"),
    [
        ("ods.db/clicks/date=2026-11-21/a-main-1-0-0000-00000000c0ffee00.parquet", True),
        ("ods.db/clicks/date=__HIVE_DEFAULT_PARTITION__/a.parquet", True),
        ("ods.db/clicks/.ashore/clicks/main/1/0-00000000c0ffee00.in-progress", False),
        ("ods.db/clicks/date=2026-11-21/_SUCCESS", False),
        ("ods.db/_clicks/a.parquet", False),
        (".ashore/clicks/main/log/00000000000000000042.json", False),
    ],
)
def test_visibility(path: str, is_visible: bool):
    assert names.is_visible(path) is is_visible


@pytest.mark.parametrize(
    "job", ["", ".hidden", "a/b", "..", "_job", "owner-1.json", "é", "a" * 101]
)
def test_a_job_name_that_would_hide_or_collide_is_refused(job: str):
    with pytest.raises(InvariantBroken):
        names.log_directory(SliceName(job, "main"))
    with pytest.raises(InvariantBroken):
        names.staging_root("ods.clicks", SliceName(job, "main"))


@pytest.mark.parametrize("slice_name", ["", "a-b", "a/b", "..", "a" * 51])
def test_a_slice_name_that_a_final_name_cannot_carry_is_refused(slice_name: str):
    with pytest.raises(InvariantBroken):
        names.log_directory(SliceName("clicks", slice_name))


@pytest.mark.parametrize(
    "table", ["clicks", "ods._clicks", "_ods.clicks", "ods.a/b", "a.b.c", "ods."]
)
def test_a_table_name_that_is_no_directory_is_refused(table: str):
    with pytest.raises(InvariantBroken):
        names.table_path(table)


@pytest.mark.parametrize("partition", ["_day=1", ".day=1", "a=1/_b=2", "../day=1", "a=1/.."])
def test_a_partition_that_hides_its_files_is_refused(partition: str):
    with pytest.raises(InvariantBroken):
        Target("ods.clicks", Role.MAIN, partition, (), "id BIGINT", "parquet")


@pytest.mark.parametrize("unique", ["", "../../etc/passwd", "c0ffee", "00000000c0ffee0g"])
def test_a_name_that_would_not_parse_is_never_built(unique: str):
    with pytest.raises(InvariantBroken):
        names.pending_name(1, unique)
    with pytest.raises(InvariantBroken):
        names.final_name(FinalName("main", 1, 1, 1, unique, "parquet"))


def test_joining_and_taking_apart():
    assert names.join("a", "", "b") == "a/b"
    assert names.parent("a/b/c") == "a/b"
    assert names.parent("a") == ""
    assert names.leaf("a/b/c") == "c"
    assert str(MAIN) == "clicks/main"


# ---- queries

slices = st.from_regex(names.SLICE, fullmatch=True)
tables = st.from_regex(names.TABLE, fullmatch=True)
topics = st.from_regex(r"[a-zA-Z0-9._-]{1,249}", fullmatch=True)


def test_queries_are_called_what_is_written_down():
    assert names.insert_into_table("ods.big") == "ods__big"
    assert names.insert_into_topic("big") == "topic__big"
    assert names.insert_into_topic("big.ones") == "topic__big_ones_4c314a20"
    assert names.query_source(SliceName("job", "ods__big")) == "kafka:ods__big"
    assert names.query_source(SliceName("job", "ods__big"), 2) == "kafka:ods__big#2"
    assert names.checkpoint_directory_apart(SliceName("job", "ods__big")) == "job/ods__big"


@given(table=tables)
def test_the_name_of_an_insert_tells_its_table(table: str):
    assert table in names.parse_insert(names.insert_into_table(table)).tables


def test_two_tables_can_have_an_insert_of_one_name():
    same = names.insert_into_table("a__b.c")
    assert same == names.insert_into_table("a.b__c")
    assert names.parse_insert(same) == InsertTarget(("a.b__c", "a__b.c"), None)
    assert names.parse_insert("topic__big") == InsertTarget(("topic.big",), "big")
    assert names.parse_insert("a___b") == InsertTarget(("a_.b",), None)


@given(topic=topics)
def test_the_name_of_an_insert_tells_its_topic_unless_a_digest_stands_for_it(topic: str):
    built = names.insert_into_topic(topic)
    assert names.SLICE.fullmatch(built)
    if built == f"topic__{topic}":
        assert names.parse_insert(built).topic == topic
    else:
        assert len(built) - len("topic__") <= 43
        assert names.parse_insert(built).topic != topic


@given(topics=st.lists(topics, unique=True))
def test_topics_have_inserts_of_their_own(topics: list[str]):
    assert len({names.insert_into_topic(each) for each in topics}) == len(topics)


def test_topics_that_differ_where_names_cannot_have_inserts_of_their_own():
    alike = ("a.b", "a-b", "a_b", "a" * 249, "a" * 248)
    assert len({names.insert_into_topic(each) for each in alike}) == len(alike)


@given(name=st.text(max_size=60))
def test_any_text_may_be_asked_for_an_insert(name: str):
    found = names.parse_insert(name)
    assert {names.insert_into_table(each) for each in found.tables} <= {name}
    assert found.topic is None or names.insert_into_topic(found.topic) == name


@given(slice_name=slices, reading=st.integers(1, 10**19))
def test_a_source_of_a_query_says_what_it_was_built_from(slice_name: str, reading: int):
    built = names.query_source(SliceName("job", slice_name), reading)
    assert names.parse_query_source(built) == QuerySource("kafka", slice_name, reading)


@pytest.mark.parametrize(
    "source",
    [
        "",
        "kafka",
        "kafka:",
        "other:a",
        "kafka:a#",
        "kafka:a#1",
        "kafka:a#02",
        "kafka:a-b",
        "kafka:a\n",
    ],
)
def test_other_sources_are_no_queries(source: str):
    assert names.parse_query_source(source) is None


@pytest.mark.parametrize("reading", [0, -1])
def test_readings_count_from_one(reading: int):
    with pytest.raises(InvariantBroken):
        names.query_source(MAIN, reading)
