"""The page of the reference that shows the table: `make docs` writes it."""

from collections.abc import Iterator

from tests.spark.compatibility.change import Base, Change, Swaps
from tests.spark.compatibility.table import BASES

HEAD = """\
# What becomes of state when the SQL changes

What [`ashore migrate check`](../operate/migration.md) says of each change that the tests try on
plans of Spark. The verdicts: *full* (used as it is), *convert* (rewritten, nothing lost), *partial*
(a part starts empty, or keeps what the new SQL would not), *lost* (a part is dropped), *refused*
(nothing can be kept with a known meaning). A part of a query that is not shown has not changed.

Each change that is not refused is also made on running streams: the old SQL over half of the rows,
then the new one with its state over the rest, and the results are those that the verdict promises.
Where that is not done, the reason stands in brackets.

What is not refused here can be done by `ashore migrate apply`. Before it writes it compares what
Spark plans with the checkpoint; where that differs, it refuses and changes nothing. Other
queries have the verdicts of their operators.

`avg(v)` written as `sum(v) / count(v)` loses the average: Spark keeps its sum as a DOUBLE that
begins with 0, and `sum(v)` adds integers as integers and begins with NULL, so neither state can be
made of the other.
"""
TITLES = "| Change | Old SQL | New SQL | Verdict | Why |\n|---|---|---|---|---|"


def render() -> str:
    """Return the page."""
    return "\n".join([HEAD, *(line for base in BASES for line in _render_base(base))])


def _render_base(base: Base) -> Iterator[str]:
    yield f"## {base.name[0].upper()}{base.name[1:]}\n"
    yield f"```sql\n{base.sql}\n```\n"
    yield TITLES
    for change in base.changes:
        was, now = _find_changed(change)
        yield f"| {change.name} | {was} | {now} | {change.verdict} | {_tell_why(change)} |"
    yield ""


def _tell_why(change: Change) -> str:
    told = f"(not made on streams: {change.unplayed})" if change.unplayed else ""
    return " ".join(part for part in (change.why, told) if part)


def _find_changed(change: Change) -> tuple[str, str]:
    """Return the parts of both queries that differ."""
    if any(not old for old, _ in (*change.before, *change.swaps)):
        return _tell_whole(change.before), _tell_whole(change.swaps)
    before, after = dict(change.before), dict(change.swaps)
    parts = [each for each in {**before, **after} if before.get(each) != after.get(each)]
    was, now = (
        ", ".join(_quoted(side.get(each, each)) for each in parts) for side in (before, after)
    )
    return was, now


def _tell_whole(swaps: Swaps) -> str:
    text = "…"
    for old, new in swaps:
        text = text.replace(old, new) if old else new.replace("BASE", text)
    return _quoted(text)


def _quoted(text: str) -> str:
    text = " ".join(text.split())
    return f"`{text}`" if text else ""
