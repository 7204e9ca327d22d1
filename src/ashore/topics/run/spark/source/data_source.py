"""The source `ashore` as Spark calls it.

What it is: `SparkSource`, a Python data source: a stream of topics, and a batch of offsets of them.
What it promises: what plans keeps its connections for as long as the query runs; what reads is
given its offsets as values, and opens what it needs in the worker. Spark calls a stream as follows:
`initialOffset`, `latestOffset` for each batch, which it writes to the checkpoint, then `partitions`
and `read`; `partitions` alone for a batch that an earlier run has planned.
"""

import functools
import os
from collections.abc import Iterator, Mapping, MutableMapping, Sequence

import pyarrow as pa
from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    InputPartition,
)
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import StructType

from ashore.base.clock import Clock, SystemClock
from ashore.errors import JobFileInvalid, check
from ashore.log.positions import ShardRange, StreamShard
from ashore.tables.ddl import is_json, json_supports
from ashore.topics.loop.splits import Split, split_evenly
from ashore.topics.read.kafka import KafkaSource
from ashore.topics.read.record_samples import measure_records, read_sizes
from ashore.topics.read.stream_ends import WAITS_FOR, StreamEnd
from ashore.topics.run.spark.source.in_step import StepPlanner
from ashore.topics.run.spark.source.record_batches import RowMaker, read_split
from ashore.topics.run.spark.source.record_times import TimeReader
from ashore.topics.run.spark.source.source_options import FORMAT, SourceOptions
from ashore.topics.run.spark.source.stream_planner import StreamPlanner

Json = dict[str, object]
ALL = 2**31 - 1  # records of a batch without a limit


class SparkSource(DataSource):  # type: ignore[misc]  # PySpark has no types here
    """Topics of Kafka as rows that are decoded as landing decodes them.

    Register it with `spark.dataSource.register(SparkSource)`; then
    `spark.readStream.format("ashore")` reads. Executors need Ashore installed.
    """

    def __init__(self, options: MutableMapping[str, str]) -> None:
        super().__init__(dict(options))

    @classmethod
    def name(cls) -> str:
        """See DataSource."""
        return FORMAT

    def schema(self) -> str:
        """See DataSource. Raises JobFileInvalid."""
        return self._parse().shape.ddl

    def streamReader(self, schema: StructType) -> "TopicStreamReader":  # noqa: N802 - Spark's name
        """See DataSource."""
        return TopicStreamReader(self._parse(), schema)

    def reader(self, schema: StructType) -> "TopicReader":
        """See DataSource."""
        return TopicReader(self._parse(), schema)

    def _parse(self) -> SourceOptions:
        options = SourceOptions.parse(self.options)
        unsupported = json_supports(options.shape.schema)
        if is_json(options.shape.decode) and unsupported:
            raise JobFileInvalid(
                f"JSON has only maps whose keys are STRING: {', '.join(unsupported)}",
                hint="correct the schema",
            )
        return options


class _Splits(InputPartition):  # type: ignore[misc]
    """What one task reads. `topic_ids`: as planned, where they are known."""

    def __init__(self, split: Split, topic_ids: dict[str, str]) -> None:
        super().__init__(split)
        self.topic_ids = topic_ids


class _RecordReader:
    """Reads splits as rows; and opens the planner, in the process that plans."""

    def __init__(self, options: SourceOptions, schema: StructType) -> None:
        self._options = options
        self._schema = schema

    @functools.cached_property
    def _planner(self) -> StreamPlanner:
        kafka = self._options.kafka
        source = KafkaSource(kafka.bootstrap_servers, kafka.options, kafka.timeout_s)

        def measure(nexts: Mapping[StreamShard, int]) -> float:
            return measure_records(source, nexts, functools.partial(read_sizes, kafka))

        clock = SystemClock()
        return StreamPlanner(source, self._options, clock, measure, self._steps(clock))

    def _steps(self, clock: Clock) -> StepPlanner | None:
        options = self._options
        if options.steps is None:
            return None
        reader = TimeReader(options.kafka.read, options.shape, options.steps, options.kafka.reader)
        return StepPlanner(options.steps, clock, reader.read)

    def _split(self, ranges: tuple[ShardRange, ...], end: StreamEnd) -> list[InputPartition]:
        splits = split_evenly(ranges, self._options.parallelism or _cores())
        ids = {topic: each.topic_id for topic, each in end.topics.items() if each.topic_id}
        return [
            _Splits(split, {topic: ids[topic] for topic in _topics_of(split) if topic in ids})
            for split in splits
        ]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a split. Runs in a Python worker of Spark. Raises as `KafkaAddress`."""
        check(isinstance(partition, _Splits), "a partition of another source")
        schema = to_arrow_schema(self._schema, timezone="UTC")
        kafka = self._options.kafka
        maker = RowMaker(self._options.shape, schema, kafka.reader)
        yield from read_split(kafka, partition.value, maker, topic_ids=partition.topic_ids)


class TopicStreamReader(
    _RecordReader,
    DataSourceStreamReader,  # type: ignore[misc]
    SupportsTriggerAvailableNow,  # type: ignore[misc]
):
    """The stream of a query. Its methods are called by Spark: see `DataSourceStreamReader`."""

    def initialOffset(self) -> Json:  # noqa: N802
        """Return where reading begins."""
        return self._planner.plan_initial().to_json()

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        """Return whether batches have limits: which, `latestOffset` knows."""
        options = self._options
        if options.records is None and options.size_bytes is None:
            return ReadAllAvailable()
        return ReadMaxRows(min(options.records or ALL, ALL))

    def latestOffset(self, start: Json, limit: ReadLimit) -> Json:  # noqa: N802
        """Return where the batch that begins at `start` ends."""
        limited = not isinstance(limit, ReadAllAvailable)
        return self._planner.plan_next(StreamEnd.parse(start), limited=limited).to_json()

    def reportLatestOffset(self) -> Json | None:  # noqa: N802
        """Return what Kafka had when the last batch was planned, and which partition holds it back.

        Spark shows it in the progress of the query, and reads nothing in it.
        """
        newest, waits_for = self._planner.newest, self._planner.waits_for
        if newest is None:
            return None
        return newest.to_json() | ({} if waits_for is None else {WAITS_FOR: waits_for.to_json()})

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """Plan no further than what is there now."""
        self._planner.fix_target()

    def partitions(self, start: Json, end: Json) -> Sequence[InputPartition]:
        """Return what the tasks of a batch read."""
        after = StreamEnd.parse(end)
        return self._split(self._planner.list_ranges(StreamEnd.parse(start), after), after)


class TopicReader(_RecordReader, DataSourceReader):  # type: ignore[misc]
    """Offsets of topics, read once."""

    def partitions(self) -> list[InputPartition]:
        """Return what the tasks read; one task that reads nothing, where there is nothing."""
        start, end = self._planner.plan_initial(), self._planner.plan_end_of_batch_read()
        ranges = self._planner.list_ranges(start, end)
        return self._split(ranges, end) or [_Splits((), {})]


def _topics_of(split: Split) -> set[str]:
    return {each.key.stream for each in split}


def _cores() -> int:
    return os.cpu_count() or 1
