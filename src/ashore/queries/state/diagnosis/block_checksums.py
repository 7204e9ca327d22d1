"""The blocks of a table of RocksDB, each compared with its checksum.

What it is: `check_table`.
What it promises: any bytes give None, a text that says what is wrong, or UNKNOWN, where the table
is of a kind that is not read; None only where every byte but the version's was compared. Each byte
is read once, whatever the table says of itself, and `WINDOW_BYTES` or one block at a time.

    <block> <kind of compression: 1 byte> <checksum: 4 bytes>, for each block, from 0 on and without
    a gap: those of rows, then those of filters and properties, and the two that name these; then
    the footer: the kind of checksum (1 byte), where the block that names filters and properties and
    the index are, zeros, the version (4 bytes), and RocksDB's last eight bytes
"""

import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

import google_crc32c
import xxhash

from ashore.queries.state.contents import TABLE_END

UNKNOWN: Final = "the table is of a kind that is not read"
WINDOW_BYTES = 4 << 20
_FOOTER_BYTES, _HANDLES_END, _TRAILER_BYTES = 53, 41, 5
_VERSIONS = range(2, 6)  # before them blocks have another head, after them checksums a context
_LENGTH_BEFORE_INDEX_VALUE = 4  # the first version whose index has none
_BLOCK_MAX = 1 << 26
_DIRECTORY_MAX = 1 << 20  # of the block that names filters and properties
_MASK, _CRC_DELTA, _LAST_BYTE = 0xFFFFFFFF, 0xA282EAD8, 0x6B9083D9
_LZ4_KINDS, _CODECS = {4, 5}, {7: "zstd"}
_NUMBER = struct.Struct("<I")

Read = Callable[[int, int], bytes]  # from where, and how many bytes


@dataclass(frozen=True, slots=True, order=True)
class _Handle:
    """Where a block begins, and its length without its trailer."""

    start: int
    size: int

    @property
    def end(self) -> int:
        """Where the next block begins."""
        return self.start + self.size + _TRAILER_BYTES


class _DamagedTable(Exception):
    """What is wrong, in words."""


class _UnknownTable(Exception):
    """The table is of another kind."""


def check_sst(read: Read, size_bytes: int) -> str | None:
    """Return what is wrong with a table, or UNKNOWN.

    Arguments:
        read: returns bytes of the table; fewer at its end.
        size_bytes: of the table.

    """
    footer_at = size_bytes - _FOOTER_BYTES
    footer = read(footer_at, _FOOTER_BYTES) if footer_at > 0 else b""
    if len(footer) < _FOOTER_BYTES or not footer.endswith(TABLE_END):
        return "it does not end as a table of RocksDB"
    (version,) = _NUMBER.unpack_from(footer, _HANDLES_END)
    if version not in _VERSIONS or footer[0] not in _SUMS:
        return UNKNOWN
    try:
        _Table(read, footer_at, _SUMS[footer[0]], version).check(footer)
    except _DamagedTable as error:
        return str(error)
    except _UnknownTable:
        return UNKNOWN
    return None


# ---- checksums of a block and the kind of its compression


def _sum_crc32c(block: bytes, kind: int) -> int:
    value = int(google_crc32c.extend(google_crc32c.value(block), bytes([kind])))
    return ((value >> 15 | value << 17) + _CRC_DELTA) & _MASK


def _sum_xxh32(block: bytes, kind: int) -> int:
    return xxhash.xxh32_intdigest(block + bytes([kind]))


def _sum_xxh64(block: bytes, kind: int) -> int:
    return xxhash.xxh64_intdigest(block + bytes([kind])) & _MASK


def _sum_xxh3(block: bytes, kind: int) -> int:
    return (xxhash.xxh3_64_intdigest(block) & _MASK) ^ (kind * _LAST_BYTE & _MASK)


_SUMS = {1: _sum_crc32c, 2: _sum_xxh32, 3: _sum_xxh64, 4: _sum_xxh3}


# ---- blocks


