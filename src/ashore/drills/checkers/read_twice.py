"""Data read twice: what faults cost in records that were fetched once more than needed.

What it promises: pure; an upper bound from the log alone: of a process that was killed at most the
batch under way is read again, and that is the first one that its successor prepares.
What it must not know: when processes were killed.
"""

from collections.abc import Iterable

from ashore.protocol.entries import Entry, Prepare


def count_read_twice(entries: Iterable[Entry]) -> int:
    """Return how many records may have been fetched twice."""
    twice, known = 0, None
    for entry in entries:
        if isinstance(entry.body, Prepare) and entry.epoch != known:
            if known is not None:
                twice += sum(read.fetched for read in entry.body.shards)
            known = entry.epoch
    return twice
