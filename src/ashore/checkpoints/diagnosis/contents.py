"""The bytes of files of state, checked as far as that goes without Spark.

What it is: checks of compressed blocks, of archives, of the ends of tables, and of checksums.
What it promises: pure. Any bytes give None (nothing was found) or a text that says what is wrong;
nothing is raised. What a check cannot see it does not claim: rows are not decoded.
What it must not know: storages; which files there are.

    blocks      of changes, and of snapshots of Spark's HDFS-backed store, if compressed with lz4:
                each is "LZ4Block", one byte of kind and level, compressed and plain length and a
                checksum (little endian, four bytes each), and the data; the last has none
    archive     <version>.zip: each of its files has a checksum
    table       the last eight bytes are RocksDB's
    `.<name>.crc`   of Hadoop, on a local disk: "crc", 0, bytes a checksum covers, one CRC32 each
    `<name>.crc`    of Spark, in format 2: JSON with size and CRC32C
"""

import io
import json
import struct
import zipfile
import zlib
from collections.abc import Iterable
from dataclasses import dataclass

from ashore.checkpoints.layout.snapshots import BROKEN

MAGIC = b"LZ4Block"
HEADER = struct.Struct("<8sBiii")
_PLAIN, PACKED = 0x10, 0x20  # how a block is stored: the upper half of the byte after the magic
_BLOCK_MAX = 1 << 25  # of lz4-java
TABLE_END = struct.pack("<Q", 0x88E241B785F4CFF7)
_MEMBER_MAX = 1 << 28
_CRC_HEADER = struct.Struct(">4si")
_CRC_MAGIC = b"crc\0"
_CASTAGNOLI = 0x82F63B78


def check_blocks(data: bytes) -> str | None:
    """Return what is wrong with a stream of blocks of lz4."""
    at, is_ended = 0, False
    while at < len(data):
        if len(data) - at < HEADER.size:
            return f"it is truncated: {len(data) - at} bytes at its end are no block"
        magic, token, packed, plain, _checksum = HEADER.unpack_from(data, at)
        wrong = _check_header(magic, token, packed, plain)
        if wrong is not None:
            return f"at byte {at:,} {wrong}"
        at += HEADER.size + packed
        if at > len(data):
            return f"it is truncated: its last block lacks {at - len(data):,} bytes"
        is_ended = plain == 0
    return None if is_ended else "it is truncated: it has no last block"


def _check_header(magic: bytes, token: int, packed: int, plain: int) -> str | None:
    if magic != MAGIC:
        return "no block begins"
    kind, maximum = token & 0xF0, min(1 << (10 + (token & 0x0F)), _BLOCK_MAX)
    is_possible = (
        0 <= plain <= maximum
        and packed >= 0
        and (packed == plain if kind == _PLAIN else packed > 0 and plain > 0)
    )
    return None if kind in {_PLAIN, PACKED} and is_possible else "a block has impossible lengths"


def check_archive(data: bytes) -> str | None:
    """Return what is wrong with a snapshot of RocksDB."""
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            if sum(each.file_size for each in archive.infolist()) > _MEMBER_MAX:
                return None  # its files are not read: they do not fit in memory
            bad = archive.testzip()
    except BROKEN as error:
        return f"it is not a complete archive: {error}"
    return None if bad is None else f"its file {bad} has another checksum than it says"


@dataclass(slots=True)
class LocalChecksum:
    """The `.crc` file that Hadoop keeps of a file of a local disk, compared piece by piece."""

    per_sum: int
    sums: tuple[int, ...]
    _done: int = 0
    _rest: bytes = b""

    def add(self, piece: bytes) -> bool:
        """Compare the next bytes of the file; return whether they are as they have to be."""
        data = memoryview(self._rest + piece)
        whole = len(data) - len(data) % self.per_sum
        parts = [data[at : at + self.per_sum] for at in range(0, whole, self.per_sum)]
        self._rest = bytes(data[whole:])
        return self._compare(parts)

    def finish(self) -> bool:
        """Compare what is left; return whether all of the file was there."""
        is_same = self._compare([memoryview(self._rest)] if self._rest else [])
        return is_same and self._done == len(self.sums)

    def _compare(self, parts: Iterable[memoryview]) -> bool:
        found = tuple(zlib.crc32(part) for part in parts)
        expected = self.sums[self._done : self._done + len(found)]
        self._done += len(found)
        return found == expected


def parse_local_checksum(data: bytes) -> LocalChecksum | None:
    """Return what a `.crc` file of Hadoop says; None where it is none."""
    if len(data) < _CRC_HEADER.size or (len(data) - _CRC_HEADER.size) % 4:
        return None
    magic, per_sum = _CRC_HEADER.unpack_from(data)
    if magic != _CRC_MAGIC or per_sum < 1:
        return None
    return LocalChecksum(per_sum, tuple(value for (value,) in struct.iter_unpack(">I", data[8:])))


@dataclass(frozen=True, slots=True)
class SparkChecksum:
    """What Spark has noted of a file of format 2."""

    size_bytes: int
    crc32c: int


def parse_spark_checksum(data: bytes) -> SparkChecksum | None:
    """Return what a checksum file of Spark says; None where it is none, or of another kind."""
    try:
        found = json.loads(data)
    except (ValueError, RecursionError):
        return None
    match found:
        case {"algorithm": "CRC32C", "value": int(value), "mainFileSize": int(size)}:
            return SparkChecksum(size, value & 0xFFFFFFFF)
        case _:
            return None


def crc32c(data: bytes) -> int:
    """Return the checksum of Castagnoli. Some megabytes a second: for small files."""
    value = 0xFFFFFFFF
    for byte in data:
        value = _TABLE[(value ^ byte) & 0xFF] ^ (value >> 8)
    return value ^ 0xFFFFFFFF


def _make_table() -> tuple[int, ...]:
    made = []
    for value in range(256):
        for _bit in range(8):
            value = (value >> 1) ^ (_CASTAGNOLI if value & 1 else 0)  # noqa: PLW2901 - the register
        made.append(value)
    return tuple(made)


_TABLE = _make_table()
