"""Sheaves to pieces: where each record of a topic goes.

What it is: decoding, the late policy, buckets and dead letters of one topic, put together. The runs
of many partitions are worked on together, as a call for each costs more than its records; what
became of them is counted run by run.
What it promises: a record is in exactly one piece, or counted as filtered or as dropped. The same
run under the same order is sorted the same way, on any machine and at any time, whatever runs are
beside it.
"""

import functools
from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ashore.errors import BadRecord, check
from ashore.log.files import Role, Target
from ashore.log.positions import OffsetRange, ShardKey
from ashore.log.tables import LATE_SUFFIX, dead_ddl
from ashore.tables.ddl import Schema, parse_ddl, to_ddl
from ashore.tables.names import partition_path, partition_values
from ashore.topics.decode.arrow_types import to_arrow
from ashore.topics.decode.decode import BadRow, BadRows
from ashore.topics.decode.reasons import UNNAMEABLE, describe
from ashore.topics.decode.registry import make_decoder
from ashore.topics.decode.times import null_unwritable
from ashore.topics.route.buckets import Bucketer, Buckets
from ashore.topics.route.event_reading import read_event_times
from ashore.topics.route.event_time import event_millis
from ashore.topics.route.late import Lateness, Placement, place
from ashore.topics.route.split import split_rows
from ashore.topics.write.batch import BatchOrder, KeepSpan
from ashore.topics.write.data_file import Extent, Piece, Stretch, highest
from ashore.topics.write.dead import build_dead_rows, dead_target
from ashore.topics.write.provenance import fetched_name, provenance_schema
from ashore.topics.write.runs import Sheaf
from ashore.topics.write.specs import LandingSpec
from ashore.topics.write.values import DecodingReader, NoReader, RowReader, Rows, SparkReader

NEVER = -(1 << 63)  # before all event times: calendars end far above it


@dataclass(slots=True)
class RunCounts:
    """What became of the records of one run."""

    landed: int = 0
    dead: int = 0
    filtered: int = 0
    dropped: int = 0
    event_max_ms: int | None = None


@dataclass(slots=True)
class Sorted:
    """What became of a sheaf."""

    tallies: list[RunCounts]  # of each run
    pieces: list[Piece] = field(default_factory=list)
    counters: Counter[str] = field(default_factory=Counter)


@dataclass(frozen=True, slots=True)
class _Placed:
    """Rows of a sheaf with what says where they go."""

    table: pa.Table  # the columns of the files
    records: np.ndarray  # the index of each row's record, ascending
    event_ms: pa.Int64Array


