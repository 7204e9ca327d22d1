"""Streaming frames that are planned and never read: no broker is asked."""

from pyspark.sql import DataFrame, SparkSession

NOWHERE = "127.0.0.1:1"
CLICKS = "id BIGINT, country STRING, ts TIMESTAMP, amount DOUBLE"
VIEWS = "id BIGINT, page STRING, seen TIMESTAMP"


def topic_view(
    spark: SparkSession, topic: str, schema: str, watermark: str = "", name: str = ""
) -> DataFrame:
    """Make a view of a topic of JSON records, named like it; `watermark` is its event time."""
    records = spark.readStream.format("kafka").options(subscribe=topic)
    frame = (
        records.option("kafka.bootstrap.servers", NOWHERE)
        .load()
        .selectExpr(f"from_json(CAST(value AS STRING), '{schema}') AS record")
        .select("record.*")
    )
    if watermark:
        frame = frame.withWatermark(watermark, "10 seconds")
    frame.createOrReplaceTempView(name or topic)
    return frame


def make_views(spark: SparkSession) -> None:
    """Make `clicks` and `views` with watermarks, `plain` and `other` without, and `countries`."""
    topic_view(spark, "clicks", CLICKS, "ts")
    topic_view(spark, "views", VIEWS, "seen")
    topic_view(spark, "plain", CLICKS)
    topic_view(spark, "other", VIEWS)
    countries = spark.createDataFrame([("DE", "Germany")], "code STRING, name STRING")
    countries.createOrReplaceTempView("countries")
