"""Footers of Parquet files, from which a commit to a table has its statistics.

What it promises: a file's rows and bytes are those of the log, or it is refused. No library looks
whether a file is there that it adds to a table: here it is read before.
"""

import pyarrow as pa
import pyarrow.parquet as pq

from ashore.errors import FileConflict, FilesLost, PathMissing
from ashore.log.files import FilePlace
from ashore.storage.base import Storage

_TAIL_BYTES = 64 << 10  # a footer is smaller unless a file has hundreds of columns
_MAGIC_BYTES = 8  # the length of the footer and `PAR1`


def read_footer(storage: Storage, place: FilePlace) -> pq.FileMetaData:
    """Return the footer of a file at its final path, most often by one read.

    Raises FilesLost where another program has deleted it; FileConflict, StorageError.
    """
    file = place.file
    try:
        tail = _read_tail(storage, place.final, file.size_bytes, _TAIL_BYTES)
    except PathMissing as error:
        raise FilesLost(
            f"{place.final} is gone, before its table had it",
            hint="find out who deletes files there, then read its records again: "
            "ashore recover JOB.yaml --reland",
            paths=[place.final],
            unique=[file.unique],
        ) from error
    footer_bytes = int.from_bytes(tail[-_MAGIC_BYTES : -_MAGIC_BYTES + 4], "little")
    if footer_bytes + _MAGIC_BYTES > len(tail):
        tail = _read_tail(storage, place.final, file.size_bytes, footer_bytes + _MAGIC_BYTES)
    footer = pq.read_metadata(pa.BufferReader(tail))
    if footer.num_rows != file.rows:
        raise FileConflict(
            f"{place.final} has {footer.num_rows} rows, {file.rows} in the log",
            hint="nothing was committed; find out who writes there, then start again",
            paths=[place.final],
        )
    return footer


def _read_tail(storage: Storage, path: str, size_bytes: int, length: int) -> bytes:
    start = max(0, size_bytes - length)
    return storage.read(path, start, size_bytes - start)
