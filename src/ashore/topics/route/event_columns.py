"""Where a row says when it happened: a column, or a field below one.

What it is: `EventColumn`, a value; `event_time` reads its times.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class EventColumn:
    """The column of the event time."""

    path: str  # its name, or that of a field below it, as `meta.producer.ts`
    unit: str = "ms"  # of a number: s, ms, us or ns
    format: str = ""  # of a text: `iso8601` or a pattern; empty where it is none
