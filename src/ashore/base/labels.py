"""Labels of jobs, and selectors of jobs by their labels.

What it promises: pure. Keys, values and selectors have the grammar of Kubernetes; others are
refused with a ValueError whose message quotes them and says what to write.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self

SELECTOR_MAX = 1_000
_WORD = r"[A-Za-z0-9](?:[A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?"
_PREFIX = r"[a-z0-9](?:[a-z0-9.-]{0,251}[a-z0-9])?"
_KEY = re.compile(rf"(?:{_PREFIX}/)?{_WORD}")
_VALUE = re.compile(rf"(?:{_WORD})?")
_BETWEEN = re.compile(r",(?![^(]*\))")  # a comma that is in no parentheses
_EQUALITY = re.compile(r"([^\s=!()]+)\s*(==?|!=)\s*([^\s=!()]*)")
_SET = re.compile(r"([^\s=!()]+)\s+(in|notin)\s*\(\s*([^()\s][^()]*)\)")
_EXISTENCE = re.compile(r"(!?)\s*([^\s=!()]+)")
HINT = "write `team=payments,tier!=test`, `team in (payments, orders)`, `team` or `!team`"


def check_label(key: str, value: str) -> None:
    """Check that a label is one. Raises ValueError."""
    if _KEY.fullmatch(key) is None:
        raise ValueError(
            f"{key[:100]!r} is not a key of a label: at most 63 letters, digits, `-`, `_` and `.` "
            "that begin and end with a letter or digit, after a domain and `/` at most"
        )
    if _VALUE.fullmatch(value) is None:
        raise ValueError(
            f"{value[:100]!r} is not a value of a label: at most 63 letters, digits, `-`, `_` and "
            "`.` that begin and end with a letter or digit"
        )


def label_texts(labels: Mapping[str, str]) -> tuple[str, ...]:
    """Return labels as people write them: `team=payments`, in their order."""
    return tuple(f"{key}={value}" for key, value in labels.items())


@dataclass(frozen=True, slots=True)
class _Term:
    """One requirement. `values`: None requires the key alone."""

    key: str
    values: frozenset[str] | None
    is_met: bool  # whether a label that fits meets it, or fails it

    def meets(self, labels: Mapping[str, str]) -> bool:
        fits = self.key in labels and (self.values is None or labels[self.key] in self.values)
        return fits == self.is_met

    def __str__(self) -> str:
        if self.values is None:
            return self.key if self.is_met else f"!{self.key}"
        if len(self.values) == 1:
            return f"{self.key}{'=' if self.is_met else '!='}{next(iter(self.values))}"
        return f"{self.key} {'in' if self.is_met else 'notin'} ({','.join(sorted(self.values))})"


@dataclass(frozen=True, slots=True)
class Selector:
    """Which labels are meant: those that meet all terms. Without terms: all jobs."""

    terms: tuple[_Term, ...] = ()

    @classmethod
    def parse(cls, text: str) -> Self:
        """Return the selector that a text means. Raises ValueError."""
        if len(text) > SELECTOR_MAX:
            raise ValueError(f"a selector has at most {SELECTOR_MAX:,} characters")
        return cls(tuple(_parse_term(each.strip(), text) for each in _BETWEEN.split(text)))

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Return whether labels meet all terms. Labels without the key meet `key!=value`."""
        return all(each.meets(labels) for each in self.terms)

    def __str__(self) -> str:
        """Return the selector as a text that is the same for equal selectors."""
        return ",".join(map(str, self.terms))


def _parse_term(term: str, text: str) -> _Term:
    if found := _EQUALITY.fullmatch(term):
        made = _Term(found[1], frozenset({found[3]}), found[2] != "!=")
    elif found := _SET.fullmatch(term):
        values = frozenset(each.strip() for each in found[3].split(","))
        made = _Term(found[1], values, found[2] == "in")
    elif found := _EXISTENCE.fullmatch(term):
        made = _Term(found[2], None, not found[1])
    else:
        raise ValueError(f"the selector {text[:200]!r} cannot be read at {term[:100]!r}")
    for value in made.values or {""}:
        check_label(made.key, value)
    return made
