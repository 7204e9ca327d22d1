"""Runs to pieces: where each record of a topic goes.

What it is: decoding, the late policy, buckets and dead letters of one topic, put together.
What it promises: a record is in exactly one piece, or counted as filtered or as dropped. The same
run under the same order is sorted the same way, on any machine and at any time.
What it must not know: files, storage.
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import pyarrow as pa
import pyarrow.compute as pc

from ashore.errors import BadRecord
from ashore.formats.arrow_types import to_arrow
from ashore.formats.ddl import Schema, parse_ddl, to_ddl
from ashore.formats.decode import BadRow
from ashore.formats.registry import make_decoder
from ashore.formats.times import null_unwritable
from ashore.landing.batch import BatchOrder
from ashore.landing.provenance import FETCHED_NAMES, provenance_schema
from ashore.landing.specs import LandingSpec
from ashore.landing.writer.data_file import Piece, Stretch, highest
from ashore.landing.writer.dead import build_dead_rows, dead_target
from ashore.landing.writer.keep import KeepFilter
from ashore.landing.writer.runs import Run
from ashore.landing.writer.values import DecodingReader, NoReader, RowReader, Rows, SparkReader
from ashore.protocol.files import Role, Target
from ashore.protocol.positions import OffsetRange
from ashore.protocol.side_tables import LATE_SUFFIX
from ashore.routing.buckets import Bucketer, Buckets
from ashore.routing.event_reading import read_event_times
from ashore.routing.event_time import event_millis
from ashore.routing.late import Lateness, Placement, place
from ashore.routing.names import partition_path, partition_values
from ashore.routing.split import split_rows

UNNAMEABLE = "a partition value is too long for the name of a directory"


@dataclass(slots=True)
class Sorted:
    """What became of a run."""

    pieces: list[Piece] = field(default_factory=list)
    landed: int = 0
    dead: int = 0
    filtered: int = 0
    dropped: int = 0
    event_max_ms: int | None = None
    counters: Counter[str] = field(default_factory=Counter)

    def add(self, piece: Piece) -> None:
        """Take up rows that are to be written."""
        self.pieces.append(piece)
        if piece.target.role is Role.DEAD:
            self.dead += piece.rows.num_rows
        else:
            self.landed += piece.rows.num_rows


@dataclass(frozen=True, slots=True)
class _Placed:
    """The rows of a run with what says where they go."""

    table: pa.Table  # the columns of the files
    offsets: pa.Int64Array
    event_ms: pa.Int64Array


class TopicSorter:
    """Sorts the runs of one topic, for one batch."""

    def __init__(self, order: BatchOrder, spec: LandingSpec) -> None:
        output = spec.output
        own = parse_ddl(output.schema)
        self._spec = spec
        self._output = output
        self._event = output.event
        self._keep = KeepFilter(order.keep)
        self._reader = _make_reader(order, spec, own)
        self._bucketer = Bucketer(output.partition_by, output.timezone, to_arrow(own))
        provenance = provenance_schema(provenance=spec.provenance, headers=spec.headers)
        self._provenance = to_arrow(provenance)
        self._file_schema = pa.schema([*self._bucketer.file_schema, *self._provenance])
        self._ddl = to_ddl(Schema((*own.fields, *provenance.fields)))
        self._lateness = Lateness(
            spec.late.policy,
            spec.late.after_ms,
            spec.late.future_max_ms,
            order.time.now_ms,
            order.time.watermark_ms(output.table),
            spec.late.keep_ms,
        )
        self._targets: dict[tuple[Role, tuple[str, ...]], Target] = {}
        self._dead_target = dead_target(output, order.time.now_ms, headers=spec.headers)

    def sort(self, run: Run, stretch: Stretch) -> Sorted:
        """Return the pieces and counts of a run. Raises BadRecord where the table says so."""
        if not self._keep.touches(stretch.key, OffsetRange(run.first, run.last + 1)):
            return Sorted()
        run = with_writable_times(run, self._output.format)
        rows = self._reader.read(run.records).without_unwritable(self._output.format)
        event_ms = self._read_event_times(run, rows)
        placement = place(event_ms, self._lateness)
        buckets = self._bucketer.assign(rows.table, placement.bucket_ms)
        result = Sorted(filtered=rows.filtered)
        result.counters["times_out_of_range"] += run.records.column("timestamp").null_count
        self._count(result.counters, rows, placement)
        bad = list(rows.bad)
        placed = self._build_placed(run, rows, event_ms, is_split=len(buckets.values) > 1)
        for role, bucket, chosen in _split(buckets, placement.side):
            if bucket in buckets.unnameable:
                bad += self._refuse(rows, chosen, result.counters)
            else:
                target = self._find_target(role, buckets.values[bucket])
                self._add(result, target, placed, chosen, stretch)
        bad.sort(key=lambda each: each.index)
        self._bury(result, run, bad, stretch)
        if self._keep.is_active:
            result.filtered = result.dropped = 0
            result.counters.clear()
        return result

    def _read_event_times(self, run: Run, rows: Rows) -> pa.Int64Array:
        """Return the event time of each row: of its column, or Kafka's timestamp."""
        if self._event is not None:
            return read_event_times(self._event, rows.table)
        return event_millis(_take(run.records.column("timestamp"), rows.records), "us")

    def _find_event_max(self, event_ms: pa.Int64Array) -> int | None:
        """Return the highest event time that is plausible: it may become a watermark."""
        limit = self._lateness.now_ms + self._lateness.future_max_ms
        found: int | None = pc.max(event_ms).as_py()
        if found is not None and found > limit:
            found = pc.max(event_ms.filter(pc.less_equal(event_ms, limit))).as_py()
        return found

    def _count(self, counters: Counter[str], rows: Rows, placement: Placement) -> None:
        counters["unknown_fields"] += rows.unknown_fields
        counters["late"] += placement.late
        counters["far_future"] += placement.future
        counters["no_event_time"] += placement.untimed
        match self._spec.late.policy:
            case "rehome":
                rehomed = placement.late + placement.future + placement.untimed
            case "keep":
                rehomed = placement.future + placement.untimed
            case _:
                rehomed = placement.untimed
        counters["rehomed"] += rehomed
        counters["sided"] += 0 if placement.side is None else placement.side.true_count

    def _build_placed(
        self, run: Run, rows: Rows, event_ms: pa.Int64Array, *, is_split: bool
    ) -> _Placed:
        columns = [rows.table.column(name) for name in self._bucketer.file_schema.names]
        columns += [
            _take(run.records.column(name), rows.records).cast(column.type)
            for name, column in zip(FETCHED_NAMES, self._provenance, strict=False)
        ]
        table = pa.Table.from_arrays(columns, schema=self._file_schema)
        offsets = _take(run.records.column("offset"), rows.records)
        # Taking rows from many chunks, once for each bucket, is slow.
        return _Placed(table.combine_chunks() if is_split else table, offsets, event_ms)

    def _add(
        self,
        result: Sorted,
        target: Target,
        placed: _Placed,
        chosen: pa.Array | None,
        stretch: Stretch,
    ) -> None:
        offsets = _take(placed.offsets, chosen)
        kept = self._keep.select(target, stretch.key, offsets)
        if kept is not None:
            chosen = kept if chosen is None else chosen.take(kept)
            offsets = offsets.take(kept)
        if not len(offsets):
            return
        event_ms = _take(placed.event_ms, chosen)
        times = pc.min_max(event_ms)
        result.event_max_ms = highest(result.event_max_ms, self._find_event_max(event_ms))
        result.add(
            Piece(
                target,
                self._output.roll_bytes,
                placed.table if chosen is None else placed.table.take(chosen),
                stretch,
                offsets[0].as_py(),
                offsets[-1].as_py() + 1,
                times["min"].as_py(),
                times["max"].as_py(),
            )
        )

    def _refuse(self, rows: Rows, chosen: pa.Array | None, counters: Counter[str]) -> list[BadRow]:
        """Return the records of rows that no directory can be named for."""
        refused = pa.array(range(rows.table.num_rows), pa.int64()) if chosen is None else chosen
        records = refused if rows.records is None else rows.records.take(refused)
        counters["unnameable"] += len(records)
        return [BadRow(record, UNNAMEABLE) for record in records.to_pylist()]

    def _bury(self, result: Sorted, run: Run, bad: list[BadRow], stretch: Stretch) -> None:
        """Do with bad records what the table says."""
        if not bad:
            return
        values, offsets = run.records.column("value"), run.records.column("offset")
        indices = pa.array([row.index for row in bad], pa.int64())
        result.counters["tombstones"] += values.take(indices).null_count
        match self._spec.on_invalid:
            case "dead_letter":
                table = build_dead_rows(run, bad, headers=self._spec.headers)
                placed = _Placed(table, offsets.take(indices), pa.nulls(len(bad), pa.int64()))
                self._add(result, self._dead_target, placed, None, stretch)
            case "fail" if not self._keep.is_active:
                raise _bad_record(run, bad[0])
            case _:
                result.dropped += len(bad)

    def _find_target(self, role: Role, values: tuple[str, ...]) -> Target:
        found = self._targets.get((role, values))
        if found is None:
            suffix = LATE_SUFFIX if role is Role.LATE else ""
            columns = self._bucketer.partition_by
            found = self._targets[role, values] = Target(
                self._output.table + suffix,
                role,
                partition_path(columns, values),
                partition_values(columns, values),
                self._ddl,
                self._output.format,
            )
        return found


