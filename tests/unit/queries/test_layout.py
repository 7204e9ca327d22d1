"""The grammar of Spark's checkpoints, held against files that Spark 4.2 wrote."""

import io
import json
import zipfile
from pathlib import Path

import pytest
from tests.checkpoint_files import GOLDEN, PATHS, TABLES, write_again

from ashore.errors import CheckpointUnfit, InvariantBroken
from ashore.queries.state.layout import (
    BatchLog,
    BatchPath,
    CheckpointPath,
    ChecksumPath,
    CommitFile,
    HiddenPath,
    OffsetsFile,
    OperatorPath,
    QueryFile,
    QueryPath,
    SchemaPath,
    Settings,
    SnapshotFile,
    SourceEnd,
    SourcePath,
    StateKind,
    StatePath,
    Store,
    StoreSchemaPath,
    TablePath,
    UnknownPath,
    Wrong,
    parse_kafka,
    parse_path,
    write_kafka,
)
from ashore.topics.read.stream_ends import StreamEnd, TopicEnd

CASES = sorted(each.name for each in GOLDEN.iterdir())
STORE = Store(0, 7)
SIDE = Store(1, 7, "left-keyToNumValues")


def golden(case: str, path: str) -> bytes:
    return (GOLDEN / case / path).read_bytes()


# ---- paths

PLACES: dict[str, CheckpointPath] = {
    "metadata": QueryPath(),
    "offsets/0": BatchPath(BatchLog.OFFSETS, 0),
    "commits/42": BatchPath(BatchLog.COMMITS, 42),
    "sources/0/0": SourcePath("0", "0"),
    "sources/orders/9.compact": SourcePath("orders", "9.compact"),
    "state/0/7/118.changelog": StatePath(STORE, 118, StateKind.CHANGELOG),
    "state/0/7/118.zip": StatePath(STORE, 118, StateKind.ROCKSDB_SNAPSHOT),
    "state/0/7/118.delta": StatePath(STORE, 118, StateKind.DELTA),
    "state/0/7/118.snapshot": StatePath(STORE, 118, StateKind.SNAPSHOT),
    "state/0/7/3_a-b.zip": StatePath(STORE, 3, StateKind.ROCKSDB_SNAPSHOT, "a-b"),
    "state/0/7/3_a-b.zip.crc": ChecksumPath(StatePath(STORE, 3, StateKind.ROCKSDB_SNAPSHOT, "a-b")),
    "state/0/7/SSTs/000012-u.sst": TablePath(STORE, "000012-u.sst"),
    "state/1/7/left-keyToNumValues/2.changelog": StatePath(SIDE, 2, StateKind.CHANGELOG),
    "state/1/7/left-keyToNumValues/SSTs/1-u.sst": TablePath(SIDE, "1-u.sst"),
    "state/1/7/left-keyToNumValues/_metadata/schema": StoreSchemaPath(SIDE),
    "state/0/7/_metadata/schema": StoreSchemaPath(STORE),
    "state/0/_metadata/metadata": OperatorPath(0),
    "state/0/_metadata/v2/14": OperatorPath(0, 14),
    "state/0/_stateSchema/default/0_f5e2-a": SchemaPath(0, "default", 0, "f5e2-a"),
    ".metadata.crc": HiddenPath(".metadata.crc"),
    "state/0/7/.118.zip.1f-2.tmp": HiddenPath("state/0/7/.118.zip.1f-2.tmp"),
}


@pytest.mark.parametrize("path", PLACES)
def test_a_path_says_what_is_there(path: str) -> None:
    assert parse_path(path) == PLACES[path]
    assert PLACES[path].path == path


