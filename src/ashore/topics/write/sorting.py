"""Topic runs to rows of targets: where each record of a topic goes.

What it is: decoding, the late policy, buckets and dead letters of one topic, put together. Many
partitions are sorted together, as a call for each costs more than its records; records are counted
by shard. Dead letters are records that are no row of their table, in `<table>__dead`.
What it promises: a record is in exactly one row, or counted as filtered or as dropped. The same
record under the same order is sorted the same way, on any machine and at any time, whatever records
are beside it. A dead row holds the bytes of the record and says where it was, with its headers
where the table keeps them; a value or key that was not there stays null.
"""

import functools
from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ashore.errors import BadRecord, check
from ashore.log.files import Role, Target
from ashore.log.positions import OffsetRange, ShardKey
from ashore.log.tables import DEAD_PARTITION_BY, DEAD_SUFFIX, LATE_SUFFIX, dead_ddl
from ashore.tables.ddl import JSON_WHOLE, Schema, is_json, parse_ddl, to_ddl
from ashore.tables.masks import CONTENTS
from ashore.tables.names import partition_path, partition_values
from ashore.topics.decode.arrow_types import to_arrow
from ashore.topics.decode.decode import BadRow, BadRows, Decoded
from ashore.topics.decode.explain import Explainer
from ashore.topics.decode.reasons import (
    CRASH,
    EMPTY,
    NOT_DECODED,
    NULL,
    UNNAMEABLE,
    UNWRITABLE_TIME,
    describe,
)
from ashore.topics.decode.registry import make_decoder
from ashore.topics.decode.times import find_unwritable, with_writable_times
from ashore.topics.decode.wire import find_nulls
from ashore.topics.route.placement import (
    Bucketer,
    Buckets,
    Lateness,
    Placement,
    event_millis,
    place,
    read_event_times,
    split_rows,
)
from ashore.topics.write.batch import (
    BatchOrder,
    KeepSpan,
    LandingSpec,
    OutputSpec,
    fetched_name,
    provenance_schema,
)
from ashore.topics.write.data_files import OffsetRun, RowSpan, TargetRows, highest
from ashore.topics.write.runs import DECODED, KEEP, REASON, TopicRun

NEVER = -(1 << 63)  # before all event times: calendars end far above it


@dataclass(slots=True)
class ShardCounts:
    """Where the records of one shard went."""

    landed: int = 0
    dead: int = 0
    filtered: int = 0
    dropped: int = 0
    event_max_ms: int | None = None


class SortedRun:
    """A run that is being sorted: its rows by their targets, and what is counted.

    Arguments:
        run: of one topic.
        offset_runs: that the records of each of its shards belong to.

    """

    def __init__(self, run: TopicRun, offset_runs: Sequence[OffsetRun]) -> None:
        self.run = run
        self.offset_runs = offset_runs
        self.offsets = run.records.column("offset").to_numpy()
        self.counts = [ShardCounts() for _ in offset_runs]
        self.rows: list[TargetRows] = []
        self.counters: Counter[str] = Counter()

    def count_filtered(self, records: np.ndarray, rows: Decoded) -> None:
        """Count the records that are neither among `records`, which are rows, nor bad."""
        if not rows.filtered:
            return
        run = self.run
        bad = run.count(np.sort(rows.bad.indices))
        taken = zip(run.bounds, run.count(records), bad, self.counts, strict=True)
        for (start, end), kept, dead, counts in taken:
            counts.filtered = end - start - kept - dead
        total = sum(counts.filtered for counts in self.counts)
        check(
            total == rows.filtered, f"{rows.filtered} records filtered, {total} not accounted for"
        )

    def count_rows(
        self, role: Role, records: np.ndarray, event_ms: np.ndarray
    ) -> tuple[RowSpan, ...]:
        """Count rows that are to be written, and return which offset runs they are of.

        Arguments:
            role: of where they go.
            records: the index of each row's record, ascending.
            event_ms: of each row, NEVER where it has none that counts.

        """
        spans, end = [], 0
        for number, count in enumerate(self.run.count(records)):
            if not count:
                continue
            start, end = end, end + count
            first, last = int(self.offsets[records[start]]), int(self.offsets[records[end - 1]])
            spans.append(RowSpan(self.offset_runs[number], first, last + 1, count))
            counts = self.counts[number]
            if role is Role.DEAD:
                counts.dead += count
            else:
                counts.landed += count
            event_max_ms = int(event_ms[start:end].max())
            if event_max_ms != NEVER:
                counts.event_max_ms = highest(counts.event_max_ms, event_max_ms)
        check(end == len(records), "a row is of no run")
        return tuple(spans)


