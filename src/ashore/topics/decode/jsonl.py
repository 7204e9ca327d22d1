"""JSON lines: one object a row, for people and small tables.

What it is: the encoder for newline JSON. It goes row by row in Python: tens of times slower than
Parquet.
What it promises: `JsonDecoder` of the same schema reads back the same rows. So decimals are strings
(no reader makes floats of them), instants end in `Z`, bytes are base64. Not-a-number and infinities
are the bare words NaN, Infinity, -Infinity, as Spark and Python read them. There is no place for
metadata: what is given at close is dropped.
"""

import base64
import json
from collections.abc import Mapping
from datetime import date, datetime
from decimal import Decimal

import pyarrow as pa

from ashore.topics.decode.encode import Output, Sink

ROWS_AT_ONCE = 1024


class JsonLinesEncoder:
    """Writes one file of JSON lines."""

    def __init__(self, output: Output, schema: pa.Schema) -> None:
        self._schema = schema
        self._sink = Sink(output)
        self._rows = 0

    @property
    def bytes_written(self) -> int:
        """The bytes written so far: nothing is buffered."""
        return self._sink.size_bytes

    @property
    def rows(self) -> int:
        """The rows handed to `write` so far."""
        return self._rows

    def write(self, table: pa.Table) -> None:
        """Append rows."""
        for batch in table.to_batches(max_chunksize=ROWS_AT_ONCE):
            rows = batch.to_pylist(maps_as_pydicts="strict")
            self._sink.write("".join(_encoder.encode(row) + "\n" for row in rows).encode())
            self._sink.check()
        self._rows += table.num_rows

    @property
    def held_bytes(self) -> int:
        """0: `flush` frees nothing."""
        return 0

    def flush(self) -> None:
        """Do nothing: rows are encoded as they come."""

    def close(self, metadata: Mapping[str, str]) -> None:
        """Do nothing: every row is written, and the format has no place for metadata."""

    def abandon(self) -> None:
        """Write nothing from now on."""
        self._sink.cut()


def _plain(value: object) -> str:
    """Return what JSON has no type for as a string."""
    match value:
        case datetime():
            return value.replace(tzinfo=None).isoformat() + ("Z" if value.tzinfo else "")
        case date():
            return value.isoformat()
        case Decimal():
            return format(value, "f")
        case bytes():
            return base64.b64encode(value).decode()
        case _:
            raise TypeError(f"{type(value).__name__} cannot be written as JSON")


_encoder = json.JSONEncoder(default=_plain, separators=(",", ":"), ensure_ascii=False)
