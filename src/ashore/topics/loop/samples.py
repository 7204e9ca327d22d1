"""Some of the newest records of a topic that have been read, to explain what a table shows of them.

What it is: `read_samples`; `explain_times`, what the event times of records would be in another
unit; `find_null_columns`, columns that are NULL in every row while records have a field that is
named nearly so, from the footers of the newest data files and a few records; and `NullColumnWatch`,
which a running slice asks for these now and then.
What it promises: reads only, and few bytes: one request for each topic, the footer of a file once.
No error: a source that does not answer gives no samples. What is found is an explanation, never a
decision. A column that is rightly NULL is not reported: a record has to have the field, and none
may have the column's own.
"""

import json
import struct
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from ashore.base.clock import Clock
from ashore.base.recent import Recent
from ashore.errors import OffsetsGone, OffsetsWentBack, SourceError, StorageError
from ashore.log.entries import Prepare
from ashore.log.files import BatchPlace, DataFile, Role, Target
from ashore.log.fold import Fold, ShardState
from ashore.log.names import SliceName, plain_source
from ashore.log.positions import OffsetRange, StreamShard
from ashore.storage.base import Storage
from ashore.tables.ddl import Field, Struct, is_json, parse_ddl
from ashore.topics.loop.shares import FEW, SEE_STATUS
from ashore.topics.read.source import Record, Source
from ashore.topics.route.event_columns import EventColumn
from ashore.topics.write.batch import LandingSpec

RECORDS = 20
VALUE_CHARS = 60
YEARS_MS = 5 * 365 * 86_400_000  # a time as near as this to its record is a likely one
NUMBER_MAX = 1e20
PER_MS = {"s": 0.001, "ms": 1.0, "us": 1_000.0, "ns": 1_000_000.0}

FILES_MAX = 100  # footers that are read of a table at a time
TAIL_BYTES = 64 << 10  # most footers are smaller
FOOTER_BYTES_MAX = 16 << 20
KNOWN_MAX = 5_000
LOOK_S = 600.0  # a running slice looks once in so long
TABLES_MAX, FILES_KEPT = 50, 20  # whose files a running slice keeps in mind until then
UNKNOWN = "unknown_fields"  # the counter of rows with a field that the schema does not name
TOPICS_MAX = 3  # of a table, whose records are read

_known = Recent[tuple[str, str], frozenset[str]](KNOWN_MAX)

Path = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class SampledRecord:
    """A record, as JSON. `timestamp_ms`: of Kafka."""

    place: str
    timestamp_ms: int | None
    fields: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Respelled:
    """A field that is named as a column is, but for case, `_` or `-`."""

    column: Path
    field: str
    place: str  # of a record that has it


def read_samples(
    source: Source, fold: Fold, topic: str, count: int = RECORDS
) -> list[SampledRecord]:
    """Return the newest JSON objects of a topic that the log has as read; none: not known."""
    states = [
        state
        for key, state in fold.current().items()
        if key.stream == topic and plain_source(key.source) == source.name
    ]
    if not states:
        return []
    most = max(states, key=lambda each: each.next - each.first)
    try:
        return list(_parse(most, _read(source, most, count)))
    except (SourceError, OffsetsGone, OffsetsWentBack):
        return []


def _read(source: Source, state: ShardState, count: int) -> list[Record]:
    shard = StreamShard(state.key.stream, state.key.shard)
    info = source.describe_streams([shard.stream]).get(shard.stream)
    if info is None or info.stream_id != state.stream_id:
        return []  # another topic of the same name
    there = source.read_offsets([shard])[shard]
    start = max(there.earliest, state.first, state.next - count)
    if start >= state.next:
        return []
    return list(source.read_again(shard, OffsetRange(start, state.next)))


