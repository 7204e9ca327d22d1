"""Damaged bytes: a reader of a checkpoint answers, whatever they are."""

import struct
import zlib
from contextlib import suppress
from pathlib import Path

import google_crc32c
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.checkpoint_files import opened, unpack

from ashore.errors import CheckpointUnfit
from ashore.queries.state.contents import (
    check_archive,
    check_blocks,
    parse_local_checksum,
    parse_spark_checksum,
)
from ashore.queries.state.diagnosis.diagnose import diagnose
from ashore.queries.state.diagnosis.observe import observe
from ashore.queries.state.layout import CommitFile, OffsetsFile, OperatorFile, QueryFile
from ashore.queries.state.layout.state_files import SnapshotFile, parse_schemas
from ashore.queries.state.survey import take_survey


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("whole")


READERS = {
    "rocksdb-changelog/offsets/11": lambda data: OffsetsFile.parse(data, "file"),
    "rocksdb-changelog/commits/11": lambda data: CommitFile.parse(data, "file"),
    "rocksdb-changelog/metadata": lambda data: QueryFile.parse(data, "file"),
    "rocksdb-changelog/state/0/_metadata/metadata": lambda data: OperatorFile.parse(data, "file"),
    "rocksdb-changelog/state/0/0/_metadata/schema": lambda data: parse_schemas(data, "file"),
    "rocksdb-changelog/state/0/0/12.zip": lambda data: SnapshotFile.read(data, "file"),
    "join-3/state/0/_metadata/v2/10": lambda data: OperatorFile.parse(data, "file"),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", READERS)
def test_a_reader_refuses_or_reads_whatever_length_a_file_has(name: str, whole: Path) -> None:
    data = file_of(name, whole)
    step = max(1, len(data) // 400)
    for length in range(0, len(data), step):
        answers(name, data[:length])
    for at in range(0, len(data), step):
        for bit in (1, 0x80):
            answers(name, data[:at] + bytes([data[at] ^ bit]) + data[at + 1 :])


def file_of(name: str, whole: Path) -> bytes:
    case = name.partition("/")[0]
    if not (whole / case).exists():
        unpack(case, whole)
    return (whole / name).read_bytes()


def answers(name: str, data: bytes) -> None:
    with suppress(CheckpointUnfit):  # anything else is a defect
        READERS[name](data)


CHANGES = {
    "join-3/state/0/0/12.changelog": check_blocks,
    "hdfs-backed/state/0/0/12.snapshot": check_blocks,
    "rocksdb-changelog/state/0/0/12.zip": check_archive,
}


@pytest.mark.parametrize("name", CHANGES)
def test_a_file_of_state_that_is_cut_off_is_noticed_at_every_length(name: str, whole: Path) -> None:
    data, check = file_of(name, whole), CHANGES[name]
    assert check(data) is None
    assert [length for length in range(len(data)) if check(data[:length]) is None] == []


@pytest.mark.slow
def test_spark_and_ashore_compute_the_same_checksum(whole: Path) -> None:
    file_of("format-2/metadata", whole)
    sums = [each for each in (whole / "format-2").rglob("*.crc") if not each.name.startswith(".")]
    assert len(sums) > 20
    for each in sums:
        says, data = parse_spark_checksum(each.read_bytes()), each.with_suffix("").read_bytes()
        assert says is not None
        assert (says.size_bytes, says.crc32c) == (len(data), google_crc32c.value(data))


@given(st.binary(max_size=300), st.integers(1, 64), st.integers(0, 300))
def test_a_checksum_of_hadoop_tells_any_other_byte(data: bytes, piece: int, where: int) -> None:
    per_sum = 16
    sums = [zlib.crc32(data[at : at + per_sum]) for at in range(0, len(data), per_sum)]
    packed = struct.pack(f">4si{len(sums)}I", b"crc\0", per_sum, *sums)

    def is_same(other: bytes) -> bool:
        found = parse_local_checksum(packed)
        assert found is not None
        pieces = [other[at : at + piece] for at in range(0, len(other), piece)]
        return all(found.add(each) for each in pieces) and found.finish()

    assert is_same(data)
    assert not is_same(data + b"\0")
    if data:
        at = where % len(data)
        assert not is_same(data[:at])
        assert not is_same(data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :])


@given(st.binary(max_size=200))
def test_any_bytes_are_judged(data: bytes) -> None:
    assert check_blocks(data) is not None or data.endswith(bytes(12)) or not data
    check_archive(data)
    parse_local_checksum(data)
    parse_spark_checksum(data)


@pytest.mark.long
@pytest.mark.parametrize("case", ["rocksdb-changelog", "hdfs-backed", "format-2", "join-3"])
def test_whichever_file_is_cut_off_something_is_found(case: str, tmp_path: Path) -> None:
    """Of all that a restart reads, without the checksums of a local disk."""
    root = unpack(case, tmp_path)
    for each in root.rglob(".*.crc"):
        each.unlink()
    usual = {each.code for each in diagnose(observe(opened(root)))}
    for file in take_survey(opened(root)).required.files:
        path = root / file.path
        data = path.read_bytes()
        for length in {0, len(data) // 2, len(data) - 1}:
            path.write_bytes(data[:length])
            found = {each.code for each in diagnose(observe(opened(root)))}
            assert found - usual, (file.path, length)
        path.write_bytes(data)
