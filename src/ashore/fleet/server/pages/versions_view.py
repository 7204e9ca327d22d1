"""The versions of a job's queries on a page, two of them side by side.

What it promises: pure. Operators can be searched by whatever is known of them.
"""

import difflib
import json
from collections.abc import Sequence
from dataclasses import dataclass

from ashore.base import codec
from ashore.fleet.server.pages.versions_svg import draw_diff
from ashore.plans.operator_graph import Operator
from ashore.plans.version import JobVersion
from ashore.plans.version_changes import ChangeKind, OperatorChange, SettingChange
from ashore.proof.status.versions import ComparedVersions, QueryVersions

SIGNS = {
    ChangeKind.SAME: "=",
    ChangeKind.CHANGED: "~",
    ChangeKind.ADDED: "+",
    ChangeKind.REMOVED: "-",
}


@dataclass(frozen=True, slots=True)
class OperatorRow:
    """An operator of two versions."""

    change: str
    sign: str
    name: str
    id: str
    kind: str
    state: str  # what it keeps, in words; empty: nothing
    facts: tuple[str, ...]
    removed: tuple[str, ...]
    added: tuple[str, ...]
    why: str
    words: str  # that a search looks through


@dataclass(frozen=True, slots=True)
class DiffLine:
    """A line of a unified diff."""

    sign: str  # one of "+", "-", "@", " "
    text: str


@dataclass(frozen=True, slots=True)
class DiffView:
    """Two versions, and what differs."""

    query: str
    before: int
    after: int
    picture: str  # SVG
    sql: tuple[DiffLine, ...]
    json: tuple[DiffLine, ...]
    settings: tuple[SettingChange, ...]
    operators: tuple[OperatorRow, ...]
    changed: int
    is_comparable: bool


@dataclass(frozen=True, slots=True)
class VersionsView:
    """The versions of all queries of a job, and two of them compared."""

    queries: tuple[QueryVersions, ...]
    diff: DiffView | None


def view_versions(
    queries: Sequence[QueryVersions], compared: ComparedVersions | None
) -> VersionsView:
    """Return the page of versions."""
    return VersionsView(tuple(queries), None if compared is None else view_diff(compared))


def view_diff(compared: ComparedVersions) -> DiffView:
    """Return what differs between two versions, for a page."""
    diff = compared.diff
    operators = tuple(_row(each) for each in diff.operators)
    old, new = compared.before.content, compared.after.content
    return DiffView(
        query=compared.query,
        before=compared.before.version,
        after=compared.after.version,
        picture=draw_diff(compared, is_alone=False),
        sql=diff_lines(diff.sql),
        json=diff_lines(_json_diff(old, new)),
        settings=(*diff.settings, *diff.releases),
        operators=operators,
        changed=sum(1 for each in diff.operators if each.change is not ChangeKind.SAME),
        is_comparable=diff.is_comparable,
    )


def diff_lines(lines: Sequence[str]) -> tuple[DiffLine, ...]:
    """Return lines of a unified diff with their signs apart."""
    return tuple(DiffLine(each[:1] if each[:1] in "+-@" else " ", each) for each in lines if each)


def _json_diff(old: JobVersion, new: JobVersion) -> list[str]:
    """Return a unified diff of two versions as JSON, their graphs left out."""
    return list(difflib.unified_diff(_json_of(old), _json_of(new), lineterm="", n=2))[2:]


def _json_of(version: JobVersion) -> list[str]:
    document = codec.encode_object(version)
    kept = {name: document[name] for name in document if name != "graph"}
    return json.dumps(kept, indent=1, ensure_ascii=False).splitlines()


def _row(change: OperatorChange) -> OperatorRow:
    operator = change.operator
    facts = tuple(f"{each.role} {each.text}" for each in operator.facts)
    state = _state_of(operator)
    parts = (operator.name, operator.id, operator.kind, operator.engine_class, change.change.value)
    words = " ".join((*parts, state, *facts, *change.gone, *change.come)).lower()
    return OperatorRow(
        change=change.change.value,
        sign=SIGNS[change.change],
        name=operator.name,
        id=operator.id,
        kind=str(operator.kind),
        state=state,
        facts=facts,
        removed=change.gone,
        added=change.come,
        why=change.why.value if change.why else "",
        words=words,
    )


def _state_of(operator: Operator) -> str:
    state = operator.state
    if state is None:
        return ""
    names = ", ".join(each.name for each in (*state.keys, *state.columns))
    return f"state/{state.operator_id}: {names}"
