"""How much a batch of a query reads at most.

What it is: `plan_limits`, from the limits of the job file to offsets for each view.
What it promises: all that a query reads in a batch is, together, within the limits: exactly so for
records, about so for bytes. Each stream that it reads has an equal part, one offset at least.
"""

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class BatchLimits:
    """What a batch may read: offsets, and bytes of keys and values."""

    records: int
    size_bytes: int


def plan_limits(
    limits: BatchLimits, streams: int, record_bytes: Mapping[str, float]
) -> dict[str, int]:
    """Return how many offsets each view may hand to a batch.

    A stream that is read twice counts twice in `streams`. `record_bytes`: the average of each view.
    """
    parts = max(streams, 1)
    return {
        name: max(1, int(min(limits.records, limits.size_bytes / max(average, 1)) / parts))
        for name, average in record_bytes.items()
    }