class TopicSorter:
    """Sorts the sheaves of one topic, for one batch."""

    def __init__(self, order: BatchOrder, spec: LandingSpec) -> None:
        output = spec.output
        own = parse_ddl(output.schema)
        self._spec = spec
        self._output = output
        self._event = output.event
        self._keep = KeepFilter(order.keep)
        self._reader = _make_reader(order, spec, own)
        self._bucketer = Bucketer(output.partition_by, output.timezone, to_arrow(own))
        provenance = provenance_schema(
            provenance=spec.provenance, generation=spec.generation, headers=spec.headers
        )
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
        self._dead_ddl = dead_ddl(headers=spec.headers, generation=spec.generation)
        self._dead_target = dead_target(output, order.time.now_ms, self._dead_ddl)

    def sort(self, sheaf: Sheaf, stretches: Sequence[Stretch]) -> Sorted:
        """Return the pieces and counts of a sheaf, whose runs are of these stretches.

        Requires: a single run, where lost files are landed again. Raises BadRecord where the table
        says so.
        """
        result = Sorted([RunCounts() for _ in stretches])
        if not self._touches(sheaf, stretches):
            return result
        records = with_writable_times(sheaf.records, self._output.format)
        if self._spec.generation:
            records = _with_generation(records, sheaf, stretches)
        sheaf = replace(sheaf, records=records)
        rows = self._reader.read(records).without_unwritable(self._output.format)
        event_ms = self._read_event_times(records, rows)
        placement = place(event_ms, self._lateness)
        buckets = self._bucketer.assign(rows.table, placement.bucket_ms)
        result.counters["times_out_of_range"] += records.column("timestamp").null_count
        self._count(result.counters, rows, placement)
        placed = self._build_placed(records, rows, event_ms, is_split=len(buckets.values) > 1)
        adding = _Adding(result, sheaf, stretches)
        adding.count_filtered(placed.records, rows)
        bad = [rows.bad]
        for role, bucket, chosen in _split(buckets, placement.side):
            if bucket in buckets.unnameable:
                bad.append(self._refuse(placed.records, chosen, result.counters))
            else:
                target = self._find_target(role, buckets.values[bucket])
                self._add(adding, target, placed, chosen)
        self._bury(adding, BadRows.merge(bad))
        if self._keep.is_active:
            for tally in result.tallies:
                tally.filtered = tally.dropped = 0
            result.counters.clear()
        return result

    def _touches(self, sheaf: Sheaf, stretches: Sequence[Stretch]) -> bool:
        """Return whether something of a sheaf may be kept."""
        if not self._keep.is_active:
            return True
        check(len(stretches) == 1, "what is landed again is sorted run by run")
        ((first, last),) = sheaf.offsets
        return self._keep.touches(stretches[0].key, OffsetRange(first, last + 1))

    def _read_event_times(self, records: pa.RecordBatch, rows: Rows) -> pa.Int64Array:
        """Return the event time of each row: of its column, or Kafka's timestamp."""
        if self._event is not None:
            return read_event_times(self._event, rows.table)
        return event_millis(_take(records.column("timestamp"), rows.records), "us")

    def _plausible(self, event_ms: pa.Int64Array) -> np.ndarray:
        """Return the event times that may become a watermark; NEVER for what may not."""
        limit = self._lateness.now_ms + self._lateness.future_max_ms
        known = pc.fill_null(event_ms, NEVER).to_numpy(zero_copy_only=False)
        return np.where(known > limit, NEVER, known)

    def _count(self, counters: Counter[str], rows: Rows, placement: Placement) -> None:
        counters["unknown_fields"] += rows.unknown_fields
        counters["late"] += placement.late
        counters["far_future"] += placement.future
        counters["no_event_time"] += placement.untimed
        counters["near_1970"] += placement.near_1970
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
        self, records: pa.RecordBatch, rows: Rows, event_ms: pa.Int64Array, *, is_split: bool
    ) -> _Placed:
        columns = [rows.table.column(name) for name in self._bucketer.file_schema.names]
        columns += [
            _take(records.column(fetched_name(column.name)), rows.records).cast(column.type)
            for column in self._provenance
        ]
        table = pa.Table.from_arrays(columns, schema=self._file_schema)
        indices = np.arange(records.num_rows) if rows.records is None else rows.records.to_numpy()
        # Taking rows from many chunks, once for each bucket, is slow.
        return _Placed(table.combine_chunks() if is_split else table, indices, event_ms)

    def _add(
        self, adding: "_Adding", target: Target, placed: _Placed, chosen: pa.Array | None
    ) -> None:
        records = placed.records if chosen is None else placed.records[chosen.to_numpy()]
        if self._keep.is_active:
            offsets = pa.array(adding.offsets[records], pa.int64())
            kept = self._keep.select(target, adding.stretches[0].key, offsets)
            if kept is not None:
                chosen = kept if chosen is None else chosen.take(kept)
                records = records[kept.to_numpy()]
        if not len(records):
            return
        event_ms = _take(placed.event_ms, chosen)
        times = pc.min_max(event_ms)
        adding.result.pieces.append(
            Piece(
                target,
                self._output.roll_bytes,
                placed.table if chosen is None else placed.table.take(chosen),
                adding.enter(target.role, records, self._plausible(event_ms)),
                times["min"].as_py(),
                times["max"].as_py(),
            )
        )

    def _refuse(
        self, records: np.ndarray, chosen: pa.Array | None, counters: Counter[str]
    ) -> BadRows:
        """Return the records of rows that no directory can be named for."""
        refused = records if chosen is None else records[chosen.to_numpy()]
        counters["unnameable"] += len(refused)
        return BadRows.because(refused, UNNAMEABLE)

    def _bury(self, adding: "_Adding", bad: BadRows) -> None:
        """Do with bad records what the table says."""
        if not bad:
            return
        sheaf, result, indices = adding.sheaf, adding.result, bad.indices
        values = sheaf.records.column("value")
        result.counters["tombstones"] += values.take(pa.array(indices)).null_count
        match self._spec.on_invalid:
            case "dead_letter":
                table = build_dead_rows(sheaf.records, bad, self._dead_ddl)
                placed = _Placed(table, indices, pa.nulls(len(bad), pa.int64()))
                self._add(adding, self._dead_target, placed, None)
            case "fail" if not self._keep.is_active:
                raise _bad_record(sheaf, bad[0])
            case _:
                for tally, count in zip(result.tallies, sheaf.count(indices), strict=True):
                    tally.dropped += count

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


