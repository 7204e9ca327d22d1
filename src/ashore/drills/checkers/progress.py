"""Time without progress: how long nothing landed although there was something to land.

What it promises: pure. Counted from the last sample at which something had landed, or at which
there began to be something to land, to the next one that shows more.
What it must not know: why nothing landed.
"""

from ashore.drills.verdict import Timeline


def longest_stall_s(timeline: Timeline) -> float:
    """Return the longest time without progress."""
    longest_s, since_s, landed = 0.0, None, 0
    for sample in timeline.samples:
        if since_s is not None:
            longest_s = max(longest_s, sample.at_s - since_s)
        if sample.landed > landed or sample.lag == 0 or since_s is None:
            since_s = sample.at_s if sample.lag > 0 else None
        landed = max(landed, sample.landed)
    return longest_s
