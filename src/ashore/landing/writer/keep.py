"""What is written when lost files are landed again.

What it is: the spans of the lost files, as a filter of rows.
What it promises: a row passes if a lost file held it: its target and its offset decide.
What it must not know: how rows were sorted.
"""

import functools
from collections import defaultdict

import pyarrow as pa
import pyarrow.compute as pc

from ashore.landing.batch import KeepSpan
from ashore.protocol.files import Target
from ashore.protocol.positions import OffsetRange, ShardKey


class KeepFilter:
    """Without spans, as in every usual batch, everything passes."""

    def __init__(self, spans: tuple[KeepSpan, ...] | None) -> None:
        self.is_active = spans is not None
        self._spans: defaultdict[tuple[str, str, ShardKey], list[OffsetRange]] = defaultdict(list)
        for span in spans or ():
            self._spans[span.table, span.partition, span.key].append(span.offsets)

    def touches(self, key: ShardKey, offsets: OffsetRange) -> bool:
        """Tell whether something of these offsets may pass."""
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
