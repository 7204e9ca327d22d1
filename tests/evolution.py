"""Two files of a table, the second with another type: what readers are tried out with."""

import datetime as dt
from decimal import Decimal
from itertools import product
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import orc

from ashore.tables.ddl import parse_ddl
from ashore.topics.decode.arrow_types import to_arrow
from ashore.topics.decode.evolution import Compatibility, compare_schemas

MIDNIGHT = dt.datetime.fromisoformat("2026-01-01T00:00")

# Per type, a value that all wider types hold, and one that no narrower type does.
SAMPLES: dict[str, tuple[object, object]] = {
    "TINYINT": (1, 100),
    "SMALLINT": (1, 300),
    "INT": (1, 70_000),
    "BIGINT": (1, 2**40),
    "FLOAT": (1.5, 2.5),
    "DOUBLE": (1.5, 0.1),
    "DECIMAL(10,2)": (Decimal("1.25"), Decimal("12345678.25")),
    "DECIMAL(12,2)": (Decimal("1.25"), Decimal("1234567890.25")),
    "DECIMAL(20,4)": (Decimal("1.2500"), Decimal("1.1234")),
    "DATE": (dt.date(2026, 1, 1), dt.date(2026, 1, 2)),
    "TIMESTAMP_NTZ": (MIDNIGHT, MIDNIGHT.replace(hour=5)),
    "STRING": ("1", "x"),
    "STRUCT<a: INT>": ({"a": 1}, {"a": 70_000}),
    "STRUCT<a: BIGINT>": ({"a": 1}, {"a": 2**40}),
    "ARRAY<INT>": ([1], [70_000]),
    "ARRAY<BIGINT>": ([1], [2**40]),
    "MAP<STRING, INT>": ([("a", 1)], [("a", 70_000)]),
    "MAP<STRING, BIGINT>": ([("a", 1)], [("a", 2**40)]),
}


def _is_readable(known: str, wanted: str, file_format: str) -> bool:
    schemas = [parse_ddl(f"v {each}") for each in (known, wanted)]
    changes = compare_schemas(*schemas, file_format)
    return [each.verdict for each in changes] not in ([], [Compatibility.REFUSED])


# Changes of a type that are allowed or risky: old type, new type, format.
READABLE = [each for each in product(SAMPLES, SAMPLES, ("parquet", "orc")) if _is_readable(*each)]
WRITERS = {"parquet": pq.write_table, "orc": orc.write_table}


def write_files(root: Path, known: str, wanted: str, file_format: str) -> list[object]:
    """Write an old file and a new one; return what both hold, as the new type has it."""
    values = [SAMPLES[known][0], SAMPLES[wanted][1]]
    for hour, (ddl, value) in enumerate(zip((known, wanted), values, strict=True)):
        schema = to_arrow(parse_ddl(f"id BIGINT, v {ddl}"))
        directory = root / f"hour=0{hour}"
        directory.mkdir(parents=True)
        table = pa.table([[hour], pa.array([value], schema.field("v").type)], schema=schema)
        WRITERS[file_format](table, directory / f"part.{file_format}")
    new = to_arrow(parse_ddl(f"v {wanted}")).field("v").type
    old = to_arrow(parse_ddl(f"v {known}")).field("v").type
    return [pa.array([values[0]], old).cast(new)[0].as_py(), pa.array([values[1]], new)[0].as_py()]