@pytest.mark.parametrize(
    "path",
    [
        *("", "metadata/x", "offsets", "offsets/", "offsets/x", "offsets/007", "offsets/-1"),
        *("offsets/1.compact", "offsets/٣", "offsets/1\n", "commits/99999999999999999999"),
        *("sources/0", "state/0/7", "state/a/7/1.zip", "state/0/7/1.other", "state/0/7/01.zip"),
        *(
            "state/0/7/SSTs/_metadata/schema",
            "state/0/7/1_.zip",
            "state/0/7/a/b/1.zip",
            "state/0/7/SSTs/a/b",
            "state/0/1.zip",
        ),
        *("state/0/7/_other/schema", "state/0/_metadata/v3/1", "state/0/_stateSchema/s/x"),
        *("state/0/7/logs/000013-u.log", "other"),
    ],
)
def test_what_spark_does_not_write_is_reported(path: str) -> None:
    assert parse_path(path) == UnknownPath(path)


@pytest.mark.parametrize("case", CASES)
def test_every_path_of_spark_is_known(case: str) -> None:
    paths = golden(case, PATHS).decode().splitlines()
    assert len(paths) > 10
    for shape in paths:
        path = shape.replace("<id>", "1f-2").replace("<number>", "000012")
        found = parse_path(path)
        assert not isinstance(found, UnknownPath), path
        assert found.path == path


def test_a_version_is_whole_or_a_change() -> None:
    whole = {kind for kind in StateKind if StatePath(STORE, 1, kind).is_whole}
    assert whole == {StateKind.ROCKSDB_SNAPSHOT, StateKind.SNAPSHOT}


# ---- texts


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("path", ["metadata", "offsets/1", "commits/1"])
def test_what_spark_wrote_is_written_again_as_it_was(case: str, path: str) -> None:
    assert write_again(path, golden(case, path)) == golden(case, path)


def test_a_batch_of_ashore_says_what_it_was_planned_with() -> None:
    found = OffsetsFile.parse(golden("ashore", "offsets/1"), "p")
    assert found.version == 1
    assert found.settings is not None
    assert found.settings.watermark_ms == 1795247999000
    assert found.settings.partitions == 2
    assert found.settings.conf["spark.sql.streaming.join.stateFormatVersion"] == "3"
    assert found.settings.other == {}
    assert found.kafka_ends("p") == {0: {"ashore.clicks": {"0": 3, "1": 3}}}


def test_sources_may_have_names() -> None:
    found = OffsetsFile.parse(golden("names", "offsets/1"), "p")
    assert found.version == 2
    assert {each.source for each in found.sources} == {"clicks", "views"}
    assert found.settings is not None
    assert found.settings.other == {"sourceMetadataInfo": {}}


def test_a_commit_says_the_watermark_and_in_format_2_the_ids_of_state() -> None:
    assert CommitFile.parse(golden("ashore", "commits/1"), "p") == CommitFile(1795247999000)
    found = CommitFile.parse(golden("format-2", "commits/1"), "p")
    assert found.version == 2
    assert found.store_ids is not None
    (partitions,) = found.store_ids.values()
    assert [len(stores) for stores in partitions] == [1, 1]


def test_what_is_unknown_is_kept() -> None:
    text = b'v3\n{"nextBatchWatermarkMs":7,"sinkMetadataMap":{"a":[1,null]}}'
    found = CommitFile.parse(text, "p")
    assert found == CommitFile(7, None, 3, {"sinkMetadataMap": {"a": [1, None]}})
    assert found.write() == text
    assert QueryFile.parse(b'{"id":"q","more":1}', "p") == QueryFile("q", {"more": 1})


def test_old_and_short_files() -> None:
    assert CommitFile.parse(b"v1\n{}", "p") == CommitFile.parse(b"v1", "p") == CommitFile(None)
    assert OffsetsFile.parse(b"v1\n\n-", "p") == OffsetsFile(None, (SourceEnd("0", None),))
    assert OffsetsFile.parse(b"v1\n{}", "p") == OffsetsFile(Settings(), ())
    assert Settings().partitions is None
    assert Settings(conf={"spark.sql.shuffle.partitions": "x"}).partitions is None


def test_lines_end_as_they_do_for_spark() -> None:
    text = 'v1\r\n{"conf":{"a":"\u2028\x85"}}\n{"logOffset":0}\n'
    found = OffsetsFile.parse(text.encode(), "p")
    assert found.settings == Settings(conf={"a": "\u2028\x85"})
    assert found.sources == (SourceEnd("0", '{"logOffset":0}'),)