def with_writable_times(run: Run, file_format: str) -> Run:
    """Return a run whose records' own times are null where a file cannot hold them."""
    times, count = null_unwritable(run.records.column("timestamp"), file_format)
    if not count:
        return run
    index = run.records.schema.get_field_index("timestamp")
    return replace(run, records=run.records.set_column(index, "timestamp", times))


def _make_reader(order: BatchOrder, spec: LandingSpec, own: Schema) -> RowReader:
    if not order.is_decoded:
        return NoReader(to_arrow(own))
    if spec.is_decoded_by_spark:
        return SparkReader(spec.output.schema)
    return DecodingReader(make_decoder(spec.decode, own))


def _split(
    buckets: Buckets, side: pa.BooleanArray | None
) -> Iterator[tuple[Role, int, pa.Array | None]]:
    """Yield role, bucket and rows (None: all) of each piece; every row is in one of them."""
    for bucket, rows in split_rows(buckets):
        if side is None:
            yield Role.MAIN, bucket, rows
            continue
        is_side = _take(side, rows)
        for role, mask in ((Role.MAIN, pc.invert(is_side)), (Role.LATE, is_side)):
            chosen = pc.indices_nonzero(mask)
            if len(chosen):
                yield role, bucket, chosen if rows is None else rows.take(chosen)


def _take(column: pa.Array, rows: pa.Array | None) -> pa.Array:
    return column if rows is None else column.take(rows)


def _bad_record(run: Run, bad: BadRow) -> BadRecord:
    offset = run.records.column("offset")[bad.index].as_py()
    return BadRecord(
        f"{run.topic}/{run.partition}, offset {offset}: {bad.reason}",
        hint="fix the record's schema, or set `on_invalid: dead_letter` for its table",
        topic=run.topic,
        partition=run.partition,
        offset=offset,
        reason=bad.reason,
    )
