"""Rows of Spark in one file on this machine: Parquet, or Arrow's own format.

What it promises: the file is there once it is whole. Memory does not grow with the rows.
What it must not know: what the rows are.
"""

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame

PARQUET, ARROW = ".parquet", ".arrow"


def write_file(rows: DataFrame, path: str) -> int:
    """Write rows to a file, and return how many there are. Another file there is replaced.

    If interrupted: a file whose name begins with a dot may stay beside it.
    """
    target = Path(path)
    partial = target.with_name(f".{target.name}.{os.getpid()}")
    with tempfile.TemporaryDirectory(prefix="ashore-rows-") as directory:
        rows.write.mode("overwrite").parquet(directory)
        files = [pq.ParquetFile(each) for each in sorted(Path(directory).glob("part-*.parquet"))]
        try:
            count = _join(files, partial, is_arrow=target.suffix == ARROW)
            partial.replace(target)
        finally:
            partial.unlink(missing_ok=True)
    return count


def _join(files: list[pq.ParquetFile], path: Path, *, is_arrow: bool) -> int:
    """Write what files of one schema hold to another one."""
    schema = files[0].schema_arrow.remove_metadata()
    count = 0
    if is_arrow:
        with pa.ipc.new_file(str(path), schema) as arrow:
            for batch in _batches(files, schema):
                arrow.write_batch(batch)
                count += batch.num_rows
        return count
    with pq.ParquetWriter(str(path), schema, compression="zstd") as parquet:
        for batch in _batches(files, schema):
            parquet.write_batch(batch)
            count += batch.num_rows
    return count


def _batches(files: list[pq.ParquetFile], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    for file in files:
        for batch in file.iter_batches():
            yield batch.cast(schema)