def _parse(state: ShardState, records: Iterable[Record]) -> Iterator[SampledRecord]:
    for record in records:
        try:
            fields = json.loads(record.value or b"")
        except (ValueError, RecursionError):
            continue
        if isinstance(fields, dict):
            place = f"{state.key.stream}/{state.key.shard} offset {record.offset}"
            yield SampledRecord(place, record.timestamp_ms, fields)


def find_respelled(columns: Sequence[Path], samples: Sequence[SampledRecord]) -> list[Respelled]:
    """Return the columns that no sample has, and one has under another spelling.

    Arguments:
        columns: paths of columns and of fields below them, each after those that it is below.
        samples: of the topic.

    """
    found: dict[Path, Respelled] = {}
    names = set(columns)
    for path in columns:
        if any(path[:length] in found for length in range(1, len(path))):
            continue  # it is said of what it is below
        respelled = _respelled(path, samples, names)
        if respelled is not None:
            found[path] = respelled
    return list(found.values())


def _respelled(path: Path, samples: Sequence[SampledRecord], names: set[Path]) -> Respelled | None:
    *above, name = path
    found = None
    for sample in samples:
        fields: Any = sample.fields
        for each in above:
            fields = fields.get(each) if isinstance(fields, Mapping) else None
        if not isinstance(fields, Mapping):
            continue
        if name in fields:
            return None
        for field, value in fields.items():
            is_own = (*above, field) in names  # another column is named so
            if not is_own and value is not None and _plain(field) == _plain(name):
                found = found or Respelled(path, ".".join((*above, field)), sample.place)
    return found


def _plain(name: str) -> str:
    return name.casefold().replace("_", "").replace("-", "")


