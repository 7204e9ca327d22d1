"""Terms in words, as the author of a query would write them over the columns of its sources.

What it promises: pure. The same text for the same term.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from ashore.plans.graph import (
    BY_GROUP,
    NULLABLE,
    OF_BRANCH,
    UNITED,
    PlanSource,
    Term,
    TermKind,
    describe_duration,
)

TEXT_LENGTH_MAX = 60
EXACT_LENGTH_MAX = 500
DAY_TIME = ("interval day", "interval hour", "interval minute", "interval second")
UNSPOKEN = {"Cast"}  # an author would mostly not have written it
_BARE = {*UNSPOKEN, BY_GROUP, NULLABLE, OF_BRANCH, UNITED}  # described by what it is of

INFIX = {
    "Add": "+",
    "And": "and",
    "BitwiseAnd": "&",
    "BitwiseOr": "|",
    "Concat": "||",
    "Divide": "/",
    "EqualNullSafe": "<=>",
    "EqualTo": "=",
    "GreaterThan": ">",
    "GreaterThanOrEqual": ">=",
    "IntegralDivide": "div",
    "LessThan": "<",
    "LessThanOrEqual": "<=",
    "Multiply": "*",
    "Or": "or",
    "Remainder": "%",
    "Subtract": "-",
    "TimestampAddInterval": "+",
}
SUFFIX = {"IsNull": "is null", "IsNotNull": "is not null"}
FUNCTIONS = {
    "Average": "avg",
    "CaseWhen": "case",
    "CollectList": "collect_list",
    "CollectSet": "collect_set",
    "DateFormatClass": "date_format",
    "HyperLogLogPlusPlus": "approx_count_distinct",
    "Md5": "md5",
    "ParseToDate": "to_date",
    "StddevSamp": "stddev",
    "VarianceSamp": "variance",
}
# What the marks of a join say of a column.
_MARKS = {NULLABLE: "or NULL where no row matches", OF_BRANCH: "of one input"}
_STRUCTS = {"CreateNamedStruct", "NamedStruct"}


@dataclass(frozen=True, slots=True)
class Words:
    """The texts of one plan's terms."""

    terms: Sequence[Term]
    sources: Sequence[PlanSource]
    is_qualified: bool = False  # columns of sources are shown with the name of the source
    is_exact: bool = False  # casts are shown, and texts are as long as they are
    is_full: bool = False  # types, options of functions and readings are shown: all that differs
    _texts: dict[int, str] = field(default_factory=dict)

    def of(self, place: int) -> str:
        """Return the text of a term, cut where it would be too long to read."""
        text = self._text(place)
        return text if len(text) <= self._length_max else text[: self._length_max - 3] + "..."

    def all(self, places: Iterable[int]) -> tuple[str, ...]:
        """Return the texts of terms."""
        return tuple(self.of(each) for each in places)

    def _text(self, place: int) -> str:
        """Return as much of a text as can be seen: what is longer by a character is cut anyway."""
        if place not in self._texts:
            term = self.terms[place]
            text = self._write(term) + (self._rest_of(term) if self.is_full else "")
            self._texts[place] = text[: self._length_max + 1]
        return self._texts[place]

    @property
    def _length_max(self) -> int:
        return EXACT_LENGTH_MAX if self.is_exact else TEXT_LENGTH_MAX

    def _write(self, term: Term) -> str:
        match term.kind:
            case TermKind.COLUMN | TermKind.RECORD:
                return self._qualify(term.name, term)
            case TermKind.MADE:
                return term.name
            case TermKind.NULL:
                return "null"
            case TermKind.LITERAL:
                return _literal(term)
            case TermKind.WINDOW:
                return term.window.text if term.window else "window"
            case TermKind.FIELD:
                return self._write_field(term)
            case TermKind.AGGREGATE:
                return self._write_aggregate(term)
            case TermKind.CALL:
                return self._write_call(term)

    def _write_call(self, term: Term) -> str:
        match term.name:
            case "Cast" if self.is_exact:
                return f"cast({self._text(term.arguments[0])} as {term.type})"
            case kind if kind == BY_GROUP and self.is_exact:
                function, *keys = term.arguments
                return f"{self._text(function)} by {self._list(keys)}"
            case kind if kind == UNITED and self.is_full:
                return f"union({self._list(term.arguments)})"
            case kind if kind in _BARE:
                return self._text(term.arguments[0])
            case kind if kind in _STRUCTS:
                return f"struct({self._list(term.arguments[1::2])})"
            case kind if kind in SUFFIX:
                return f"{self._text(term.arguments[0])} {SUFFIX[kind]}"
            case kind if kind in INFIX:
                return f" {INFIX[kind]} ".join(self._operand(each) for each in term.arguments)
            case kind:
                return f"{_function(kind)}({self._list(term.arguments)})"

    def _rest_of(self, term: Term) -> str:
        rest = [] if term.name == "Cast" else [term.type]
        rest += [f"reading {term.copy + 1}"] if term.copy else []
        is_marked = term.kind is TermKind.CALL and term.name in _MARKS
        rest += [_MARKS[term.name]] if is_marked else []
        rest += [f"{name} {value}" for name, value in term.options if term.name != UNITED]
        details = ", ".join(each for each in rest if each)
        return f" [{details}]" if details else ""

    def _write_aggregate(self, term: Term) -> str:
        name, arguments = _function(term.name), self._list(term.arguments)
        if name == "count" and arguments == "1":
            arguments = "*"
        distinct = "distinct " if term.is_distinct else ""
        filters = "".join(f" where {self._text(each)}" for each in term.filters)
        return f"{name}({distinct}{arguments}{filters})"

    def _write_field(self, term: Term) -> str:
        of = self._bare(term.arguments[0])
        struct = self.terms[of]
        match struct.kind:
            case TermKind.WINDOW:
                return f"{term.name} of {self._text(of)}"
            case TermKind.COLUMN | TermKind.RECORD | TermKind.MADE | TermKind.FIELD:
                return f"{self._text(of)}.{term.name}"
            case _:
                return self._qualify(term.name, struct)

    def _list(self, places: Iterable[int]) -> str:
        return ", ".join(self._text(each) for each in places)

    def _operand(self, place: int) -> str:
        bare = self.terms[self._bare(place)]
        is_infix = bare.kind is TermKind.CALL and bare.name in INFIX
        return f"({self._text(place)})" if is_infix else self._text(place)

    def _bare(self, place: int) -> int:
        while self.terms[place].kind is TermKind.CALL and self.terms[place].name in _BARE:
            place = self.terms[place].arguments[0]
        return place

    def _qualify(self, name: str, term: Term) -> str:
        if not self.is_qualified:
            return name
        owners = {self.sources[each].name for each in self.roots(term)}
        return f"{owners.pop()}.{name}" if len(owners) == 1 else name

    def roots(self, term: Term) -> set[int]:
        """Return the sources whose columns a term is over; a generator's rows are of none."""
        found: set[int] = set()
        waiting, seen = [term], set[int]()
        while waiting:
            each = waiting.pop()
            found |= {each.source} if each.source is not None else set()
            parts = set(() if each.kind is TermKind.MADE else each.parts) - seen
            waiting += [self.terms[part] for part in parts]
            seen |= parts
        return found


def _literal(term: Term) -> str:
    if term.type.startswith(DAY_TIME) and term.name.isdigit():
        return f"interval {describe_duration(int(term.name))}"
    return f"'{term.name}'" if term.type == "string" else term.name


def _function(kind: str) -> str:
    return FUNCTIONS.get(kind) or re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", kind).lower()
