"""What `ashore.topics.decode.evolution` allows is what Spark reads."""

from pathlib import Path

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, Row, SparkSession
from tests.evolution import READABLE, write_files

from ashore.tables.ddl import parse_ddl
from ashore.topics.decode.evolution import Compatibility, compare_schemas


def values(frame: DataFrame) -> list[object]:
    return [_plain(row.v) for row in frame.orderBy("hour").select("v").collect()]


def _plain(value: object) -> object:
    if isinstance(value, Row):
        return value.asDict()
    return [*value.items()] if isinstance(value, dict) else value


@pytest.mark.parametrize(("known", "wanted", "file_format"), READABLE)
def test_spark_reads_old_and_new_rows_where_a_change_can_be_read(
    spark: SparkSession, tmp_path: Path, known: str, wanted: str, file_format: str
) -> None:
    expected = write_files(tmp_path, known, wanted, file_format)
    reported = spark.read.schema(f"id BIGINT, v {wanted}, hour STRING").format(file_format)
    assert values(reported.load(str(tmp_path))) == expected
    [change] = compare_schemas(parse_ddl(f"v {known}"), parse_ddl(f"v {wanted}"), file_format)
    if change.verdict is Compatibility.ALLOWED:
        try:
            found = values(spark.read.format(file_format).load(str(tmp_path)))
        except (PySparkException, Py4JJavaError):
            return  # who takes the columns of one file for those of all hears of it
        assert found == expected