WRONG = [
    (OffsetsFile, b"", Wrong.OTHER_VERSION, "starts with 'nothing', only v1, v2 is supported"),
    (OffsetsFile, b"v3\n{}", Wrong.OTHER_VERSION, "starts with 'v3'"),
    (OffsetsFile, b"v01\n{}", Wrong.OTHER_VERSION, "starts with 'v01'"),
    (OffsetsFile, b"v1\n\xff", Wrong.NOT_TEXT, "is not text"),
    (OffsetsFile, b"v1\n", Wrong.OTHER_CONTENT, "ends before its settings"),
    (OffsetsFile, b"v1\n{", Wrong.NOT_JSON, "not JSON"),
    (OffsetsFile, b"v1\n" + b"[" * 100_000, Wrong.NOT_JSON, "not JSON"),
    (OffsetsFile, b'v1\n{"a":1e999}', Wrong.NOT_JSON, "not JSON"),
    (OffsetsFile, b'v1\n{"a":"\\ud800"}', Wrong.NOT_JSON, "not JSON"),
    (OffsetsFile, b"v1\n[]", Wrong.OTHER_CONTENT, "not an object"),
    (
        OffsetsFile,
        b'v1\n{"batchWatermarkMs":"1"}',
        Wrong.OTHER_CONTENT,
        "has '1', ",
    ),
    (OffsetsFile, b'v1\n{"batchTimestampMs":true}', Wrong.OTHER_CONTENT, "has True, which"),
    (OffsetsFile, b'v1\n{"conf":{"a":1}}', Wrong.OTHER_CONTENT, "not strings"),
    (OffsetsFile, b'v1\n{"conf":[]}', Wrong.OTHER_CONTENT, "not strings"),
    (OffsetsFile, b"v1\n{}\n\n-", Wrong.NOT_JSON, "not JSON"),
    (OffsetsFile, b"v2\n{}\n-", Wrong.OTHER_CONTENT, "without a source"),
    (CommitFile, b"v4\n{}", Wrong.OTHER_VERSION, "starts with 'v4', only v1, v2, v3 is supported"),
    (CommitFile, b"v1\n{}\n{}", Wrong.OTHER_CONTENT, "continues after its end"),
    (CommitFile, b'v1\n{"nextBatchWatermarkMs":null}', Wrong.OTHER_CONTENT, "has None, which"),
    (CommitFile, b'v2\n{"stateUniqueIds":[]}', Wrong.OTHER_CONTENT, "ids of stores"),
    (CommitFile, b'v2\n{"stateUniqueIds":{"a":[]}}', Wrong.OTHER_CONTENT, "ids of stores"),
    (CommitFile, b'v2\n{"stateUniqueIds":{"0":[1]}}', Wrong.OTHER_CONTENT, "ids of stores"),
    (CommitFile, b'v2\n{"stateUniqueIds":{"0":[[1]]}}', Wrong.OTHER_CONTENT, "ids of stores"),
    (QueryFile, b"{}", Wrong.OTHER_CONTENT, "has no query id"),
    (QueryFile, b'{"id":3}', Wrong.OTHER_CONTENT, "has no query id"),
    (QueryFile, b"3", Wrong.OTHER_CONTENT, "not an object"),
]


@pytest.mark.parametrize(("kind", "data", "why", "text"), WRONG, ids=range(len(WRONG)))
def test_what_spark_did_not_write_is_named(
    kind: type[OffsetsFile | CommitFile | QueryFile], data: bytes, why: Wrong, text: str
) -> None:
    with pytest.raises(CheckpointUnfit) as caught:
        kind.parse(data, "ck/some/file")
    assert caught.value.fields["why"] == why
    assert caught.value.message.startswith("ck/some/file ")
    assert text in caught.value.message
    assert caught.value.hint


def test_a_version_that_is_not_welcome() -> None:
    with pytest.raises(CheckpointUnfit, match="with 'v2', only v1 "):
        OffsetsFile.parse(b"v2\n{}\n{}", "p", versions=(1,))


