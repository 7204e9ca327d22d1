"""JSON records to tables, a batch at a time.

What it is: the decoders for values that hold one JSON object each. `JsonDecoder` joins a block of
values by newlines for one call of Arrow's parser; a block that fails is taken apart, where the
parser says which record it stopped at, until the bad records are alone. `NativeJsonDecoder`, by the
native module, is ten times as fast.
What it promises: the result of a record never depends on its neighbours: the parser and the
conversions are the same for a block and for a record. Rows cannot shift against values, see
`_parse`. The worst batch costs a few calls a record; a good one, one call a block. Every verdict,
value and reason of the native decoder is that of `JsonDecoder`: the module takes a value only where
`JsonDecoder` takes it; of what it cannot judge, `JsonDecoder` has the last word.

The rules for a record are in docs/use/records.md, the choice of the parser is decision 0001.
"""

import json
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pj

from ashore.base.native import PACKAGE, why_not_native
from ashore.errors import NotInstalled, check
from ashore.tables.ddl import Schema, has_map, json_supports
from ashore.topics.decode.arrow_types import to_arrow
from ashore.topics.decode.decode import BadRow, BadRows, Decoded, Values, rows_without
from ashore.topics.decode.explain import Explainer
from ashore.topics.decode.json_text import ExponentJudge, rewrite_maps
from ashore.topics.decode.reasons import (
    DECIMAL_DIGITS,
    EMPTY,
    NOT_JSON,
    NOT_OBJECT,
    NOT_UTF8,
    NULL,
    NUMBER_RANGE,
)
from ashore.topics.decode.wire import RowRefused, convert, find_nulls, wire_schema

_STRING_OR_NUMBER = re.compile(rb'"(?:[^"\\]|\\.)*"|-?\d[\d.eE+-]*', re.DOTALL)

# A block stays in the processor's cache, and little is parsed twice where a record is bad.
BLOCK_ROWS = 8_192
BLOCK_BYTES = 4 << 20
AFTER_BAD_ROWS = 16  # as many are parsed together at least, where a bad one stood before them
SPLIT = 16  # into as many parts, where it is not known which record is bad
SAMPLE_ROWS = 64
FEW_ROWS = 16  # as many that are no objects are stepped over; for more the others are copied
UNKNOWN_NAMES_MAX = 20
# What Arrow says of a number that is one, and that it does not take.
_LIMITS = {
    "too big": NUMBER_RANGE,
    "requires precision": NUMBER_RANGE,
    "requires scale": DECIMAL_DIGITS,
}


@dataclass(frozen=True, slots=True)
class _Source:
    """The same records as texts, and the columns to read from them."""

    texts: Values
    wire: pa.Schema


@dataclass(slots=True)
class _Batch:
    """What a `decode` call has found so far. Rows of `bad` count within the texts.

    The reasons in `bad` are for records that the Explainer finds no fault in.
    """

    sources: list[_Source]
    tables: list[pa.Table] = field(default_factory=list)
    bad: list[BadRow] = field(default_factory=list)