@dataclass(frozen=True, slots=True)
class _Placed:
    """Rows of a run with what says where they go."""

    table: pa.Table  # the columns of the files
    records: np.ndarray  # the index of each row's record, ascending
    event_ms: pa.Int64Array


class TopicSorter:
    """Sorts the topic runs of one topic, for one batch."""

    def __init__(self, order: BatchOrder, spec: LandingSpec) -> None:
        output = spec.output
        own = parse_ddl(output.schema)
        self._spec = spec
        self._output = output
        self._event = output.event
        self._keep = KeepFilter(order.keep)
        self._read = _make_reader(order, spec, own)
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

    def sort(self, run: TopicRun, offset_runs: Sequence[OffsetRun]) -> SortedRun:
        """Return the rows and counts of a run, whose shards are read in these offset runs.

        Requires: a single shard, where lost files are landed again. Raises BadRecord where the
        table says so.
        """
        if not self._touches(run, offset_runs):
            return SortedRun(run, offset_runs)
        records = with_writable_times(run.records, self._output.extension)
        if self._spec.generation:
            records = _with_generation(records, run, offset_runs)
        result = SortedRun(replace(run, records=records), offset_runs)
        rows = _without_unwritable(self._read(records), self._output.extension)
        event_ms = self._read_event_times(records, rows)
        placement = place(event_ms, self._lateness)
        buckets = self._bucketer.assign(rows.table, placement.bucket_ms)
        result.counters["times_out_of_range"] += records.column("timestamp").null_count
        self._count(result.counters, rows, placement)
        placed = self._build_placed(records, rows, event_ms, is_split=len(buckets.values) > 1)
        result.count_filtered(placed.records, rows)
        bad = [rows.bad]
        for role, bucket, chosen in _split(buckets, placement.side):
            if bucket in buckets.unnameable:
                bad.append(self._refuse(placed.records, chosen, result.counters))
            else:
                target = self._find_target(role, buckets.values[bucket])
                self._add(result, target, placed, chosen)
        self._write_dead_letters(result, BadRows.merge(bad))
        if self._keep.is_active:
            for counts in result.counts:
                counts.filtered = counts.dropped = 0
            result.counters.clear()
        return result

    def _touches(self, run: TopicRun, offset_runs: Sequence[OffsetRun]) -> bool:
        if not self._keep.is_active:
            return True
        check(len(offset_runs) == 1, "lost files are landed again shard by shard")
        ((first, last),) = run.offsets
        return self._keep.touches(offset_runs[0].key, OffsetRange(first, last + 1))

    def _read_event_times(self, records: pa.RecordBatch, rows: Decoded) -> pa.Int64Array:
        """Return the event time of each row: of its column, or Kafka's timestamp."""
        if self._event is not None:
            return read_event_times(self._event, rows.table)
        return event_millis(_take(records.column("timestamp"), rows.good), "us")

    def _plausible(self, event_ms: pa.Int64Array) -> np.ndarray:
        """Return the event times that may become a watermark; NEVER for what may not."""
        limit = self._lateness.now_ms + self._lateness.future_max_ms
        known = pc.fill_null(event_ms, NEVER).to_numpy(zero_copy_only=False)
        return np.where(known > limit, NEVER, known)

    def _count(self, counters: Counter[str], rows: Decoded, placement: Placement) -> None:
        counters["unknown_fields"] += rows.unknown_records
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
        self, records: pa.RecordBatch, rows: Decoded, event_ms: pa.Int64Array, *, is_split: bool
    ) -> _Placed:
        columns = [rows.table.column(name) for name in self._bucketer.file_schema.names]
        columns += [
            _take(records.column(fetched_name(column.name)), rows.good).cast(column.type)
            for column in self._provenance
        ]
        table = pa.Table.from_arrays(columns, schema=self._file_schema)
        indices = np.arange(records.num_rows) if rows.good is None else rows.good.to_numpy()
        # Taking rows from many chunks, once for each bucket, is slow.
        return _Placed(table.combine_chunks() if is_split else table, indices, event_ms)

    def _add(
        self, result: SortedRun, target: Target, placed: _Placed, chosen: pa.Array | None
    ) -> None:
        records = placed.records if chosen is None else placed.records[chosen.to_numpy()]
        if self._keep.is_active:
            offsets = pa.array(result.offsets[records], pa.int64())
            kept = self._keep.select(target, result.offset_runs[0].key, offsets)
            if kept is not None:
                chosen = kept if chosen is None else chosen.take(kept)
                records = records[kept.to_numpy()]
        if not len(records):
            return
        event_ms = _take(placed.event_ms, chosen)
        times = pc.min_max(event_ms)
        result.rows.append(
            TargetRows(
                target,
                self._output.roll_bytes,
                placed.table if chosen is None else placed.table.take(chosen),
                result.count_rows(target.role, records, self._plausible(event_ms)),
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

    def _write_dead_letters(self, result: SortedRun, bad: BadRows) -> None:
        """Do with bad records what the table says."""
        if not bad:
            return
        run, indices = result.run, bad.indices
        values = run.records.column("value")
        result.counters["tombstones"] += values.take(pa.array(indices)).null_count
        match self._spec.on_invalid:
            case "dead_letter":
                table = build_dead_rows(run.records, bad, self._dead_ddl)
                if self._spec.mask:
                    table = _without_contents(table)
                placed = _Placed(table, indices, pa.nulls(len(bad), pa.int64()))
                self._add(result, self._dead_target, placed, None)
            case "fail" if not self._keep.is_active:
                raise _bad_record(run, bad[0])
            case _:
                for counts, count in zip(result.counts, run.count(indices), strict=True):
                    counts.dropped += count

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
                self._output.extension,
            )
        return found


@functools.cache  # there are four
def _dead_schema(ddl: str) -> pa.Schema:
    return to_arrow(parse_ddl(ddl))


DEAD_SCHEMA = _dead_schema(dead_ddl(headers=False))


def dead_target(output: OutputSpec, now_ms: int, ddl: str) -> Target:
    """Return the partition of bad records: they have no event time, so the batch's counts.

    `ddl`: the columns, as `dead_ddl` gives them.
    """
    bucketer = Bucketer(DEAD_PARTITION_BY, output.timezone, DEAD_SCHEMA)
    values = bucketer.assign_one(now_ms)
    return Target(
        output.table + DEAD_SUFFIX,
        Role.DEAD,
        partition_path(bucketer.partition_by, values),
        partition_values(bucketer.partition_by, values),
        ddl,
        output.extension,
    )


def build_dead_rows(records: pa.RecordBatch, bad: BadRows, ddl: str) -> pa.Table:
    """Return the dead rows of some records that are bad, in their order. `ddl`: their columns."""
    schema = _dead_schema(ddl)
    rows = records.take(pa.array(bad.indices))
    columns = {name: rows.column(name) for name in rows.schema.names}
    columns["reason"] = bad.reasons
    return pa.table([columns[name] for name in schema.names], schema=schema)


def _without_contents(dead: pa.Table) -> pa.Table:
    """Return dead rows without what their records hold: what is no row cannot be masked."""
    for name in CONTENTS:
        place = dead.schema.get_field_index(name)
        if place >= 0:
            field = dead.schema.field(place)
            dead = dead.set_column(place, field, pa.nulls(dead.num_rows, field.type))
    return dead


def _with_generation(
    records: pa.RecordBatch, run: TopicRun, offset_runs: Sequence[OffsetRun]
) -> pa.RecordBatch:
    """Return records with a column of the generations of their topic, as an order has them."""
    sizes = [end - start for start, end in run.bounds]
    generations = np.repeat([each.key.generation for each in offset_runs], sizes)
    return records.append_column("generation", pa.array(generations.astype(np.int32)))


def _make_reader(
    order: BatchOrder, spec: LandingSpec, own: Schema
) -> Callable[[pa.RecordBatch], Decoded]:
    """Return what makes rows of records, and never raises because of what values hold."""
    if not order.is_decoded:
        none = to_arrow(own).empty_table()
        return lambda records: Decoded(
            none,
            pa.array([], pa.int64()),
            BadRows.because(np.arange(records.num_rows), CRASH),
        )
    if spec.is_selected:
        return _Selected(spec).read
    decoder = make_decoder(spec.decode, own, spec.reader, spec.mask)
    return lambda records: decoder.decode(records.column("value"))


class _Selected:
    """Takes decoded rows to which Spark has applied `select` and `where`.

    Where Spark has decoded them too, the reason of an invalid value is its first fault for
    `decode: json`.
    """

    def __init__(self, spec: LandingSpec) -> None:
        self._ddl = parse_ddl(spec.output.schema)
        self._schema = to_arrow(self._ddl)
        self._explainer = None
        if is_json(spec.decode) and spec.decode_schema:
            whole = spec.decode == JSON_WHOLE
            self._explainer = Explainer(parse_ddl(spec.decode_schema), takes_whole=whole)

    def read(self, records: pa.RecordBatch) -> Decoded:
        """Return the rows. A value that could not be decoded is bad, whatever the filter says."""
        decoded = records.column(DECODED)
        is_kept = pc.and_(pc.fill_null(records.column(KEEP), False), decoded.is_valid())
        rows = pc.indices_nonzero(is_kept).cast(pa.int64())
        bad = self._undecoded(records, decoded)
        filtered = records.num_rows - len(rows) - len(bad)
        table = pa.Table.from_struct_array(decoded.take(rows)).select(self._schema.names)
        missing = find_nulls(table, self._ddl)
        if missing is not None and missing.true_count:
            null = BadRows.because(rows.filter(missing).to_numpy(), NULL)
            bad = BadRows.merge([bad, null])
            is_whole = pc.invert(missing)
            table, rows = table.filter(is_whole), rows.filter(is_whole)
        return Decoded(table.cast(self._schema), rows, bad, filtered=filtered)

    def _undecoded(self, records: pa.RecordBatch, decoded: pa.Array) -> BadRows:
        rows = pc.indices_nonzero(decoded.is_null())
        bad = records.select(["value", REASON]).take(rows).to_pylist()
        reasons = (each[REASON] or self._explain(each["value"]) for each in bad)
        return BadRows.of(map(BadRow, rows.to_pylist(), reasons))

    def _explain(self, value: bytes | None) -> str:
        found = self._explainer.explain_value(value) if self._explainer else None
        return found or (EMPTY if value is None else NOT_DECODED)


def _without_unwritable(rows: Decoded, extension: str) -> Decoded:
    """Return rows but those with a time that a file of this format cannot hold."""
    refused = find_unwritable(rows.table, extension)
    if refused is None or not refused.true_count:
        return rows
    records = rows.good
    if records is None:
        records = pa.array(range(rows.table.num_rows), pa.int64())
    bad = BadRows.because(records.filter(refused).to_numpy(), UNWRITABLE_TIME)
    kept = pc.invert(refused)
    return replace(
        rows,
        table=rows.table.filter(kept),
        good=records.filter(kept),
        bad=BadRows.merge([rows.bad, bad]),
    )


def _split(
    buckets: Buckets, side: pa.BooleanArray | None
) -> Iterator[tuple[Role, int, pa.Array | None]]:
    """Yield role, bucket and rows (None: all) of each part; every row is in one of them."""
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


def _bad_record(run: TopicRun, bad: BadRow) -> BadRecord:
    offset = run.records.column("offset")[bad.index].as_py()
    partition = run.partitions[bisect_right(run.starts, bad.index) - 1]
    return BadRecord(
        f"{run.topic}/{partition}, offset {offset}: {describe(bad.reason)}",
        hint="fix the record's schema, or set `on_invalid: dead_letter` for its table",
        topic=run.topic,
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
