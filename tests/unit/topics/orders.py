"""Orders, records and what was written, for the tests of the writer."""

import io
import json
import threading
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.orc as po
import pyarrow.parquet as pq
from tests.specs import landing

from ashore.log.files import BatchPlace
from ashore.log.names import SliceName
from ashore.log.positions import BatchTime, OffsetRange, ShardKey, ShardRange
from ashore.storage.memory import MemoryStorage
from ashore.storage.open import LakeAddress
from ashore.topics.read.record_columns import FETCHED
from ashore.topics.write.batch import BatchOrder, LateRule

HOUR_MS = 3_600_000
NOW_MS = 1_795_219_200_000 + 20 * 60_000  # 2026-11-21 00:20 UTC, 08:20 in Shanghai
SCHEMA = "id BIGINT, ts BIGINT, country STRING"

CLICKS = landing(
    schema=SCHEMA,
    partition_by=("date", "hour"),
    timezone="Asia/Shanghai",
    late=LateRule(after_ms=2 * HOUR_MS, policy="rehome", future_max_ms=HOUR_MS),
    format="parquet",
    roll_bytes=256_000_000,
)


def key(topic, partition):
    return ShardKey("kafka", topic, 1, str(partition))


def an_order(tables=None, partitions=2, *, end=1000, watermarks=(), keep=None):
    tables = {"clicks": CLICKS} if tables is None else tables
    ranges = [
        ShardRange(key(topic, partition), OffsetRange(0, end))
        for topic in tables
        for partition in range(partitions)
    ]
    return BatchOrder(
        lake=LakeAddress("memory:///"),
        name=SliceName("job", "main"),
        epoch=3,
        batch=42,
        time=BatchTime(NOW_MS, tuple(watermarks)),
        ranges=tuple(ranges),
        tables=tuple(tables.items()),
        keep=keep,
    )


def spec(**changes):
    return landing(CLICKS, **changes)


def a_record(offset, value, *, topic="clicks", partition=0, timestamp_ms=NOW_MS, record_key=None):
    return {
        "topic": topic,
        "partition": partition,
        "offset": offset,
        "timestamp": timestamp_ms * 1000,
        "key": record_key,
        "value": value if value is None or isinstance(value, bytes) else json.dumps(value).encode(),
    }


def click(offset, *, ts=NOW_MS, country="CN", **more):
    return a_record(offset, {"id": offset, "ts": ts, "country": country}, **more)


def a_batch(records, schema=FETCHED):
    columns = [[record.get(field.name) for record in records] for field in schema]
    arrays = [pa.array(c, f.type) for c, f in zip(columns, schema, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


@dataclass(frozen=True)
class WrittenFile:
    """A listed file, and what the storage holds under its name."""

    target: object
    file: object
    path: str
    content: bytes

    @property
    def rows(self):
        source = io.BytesIO(self.content)
        match self.target.extension:
            case "parquet":
                return pq.read_table(source).to_pylist()
            case "orc":
                return po.read_table(source).to_pylist()
            case _:
                return [json.loads(line) for line in source]

    @property
    def metadata(self):
        raw = pq.read_metadata(io.BytesIO(self.content)).metadata
        return {name.decode(): value.decode() for name, value in raw.items()}


def read_back(storage, order, result):
    """Return the listed files, as the driver will find them."""
    batch = BatchPlace(order.name, order.epoch, order.batch)
    files = []
    for file in result.files:
        target = result.targets[file.target]
        path = batch.place(file, target).pending
        files.append(WrittenFile(target, file, path, storage.read(path)))
    return files


def all_files(storage, directory):
    """Return every path below a directory."""
    found = []
    for each in storage.list(directory):
        found += all_files(storage, each.path) if each.is_directory else [each.path]
    return found


class Counting(MemoryStorage):
    """Counts the files that are open at a time, closing ones too."""

    def __init__(self):
        super().__init__()
        self._counting = threading.Lock()
        self.open_now = 0
        self.open_most = 0

    def open_write(self, path):
        with self._counting:
            self.open_now += 1
            self.open_most = max(self.open_most, self.open_now)
        return _CountingWriter(super().open_write(path), self)

    def forget(self):
        with self._counting:
            self.open_now -= 1


class _CountingWriter:
    def __init__(self, inner, storage):
        self._inner = inner
        self._storage = storage

    @property
    def closed(self):
        return self._inner.closed

    def write(self, data):
        return self._inner.write(data)

    def close(self):
        self._end(self._inner.close)

    def abandon(self):
        self._end(self._inner.abandon)

    def _end(self, act):
        was_closed = self._inner.closed
        try:
            act()
        finally:
            if self._inner.closed and not was_closed:
                self._storage.forget()