class JsonDecoder:
    """Decodes values that hold one JSON object each.

    Raises ValueError for a schema with a MAP whose keys are not STRING: JSON has no others.
    """

    def __init__(self, schema: Schema, *, takes_whole: bool = False) -> None:
        """`takes_whole`: columns of integers take whole numbers such as `5.0` and `1e3`."""
        if unsupported := json_supports(schema):
            raise ValueError(f"JSON has only maps whose keys are STRING: {', '.join(unsupported)}")
        self._ddl = schema
        self.schema = to_arrow(schema)
        self._names = frozenset(schema.names)
        self._exponents = ExponentJudge(schema)
        self._explainer = Explainer(schema, takes_whole=takes_whole)
        self._takes_whole = takes_whole
        self._slow = tuple(column for column in schema.fields if has_map(column.type))
        fast = tuple(column for column in schema.fields if not has_map(column.type))
        self._fast_wire = wire_schema(fast)
        self._slow_wire = wire_schema(self._slow)

    def decode(self, values: Values) -> Decoded:
        """Return the rows and the bad rows of a batch. Never raises because of what values hold."""
        outside: list[BadRow] = []
        texts, rows = _sift(values, outside, few_max=0 if self._slow else FEW_ROWS)
        if self._takes_whole:
            texts = self._simplify(texts)
        batch = _Batch([_Source(texts, self._fast_wire)])
        if self._slow:
            rows = self._add_rewritten(batch, rows, outside)
        holes = [row.index for row in outside] if rows is None else []
        for start, count in _cut_between(batch.sources[0].texts, holes):
            self._decode_safely(batch, start, count)
        explained = self._explain(batch.sources[0].texts, batch.bad)
        bad = BadRows.merge([BadRows.of(outside), _place(explained, rows)])
        table = pa.concat_tables([self.schema.empty_table(), *batch.tables])
        check(table.num_rows + len(bad) == len(values), "a value was lost while decoding JSON")
        unknown, names = self._count_unknown(batch, holes)
        return Decoded(table, rows_without(len(values), bad.indices), bad, unknown, names)

    def _simplify(self, texts: Values) -> Values:
        """Return texts as the Explainer simplifies those that may have such a number."""
        may_have = pc.fill_null(pc.match_substring_regex(texts, r"[0-9](?:\.|[eE])"), False)
        rows = pc.indices_nonzero(may_have)
        if not len(rows):
            return texts
        simple = [self._explainer.simplify(text)[1] for text in texts.take(rows).to_pylist()]
        return pc.replace_with_mask(texts, may_have, pa.array(simple, texts.type))

    def _add_rewritten(
        self, batch: _Batch, rows: pa.Int64Array | None, outside: list[BadRow]
    ) -> pa.Int64Array | None:
        """Add the source of the columns with maps; drop the records that have no such text."""
        texts = batch.sources[0].texts
        rewritten, refused = rewrite_maps(texts, self._slow)
        if refused:
            kept = rows_without(len(texts), BadRows.of(refused).indices)
            outside += _place(self._explain(texts, refused), rows)
            rows = kept if rows is None else rows.take(kept)
            batch.sources[0] = _Source(texts.take(kept), self._fast_wire)
        batch.sources.append(_Source(rewritten, self._slow_wire))
        return rows

    def _explain(self, texts: Values, bad: Sequence[BadRow]) -> list[BadRow]:
        """Return bad rows of texts with the reasons that the Explainer gives."""
        explain = self._explainer.explain
        return [
            BadRow(row, reason if ":" in reason else explain(texts[row].as_py()) or reason)
            for row, reason in bad  # with a detail it is explained
        ]

    def _decode_safely(self, batch: _Batch, start: int, count: int) -> None:
        """Decode rows `start` and following but those that would end this process."""
        refused = self._exponents.refuse(batch.sources[0].texts.slice(start, count))
        batch.bad += [BadRow(start + row.index, row.reason) for row in refused]
        edges = [-1, *(row.index for row in refused), count]
        for before, after in pairwise(edges):
            if after - before > 1:
                self._decode_block(batch, start + before + 1, after - before - 1)

    def _decode_block(self, batch: _Batch, start: int, count: int) -> None:
        """Decode rows `start` and following, or take them apart."""
        left = [(start, count)]  # the next part is the last one
        rows_max = count  # what stands behind a bad record is joined again each time: not too much
        while left:
            at, rows = left.pop()
            if rows > rows_max:
                left.append((at + rows_max, rows - rows_max))
                rows = rows_max
            try:
                self._decode_part(batch, at, rows)
                rows_max *= 2
            except (RowRefused, pa.ArrowInvalid, pa.ArrowCapacityError) as error:
                if rows == 1:
                    self._decode_alone(batch, at, _code_of(error))
                    continue
                row = _row_of(error)
                left += reversed(_take_apart(at, rows, row))
                if row is not None:
                    rows_max = max(AFTER_BAD_ROWS, 4 * row)

    def _decode_alone(self, batch: _Batch, row: int, code: str) -> None:
        """Decode a record that Arrow refuses: what the schema ignores may be all that is wrong.

        `code`: why it refuses it.
        """
        texts = batch.sources[0].texts
        text = texts[row].as_py()
        reason, simple = self._explainer.simplify(text)
        if reason is None and simple != text:
            alone = pa.array([simple], texts.type)
            sources = [_Source(alone, self._fast_wire)]
            if self._slow:
                sources.append(_Source(rewrite_maps(alone, self._slow)[0], self._slow_wire))
            try:
                self._decode_part(found := _Batch(sources), 0, 1)
            except (RowRefused, pa.ArrowInvalid, pa.ArrowCapacityError) as error:
                code = _code_of(error)
            else:
                batch.tables += found.tables
                return
        batch.bad.append(BadRow(row, reason or code))

    def _decode_part(self, batch: _Batch, start: int, count: int) -> None:
        """Decode rows, or raise what the library raises."""
        table = self._parse(batch.sources, start, count)
        missing = find_nulls(table, self._ddl)
        if missing is not None:
            table = table.filter(pc.invert(missing))
        converted = self._convert(table)
        self._refuse_overflow(batch.sources, table, start, missing)
        if missing is not None:
            at = pc.indices_nonzero(missing).to_pylist()
            batch.bad += [BadRow(start + row, NULL) for row in at]
        batch.tables.append(converted)

    def _refuse_overflow(
        self,
        sources: Sequence[_Source],
        table: pa.Table,
        start: int,
        missing: pa.BooleanArray | None,
    ) -> None:
        """Raise RowRefused if a number of a block was made infinite; `table` has no `missing`."""
        if not _count_infinite(table):
            return
        left: Sequence[int] = range(start, start + table.num_rows)
        if missing is not None:
            left = [start + row for row in pc.indices_nonzero(pc.invert(missing)).to_pylist()]
        for row in left:
            own = [_Source(each.texts.slice(row, 1), each.wire) for each in sources]
            small = [_Source(_without_too_large(each.texts), each.wire) for each in own]
            if own == small:
                continue
            # The number may be of a field without a column.
            if _count_infinite(self._parse(own, 0, 1)) > _count_infinite(self._parse(small, 0, 1)):
                raise RowRefused(NUMBER_RANGE, row - start)

    def _parse(self, sources: Sequence[_Source], start: int, count: int) -> pa.Table:
        """Return the wire table of a block: row i is the record of value i.

        Every text begins with `{` and ends with `}` (`_sift`). If the block parses, no document
        continues past the end of its text: inside a string the newline that joins the texts is an
        error, and anywhere else a `}` cannot be followed by the `{` that begins the next text. So
        every text holds one document at least, and as many rows as texts means one in each.
        """
        columns: dict[str, pa.ChunkedArray] = {}
        for source in sources:
            if not len(source.wire):
                continue  # every column holds a map; Python has seen that each text is one document
            joined = _join(source.texts.slice(start, count))
            table = pj.read_json(
                pa.BufferReader(joined),
                # One block: a parser that begins in the middle of a value may crash on `null`.
                read_options=pj.ReadOptions(use_threads=False, block_size=joined.size + 1),
                parse_options=pj.ParseOptions(
                    explicit_schema=source.wire, unexpected_field_behavior="ignore"
                ),
            )
            if table.num_rows != count:
                raise RowRefused(NOT_JSON)
            columns.update(zip(table.column_names, table.columns, strict=True))
        return pa.table({name: columns[name] for name in self._ddl.names})

    def _convert(self, table: pa.Table) -> pa.Table:
        arrays = [
            convert(column.combine_chunks(), field.type)
            for column, field in zip(table.columns, self._ddl.fields, strict=True)
        ]
        return pa.Table.from_arrays(arrays, schema=self.schema)

    def _count_unknown(self, batch: _Batch, holes: Sequence[int]) -> tuple[int, tuple[str, ...]]:
        """Estimate the records with unknown fields from an evenly spaced sample of good ones."""
        texts = batch.sources[0].texts
        bad = {row.index for row in batch.bad}.union(holes)
        step = max(1, len(texts) // SAMPLE_ROWS)
        sample = [row for row in range(0, len(texts), step) if row not in bad]
        names: set[str] = set()
        hits = 0
        for row in sample:
            unknown = _top_level_names(texts[row].as_py()) - self._names
            hits += bool(unknown)
            names |= unknown
        good = len(texts) - len(bad)
        estimate = round(hits * good / len(sample)) if sample else 0
        return estimate, tuple(sorted(names)[:UNKNOWN_NAMES_MAX])


def require_native() -> None:
    """Raise NotInstalled where a job needs the native module and it cannot be used."""
    if reason := why_not_native():
        raise NotInstalled(
            f"`reader: native` needs the native module: {reason}",
            hint=f"install it wherever tasks run: pip install {PACKAGE}; or write `reader: auto`, "
            "which works without it",
        )


class NativeJsonDecoder:
    """Decodes values that hold one JSON object each. Unknown fields are counted, not estimated.

    Raises ValueError for a schema that JsonDecoder refuses, NotInstalled.
    """

    def __init__(
        self, schema: Schema, engine: str | None = None, *, takes_whole: bool = False
    ) -> None:
        """See JsonDecoder. `engine`: `scalar` for the loops of any processor; None: the best."""
        require_native()
        import ashore_native  # noqa: PLC0415 - it may not be there

        self._python = JsonDecoder(schema, takes_whole=takes_whole)
        self.schema = self._python.schema
        self._native = ashore_native.JsonDecoder(self.schema, engine, takes_whole)

    def decode(self, values: Values) -> Decoded:
        """Return the rows and the bad rows of a batch. Never raises because of what values hold."""
        found = self._native.decode(values)
        batches = [pa.record_batch(block) for block in found.blocks]
        table = pa.Table.from_batches(batches, self.schema)
        names = tuple(found.unknown_names)
        if found.verdicts is None:
            check(table.num_rows == len(values), "a value was lost while decoding JSON")
            return Decoded(table, None, unknown_records=found.unknown_records, unknown_names=names)
        good, bad, reasons, rest = found.verdicts
        rows = pa.array(good)
        check(table.num_rows == len(rows), "a row is of no value")
        known = BadRows(pa.array(bad).to_numpy(), pa.array(reasons))
        decoded = Decoded(table, rows, known, found.unknown_records, names)
        if rest is not None:
            decoded = self._ask(values, decoded, rows, pa.array(rest))
        is_whole = decoded.table.num_rows + len(decoded.bad) == len(values)
        check(is_whole, "a value was lost while decoding JSON")
        return decoded

    def _ask(
        self, values: Values, native: Decoded, good: pa.Int64Array, rest: pa.Int64Array
    ) -> Decoded:
        """Return what JsonDecoder makes of some values, put among the others; `good` of these."""
        judged = self._python.decode(values.take(rest))
        table = native.table
        if judged.table.num_rows:
            more = rest if judged.good is None else rest.take(judged.good)
            rows = pa.concat_arrays([good, more])
            order = pc.sort_indices(rows)
            table = pa.concat_tables([table, judged.table]).take(order)
            good = rows.take(order)
        bad = BadRows.merge(
            [native.bad, BadRows(rest.to_numpy()[judged.bad.indices], judged.bad.reasons)]
        )
        names = sorted({*native.unknown_names, *judged.unknown_names})[:UNKNOWN_NAMES_MAX]
        return Decoded(
            table,
            good if len(bad) else None,
            bad,
            native.unknown_records + judged.unknown_records,
            tuple(names),
        )


def _place(bad: Sequence[BadRow], rows: pa.Int64Array | None) -> BadRows:
    """Return bad rows of texts as those of values, of which `rows` are the texts."""
    found = BadRows.of(bad)
    return found if rows is None else BadRows(rows.to_numpy()[found.indices], found.reasons)


def _count_infinite(table: pa.Table) -> int:
    return sum(count_infinite(column.combine_chunks()) for column in table.columns)


def _without_too_large(text: Values) -> Values:
    return pa.array([without_too_large(text[0].as_py())], text.type)


def _row_of(error: Exception) -> int | None:
    """Return the row of its block that an error is about, if it says so. A hint, no more."""
    if isinstance(error, RowRefused):
        return error.row
    match = re.search(r" in row (\d+)$", str(error))
    return int(match[1]) if match else None


def _take_apart(start: int, count: int, row: int | None) -> list[tuple[int, int]]:
    """Return the parts of rows that cannot be decoded together, in their order."""
    if row is not None and row < count:
        parts = [(start, row), (start + row, 1), (start + row + 1, count - row - 1)]
        return [part for part in parts if part[1]]
    step = -(-count // SPLIT)
    return [(at, min(step, start + count - at)) for at in range(start, start + count, step)]


def _sift(values: Values, bad: list[BadRow], few_max: int) -> tuple[Values, pa.Int64Array | None]:
    """Return the values that may be JSON objects, and their indices.

    The others are added to `bad`. White space around an object is cut off. No indices: the values
    are untouched, and those in `bad`, at most `few_max`, are still among them.
    """
    odd = pc.indices_nonzero(pc.invert(_are_objects(values)))
    if len(odd) <= few_max:
        found: list[BadRow] = []
        _trim(values.take(odd), found)
        if len(found) == len(odd):
            found.sort(key=lambda row: row.index)
            bad += [BadRow(odd[row.index].as_py(), row.reason) for row in found]
            return values, None
    return _trim(values, bad)


def _trim(values: Values, bad: list[BadRow]) -> tuple[Values, pa.Int64Array]:
    """Return the values that may be JSON objects, trimmed, and their indices; see `_sift`."""
    text_type = pa.large_string() if pa.types.is_large_binary(values.type) else pa.string()
    # A view, not a cast: these bytes need not be UTF-8 to look for white space in them.
    trimmed = pc.ascii_trim(values.view(text_type), characters=" \t\r\n").view(values.type)
    is_empty = pc.fill_null(pc.equal(pc.binary_length(trimmed), 0), True)
    is_object = _are_objects(trimmed)
    for mask, reason in (
        (is_empty, EMPTY),
        (pc.and_not(pc.invert(is_object), is_empty), NOT_OBJECT),
    ):
        bad += [BadRow(row, reason) for row in pc.indices_nonzero(mask).to_pylist()]
    rows = pc.indices_nonzero(is_object).cast(pa.int64())
    return trimmed.take(rows), rows


def _are_objects(values: Values) -> pa.BooleanArray:
    starts, ends = pc.starts_with(values, pattern="{"), pc.ends_with(values, pattern="}")
    return pc.fill_null(pc.and_(starts, ends), False)


def _cut_between(texts: Values, holes: Sequence[int]) -> list[tuple[int, int]]:
    """Return (start, count) of blocks that hold all texts but those at `holes`, which ascend."""
    edges = pairwise([-1, *holes, len(texts)])
    return [
        (before + 1 + start, count)
        for before, after in edges
        for start, count in _cut(texts.slice(before + 1, after - before - 1), BLOCK_ROWS)
    ]


def _cut(texts: Values, rows_max: int) -> list[tuple[int, int]]:
    """Return (start, count) of blocks that are bounded in rows and, where possible, in bytes."""
    blocks: list[tuple[int, int]] = []
    stack = [(0, len(texts))] if len(texts) else []
    while stack:
        start, count = stack.pop()
        if count > rows_max or (count > 1 and texts.slice(start, count).nbytes > BLOCK_BYTES):
            half = count // 2
            stack += [(start + half, count - half), (start, half)]
        else:
            blocks.append((start, count))
    return blocks


def _join(texts: Values) -> pa.Buffer:
    """Return the texts with newlines between them. Raises ArrowInvalid unless they are UTF-8."""
    lists = pa.ListArray.from_arrays(pa.array([0, len(texts)], pa.int32()), texts)
    joined = pc.binary_join(lists, pa.scalar(b"\n", texts.type))
    text_type = pa.large_string() if pa.types.is_large_binary(texts.type) else pa.string()
    try:
        joined.view(text_type).validate(full=True)
    except pa.ArrowInvalid:
        raise RowRefused(NOT_UTF8) from None
    return joined.buffers()[2]


def _top_level_names(text: bytes) -> frozenset[str]:
    try:
        return frozenset(json.loads(text))
    except (ValueError, RecursionError):
        # The columnar parser has no limits on digits and depth, Python's has: not worth more here.
        return frozenset()


def _code_of(error: Exception) -> str:
    if isinstance(error, RowRefused):
        return error.code
    return next((code for words, code in _LIMITS.items() if words in str(error)), NOT_JSON)


def count_infinite(column: pa.Array) -> int:
    """Return how many infinities a wire column holds, at any depth."""
    if pa.types.is_floating(column.type):
        return int(pc.sum(pc.is_inf(column)).as_py() or 0)
    if pa.types.is_struct(column.type):
        return sum(count_infinite(part) for part in column.flatten())
    if pa.types.is_list(column.type):
        return count_infinite(column.flatten())
    return 0


def without_too_large(text: bytes) -> bytes:
    """Return a JSON text with 0 for every number that no DOUBLE holds.

    Where a column holds an infinity, `1.8e308` differs from the bare word `Infinity`. Only texts
    with such a number outside of their strings are changed.
    """
    return _STRING_OR_NUMBER.sub(_shrink, text)


def _shrink(token: re.Match[bytes]) -> bytes:
    found = token[0]
    return found if found.startswith(b'"') or math.isfinite(float(found)) else b"0"