@dataclass
class _Table:
    """A table that is read: `end` is where its footer begins."""

    read: Read
    end: int
    sum: Callable[[bytes, int], int]
    version: int
    _start: int = 0
    _window: bytes = b""

    def check(self, footer: bytes) -> None:
        """Compare all blocks. Raises _DamagedTable, _UnknownTable."""
        directory, at = _read_handle(footer, 1)
        index, at = _read_handle(footer, at)
        if any(footer[at:_HANDLES_END]):
            raise _DamagedTable("its footer is not that of a table")
        if directory.size > _DIRECTORY_MAX:
            raise _UnknownTable
        others = [directory, index, *_list_others(self._unpack(directory))]
        at = 0
        for each in _list_rows(self._unpack(index), self.version):
            self._follow(each, at)
            self._take(each)
            at = each.end
        for each in sorted(others):
            self._follow(each, at)
            if each not in {directory, index}:  # these were compared before they were read
                self._take(each)
            at = each.end
        if at != self.end:
            raise _UnknownTable

    def _follow(self, block: _Handle, at: int) -> None:
        """Raise where a block does not begin at the end of the one before it."""
        if block.start < at:
            raise _DamagedTable(f"two of its blocks have byte {block.start:,}")
        if block.start > at:
            raise _UnknownTable  # there are blocks that the index does not name

    def _take(self, block: _Handle) -> tuple[int, bytes]:
        """Return how a block is compressed, and the block, where it has its checksum."""
        if block.end > self.end:
            raise _DamagedTable(f"its block at byte {block.start:,} is past its end")
        if block.size > _BLOCK_MAX:
            raise _UnknownTable
        data = self._look(block.start, block.size + _TRAILER_BYTES)
        if len(data) < block.size + _TRAILER_BYTES:
            raise _DamagedTable(f"its block at byte {block.start:,} is past its end")
        kind, found = data[block.size], data[: block.size]
        if self.sum(found, kind) != _NUMBER.unpack_from(data, block.size + 1)[0]:
            raise _DamagedTable(f"its block at byte {block.start:,} has another checksum")
        return kind, found

    def _look(self, start: int, size: int) -> bytes:
        at = start - self._start
        if not 0 <= at <= len(self._window) - size:
            self._start, at = start, 0
            self._window = self.read(start, min(max(size, WINDOW_BYTES), self.end - start))
        return self._window[at : at + size]

    def _unpack(self, block: _Handle) -> bytes:
        """Return what a block holds. Its checksum is right, so that nothing here is damage."""
        import pyarrow as pa  # noqa: PLC0415 - loads much

        kind, data = self._take(block)
        if kind == 0:
            return data
        codec = "lz4_raw" if kind in _LZ4_KINDS else _CODECS.get(kind)
        size, at = _read_number(data, 0)
        if codec is None or size > _BLOCK_MAX:
            raise _UnknownTable
        try:
            found: bytes = pa.decompress(data[at:], size, codec, asbytes=True)
        except (OSError, ValueError):  # pyarrow's errors are one of these
            raise _UnknownTable from None
        return found


def _list_rows(index: bytes, version: int) -> Iterator[_Handle]:
    """Yield the blocks of rows that an index names."""
    at, end = 0, _end_entries(index)
    while at < end:
        shared, at = _read_number(index, at)
        length, at = _read_number(index, at)
        if version < _LENGTH_BEFORE_INDEX_VALUE:
            _size, at = _read_number(index, at)
        elif shared:
            raise _UnknownTable  # the handle is the difference to the one before
        handle, at = _read_handle(index, at + length)
        yield handle


def _list_others(block: bytes) -> Iterator[_Handle]:
    """Yield the blocks of filters and properties: each entry has a key, a value, their lengths."""
    at, end = 0, _end_entries(block)
    while at < end:
        _shared, at = _read_number(block, at)
        length, at = _read_number(block, at)
        value, at = _read_number(block, at)
        yield _read_handle(block, at + length)[0]
        at += length + value


def _end_entries(block: bytes) -> int:
    """Return where the entries of a block end, and the places of some begin, with their number."""
    if len(block) < _NUMBER.size:
        raise _UnknownTable
    (restarts,) = _NUMBER.unpack_from(block, len(block) - _NUMBER.size)
    end = len(block) - _NUMBER.size * (restarts + 1)
    if end < 0:
        raise _UnknownTable  # its highest bit says that there is another way to find entries
    return int(end)


def _read_handle(data: bytes, at: int) -> tuple[_Handle, int]:
    start, at = _read_number(data, at)
    size, at = _read_number(data, at)
    return _Handle(start, size), at


def _read_number(data: bytes, at: int) -> tuple[int, int]:
    """Return a number in seven bits a byte, the lowest first, and where it ends."""
    value = 0
    for shift in range(0, 70, 7):
        if at >= len(data):
            break
        byte, at = data[at], at + 1
        value |= (byte & 0x7F) << shift
        if not byte & 0x80:
            return value, at
    raise _DamagedTable("a number in it has no end")
