"""Times that a file may hold are read by Spark as they were written, the first and the last too."""

import io
import random
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention
from tests.specs import landing

from ashore.base.time_format import FIRST_DAY, FIRST_US, LAST_DAY, LAST_US, parse_time_format
from ashore.queries.spark.sql.views import _to_time, _within_calendar, read_times
from ashore.topics.decode.registry import open_encoder
from ashore.topics.decode.times import null_unwritable
from ashore.topics.route.placement import PER_SECOND, event_millis, text_millis

DAY_US = 86_400_000_000
NOON_MS = 1_795_003_200_000
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


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
@pytest.mark.parametrize("kind", ["bigint", "double"])
def test_numbers_that_are_no_time_are_no_event_time_of_sql(
    spark: SparkSession, unit: str, kind: str
) -> None:
    """As in landing: they stop no query, and move no watermark."""
    noon = NOON_MS * PER_SECOND[unit] // 1000
    numbers = [noon, -noon, 0, 2**63 - 1, -(2**63), 10**14, -(10**14), 10**18, None]
    frame = spark.createDataFrame([(each,) for each in numbers], "n bigint")
    spec = landing(schema=f"n {kind}", event_column="n", event_unit=unit)
    time = _to_time(spec, F.col("n").cast(kind))

    found = [row[0] for row in frame.select(F.unix_millis(time)).collect()]

    column = pa.array(numbers, pa.int64()).cast(
        pa.int64() if kind == "bigint" else pa.float64(), safe=False
    )
    wanted = event_millis(column, unit).to_pylist()
    assert found == wanted


@pytest.mark.parametrize("pattern", ["iso8601", "dd/MM/yyyy HH:mm:ss.SSS", "yyyyMMdd'T'HHmmX"])
def test_texts_are_the_times_of_landing_in_sql_too(spark: SparkSession, pattern: str) -> None:
    """Also texts that are none: a query reads null, as the table has no event time."""
    form = parse_time_format(pattern)
    texts = [
        *("2026-11-21T08:00:00.123456789+05:30", "2026-11-21", "2026-11-21 08:00Z", "2026-11-21T8"),
        *("21/11/2026 08:00:00.999", "29/02/2026 08:00:00.000", "31/12/1969 23:59:59.999"),
        *("20261121T0800Z", "20261121T0800-0330", "20261121T0800", "20261121T2460Z", "", " ", None),
        *("2026-02-29", "0001-01-01", "9999-12-31T23:59:59-10:00", "2026-11-21\n", "٢026-11-21"),
    ]
    frame = spark.createDataFrame([(each,) for each in texts], "t string")
    time = _within_calendar(read_times(F.col("t"), form))

    found = [row[0] for row in frame.select(F.unix_millis(time)).collect()]

    millis = text_millis(pa.array(texts, pa.string()), form)
    assert found == event_millis(millis, "ms").to_pylist()
    assert 2 <= len([each for each in found if each is not None]) < len(texts)
