"""What becomes of a job's state with other SQL, on a page: verdicts, and who is who.

What it is: `view_check`, from the document that `ashore migrate check --json` prints.
What it promises: pure. Every verdict has its reasons; what would be lost is a list of its own.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ashore.base.units import format_size

CHIPS = {"full": "good", "convert": "good", "partial": "warn", "lost": "bad", "refused": "bad"}
MEANS = {
    "full": "A start with the new SQL uses the state as it is.",
    "convert": "The state has to be rewritten, and nothing of it is lost.",
    "partial": "The state has to be rewritten, and parts of it start empty.",
    "lost": "The state has to be rewritten, and parts of it are dropped.",
    "refused": "The state cannot be kept: change the SQL, or the mapping, or start a new table.",
}
AUTOMATIC, NEW = "", "-"
LOSING = frozenset({"partial", "lost"})


@dataclass(frozen=True, slots=True)
class MappedChoice:
    """An operator of the new SQL, and which operator of the old one may be it."""

    new: str
    name: str
    chosen: str  # the id of the old operator; empty: none was found


@dataclass(frozen=True, slots=True)
class CheckView:
    """A change that was checked.

    Arguments:
        verdict: of the whole.
        queries: the document of each, with its operators.
        choices: stateful operators of the new SQL.
        olds: stateful operators of the old SQL, id and name.
        losses: what is lost, as sentences.

    """

    verdict: str
    queries: tuple[tuple[Mapping[str, Any], tuple[Mapping[str, Any], ...]], ...]
    choices: tuple[MappedChoice, ...]
    olds: tuple[tuple[str, str], ...]
    losses: tuple[str, ...]

    @property
    def means(self) -> str:
        """What the verdict means."""
        return MEANS.get(self.verdict, "")

    @property
    def must_rewrite(self) -> bool:
        """Whether something is to be applied."""
        return self.verdict in {"convert", "partial", "lost"}


def view_check(answer: Mapping[str, Any]) -> CheckView:
    """Return what a check has found."""
    operators: Sequence[Mapping[str, Any]] = answer["operators"]
    pairs = {each["new"]: each["old"] for each in answer["mapping"]}
    queries = tuple(
        (query, tuple(each for each in operators if each["query"] == query["query"]))
        for query in answer["queries"]
    )
    choices = [
        MappedChoice(each["new"], each["name"], pairs.get(each["new"], ""))
        for each in operators
        if each["new"]
    ]
    olds = {each["old"]: each["name"] for each in operators if each["old"]}
    return CheckView(
        answer["verdict"], queries, tuple(choices), tuple(sorted(olds.items())), _losses(queries)
    )


def _losses(
    queries: Sequence[tuple[Mapping[str, Any], Sequence[Mapping[str, Any]]]],
) -> tuple[str, ...]:
    found = []
    for query, operators in queries:
        names = {each["old"]: each["name"] for each in operators}
        for each in operators:
            if each["verdict"] in LOSING:
                columns = [
                    c["name"] for c in each["columns"] if c["verdict"] in {"partial", "lost"}
                ]
                of = f": {', '.join(columns)}" if columns else ""
                found.append(f"{query['query']}, {each['name']} is {each['verdict']}{of}")
        lost = query["lost"] or {"states": []}
        for state in lost["states"]:
            rows = (
                "rows that no file counts" if state["rows"] is None else f"{state['rows']:,} rows"
            )
            about = "about " if state["is_estimate"] else ""
            size = format_size(state["bytes"])
            name = names.get(state["operator"]) or "the whole query"
            found.append(f"{query['query']}, {name}: {about}{rows}, up to {size}")
    return tuple(found)


def mapping_of(fields: Mapping[str, str]) -> tuple[list[tuple[str, str]], list[tuple[str, str]]]:
    """Return pins and forbids of a form: fields `map:NEW` with the id of an old operator.

    `old:NEW` is the pair that was found; to choose none forbids it.
    """
    pins, forbids = [], []
    for name, old in fields.items():
        if not name.startswith("map:"):
            continue
        new = name.removeprefix("map:")
        found = fields.get(f"old:{new}", "")
        if old == NEW and found:
            forbids.append((found, new))
        elif old not in {AUTOMATIC, NEW}:
            pins.append((old, new))
    return pins, forbids
