"""Durations and sizes as users write them: `10s`, `2h`, `256MB`.

What it promises: parsing is exact and total: a number without a unit is refused.
"""

import re
from datetime import UTC, datetime, timedelta

DURATION_MS = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
SIZE_BYTES = {
    "B": 1,
    "KB": 1_000,
    "MB": 1_000_000,
    "GB": 1_000_000_000,
    "TB": 1_000_000_000_000,
    "KiB": 1 << 10,
    "MiB": 1 << 20,
    "GiB": 1 << 30,
    "TiB": 1 << 40,
}


def parse_duration_ms(text: str) -> int:
    """Return milliseconds of `500ms`, `10s`, `5m`, `2h`, `30d`. Raises ValueError."""
    return _parse(text, DURATION_MS, "a duration such as 500ms, 10s, 5m, 2h or 30d")


def parse_size_bytes(text: str) -> int:
    """Return bytes of `512B`, `64KB`, `256MB`, `1GiB`. Raises ValueError."""
    return _parse(text, SIZE_BYTES, "a size such as 64KB, 256MB, 2GB or 1GiB")


def _parse(text: str, units: dict[str, int], expected: str) -> int:
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([A-Za-z]+)\s*", text)
    if not match or match[2] not in units:
        raise ValueError(f"{text!r} is not {expected}")
    return round(float(match[1]) * units[match[2]])


def format_duration(milliseconds: float) -> str:
    """Return a duration for people: `850 ms`, `12.4 s`, `3.0 min`, `2.5 h`, `4.1 d`."""
    for unit, name in ((86_400_000, "d"), (3_600_000, "h"), (60_000, "min"), (1_000, "s")):
        if milliseconds >= unit:
            return f"{milliseconds / unit:.1f} {name}"
    return f"{milliseconds:.0f} ms"


LAG_FRESH_MS = 10_000  # a lag that is older is shown with its age


def format_lag(lag: int | None, age_ms: int | None) -> str:
    """Return a lag for people: `1,204`, `1,204 (25.0 s ago)`, `unknown for 5.0 min`, `unknown`.

    Arguments:
        lag: in offsets; None: it is not known.
        age_ms: since it was last known; None: it never was.

    """
    if lag is None:
        return "unknown" if age_ms is None else f"unknown for {format_duration(age_ms)}"
    if age_ms is None or age_ms < LAG_FRESH_MS:
        return f"{lag:,}"
    return f"{lag:,} ({format_duration(age_ms)} ago)"


def format_time(now_ms: int) -> str:
    """Return a time as ISO 8601 in UTC: `2026-11-22T08:00:00.250Z`."""
    found = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=now_ms)
    return found.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def format_count(count: int, noun: str) -> str:
    """Return a count of something for people: `1 file`, `1,204 files`."""
    return f"{count:,} {noun}{'s' * (count != 1)}"


def format_size(size: float) -> str:
    """Return a size for people, in decimal units: `12.4 MB`."""
    for unit in ("TB", "GB", "MB", "KB"):
        if size >= SIZE_BYTES[unit]:
            return f"{size / SIZE_BYTES[unit]:.1f} {unit}"
    return f"{size:.0f} B"