def explain_times(event: EventColumn, samples: Sequence[SampledRecord]) -> str:
    """Return what a sample has for its event time, and in which unit it would be a likely one."""
    path = tuple(event.path.split("."))
    for respelled in find_respelled([path], samples):
        return f"{respelled.place} has `{respelled.field}` and not `{event.path}`"
    for sample in samples:
        value: Any = sample.fields
        for name in path:
            value = value.get(name) if isinstance(value, Mapping) else None
        if value is None:
            continue
        shown = json.dumps(value)
        cut = shown if len(shown) <= VALUE_CHARS else f"{shown[:VALUE_CHARS]}..."
        text = f"`{event.path}` of {sample.place} is {cut}"
        likely = _likely_unit(value, sample.timestamp_ms)
        if likely is None or likely[0] == event.unit or event.format:
            return text
        unit, time_ms = likely
        time = datetime.fromtimestamp(time_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M")
        return f"{text}, which with `unit: {unit}` is {time} UTC, and not with `unit: {event.unit}`"
    return f"none of {len(samples)} records has `{event.path}`" if samples else ""


def _likely_unit(value: object, around_ms: int | None) -> tuple[str, float] | None:
    """Return the unit in which a number is a time not far from that of its record."""
    if isinstance(value, bool) or not isinstance(value, int | float) or around_ms is None:
        return None
    if abs(value) > NUMBER_MAX:
        return None
    times = [(unit, value / per_ms) for unit, per_ms in PER_MS.items()]
    near = [each for each in times if abs(each[1] - around_ms) <= YEARS_MS]
    return min(near, key=lambda each: abs(each[1] - around_ms), default=None)


@dataclass(frozen=True, slots=True)
class PlacedFile:
    """A data file of a main table, and where it may be."""

    table: str
    paths: tuple[str, str]  # where it belongs, and where it was written
    rows: int
    size_bytes: int
    extension: str


@dataclass(frozen=True, slots=True)
class NullColumn:
    """A column that is NULL in every row, and the field that records have instead."""

    table: str
    respelled: Respelled
    rows: int | None  # that were looked at; None: only records were
    samples: int

    @property
    def text(self) -> str:
        """What is so, in a sentence."""
        column, field = ".".join(self.respelled.column), self.respelled.field
        place = self.respelled.place
        if self.rows is None:
            return (
                f"none of the last {self.samples} records for {self.table} has the field "
                f"`{column}`, which a column is read from, but `{field}` ({place})"
            )
        return (
            f"column `{column}` of {self.table} is NULL in each of its last {self.rows:,} rows; "
            f"records have the field `{field}` instead ({place})"
        )


HINT = (
    "names of fields are compared with case: name the column in `schema` as the records name the "
    "field, or have the producers name the field as the column; rows that landed stay NULL until "
    "their records are landed again"
)


def place_files(name: SliceName, epoch: int, body: Prepare) -> Iterator[PlacedFile]:
    """Yield the files of main tables that a batch has written."""
    place = BatchPlace(name, epoch, body.batch)
    for file in body.files:
        target = body.targets[file.target]
        if target.role is Role.MAIN:
            yield _placed(place, file, target)


def _placed(place: BatchPlace, file: DataFile, target: Target) -> PlacedFile:
    found = place.place(file, target)
    paths = found.final, found.pending
    return PlacedFile(target.table, paths, file.rows, file.size_bytes, target.extension)


@dataclass(frozen=True, slots=True)
class FooterLook:
    """The footers of the files of a table, the newest first, up to a number of rows.

    `has_unknown`: whether records have fields that the schema does not name, as far as is counted.
    """

    storage: Storage
    files: Iterable[PlacedFile]
    records: int
    has_unknown: bool

    def __call__(self, ddl: str) -> tuple[int, list[Path]]:
        """Return how many rows were looked at, and the columns that are NULL in all of them.

        A file that cannot be read is left out. `ddl`: the table's own columns.
        """
        rows, left = 0, list_paths(ddl)
        for number, file in enumerate(self.files):
            if rows >= self.records or not left or number >= FILES_MAX:
                break
            unset = _read_unset(self.storage, file)
            if unset is not None:
                rows += file.rows
                left = [path for path in left if ".".join(path) in unset]
        return rows, left if rows >= FEW else []


def find_null_columns(
    spec: LandingSpec, look: FooterLook | None, read: Callable[[], Sequence[SampledRecord]]
) -> list[NullColumn]:
    """Return the columns of a table that no row has set, as far as a field shows why.

    Arguments:
        spec: of a topic of the table.
        look: at files of the table; None: it has none. Not used where files do not show it: of
            SELECT, and of other formats than Parquet. Only records show it then.
        read: returns some of the newest records of the table's topics.

    """
    if not is_json(spec.decode):
        return []
    rows: int | None = None
    if look is None or spec.is_selected:
        columns = list_paths(spec.decode_schema)
    elif spec.output.extension == "parquet":
        rows, columns = look(spec.output.schema)
    else:
        columns = list_paths(spec.output.schema) if look.has_unknown else []
    samples = read() if columns else ()
    if rows is None and len(samples) < FEW:
        return []
    return [
        NullColumn(spec.table, each, rows, len(samples))
        for each in find_respelled(columns, samples)
    ]


def list_paths(ddl: str) -> list[Path]:
    """Return the columns of a schema and the fields below them, each after what it is below."""
    return [path for field in parse_ddl(ddl).fields for path in _paths(field, ())]


def _paths(field: Field, above: Path) -> Iterator[Path]:
    path = (*above, field.name)
    yield path
    if isinstance(field.type, Struct):
        for each in field.type.fields:
            yield from _paths(each, path)


def _read_unset(storage: Storage, file: PlacedFile) -> frozenset[str] | None:
    """Return the paths of columns that are NULL in each row; None: the file cannot be read."""
    key = storage.describe(), file.paths[0]
    known = _known.get(key)
    if known is not None:
        return known
    for path in file.paths:
        try:
            return _known.put(key, unset_columns(_read_footer(storage, path, file.size_bytes)))
        except (StorageError, OSError, ValueError):
            continue  # it is elsewhere, or damaged: `verify` looks at that
    return None


def _read_footer(storage: Storage, path: str, size_bytes: int) -> bytes:
    """Return the end of a Parquet file, from its footer on. Raises StorageError, ValueError."""
    length = min(size_bytes, TAIL_BYTES)
    tail = storage.read(path, size_bytes - length, length)
    if len(tail) < 8:
        raise ValueError("no Parquet file")
    (footer,) = struct.unpack("<I", tail[-8:-4])
    needed = min(size_bytes, footer + 8)
    if needed > FOOTER_BYTES_MAX:
        raise ValueError("the footer is too large")
    return tail if needed <= length else storage.read(path, size_bytes - needed, needed)


def unset_columns(footer: bytes) -> frozenset[str]:
    """Return the columns, and fields below them, of which a file says that all are NULL."""
    import pyarrow as pa  # noqa: PLC0415 - who only looks at logs does not load Arrow
    import pyarrow.parquet as pq  # noqa: PLC0415

    metadata = pq.read_metadata(pa.BufferReader(footer))
    set_paths, paths = set[str](), set[str]()
    for number in range(metadata.num_columns):
        is_unset = all(
            _is_null(metadata.row_group(group).column(number))
            for group in range(metadata.num_row_groups)
        )
        parts = metadata.schema.column(number).path.split(".")
        above = {".".join(parts[:length]) for length in range(1, len(parts) + 1)}
        paths |= above
        if not is_unset:
            set_paths |= above
    return frozenset(paths - set_paths)


def _is_null(chunk: Any) -> bool:
    """Return whether a column chunk has statistics that say that each value is NULL."""
    statistics = chunk.statistics
    if statistics is None or not statistics.has_null_count:
        return False
    return bool(statistics.null_count == chunk.num_values)


class NullColumnWatch:
    """Looks for such columns while a slice runs. Used by one thread."""

    def __init__(
        self, storage: Storage, clock: Clock, read: Callable[[Fold, str], Sequence[SampledRecord]]
    ) -> None:
        self._storage, self._clock, self._read = storage, clock, read
        self._files: dict[str, deque[PlacedFile]] = {}  # since the last look
        self._rows = 0
        self._has_unknown = False
        self._next_s: float | None = None
        self._known: set[tuple[str, Path]] = set()

    def take(
        self,
        name: SliceName,
        fold: Fold,
        body: Prepare,
        find_specs: Callable[[], Mapping[str, LandingSpec]],
    ) -> Iterator[str]:
        """Take a batch whose files are in their tables. Yields a sentence for each new column."""
        for file in place_files(name, fold.epoch, body):
            if file.table in self._files or len(self._files) < TABLES_MAX:
                kept = self._files.setdefault(file.table, deque(maxlen=FILES_KEPT))
                kept.appendleft(file)
                self._rows += file.rows
        self._has_unknown = self._has_unknown or UNKNOWN in dict(body.counters)
        now_s = self._clock.monotonic_s()
        if self._rows < FEW or (self._next_s is not None and now_s < self._next_s):
            return
        self._next_s = now_s + LOOK_S
        found = {
            (each.table, each.respelled.column): each for each in self._find(fold, find_specs())
        }
        for key, each in found.items():
            if key not in self._known:
                yield f"{each.text}{SEE_STATUS}"
        self._known = set(found)
        self._files.clear()
        self._rows, self._has_unknown = 0, False

    def _find(self, fold: Fold, specs: Mapping[str, LandingSpec]) -> Iterator[NullColumn]:
        for table, files in sorted(self._files.items()):
            topics = sorted(topic for topic, spec in specs.items() if spec.table == table)
            if topics:
                rows = sum(each.rows for each in files)
                look = FooterLook(self._storage, files, rows, self._has_unknown)
                yield from find_null_columns(specs[topics[0]], look, self._reading(fold, topics))

    def _reading(self, fold: Fold, topics: Sequence[str]) -> Callable[[], list[SampledRecord]]:
        def read() -> list[SampledRecord]:
            return [each for topic in topics[:TOPICS_MAX] for each in self._read(fold, topic)]

        return read
