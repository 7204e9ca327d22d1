"""Topics read by the source `ashore`, as any program of PySpark reads them."""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from pyspark.sql import DataFrame, Row, SparkSession

from ashore.topics.run.spark.source.registration import register_source
from ashore.topics.run.spark.source.source_options import FORMAT


@dataclass
class Reader:
    """A stream of one checkpoint. `batches`: what it has read, by the number of the batch."""

    spark: SparkSession
    checkpoint: Path
    options: dict[str, str]
    batches: dict[int, list[Row]] = field(default_factory=dict)
    latest: list[str] = field(default_factory=list)  # as the progress of each batch shows it

    def run(self, change: Callable[[DataFrame], DataFrame] = lambda frame: frame) -> "Reader":
        """Read what is there, then end."""
        frame = open_stream(self.spark, self.options)

        def take(batch: DataFrame, number: int) -> None:
            self.batches[number] = batch.collect()

        writer = change(frame).writeStream.foreachBatch(take)
        query = (
            writer.option("checkpointLocation", str(self.checkpoint))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
        self.latest += [each.sources[0].latestOffset for each in query.recentProgress]
        return self

    @property
    def rows(self) -> list[Row]:
        """All rows, in the order of batches."""
        return [row for number in sorted(self.batches) for row in self.batches[number]]

    def offsets(self) -> list[tuple[str, int, int]]:
        """Topic, partition and offset of all rows, sorted."""
        return sorted((row.topic, row.partition, row.offset) for row in self.rows)

    def end(self, batch: int) -> str:
        """What the checkpoint says of the end of a batch."""
        return (self.checkpoint / "offsets" / str(batch)).read_text().splitlines()[-1]


def open_stream(spark: SparkSession, options: dict[str, str]) -> DataFrame:
    """Return the stream. Nothing is read yet."""
    register_source(spark)
    return spark.readStream.format(FORMAT).options(**options).load()


def read_batch(spark: SparkSession, options: dict[str, str]) -> DataFrame:
    """Return topics as they are now."""
    register_source(spark)
    return spark.read.format(FORMAT).options(**options).load()
