"""The bytes of files of state, checked as far as that goes without Spark.

What it is: checks of compressed blocks, of archives, of the ends of tables, and of checksums.
What it promises: pure. Any bytes give None (nothing was found) or a text that says what is wrong;
nothing is raised. What a check cannot see it does not claim: rows are not decoded.

    blocks      of changes, and of snapshots of Spark's HDFS-backed store, if compressed with lz4:
                each is "LZ4Block", one byte of kind and level, compressed and plain length and the
                checksum of the plain data (little endian, four bytes each), and the data; the last
                has none
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
from typing import NamedTuple

import xxhash

from ashore.log import names
from ashore.queries.state.layout.state_files import BROKEN

MAGIC = b"LZ4Block"
HEADER = struct.Struct("<8sBiii")
_PLAIN, PACKED = 0x10, 0x20  # how a block is stored: the upper half of the byte after the magic
_BLOCK_MAX = 1 << 25  # of lz4-java
_SEED, _SUM_BITS = 0x9747B28C, 0x0FFFFFFF  # of its checksums
TABLE_END = struct.pack("<Q", 0x88E241B785F4CFF7)
_MEMBER_MAX = 1 << 28
HADOOP_BLOCK_BYTES = 512  # that one checksum covers where Hadoop is not configured otherwise
_CRC_HEADER = struct.Struct(">4si")
_CRC_MAGIC = b"crc\0"


class _Header(NamedTuple):
    """What stands before the data of a block."""

    magic: bytes
    token: int
    packed: int
    plain: int
    checksum: int


def check_blocks(data: bytes) -> str | None:
    """Return what is wrong with a stream of blocks of lz4."""
    at, is_ended = 0, False
    while at < len(data):
        if len(data) - at < HEADER.size:
            return f"it is truncated: {len(data) - at} bytes at its end are no block"
        header = _Header(*HEADER.unpack_from(data, at))
        wrong = _check_header(header)
        if wrong is not None:
            return f"at byte {at:,} {wrong}"
        start, end = at + HEADER.size, at + HEADER.size + header.packed
        if end > len(data):
            return f"it is truncated: its last block lacks {end - len(data):,} bytes"
        if not _is_as_noted(header, data[start:end]):
            return f"its block at byte {at:,} has another checksum than it says"
        at, is_ended = end, header.plain == 0
    return None if is_ended else "it is truncated: it has no last block"


def _check_header(header: _Header) -> str | None:
    if header.magic != MAGIC:
        return "no block begins"
    kind, packed, plain = header.token & 0xF0, header.packed, header.plain
    maximum = min(1 << (10 + (header.token & 0x0F)), _BLOCK_MAX)
    is_possible = (
        0 <= plain <= maximum
        and packed >= 0
        and (packed == plain if kind == _PLAIN else packed > 0 and plain > 0)
    )
    return None if kind in {_PLAIN, PACKED} and is_possible else "a block has impossible lengths"


def _is_as_noted(header: _Header, block: bytes) -> bool:
    """Return whether a block has the checksum that its header says; the last block says 0."""
    if header.plain == 0:
        return header.checksum == 0
    plain = unpack_block(header.token, block, header.plain)
    noted = header.checksum & 0xFFFFFFFF
    return plain is not None and xxhash.xxh32_intdigest(plain, _SEED) & _SUM_BITS == noted


def unpack_block(token: int, block: bytes, size: int) -> bytes | None:
    """Return the plain data of a block; None where it cannot be decompressed."""
    import pyarrow as pa  # noqa: PLC0415 - loads much, and not every checkpoint has blocks

    if token & 0xF0 == _PLAIN:
        return block
    try:
        found: bytes = pa.decompress(block, size, "lz4_raw", asbytes=True)
    except (OSError, ValueError):  # pyarrow's errors are one of these
        return None
    return found


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


def local_sum_path(file: str) -> str:
    """Return where Hadoop keeps the checksum of a file of a local disk."""
    return names.join(names.parent(file), f".{names.leaf(file)}.crc")


def sum_as_hadoop(pieces: Iterable[bytes]) -> bytes:
    """Return the `.crc` file of a file. `pieces`: of it; each but the last is whole blocks."""
    size = HADOOP_BLOCK_BYTES
    sums = [zlib.crc32(each[at : at + size]) for each in pieces for at in range(0, len(each), size)]
    return _CRC_HEADER.pack(_CRC_MAGIC, size) + struct.pack(f">{len(sums)}I", *sums)


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
