"""What a snapshot of RocksDB says: which tables it is made of.

What it is: the file `metadata` in the archive `<version>.zip`.
What it promises: any bytes give names or CheckpointUnfit.
What it must not know: what tables hold.

    v1
    {"sstFiles":[{"localFileName":"000012.sst","dfsSstFileName":"000012-<id>.sst", ...}], ...}
"""

import io
import lzma
import struct
import zipfile
import zlib

from ashore.checkpoints.layout.logs import Wrong, parse_document, unfit

_MEMBER = "metadata"
_MEMBER_BYTES_MAX = 1 << 28  # that of a million tables is less
# What Python raises for bytes that are no archive, or one of a kind that Java does not write.
_BROKEN = (
    *(zipfile.BadZipFile, zlib.error, lzma.LZMAError, EOFError, OSError),
    *(KeyError, ValueError, OverflowError, RuntimeError, struct.error),
)


def read_tables(data: bytes, place: str) -> frozenset[str]:
    """Return the names of the files in `SSTs` of a snapshot. Raises CheckpointUnfit."""
    return parse_tables(_read_member(data, place), place)


def parse_tables(member: bytes, place: str) -> frozenset[str]:
    """Return the same from the one file of the archive that names them."""
    _, document = parse_document(member, place, (1,))
    tables = document.get("sstFiles")
    if not isinstance(tables, list):
        raise unfit(Wrong.OTHER_CONTENT, f"{place} names no tables")
    return frozenset(_table(each, place) for each in tables)


def _table(value: object, place: str) -> str:
    name = value.get("dfsSstFileName") if isinstance(value, dict) else None
    if type(name) is not str:
        raise unfit(Wrong.OTHER_CONTENT, f"{place} has a table without a name")
    return name


def _read_member(data: bytes, place: str) -> bytes:
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive, archive.open(_MEMBER) as member:
            found = member.read(_MEMBER_BYTES_MAX + 1)
    except _BROKEN as error:
        text = f"{place} is no archive with a file {_MEMBER}: {error}"
        raise unfit(Wrong.OTHER_CONTENT, text) from None
    if len(found) > _MEMBER_BYTES_MAX:
        raise unfit(Wrong.OTHER_CONTENT, f"{place}: the file {_MEMBER} is too large")
    return found
