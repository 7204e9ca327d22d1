"""Event times of records, for planning.

What it is: `TimeReader`, from offset ranges to the event times of the records there.
What it promises: reads and decodes as the tasks do, so an invalid record has no event time.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ashore.log.positions import OffsetRange, StreamShard
from ashore.topics.decode.registry import make_decoder
from ashore.topics.route.placement import event_millis, read_event_times
from ashore.topics.run.spark.source.partition_times import NO_TIMES, EventTimes
from ashore.topics.run.spark.source.record_schema import RowShape
from ashore.topics.run.spark.source.source_options import StepRule

ReadRecords = Callable[[Mapping[StreamShard, OffsetRange]], Iterator[pa.RecordBatch]]


class TimeReader:
    """Reads event times. Raises as `RowMaker`.

    `read_records`: yields the committed records of ranges, in the columns of FETCHED.
    """

    def __init__(
        self, read_records: ReadRecords, shape: RowShape, rule: StepRule, reader: str
    ) -> None:
        self._read_records = read_records
        self._event = rule.event
        self._decoder = make_decoder(shape.decode, shape.schema, reader)

    def read(self, ranges: Mapping[StreamShard, OffsetRange]) -> Mapping[StreamShard, EventTimes]:
        """Return the event times of all committed records of ranges. Raises as `KafkaAddress`."""
        parts: dict[StreamShard, list[EventTimes]] = defaultdict(list)
        for records in self._read_records(ranges):
            topics = records.column("topic").dictionary_encode()
            times, rows = self._times_of(records)
            partitions = records.column("partition").to_numpy()[rows]
            names, codes = topics.dictionary.to_pylist(), topics.indices.to_numpy()[rows]
            offsets = records.column("offset").to_numpy()[rows]
            for code, name in enumerate(names):
                for number in np.unique(partitions[codes == code]).tolist():
                    mine = (codes == code) & (partitions == number)
                    parts[StreamShard(name, str(number))].append(
                        EventTimes(offsets[mine], times[mine])
                    )
        return {shard: _concatenate(parts[shard]) for shard in ranges}

    def _times_of(self, records: pa.RecordBatch) -> tuple[np.ndarray, np.ndarray]:
        """Return the event times that records have, and which rows have them."""
        if self._event is None:
            millis, rows = event_millis(records.column("timestamp"), "ms"), None
        else:
            decoded = self._decoder.decode(records.column("value"))
            millis, rows = read_event_times(self._event, decoded.table), decoded.good
        there = millis.is_valid()
        places = np.flatnonzero(there.to_numpy(zero_copy_only=False))
        found = pc.drop_null(millis).to_numpy()
        return found, places if rows is None else rows.to_numpy()[places]


def _concatenate(parts: list[EventTimes]) -> EventTimes:
    if not parts:
        return NO_TIMES
    offsets = np.concatenate([each.offsets for each in parts])
    order = np.argsort(offsets, kind="stable")
    return EventTimes(offsets[order], np.concatenate([each.millis for each in parts])[order])
