"""The log of a job's process on a page: its newest lines, each in words.

What it promises: reads only the end of the file; a line that is damaged is passed over.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from ashore.fleet.records.store import read_lines

BYTES, LINES = 256_000, 300
GRAVE = {"warning": "warn", "failed": "bad", "error": "bad"}
_SHOWN = frozenset({"at", "job", "slice", "epoch", "batch", "kind"})


@dataclass(frozen=True, slots=True)
class LogLine:
    """A line of the log. `level`: class of its colour; empty: nothing is wrong."""

    at: str
    slice: str
    batch: str
    kind: str
    words: str
    level: str


def read_output(path: Path) -> tuple[LogLine, ...]:
    """Return the newest lines of a log, the newest first."""
    found = list(read_lines(path, BYTES))[-LINES:]
    return tuple(_view_line(each) for each in reversed(found))


def _view_line(line: Mapping[str, object]) -> LogLine:
    kind, batch = str(line.get("kind", "")), line.get("batch")
    rest = {name: value for name, value in line.items() if name not in _SHOWN}
    message = str(rest.pop("message", ""))
    fields = ", ".join(
        f"{name}: {value}" for name, value in rest.items() if value not in (None, "")
    )
    return LogLine(
        at=str(line.get("at", ""))[:19].replace("T", " ") + " UTC",
        slice=str(line.get("slice", "")),
        batch="" if batch is None else str(batch),
        kind=kind,
        words="; ".join(each for each in (message, fields) if each),
        level=GRAVE.get(kind, ""),
    )
