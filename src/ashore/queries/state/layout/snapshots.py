"""What a snapshot of RocksDB says: which tables it is made of, and how many rows it holds.

What it is: the file `metadata` in the archive `<version>.zip`.
What it promises: any bytes give a value or CheckpointUnfit.

    v1
    {"sstFiles":[{"localFileName":"000012.sst","dfsSstFileName":"000012-<id>.sst", ...}], ...}
"""

import io
import lzma
import struct
import zipfile
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self

from ashore.queries.state.layout.logs import Wrong, parse_document, unfit

_MEMBER = "metadata"
_MEMBER_BYTES_MAX = 1 << 28  # that of a million tables is less
# What Python raises for bytes that are no archive, or one of a kind that Java does not write.
BROKEN = (
    *(zipfile.BadZipFile, zlib.error, lzma.LZMAError, EOFError, OSError),
    *(KeyError, ValueError, OverflowError, RuntimeError, struct.error),
)


@dataclass(frozen=True, slots=True)
class SnapshotFile:
    """What a snapshot says of the store that it is of.

    Arguments:
        tables: the files in `SSTs` that it is made of, and their sizes in bytes; None where it
            does not say how large one is.
        rows: how many the store holds; None where Spark is configured not to count.

    """

    tables: Mapping[str, int | None]
    rows: int | None = None

    @classmethod
    def read(cls, data: bytes, place: str) -> Self:
        """Return what the archive says. Raises CheckpointUnfit."""
        return cls.parse(_read_member(data, place), place)

    @classmethod
    def parse(cls, member: bytes, place: str) -> Self:
        """Return the same from the one file of the archive that says it. Raises CheckpointUnfit."""
        _, document = parse_document(member, place, (1,))
        tables = document.get("sstFiles")
        if not isinstance(tables, list):
            raise unfit(Wrong.OTHER_CONTENT, f"{place} has no tables")
        if document.get("logFiles"):  # Spark turns RocksDB's own log off
            raise unfit(Wrong.OTHER_CONTENT, f"{place} names log files, which is unknown to Ashore")
        match document.get("numKeys"):
            case int(rows) if rows >= 0:
                counted: int | None = rows
            case _:
                counted = None
        return cls(dict(_table(each, place) for each in tables), counted)


def _table(value: object, place: str) -> tuple[str, int | None]:
    found = value if isinstance(value, dict) else {}
    name, size = found.get("dfsSstFileName"), found.get("sizeBytes")
    if type(name) is not str:
        raise unfit(Wrong.OTHER_CONTENT, f"{place} has a table without a name")
    return name, size if isinstance(size, int) else None


def _read_member(data: bytes, place: str) -> bytes:
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive, archive.open(_MEMBER) as member:
            found = member.read(_MEMBER_BYTES_MAX + 1)
    except BROKEN as error:
        text = f"{place} is not an archive with a file {_MEMBER}: {error}"
        raise unfit(Wrong.OTHER_CONTENT, text) from None
    if len(found) > _MEMBER_BYTES_MAX:
        raise unfit(Wrong.OTHER_CONTENT, f"{place}: the file {_MEMBER} is too large")
    return found
