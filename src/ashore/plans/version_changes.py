"""What differs between two versions of a job: SQL, settings, releases, operators, columns.

What it is: `compare_versions`, and the value that it returns.
What it promises: pure. Operators are in the order in which rows flow; what is gone stands where it
was. What two planners have made is compared too, and called so.
"""

import difflib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

from ashore.base import codec
from ashore.errors import fail
from ashore.plans.matching import Pair, Why, match_operators
from ashore.plans.operator_graph import (
    Operator,
    OperatorGraph,
    OutputColumn,
    StateField,
    describe_graph,
)
from ashore.plans.version import JobVersion


class ChangeKind(StrEnum):
    """What became of an operator."""

    SAME = "same"
    CHANGED = "changed"
    ADDED = "added"
    REMOVED = "removed"


@dataclass(frozen=True, slots=True)
class SettingChange:
    """A key of the job file, a release, a form of the state. None: it was not there, or is not."""

    key: str
    before: str | None
    after: str | None


@dataclass(frozen=True, slots=True)
class OperatorChange:
    """What became of an operator."""

    change: ChangeKind  # whether it is the same
    before: Operator | None  # as it was; None where it is new
    after: Operator | None  # as it is; None where it is gone
    why: Why | None = None  # why both are taken for one; None where there is but one
    gone: tuple[str, ...] = ()  # what it no longer computes with, keeps or takes in, in words
    come: tuple[str, ...] = ()  # what it computes with, keeps or takes in now

    @property
    def operator(self) -> Operator:
        """The operator as it is; as it was, where it is gone."""
        return self.after or self.before or fail("a change of no operator")


@dataclass(frozen=True, slots=True)
class ColumnChange:
    """A column that the sink takes. None: it was not there, or is not."""

    name: str
    before: OutputColumn | None
    after: OutputColumn | None


@dataclass(frozen=True, slots=True)
class VersionDiff:
    """What differs."""

    sql: tuple[str, ...]  # lines of a unified diff, without its head; empty where nothing differs
    settings: tuple[SettingChange, ...]
    releases: tuple[SettingChange, ...]  # and the form of the state, where they differ
    operators: tuple[OperatorChange, ...]  # all of both graphs
    columns: tuple[ColumnChange, ...]
    is_comparable: bool  # whether one planner has made both graphs


def compare_versions(old: JobVersion, new: JobVersion) -> VersionDiff:
    """Return what differs between two versions."""
    before, after = describe_graph(old.graph), describe_graph(new.graph)
    return VersionDiff(
        sql=tuple(_compare_sql(old.sql, new.sql)),
        settings=_compare_settings(old.settings, new.settings),
        releases=_compare_settings(_list_releases(old), _list_releases(new)),
        operators=tuple(compare_operators(before, after)),
        columns=tuple(_compare_columns(before.columns, after.columns)),
        is_comparable=old.releases.planner == new.releases.planner,
    )


def _compare_sql(old: Sequence[str], new: Sequence[str]) -> Iterator[str]:
    before, after = ([line for text in texts for line in text.splitlines()] for texts in (old, new))
    lines = difflib.unified_diff(before, after, lineterm="", n=2)
    return (line for number, line in enumerate(lines) if number > 1)


def _compare_settings(
    old: Sequence[tuple[str, str]], new: Sequence[tuple[str, str]]
) -> tuple[SettingChange, ...]:
    before, after = dict(old), dict(new)
    keys = sorted(before.keys() | after.keys())
    found = (SettingChange(key, before.get(key), after.get(key)) for key in keys)
    return tuple(each for each in found if each.before != each.after)


def _list_releases(version: JobVersion) -> list[tuple[str, str]]:
    releases, state = codec.encode_object(version.releases), codec.encode_object(version.state)
    return [
        *((f"release.{key}", str(value)) for key, value in releases.items()),
        *((f"state.{key}", str(value)) for key, value in state.items()),
    ]


def compare_operators(old: OperatorGraph, new: OperatorGraph) -> Iterator[OperatorChange]:
    """Yield what became of each operator, in the order in which rows flow."""
    pairs = {pair.new: pair for pair in match_operators(old, new)}
    paired = {pair.old for pair in pairs.values()}
    reported = 0
    for place, operator in enumerate(new.operators):
        pair = pairs.get(place)
        if pair is None:
            yield OperatorChange(ChangeKind.ADDED, None, operator)
            continue
        for each in range(reported, pair.old):
            if each not in paired:
                yield OperatorChange(ChangeKind.REMOVED, old.operators[each], None)
        reported = max(reported, pair.old + 1)
        yield _compare(old.operators[pair.old], operator, pair)
    for each in range(reported, len(old.operators)):
        if each not in paired:
            yield OperatorChange(ChangeKind.REMOVED, old.operators[each], None)


def _compare(before: Operator, after: Operator, pair: Pair) -> OperatorChange:
    was, now = list(_describe(before)), list(_describe(after))
    removed = tuple(each for each in was if each not in now)
    come = tuple(each for each in now if each not in was)
    if not removed and not come and _kept_by(before) != _kept_by(after):
        # The same in another order, which a state has in its bytes.
        removed, come = _kept_by(before), _kept_by(after)
    change = ChangeKind.CHANGED if removed or come or before.own != after.own else ChangeKind.SAME
    return OperatorChange(change, before, after, pair.why, removed, come)


def _describe(operator: Operator) -> Iterator[str]:
    for fact in operator.facts:
        yield f"{fact.role} {fact.text}"
    yield from _kept_by(operator)
    for edge in operator.inputs:
        for column in edge.columns:
            yield f"takes {column}"


def _kept_by(operator: Operator) -> tuple[str, ...]:
    state = operator.state
    if state is None:
        return ()
    columns = (f"keeps {_describe_column(each)}" for each in state.columns)
    return (*columns, f"{state.partitions} state partitions")


def _describe_column(column: StateField) -> str:
    side = f"{column.side}: " if column.side else ""
    null = "" if column.is_nullable else " not null"
    return f"{side}{column.name} {column.type}{null}"


def _compare_columns(
    old: Sequence[OutputColumn], new: Sequence[OutputColumn]
) -> Iterator[ColumnChange]:
    before, after = ({each.name: each for each in columns} for columns in (old, new))
    for name in [*before, *(each for each in after if each not in before)]:
        if before.get(name) != after.get(name):
            yield ColumnChange(name, before.get(name), after.get(name))
