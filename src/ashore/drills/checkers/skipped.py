"""Offsets given up: what the log says was skipped against what had really expired.

What it promises: pure; exact: an offset skipped that was there is a problem, and so is one that was
gone and is not named.
What it must not know: why records expire.
"""

from collections.abc import Iterable

from ashore.drills.workloads.numbered import Produced
from ashore.protocol.entries import Entry, Skip


def compare_skipped(entries: Iterable[Entry], produced: Produced) -> tuple[str, ...]:
    """Return what is wrong with the skips of a log of a topic's first generation."""
    skips = [entry.body for entry in entries if isinstance(entry.body, Skip)]
    ranges = [each for skip in skips for each in skip.ranges]
    named = [
        (int(each.key.shard), offset)
        for each in ranges
        for offset in range(each.offsets.start, each.offsets.end)
    ]
    problems = []
    if len(named) != len(set(named)):
        problems.append(f"{len(named) - len(set(named)):,} offsets are skipped twice")
    for text, wrong in (
        ("are skipped, and were there", set(named) - produced.gone),
        ("had expired, and are not named", produced.gone - set(named)),
    ):
        if wrong:
            problems.append(f"{len(wrong):,} offsets {text}: {sorted(wrong)[:5]}")
    return tuple(problems)