def test_what_cannot_be_read_is_not_written() -> None:
    for file in (
        OffsetsFile(None, ()),
        OffsetsFile(Settings(), (SourceEnd("clicks", "{}"),)),
        OffsetsFile(Settings(), (SourceEnd("1", "{}"),)),
    ):
        with pytest.raises(InvariantBroken):
            file.write()


# ---- ends of Kafka


def test_an_end_of_kafka() -> None:
    text = '{"clicks":{"1":7,"0":5},"views":{}}'
    assert parse_kafka(text, "p") == {"clicks": {"1": 7, "0": 5}, "views": {}}
    assert write_kafka(parse_kafka(text, "p")) == text


def test_an_end_of_the_source_ashore_has_the_same_offsets() -> None:
    end = StreamEnd({"clicks": TopicEnd("id", {"0": 5, "1": 7}, {"0": 3}, {"1": 0})})
    assert parse_kafka(json.dumps(end.to_json()), "p") == {"clicks": {"0": 5, "1": 7}}
    with pytest.raises(CheckpointUnfit, match="form 2"):
        parse_kafka('{"ashore":2,"topics":{}}', "p")


@pytest.mark.parametrize(
    ("text", "why", "message"),
    [
        ("", Wrong.NOT_JSON, "not JSON"),
        ("12", Wrong.OTHER_SOURCE, "no Kafka offsets"),
        ('{"logOffset":0}', Wrong.OTHER_SOURCE, "no Kafka offsets"),
        ('{"c":{"0":-1}}', Wrong.OTHER_CONTENT, "has -1 for c/0"),
        ('{"c":{"0":true}}', Wrong.OTHER_CONTENT, "has True for c/0"),
        ('{"c":{"0":"5"}}', Wrong.OTHER_CONTENT, "has '5' for c/0"),
        ('{"c":{"x":5}}', Wrong.OTHER_CONTENT, "has 5 for c/x"),
    ],
)
def test_ends_that_are_not_of_kafka(text: str, why: Wrong, message: str) -> None:
    with pytest.raises(CheckpointUnfit, match=message) as caught:
        parse_kafka(text, "p")
    assert caught.value.fields["why"] == why


# ---- snapshots


def archive(content: bytes, name: str = "metadata") -> bytes:
    written = io.BytesIO()
    with zipfile.ZipFile(written, "w", zipfile.ZIP_DEFLATED) as made:
        made.writestr(name, content)
    return written.getvalue()


def test_a_snapshot_names_its_tables() -> None:
    data = golden("bases", TABLES)
    found = SnapshotFile.read(archive(data), "p")
    assert found == SnapshotFile.parse(data, "p")
    assert {name.partition("-")[0] for name in found.tables} == {"000008", "000015", "000016"}
    assert all(isinstance(parse_path(f"state/0/0/SSTs/{name}"), TablePath) for name in found.tables)


BROKEN = [
    (b"", "not an archive"),
    (b"no zip", "not an archive"),
    (archive(b"v1\n{}", "other"), "a file metadata"),
    (archive(b"v1\n{}")[:-30], "not an archive"),
    (archive(b"v1"), "has no tables"),
    (archive(b"v1\n{}"), "has no tables"),
    (archive(b'v1\n{"sstFiles":[3]}'), "without a name"),
    (archive(b'v1\n{"sstFiles":[{"localFileName":"a"}]}'), "without a name"),
    (archive(b"v2\n{}"), "starts with 'v2'"),
]


@pytest.mark.parametrize(("data", "text"), BROKEN, ids=range(len(BROKEN)))
def test_snapshots_that_do_not_tell(data: bytes, text: str) -> None:
    with pytest.raises(CheckpointUnfit, match=text):
        SnapshotFile.read(data, "p")


def test_the_page_shows_the_files_of_spark() -> None:
    """What the grammar says of a file is what Spark wrote."""
    page = (Path(__file__).parents[3] / "docs/formats/checkpoint.md").read_text("utf-8")
    for path in ("metadata", "commits/1"):
        assert golden("ashore", path).decode() in page
    assert golden("format-2", "commits/1").decode() in page
