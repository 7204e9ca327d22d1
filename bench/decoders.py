"""JSON decoders compared: one core, batches of 65,536 records, best of several runs.

    python -m bench.decoders

Every candidate ends with the same Arrow columns, as a file writer takes them. `ashore` is the whole
decoder: looks at every value, parse, NOT NULL, conversions, sample of unknown fields.
"""

import os

os.environ["POLARS_MAX_THREADS"] = "1"  # read by polars when it is imported

import json
import random
import time
from collections.abc import Callable

import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pj

from ashore.tables.ddl import Schema, parse_ddl
from ashore.topics.decode.arrow_types import to_arrow
from ashore.topics.decode.json import JsonDecoder
from bench.table import Row

ROWS = 65_536
RUNS = 7
SMALL_DDL = "id BIGINT, user STRING, ts BIGINT, country STRING, amount DOUBLE, text STRING"
LARGE_TYPES = ("BIGINT", "DOUBLE", "STRING")
LARGE_DDL = ", ".join(f"field_{i:02d} {LARGE_TYPES[i % 3]}" for i in range(26))
MAP_DDL = SMALL_DDL + ", labels MAP<STRING, STRING>"


def small_record(rng: random.Random, i: int) -> dict[str, object]:
    return {
        "id": i * 7919,
        "user": f"user-{rng.randrange(100_000):06d}",
        "ts": 1_790_000_000_000 + i,
        "country": rng.choice(["DE", "CN", "US", "FR"]),
        "amount": round(rng.random() * 1000, 2),
        "text": "x" * rng.randrange(22, 40),
    }


def large_record(rng: random.Random, _: int) -> dict[str, object]:
    makers: tuple[Callable[[], object], ...] = (
        lambda: rng.randrange(10**9),
        lambda: round(rng.random() * 1e4, 3),
        lambda: "".join(rng.choices("abcdefgh ijklmnop", k=70)),
    )
    return {f"field_{i:02d}": makers[i % 3]() for i in range(26)}


def encode(record: dict[str, object]) -> bytes:
    return json.dumps(record, separators=(",", ":")).encode()


def with_pyarrow(values: pa.Array, schema: pa.Schema) -> pa.Table:
    lists = pa.ListArray.from_arrays(pa.array([0, len(values)], pa.int32()), values)
    data = pc.binary_join(lists, b"\n").buffers()[2]
    return pj.read_json(
        pa.BufferReader(data),
        read_options=pj.ReadOptions(use_threads=False, block_size=data.size + 1),
        parse_options=pj.ParseOptions(explicit_schema=schema, unexpected_field_behavior="ignore"),
    )


def with_polars(values: pa.Array, schema: pa.Schema) -> pa.Table:
    types = {pa.int64(): pl.Int64, pa.float64(): pl.Float64, pa.string(): pl.String}
    lists = pa.ListArray.from_arrays(pa.array([0, len(values)], pa.int32()), values)
    data = pc.binary_join(lists, b"\n").buffers()[2].to_pybytes()
    frame = pl.read_ndjson(data, schema={field.name: types[field.type] for field in schema})
    return frame.to_arrow().cast(schema)


def report(name: str, rows: int, size: int, run: Callable[[], object], runs: int = RUNS) -> float:
    best = float("inf")
    for _ in range(runs):
        start = time.perf_counter()
        run()
        best = min(best, time.perf_counter() - start)
    print(f"{name:34} {rows / best / 1000:8.0f} k records/s {size / best / 1e6:7.0f} MB/s")
    return rows / best


def compare(name: str, schema: Schema, records: list[bytes]) -> list[Row]:
    values = pa.array(records, pa.binary())
    size = sum(map(len, records))
    arrow, decoder = to_arrow(schema), JsonDecoder(schema)
    print(f"{name}: {size / ROWS:.0f} bytes a record")
    peer = report("  pyarrow.json", ROWS, size, lambda: with_pyarrow(values, arrow))
    peer = max(peer, report("  polars.read_ndjson", ROWS, size, lambda: with_polars(values, arrow)))
    ours = report("  ashore", ROWS, size, lambda: decoder.decode(values))
    bad = b'{"id":"x","field_00":"x"}'
    broken = pa.array([*records[1:], bad], pa.binary())
    one_bad = report("  ashore, one bad record", ROWS, size, lambda: decoder.decode(broken))
    all_bad = pa.array([bad] * 4096, pa.binary())
    report("  ashore, all bad (4,096)", 4096, 4096 * len(bad), lambda: decoder.decode(all_bad), 2)
    return [
        Row(f"decoder, {name} records, speed v. the faster of pyarrow and polars", ours / peer),
        Row(f"decoder, {name} records, time with 1 bad of 65,536 v. all good", ours / one_bad),
    ]


def main() -> list[Row]:
    pa.set_cpu_count(1)
    print(f"pyarrow {pa.__version__}, polars {pl.__version__}")
    rng = random.Random(7)
    small = [encode(small_record(rng, i)) for i in range(ROWS)]
    large = [encode(large_record(rng, i)) for i in range(ROWS)]
    rows = compare("small", parse_ddl(SMALL_DDL), small)
    rows += compare("large", parse_ddl(LARGE_DDL), large)
    records = [encode({**small_record(rng, i), "labels": {"a": "b"}}) for i in range(8192)]
    values, size = pa.array(records, pa.binary()), sum(map(len, records))
    decoder = JsonDecoder(parse_ddl(MAP_DDL))
    report("small with a map, ashore", 8192, size, lambda: decoder.decode(values))
    return rows


if __name__ == "__main__":
    main()
