"""Tables of RocksDB, as Spark wrote them and damaged: each block has a checksum."""

import json
import struct
from pathlib import Path

import pytest
import xxhash
from tests.checkpoint_files import opened, unpack
from tests.unit.cli.test_commands import invoke

from ashore.queries.state.contents import HEADER, check_blocks, unpack_block
from ashore.queries.state.diagnosis.block_checksums import UNKNOWN
from ashore.queries.state.diagnosis.block_checksums import check_sst as check
from ashore.queries.state.diagnosis.observe import observe

CASES = ["rocksdb-changelog", "format-2", "join-3", "transform-with-state"]
_FOOTER = 53
_VERSION = -12  # a flipped bit makes version 5 of it 4, which is read alike


def check_table(data: bytes) -> str | None:
    return check(lambda start, length: data[start : start + length], len(data))


def tables_of(root: Path) -> list[Path]:
    return sorted(root.glob("state/**/*.sst"))


@pytest.mark.parametrize("case", CASES)
def test_the_tables_of_spark_are_whole(case: str, tmp_path: Path) -> None:
    found = tables_of(unpack(case, tmp_path))
    assert found
    assert {check_table(each.read_bytes()) for each in found} == {None}


def test_any_flipped_bit_is_noticed(tmp_path: Path) -> None:
    data = max(
        tables_of(unpack("transform-with-state", tmp_path)), key=lambda path: path.stat().st_size
    )
    table = data.read_bytes()
    missed = [
        at - len(table)
        for at in range(len(table))
        if check_table(table[:at] + bytes([table[at] ^ 1]) + table[at + 1 :]) is None
    ]
    assert set(missed) <= {_VERSION}


def test_any_bytes_are_judged(tmp_path: Path) -> None:
    table = tables_of(unpack("rocksdb", tmp_path))[0].read_bytes()
    for length in range(0, len(table), 7):
        assert check_table(table[:length]) is not None
        assert check_table(table[length : length + 40] + table[-_FOOTER:]) is not None


def test_a_table_of_another_version_is_not_called_whole(tmp_path: Path) -> None:
    table = tables_of(unpack("rocksdb", tmp_path))[0].read_bytes()
    assert check_table(table[:-12] + struct.pack("<I", 7) + table[-8:]) == UNKNOWN


def of_a_restart(root: Path, suffix: str) -> Path:
    """Return a file that a restart reads, without the checksum that Hadoop keeps of it."""
    good = observe(opened(root)).good
    assert good is not None
    file = root / next(each.path for each in good.files if each.path.endswith(suffix))
    file.with_name(f".{file.name}.crc").unlink()
    return file


def flip_bit(file: Path, at: int) -> None:
    data = file.read_bytes()
    file.write_bytes(data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :])


def test_a_flipped_bit_in_a_table_without_a_checksum_is_never_ok(tmp_path: Path) -> None:
    root = unpack("rocksdb-changelog", tmp_path)
    assert invoke("checkpoint", "doctor", root)[0] == 0
    table = of_a_restart(root, ".sst")
    code, out, _err = invoke("checkpoint", "doctor", root, "--deep")
    assert (code, "not looked at: blocks" in out) == (0, False)
    flip_bit(table, 40)
    code, out, _err = invoke("checkpoint", "doctor", root)
    assert code == 6
    assert "blocks of 1 tables (--deep" in out
    _code, out, _err = invoke("checkpoint", "doctor", root, "--json")
    (unproven,) = json.loads(out)["unproven"]
    assert unproven.startswith("blocks of 1 tables")
    code, out, _err = invoke("checkpoint", "doctor", root, "--deep")
    assert code == 4
    assert f"damaged_file: {table.relative_to(root)}: its block at byte 0" in out


def test_a_repair_reads_the_tables_without_being_asked(tmp_path: Path) -> None:
    root, copy = unpack("rocksdb-changelog", tmp_path), tmp_path / "copy"
    table = of_a_restart(root, ".sst")
    flip_bit(table, 40)
    assert invoke("checkpoint", "doctor", root, "--to", copy, "--no-trial")[0] == 0
    assert not (copy / table.relative_to(root)).exists()


def test_a_table_that_cannot_be_checked_is_not_called_whole(tmp_path: Path) -> None:
    root = unpack("rocksdb-changelog", tmp_path)
    table = of_a_restart(root, ".sst")
    data = table.read_bytes()
    table.write_bytes(data[:-12] + struct.pack("<I", 7) + data[-8:])
    code, out, _err = invoke("checkpoint", "doctor", root, "--deep")
    assert code == 6
    assert "1 tables of another kind" in out


@pytest.mark.parametrize(
    ("case", "suffix"), [("rocksdb-changelog", ".changelog"), ("hdfs-backed", ".snapshot")]
)
def test_any_flipped_bit_in_a_change_is_noticed(case: str, suffix: str, tmp_path: Path) -> None:
    data = next(unpack(case, tmp_path).glob(f"state/0/0/*{suffix}")).read_bytes()
    flipped = [data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :] for at in range(len(data))]
    assert {plain(each) for each in flipped if check_blocks(each) is None} == {plain(data)}


def plain(data: bytes) -> bytes:
    """Return what blocks hold. Of what is repeated, a copy from another place is the same."""
    found, at = b"", 0
    while at < len(data):
        _magic, token, packed, size, _checksum = HEADER.unpack_from(data, at)
        block = data[at + HEADER.size : at + HEADER.size + packed]
        at += HEADER.size + packed
        found += unpack_block(token, block, size) or b""
    return found


class Reading:
    """A table, and how many of its bytes were read."""

    def __init__(self, data: bytes) -> None:
        self.data, self.size = data, 0

    def read(self, start: int, length: int) -> bytes:
        self.size += length
        return self.data[start : start + length]


def test_a_table_that_names_one_block_often_is_not_read_often() -> None:
    block = bytes(1000)
    rows = trailed(block)
    entry = bytes([0, 1]) + b"k" + number(0) + number(len(block))  # key, where, how long
    index = trailed(entry * 5000 + struct.pack("<II", 0, 1))
    directory = trailed(struct.pack("<II", 0, 1))
    handles = (
        *(number(len(rows)), number(len(directory) - 5)),
        *(number(len(rows + directory)), number(len(index) - 5)),
    )
    head = bytes([4]) + b"".join(handles)
    footer = head + bytes(41 - len(head)) + struct.pack("<IQ", 5, 0x88E241B785F4CFF7)
    table = Reading(rows + directory + index + footer)
    found = check(table.read, len(table.data))
    assert found.endswith("blocks have byte 0")
    assert table.size < 5 * len(table.data)


def trailed(block: bytes) -> bytes:
    return block + b"\0" + struct.pack("<I", xxhash.xxh3_64_intdigest(block) & 0xFFFFFFFF)


def number(value: int) -> bytes:
    more, last = divmod(value, 128)
    return bytes([last | 128]) + number(more) if more else bytes([last])
