"""Times that a file may hold are read by Spark as they were written, the first and the last too."""

import io
import random
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from ashore.base.calendar import FIRST_DAY, FIRST_US, LAST_DAY, LAST_US
from ashore.formats import open_encoder
from ashore.formats.times import null_unwritable

DAY_US = 86_400_000_000
EDGES_US = [FIRST_US, FIRST_US + 1, LAST_US, -141_427 * DAY_US, -141_427 * DAY_US - 1]
EDGES_US += [
    -141_428 * DAY_US,
    -1,
    -500_000,
    -1_000_000,
    -1_500_000,
    0,
    1,
    999_999,
    9_300_000 << 30,
]


@pytest.mark.parametrize("extension", ["parquet", "orc"])
def test_spark_reads_every_time_that_is_written(
    spark: SparkSession, tmp_path: Path, extension: str
) -> None:
    chance = random.Random(7)
    times_us = EDGES_US + [chance.randint(FIRST_US, LAST_US) for _ in range(40)]
    times_us += [chance.randint(-62_000_000_000, 1 << 30) * 1_000_000 for _ in range(40)]
    days = [FIRST_DAY, LAST_DAY, -141_427, -141_428, -1, 0]
    days += [chance.randint(FIRST_DAY, LAST_DAY) for _ in range(len(times_us) - len(days))]
    columns = [
        null_unwritable(pa.array(times_us, pa.int64()).view(pa.timestamp("us", "UTC")), extension),
        null_unwritable(pa.array(days, pa.int32()).view(pa.date32()), extension),
    ]
    arrays = [pa.array(range(len(times_us))), *(column for column, _ in columns)]
    table = pa.table(arrays, names=["id", "at", "day"])
    file = io.BytesIO()
    encoder = open_encoder(extension, file, table.schema)
    encoder.write(table)
    encoder.close({})
    (tmp_path / f"times.{extension}").write_bytes(file.getvalue())

    read = spark.read.format(extension).load(str(tmp_path))
    rows = read.selectExpr("id", "unix_micros(at)", "unix_date(day)").orderBy("id").collect()

    at, day = (
        column.cast(kind)
        for (column, _), kind in zip(columns, (pa.int64(), pa.int32()), strict=True)
    )
    assert [row[1] for row in rows] == at.to_pylist()
    assert [row[2] for row in rows] == day.to_pylist()
    assert at.null_count == (0 if extension == "parquet" else columns[0][1])
    assert at.null_count < len(times_us) // 2 + len(EDGES_US)
