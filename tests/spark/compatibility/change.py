"""A change of a query's SQL, and what is to become of its state."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from ashore.plans.change.verdicts import StateVerdict

# Rows of the first half of the input are older, those of the second are not.
HALF = "TIMESTAMP '2026-01-01T02:33:00Z'"
LATEST = "TIMESTAMP '2026-01-01T02:32:00Z'"  # the last row of the first half
KEPT = "TIMESTAMP '2026-01-01T02:00:00Z'"  # the first window of an hour that is open by then
FULL, CONVERT, PARTIAL = StateVerdict.FULL, StateVerdict.CONVERT, StateVerdict.PARTIAL
LOST, REFUSED = StateVerdict.LOST, StateVerdict.REFUSED
Swaps = Sequence[tuple[str, str]]


@dataclass(frozen=True, slots=True)
class Change:
    """A change.

    Arguments:
        name: in words; unique for its base.
        swaps: what is replaced in the SQL of the base.
        verdict: of the whole.
        why: a part of what is said.
        meant: what is replaced in the new SQL, so that it gives over the whole input what the new
            query gives with the state of the old one. Empty: it gives the same as the new SQL.
        unplayed: why the tests do not play it on streams of files. Empty: they do, unless the
            verdict refuses it.
        before: what is replaced in the SQL of the base for the old query.
        columns: a part of a column's name in the state, and its verdict.
        is_run: the everyday run of the tests may choose it, to rewrite its state.
        is_other: of a dimension, of a sink, or of the configuration alone.

    """

    name: str
    swaps: Swaps
    verdict: StateVerdict
    why: str = ""
    meant: Swaps = ()
    unplayed: str = ""
    before: Swaps = ()
    columns: Mapping[str, StateVerdict] = field(default_factory=dict)
    is_run: bool = False
    is_other: bool = False


@dataclass(frozen=True, slots=True)
class Base:
    """A query, and its changes."""

    name: str
    sql: str
    mode: str
    changes: tuple[Change, ...]

    def old(self, change: Change) -> str:
        return swapped(self.sql, change.before)

    def new(self, change: Change) -> str:
        return swapped(self.sql, change.swaps)

    def meant(self, change: Change) -> str:
        """Return the SQL that gives over the whole input what is to come out."""
        return (
            swapped(self.new(change), change.meant)
            .replace("HALF", HALF)
            .replace("KEPT", KEPT)
            .replace("LATEST", LATEST)
        )


def swapped(sql: str, swaps: Swaps) -> str:
    """Return SQL with parts replaced; an empty part stands for all of it."""
    for old, new in swaps:
        if old and old not in sql:
            raise AssertionError(f"{old!r} is not in {sql}")
        sql = sql.replace(old, new) if old else new.replace("BASE", sql)
    return sql
