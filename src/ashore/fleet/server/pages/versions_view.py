"""The versions of a job's queries on a page, two of them side by side.

What it promises: pure. Operators can be searched by whatever is known of them.
"""

import difflib
import json

from ashore.base import codec
from ashore.fleet.server.pages.versions_svg import draw_diff
from ashore.plans.operator_graph import Operator
from ashore.plans.version import JobVersion
from ashore.plans.version_changes import ChangeKind, OperatorChange
from ashore.proof.status.query_versions import ComparedVersions

SIGNS = {
    ChangeKind.SAME: "=",
    ChangeKind.CHANGED: "~",
    ChangeKind.ADDED: "+",
    ChangeKind.REMOVED: "-",
}


def view_diff(compared: ComparedVersions) -> dict[str, object]:
    """Return what a page shows of two versions, by the names of its template."""
    diff = compared.diff
    old, new = _json_of(compared.before.content), _json_of(compared.after.content)
    return {
        "compared": compared,
        "picture": draw_diff(compared, is_alone=False),
        "json": list(difflib.unified_diff(old, new, lineterm="", n=2))[2:],
        "settings": (*diff.settings, *diff.releases),
        "operators": [
            (each, state_text(each.operator), _search_text(each)) for each in diff.operators
        ],
        "changed": sum(1 for each in diff.operators if each.change is not ChangeKind.SAME),
        "signs": SIGNS,
    }


def _json_of(version: JobVersion) -> list[str]:
    """Return a version as JSON, its graph left out."""
    document = codec.encode_object(version)
    kept = {name: document[name] for name in document if name != "graph"}
    return json.dumps(kept, indent=1, ensure_ascii=False).splitlines()


def _search_text(change: OperatorChange) -> str:
    """Return the words that a search looks through."""
    operator = change.operator
    facts = tuple(f"{each.role} {each.text}" for each in operator.facts)
    parts = (operator.name, operator.id, operator.kind, operator.engine_class, change.change.value)
    return " ".join((*parts, state_text(operator), *facts, *change.gone, *change.come)).lower()


def state_text(operator: Operator) -> str:
    """Return what an operator keeps, in words; empty: nothing."""
    state = operator.state
    if state is None:
        return ""
    names = ", ".join(each.name for each in (*state.keys, *state.columns))
    return f"state/{state.operator_id}: {names}"