class _Adding:
    """A sheaf that is being sorted: what its rows are counted in."""

    def __init__(self, result: Sorted, sheaf: Sheaf, stretches: Sequence[Stretch]) -> None:
        self.result = result
        self.sheaf = sheaf
        self.stretches = stretches
        self.offsets = sheaf.records.column("offset").to_numpy()

    def count_filtered(self, records: np.ndarray, rows: Rows) -> None:
        """Count the records that are neither among `records`, which are rows, nor bad."""
        if not rows.filtered:
            return
        sheaf, tallies = self.sheaf, self.result.tallies
        bad = sheaf.count(np.sort(rows.bad.indices))
        taken = zip(sheaf.bounds, sheaf.count(records), bad, tallies, strict=True)
        for (start, end), kept, buried, tally in taken:
            tally.filtered = end - start - kept - buried
        total = sum(tally.filtered for tally in tallies)
        check(
            total == rows.filtered, f"{rows.filtered} records filtered, {total} not accounted for"
        )

    def enter(self, role: Role, records: np.ndarray, event_ms: np.ndarray) -> tuple[Extent, ...]:
        """Count rows that are to be written, and return which stretches they are of.

        Arguments:
            role: of where they go.
            records: the index of each row's record, ascending.
            event_ms: of each row, NEVER where it has none that counts.

        """
        extents, end = [], 0
        for number, count in enumerate(self.sheaf.count(records)):
            if not count:
                continue
            start, end = end, end + count
            first, last = int(self.offsets[records[start]]), int(self.offsets[records[end - 1]])
            extents.append(Extent(self.stretches[number], first, last + 1, count))
            tally = self.result.tallies[number]
            if role is Role.DEAD:
                tally.dead += count
            else:
                tally.landed += count
            event_max_ms = int(event_ms[start:end].max())
            if event_max_ms != NEVER:
                tally.event_max_ms = highest(tally.event_max_ms, event_max_ms)
        check(end == len(records), "a row is of no run")
        return tuple(extents)


def with_writable_times(records: pa.RecordBatch, file_format: str) -> pa.RecordBatch:
    """Return records whose own times are null where a file cannot hold them."""
    times, count = null_unwritable(records.column("timestamp"), file_format)
    if not count:
        return records
    index = records.schema.get_field_index("timestamp")
    return records.set_column(index, "timestamp", times)


def _with_generation(
    records: pa.RecordBatch, sheaf: Sheaf, stretches: Sequence[Stretch]
) -> pa.RecordBatch:
    """Return records with a column of the generations of their topic, as an order has them."""
    sizes = [end - start for start, end in sheaf.bounds]
    generations = np.repeat([each.key.generation for each in stretches], sizes)
    return records.append_column("generation", pa.array(generations.astype(np.int32)))


def _make_reader(order: BatchOrder, spec: LandingSpec, own: Schema) -> RowReader:
    if not order.is_decoded:
        return NoReader(to_arrow(own))
    if spec.is_decoded_by_spark:
        return SparkReader(spec)
    return DecodingReader(make_decoder(spec.decode, own, spec.reader))


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


def _bad_record(sheaf: Sheaf, bad: BadRow) -> BadRecord:
    offset = sheaf.records.column("offset")[bad.index].as_py()
    partition = sheaf.partitions[bisect_right(sheaf.starts, bad.index) - 1]
    return BadRecord(
        f"{sheaf.topic}/{partition}, offset {offset}: {describe(bad.reason)}",
        hint="fix the record's schema, or set `on_invalid: dead_letter` for its table",
        topic=sheaf.topic,
        partition=partition,
        offset=offset,
        reason=bad.reason,
    )


class KeepFilter:
    """What is written when lost files are landed again: the rows of a lost file.

    Target and offset decide. Without spans, as in every usual batch, everything passes.
    """

    def __init__(self, spans: tuple[KeepSpan, ...] | None) -> None:
        self.is_active = spans is not None
        self._spans: defaultdict[tuple[str, str, ShardKey], list[OffsetRange]] = defaultdict(list)
        for span in spans or ():
            self._spans[span.table, span.partition, span.key].append(span.offsets)

    def touches(self, key: ShardKey, offsets: OffsetRange) -> bool:
        """Return whether something of these offsets may pass."""
        return not self.is_active or any(
            span.overlaps(offsets)
            for (_, _, owner), spans in self._spans.items()
            if owner == key
            for span in spans
        )

    def select(
        self, target: Target, key: ShardKey, offsets: pa.Int64Array
    ) -> pa.UInt64Array | None:
        """Return the indices of the offsets that pass; None: all."""
        if not self.is_active:
            return None
        masks = [
            pc.and_(pc.greater_equal(offsets, span.start), pc.less(offsets, span.end))
            for span in self._spans.get((target.table, target.partition, key), ())
        ]
        if not masks:
            return pa.array([], pa.uint64())
        return pc.indices_nonzero(functools.reduce(pc.or_, masks))
