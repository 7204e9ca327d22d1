"""Checkpoints of a Delta table's log: its state as one Parquet file.

What it promises: what was encoded is decoded; columns that other writers add to a checkpoint, such
as statistics as columns, are left out, since the text of the statistics says the same.
"""

import io

import pyarrow as pa
import pyarrow.parquet as pq

from ashore.tables.delta.actions import Action

_TEXTS = pa.map_(pa.string(), pa.string())
_FILE = [("path", pa.string()), ("partitionValues", _TEXTS), ("size", pa.int64())]
_SCHEMA = pa.schema(
    [
        (
            "txn",
            pa.struct(
                [("appId", pa.string()), ("version", pa.int64()), ("lastUpdated", pa.int64())]
            ),
        ),
        (
            "add",
            pa.struct(
                [
                    *_FILE,
                    ("modificationTime", pa.int64()),
                    ("dataChange", pa.bool_()),
                    ("stats", pa.string()),
                    ("tags", _TEXTS),
                ]
            ),
        ),
        (
            "remove",
            pa.struct(
                [
                    *_FILE,
                    ("deletionTimestamp", pa.int64()),
                    ("dataChange", pa.bool_()),
                    ("extendedFileMetadata", pa.bool_()),
                ]
            ),
        ),
        (
            "metaData",
            pa.struct(
                [
                    ("id", pa.string()),
                    ("name", pa.string()),
                    ("description", pa.string()),
                    (
                        "format",
                        pa.struct([("provider", pa.string()), ("options", _TEXTS)]),
                    ),
                    ("schemaString", pa.string()),
                    ("partitionColumns", pa.list_(pa.string())),
                    ("configuration", _TEXTS),
                    ("createdTime", pa.int64()),
                ]
            ),
        ),
        (
            "protocol",
            pa.struct(
                [
                    ("minReaderVersion", pa.int32()),
                    ("minWriterVersion", pa.int32()),
                    ("readerFeatures", pa.list_(pa.string())),
                    ("writerFeatures", pa.list_(pa.string())),
                ]
            ),
        ),
    ]
)


def encode_checkpoint(actions: list[Action]) -> bytes:
    """Return the content of a checkpoint, of which `dataChange` is never true."""
    rows = [
        {kind: {**body, "dataChange": False} if kind in {"add", "remove"} else body}
        for action in actions
        for kind, body in action.items()
    ]
    buffer = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(rows, _SCHEMA), buffer)
    return buffer.getvalue()


def decode_checkpoint(data: bytes) -> list[Action]:
    """Return the actions of a checkpoint."""
    table = pq.read_table(pa.BufferReader(data))
    known = [name for name in _SCHEMA.names if name in table.column_names]
    rows = table.select(known).to_pylist(maps_as_pydicts="strict")
    return [
        {kind: {key: value for key, value in body.items() if value is not None}}
        for row in rows
        for kind, body in row.items()
        if body is not None
    ]
