"""How much an audit does at once."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Pace:
    """How much is done in an interval."""

    interval_s: float
    read_bytes_per_s: int | None = 32_000_000  # files read again; None: all at once
    listings: int | None = 1_000  # directories; None: all
    round_every_s: float = 3600.0


ONE_PASS = Pace(0.0, None, None, 0.0)
