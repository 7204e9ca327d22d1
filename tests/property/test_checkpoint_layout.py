"""Files of a checkpoint: whatever bytes there are give a value or a named error, never another."""

import io
import zipfile
from collections.abc import Callable
from contextlib import suppress

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tests.checkpoint_files import GOLDEN, TABLES

from ashore.errors import CheckpointUnfit
from ashore.queries.state.layout import (
    CommitFile,
    OffsetsFile,
    QueryFile,
    Settings,
    SnapshotFile,
    SourceEnd,
    UnknownPath,
    parse_kafka,
    parse_path,
    write_kafka,
)


def archive(content: bytes) -> bytes:
    written = io.BytesIO()
    with zipfile.ZipFile(written, "w", zipfile.ZIP_DEFLATED) as made:
        made.writestr("metadata", content)
    return written.getvalue()


PARSERS: dict[str, Callable[[bytes], object]] = {
    "metadata": lambda data: QueryFile.parse(data, "p"),
    "offsets/1": lambda data: OffsetsFile.parse(data, "p"),
    "commits/1": lambda data: CommitFile.parse(data, "p"),
    "snapshot": lambda data: SnapshotFile.read(data, "p"),
    "end": lambda data: parse_kafka(data.decode(errors="replace"), "p"),
}
FILES = [
    *(("metadata", path.read_bytes()) for path in sorted(GOLDEN.glob("*/metadata"))),
    *(("offsets/1", path.read_bytes()) for path in sorted(GOLDEN.glob("*/offsets/1"))),
    *(("commits/1", path.read_bytes()) for path in sorted(GOLDEN.glob("*/commits/1"))),
    *(("snapshot", archive(path.read_bytes())) for path in sorted(GOLDEN.glob(f"*/{TABLES}"))),
    ("end", b'{"clicks":{"0":5,"1":7}}'),
]

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4)
    ),
    max_leaves=8,
)
numbers = st.integers(0, 10**18).map(str)
texts = st.text(st.characters(codec="utf-8"), max_size=8)
documents = st.dictionaries(texts.map(lambda each: f"x{each}"), json_values, max_size=3)
kafka_ends = st.dictionaries(texts, st.dictionaries(numbers, st.integers(0, 2**63)), max_size=3)
ends = st.none() | kafka_ends.map(write_kafka)
settings = st.builds(
    Settings, st.integers(), st.integers(), st.dictionaries(texts, texts), documents
)


@st.composite
def offsets_files(draw: st.DrawFn) -> OffsetsFile:
    found = draw(st.lists(ends, max_size=4))
    version = draw(st.sampled_from([1, 2]))
    prefix = "" if version == 1 else "name-"
    sources = tuple(SourceEnd(f"{prefix}{at}", end) for at, end in enumerate(found))
    return OffsetsFile(draw(settings), sources, version)


store_ids = st.dictionaries(
    st.integers(0, 99), st.lists(st.lists(texts, max_size=3).map(tuple), max_size=3).map(tuple)
)
commits = st.builds(
    CommitFile, st.none() | st.integers(), st.none() | store_ids, st.integers(1, 3), documents
)


def parse(kind: str, data: bytes) -> None:
    with suppress(CheckpointUnfit):
        PARSERS[kind](data)


@pytest.mark.parametrize("kind", PARSERS)
@given(data=st.binary(max_size=200))
def test_any_bytes_give_a_value_or_a_named_error(kind: str, data: bytes) -> None:
    parse(kind, data)


@pytest.mark.parametrize("kind", PARSERS)
@given(text=st.text(alphabet='v12\n{}[]":,-0e.\\ud8tfconftruel', max_size=60))
def test_any_text_that_looks_like_one_gives_a_value_or_a_named_error(kind: str, text: str) -> None:
    parse(kind, text.encode())


@pytest.mark.parametrize(("kind", "data"), FILES, ids=range(len(FILES)))
@given(choice=st.data())
def test_a_damaged_file_gives_a_value_or_a_named_error(
    kind: str, data: bytes, choice: st.DataObject
) -> None:
    damaged = bytearray(data)
    for _ in range(choice.draw(st.integers(1, 4))):
        damaged[choice.draw(st.integers(0, len(damaged) - 1))] = choice.draw(st.integers(0, 255))
    cut = choice.draw(st.integers(0, len(damaged)))
    parse(kind, bytes(damaged))
    parse(kind, bytes(damaged[:cut]))


@given(value=offsets_files())
def test_offsets_are_read_as_they_were_written(value: OffsetsFile) -> None:
    assert OffsetsFile.parse(value.write(), "p") == value


@given(value=commits)
def test_a_commit_is_read_as_it_was_written(value: CommitFile) -> None:
    assert CommitFile.parse(value.write(), "p") == value


@given(value=st.builds(QueryFile, texts, documents))
def test_a_query_is_read_as_it_was_written(value: QueryFile) -> None:
    assert QueryFile.parse(value.write(), "p") == value


@given(value=kafka_ends)
def test_ends_are_read_as_they_were_written(value: dict[str, dict[str, int]]) -> None:
    assert parse_kafka(write_kafka(value), "p") == value


parts = st.sampled_from(
    [
        *("metadata", "offsets", "commits", "sources", "state", "0", "7", "007", "SSTs", "left"),
        *("_metadata", "schema", "v2", "_stateSchema", "default", "1_u", "1.zip", "1_u.delta"),
        *("1_u.zip.crc", "2.changelog", ".1.zip.crc", "a.sst", "", "..", "x"),
    ]
)


@given(path=st.lists(parts | st.text(max_size=6), max_size=6).map("/".join))
@example(path="state/0/0/SSTs/1.zip")
def test_a_path_is_built_as_it_was_parsed(path: str) -> None:
    found = parse_path(path)
    assert found.path == path
    assert isinstance(found, UnknownPath) or parse_path(found.path) == found
