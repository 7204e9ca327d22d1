"""A program that reads, and writes, a Delta table by Spark's own Delta, without Ashore.

    python -m tests.delta_spark TABLE APPLICATION VERSION

It prints what it has found as JSON. The application and the version are of a transaction that the
table has: Spark must then take a write that carries it for one that has happened.
"""

import json
import sys
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from ashore.jobs.jars import jar_paths

_WRITE = "spark.databricks.delta.write."


def open_session() -> SparkSession:
    """Return a session whose catalog has Delta's tables."""
    builder = SparkSession.builder.master("local[2]")
    settings = {
        "spark.driver.extraClassPath": ":".join(map(str, jar_paths("delta"))),
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        "spark.sql.session.timeZone": "UTC",
        # By default Delta plans 50 tasks for the state of a log, and 10,000 to list files.
        "spark.databricks.delta.snapshotPartitions": "2",
        "spark.sql.sources.parallelPartitionDiscovery.parallelism": "2",
        "spark.sql.shuffle.partitions": "2",
        "spark.ui.enabled": "false",
    }
    for key, value in settings.items():
        builder = builder.config(key, value)
    return builder.getOrCreate()


def rows_of(frame: DataFrame) -> list[dict[str, Any]]:
    """Return rows as JSON has them."""
    return [json.loads(each) for each in frame.toJSON().collect()]


def append_again(spark: SparkSession, table: str, application: str, version: str) -> None:
    """Append all rows once more, in a transaction."""
    writer = spark.read.format("delta").load(table).write.format("delta").mode("append")
    writer.option("txnAppId", application).option("txnVersion", version).save(table)


def look(table: str, application: str, version: str) -> dict[str, Any]:
    """Return what Spark sees of a table, and what it does with it."""
    spark = open_session()
    name = f"delta.`{table}`"
    rows = spark.table(name)
    found = {
        "schema": rows.schema.simpleString(),
        "rows": rows_of(rows.orderBy("id")),
        "late": rows.where("id >= 35").count(),
        "german": rows.where("country = 'de' AND date = '2026-11-20'").count(),
        "history": rows_of(spark.sql(f"DESCRIBE HISTORY {name}")),
        "detail": rows_of(spark.sql(f"DESCRIBE DETAIL {name}"))[0],
        "of_version_1": spark.sql(f"SELECT * FROM {name} VERSION AS OF 1").count(),
        "unreferenced": spark.sql(f"VACUUM {name} RETAIN 240 HOURS DRY RUN").count(),
    }
    append_again(spark, table, application, version)
    found["appended_again"] = spark.table(name).count()
    spark.sql(f"OPTIMIZE {name}")
    found["optimized"] = rows_of(spark.sql(f"DESCRIBE HISTORY {name} LIMIT 1"))[0]["operation"]
    spark.sql(f"DELETE FROM {name} WHERE id = 3")
    found["left"] = spark.table(name).count()
    spark.stop()
    return found


if __name__ == "__main__":
    sys.stdout.write(json.dumps(look(*sys.argv[1:])) + "\n")
