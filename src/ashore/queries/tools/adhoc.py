"""What `ashore sql` is asked for, as it is typed.

What it promises: pure.
"""

import re

from ashore.errors import QueryRefused
from ashore.jobs.requests import OffsetsOfTopic

_OFFSETS = re.compile(r"(?P<topic>[\w.-]+)(?:/(?P<partition>\d+))?:(?P<start>\d+)-(?P<end>\d*)")


def parse_offsets(text: str) -> OffsetsOfTopic:
    """Return the offsets that `clicks/0:100-200` or `clicks:100-` names. Raises QueryRefused."""
    found = _OFFSETS.fullmatch(text)
    hint = "write clicks/0:100-200, or clicks:100- for everything from offset 100 in each partition"
    if found is None:
        raise QueryRefused(f"this is not an offset range of a topic: {text}", hint=hint)
    partition, start, end = found["partition"], int(found["start"]), found["end"]
    if end and int(end) < start:
        raise QueryRefused(f"these offsets end before they begin: {text}", hint=hint)
    return OffsetsOfTopic(
        found["topic"],
        None if partition is None else int(partition),
        start,
        int(end) if end else None,
    )
