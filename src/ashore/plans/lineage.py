"""From Spark's expressions to terms: each attribute is what it stands for, down to the sources.

What it is: `learn_lineage`, the columns of one plan; `window_of`, the window of time that an
expression makes, read back from the arithmetic that Spark makes of it.
What it promises: pure. The same terms whatever a query calls its columns, subqueries and views, and
whatever ids Spark gives them. What changes how a value is stored and not what it is, is left out. A
struct that is no window is none.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from ashore.plans.graph import (
    BY_GROUP,
    DECODED,
    OF_BRANCH,
    RANDOM,
    UNION_NUMBER,
    UNION_READS,
    UNITED,
    Term,
    TermKind,
    Terms,
    Window,
    WindowKind,
)
from ashore.plans.physical import (
    Node,
    Planned,
    PlannedNode,
    UnionColumn,
    expressions_in,
    field_of,
    type_name,
    write_option,
)

# They change how a value is stored, not what it means.
WRAPPERS = {
    *("Alias", "KnownNotNull", "KnownNullable", "PreciseTimestampConversion"),
    *("KnownFloatingPointNormalized", "NormalizeNaNAndZero", "CheckOverflow", "UpCast"),
}
# Fields of functions that say nothing of what is computed, or that a term has elsewhere.
_NO_OPTIONS = {
    *("class", "dataType", "nullable", "timeZoneId", "evalMode", "evalContext"),
    "variantAllowDuplicateKeys",
}
_TYPED = {"Cast"}  # functions whose type is what they do
_RESULTS = "aggregateAttributes"
_RECORDS = {"value", "key", DECODED}  # of Kafka's records: what is decoded, and the result


@dataclass(slots=True)
class Lineage:
    """The columns of one plan, and the terms that were made of them."""

    planned: Planned
    definitions: Mapping[int, Node]  # what each expression id stands for
    # what makes rows, and which of its columns an expression id is
    generators: Mapping[int, tuple[Node, int]]
    unions: Mapping[int, UnionColumn] = field(default_factory=dict)
    terms: Terms = field(default_factory=Terms)
    _known: dict[int, int] = field(default_factory=dict)  # terms of expression ids
    _variables: dict[int, int] = field(default_factory=dict)  # of the functions that are around
    # The sources that terms are of, each with the number of its copy.
    _sources: dict[int, frozenset[tuple[int, int]]] = field(default_factory=dict)
    _varying: set[int] = field(default_factory=set)  # terms that are no constants

    def term(self, node: Node) -> int:
        """Return the term of an expression."""
        match node.kind:
            case kind if kind in WRAPPERS:
                return self.term(node.children[0])
            case "AttributeReference":
                return self._attribute(node)
            case kind if kind == OF_BRANCH and not self._is_of_branch(node.children[0]):
                return self.term(node.children[0])
            case "AggregateExpression":
                return self._aggregate(node)
            case "GetStructField":
                return self._field(node)
            case "LambdaFunction":
                return self._function(node)
            case "NamedLambdaVariable":
                return self._variable(node)
        if found := window_of(node):
            times = tuple(self.term(each) for each in found.of)
            return self._add(Term(TermKind.WINDOW, arguments=times, window=found.window))
        if node.kind == "Literal":
            return self._literal(node)
        return self._call(TermKind.CALL, node)

    def _is_of_branch(self, node: Node) -> bool:
        """Return whether only the input that computes a column says what it is.

        A column of a source is distinguished by that source, and a constant is the same anywhere.
        """
        place = self.term(node)
        return not self._sources[place] and place in self._varying

    def all(self, nodes: Iterable[Node]) -> tuple[int, ...]:
        """Return the terms of expressions."""
        return tuple(self.term(each) for each in nodes)

    def _add(self, term: Term) -> int:
        place = self.terms.add(term)
        if place not in self._sources:
            own = () if term.source is None else ((term.source, term.copy),)
            below = (self._sources[part] for part in term.parts)
            self._sources[place] = frozenset(own).union(*below)
            is_made = term.kind in {TermKind.AGGREGATE, TermKind.MADE} or term.name in RANDOM
            if is_made or not self._varying.isdisjoint(term.parts):
                self._varying.add(place)
        return place

    def _call(self, kind: TermKind, node: Node) -> int:
        type_ = type_name(node.fields.get("dataType")) if node.kind in _TYPED else ""
        arguments = self.all(node.children)
        return self._add(Term(kind, node.kind, type_, arguments, options=_options(node)))

    def _function(self, node: Node) -> int:
        """A function of the query's own: variables are identified by their order, not by names."""
        numbers = [each.number_of("exprId") for each in node.children[1:]]
        bound = [each for each in numbers if each is not None]
        self._variables |= {each: len(self._variables) + at for at, each in enumerate(bound)}
        made = self._call(TermKind.CALL, node)
        for each in bound:
            del self._variables[each]
        return made

    def _variable(self, node: Node) -> int:
        number = self._variables.get(node.number_of("exprId") or -1, 0)
        return self._add(Term(TermKind.CALL, node.kind, options=(("number", str(number)),)))

    def _attribute(self, node: Node) -> int:
        number = node.number_of("exprId")
        if number is None:
            return self._add(Term(TermKind.MADE, node.text("name")))
        if number not in self._known:
            definition = self.definitions.get(number)
            made = self.term(definition) if definition is not None else self._leaf(node, number)
            self._known[number] = made
        return self._known[number]

    def _leaf(self, node: Node, number: int) -> int:
        """A column that nothing defines is a source's, or some operator's."""
        if number in self.unions:
            return self._united(self.unions[number])
        source, type_ = self.planned.columns.get(number), type_name(node.fields.get("dataType"))
        if source is None:
            return self._made(Term(TermKind.MADE, node.text("name"), type_), number)
        is_kafka = self.planned.sources[source].is_kafka
        kind = TermKind.RECORD if is_kafka else TermKind.COLUMN
        if is_kafka and node.text("name") == DECODED:
            type_ = ""
        copy = self.planned.copies.get(number, 0)
        return self._add(Term(kind, node.text("name"), type_, source=source, copy=copy))

    def _united(self, column: UnionColumn) -> int:
        """A column of a union: several columns in one."""
        options = ((UNION_NUMBER, str(column.union)), (UNION_READS, ",".join(column.sources)))
        return self._add(
            Term(TermKind.CALL, UNITED, arguments=self.all(column.inputs), options=options)
        )

    def _made(self, term: Term, number: int) -> int:
        if number not in self.generators:
            return self._add(term)
        generator, place = self.generators[number]
        options = (("output", str(place)),)
        return self._add(replace(term, arguments=(self.term(generator),), options=options))

    def _aggregate(self, node: Node) -> int:
        function, *filters = node.children
        return self._add(
            Term(
                TermKind.AGGREGATE,
                function.kind,
                arguments=self.all(function.children),
                options=_options(function),
                filters=self.all(filters),
                is_distinct=bool(node.fields.get("isDistinct")),
            )
        )

    def _field(self, node: Node) -> int:
        """A field of a decoded record is a column of the source; others keep their struct."""
        name, type_ = _field_name(node)
        struct = self.term(node.children[0])
        source = self._decoded(struct)
        if source is not None:
            place, copy = source
            return self._add(Term(TermKind.COLUMN, name, type_, source=place, copy=copy))
        return self._add(Term(TermKind.FIELD, name, type_, (struct,)))

    def _decoded(self, struct: int) -> tuple[int, int] | None:
        """Return the source whose records are decoded to a struct; None where it is something else.

        Only the view of a topic has a record before it is decoded: what SQL takes apart later is
        made of the view's columns.
        """
        waiting, seen, is_decoded = [struct], {struct}, False
        while waiting:
            term = self.terms.table[waiting.pop()]
            if term.kind in {TermKind.AGGREGATE, TermKind.WINDOW, TermKind.MADE}:
                return None
            is_decoded |= term.kind is TermKind.RECORD and term.name in _RECORDS
            waiting += set(term.parts) - seen
            seen |= set(term.parts)
        found = self._sources[struct]
        return min(found) if is_decoded and len(found) == 1 else None

    def _literal(self, node: Node) -> int:
        value, type_ = node.fields.get("value"), type_name(node.fields.get("dataType"))
        if value is None:
            return self._add(Term(TermKind.NULL, type=type_))
        return self._add(Term(TermKind.LITERAL, str(value), type_))


def learn_lineage(planned: Planned, unions: Mapping[int, UnionColumn]) -> Lineage:
    """Return the lineage of a plan's columns. `unions`: the columns of its unions."""
    definitions = {
        attribute: definition
        for each in planned.root.walk()
        for attribute, definition in (*_definitions(each.node), *_functions(each))
        if attribute is not None and not _is_itself(definition, attribute)
    }
    generators = {
        number: (each.node.nodes("generator")[0], place)
        for each in planned.root.walk()
        for place, attribute in enumerate(each.node.nodes("generatorOutput"))
        if (number := attribute.number_of("exprId")) is not None
    }
    return Lineage(planned, definitions, generators, unions)


def _is_itself(definition: Node, attribute: int) -> bool:
    """Return whether a node hands on a column: a key of FLOAT is normalised under its own id."""
    return any(each.number_of("exprId") == attribute for each in definition.walk())


def _definitions(node: Node) -> Iterator[tuple[int | None, Node]]:
    """Yield the expression ids that a node of a plan gives, with what they stand for."""
    for value in node.fields.values():
        for found in (each for root in expressions_in(value) for each in root.walk()):
            if found.kind == "Alias":
                yield found.number_of("exprId"), found.children[0]
    if node.kind == "ExpandExec":
        yield from _expanded(node)


def _functions(planned: PlannedNode) -> Iterator[tuple[int | None, Node]]:
    """Yield the expression ids of an aggregate's functions, with the functions.

    What an aggregate over another one computes is named with the groups: `count(*)` of the rows of
    each group is not the number of groups.
    """
    node = planned.node
    if _RESULTS not in node.fields:
        return
    own = _numbers_of(node)
    below = (_numbers_of(each.node) for each in planned.walk())
    is_over_another = any(not some <= own for some in below)
    keys = node.nodes("groupingExpressions")
    functions = node.nodes("aggregateExpressions")
    for attribute, function in zip(node.nodes(_RESULTS), functions, strict=True):
        made = Node(BY_GROUP, {}, (function, *keys)) if is_over_another else function
        yield attribute.number_of("exprId"), made


def _numbers_of(aggregate: Node) -> set[int]:
    numbers = (each.number_of("exprId") for each in aggregate.nodes(_RESULTS))
    return {each for each in numbers if each is not None}


def _expanded(node: Node) -> Iterator[tuple[int | None, Node]]:
    """Each row becomes several; a number in them distinguishes the copies."""
    rows = node.fields.get("projections")
    first = rows[0] if isinstance(rows, tuple) and rows else ()
    for attribute, definition in zip(node.nodes("output"), first, strict=True):
        is_number = definition.kind == "Literal" and isinstance(definition.fields["dataType"], str)
        if not is_number:
            yield attribute.number_of("exprId"), definition


def _field_name(node: Node) -> tuple[str, str]:
    """Return name and type of the field that is taken.

    Spark writes its number, and mostly the name.
    """
    ordinal = node.fields.get("ordinal")
    for below in node.children[0].walk():
        struct = below.fields.get("dataType", below.fields.get("schema"))
        found = field_of(struct, ordinal) if isinstance(ordinal, int) else None
        if found is not None:
            return found
    return node.text("name") or "field", ""


def _options(node: Node) -> tuple[tuple[str, str], ...]:
    """Return what Spark writes of a function besides its arguments."""
    found = (
        (name, write_option(value))
        for name, value in node.fields.items()
        if name not in _NO_OPTIONS and type(value) is not int  # mostly the place of an argument
    )
    return tuple((name, value) for name, value in found if value is not None)


# ---- windows of time, read back from the arithmetic that Spark makes of them


@dataclass(frozen=True, slots=True)
class FoundWindow:
    """A window, with the expressions that it is computed from: the time, and a gap that varies."""

    window: Window
    of: tuple[Node, ...]


def window_of(node: Node) -> FoundWindow | None:
    """Return the window that an expression makes; None where it makes none."""
    if node.kind == "Literal":
        return _read_constant(node)
    names = [each.fields.get("value") for each in node.children[0::2]]
    if node.kind not in {"CreateNamedStruct", "NamedStruct"} or names != ["start", "end"]:
        return None
    start, end = node.children[1], node.children[3]
    times = [each for each in start.walk() if each.kind == "PreciseTimestampConversion"]
    if not times:
        return None
    # The outer one makes a time of the result; those within make numbers of the event's time.
    time = next((each for each in times if each.fields.get("fromType") != "long"), times[-1])
    slides = [_number(each.children[1]) for each in start.walk() if each.kind == "Remainder"]
    if not slides:
        return _read_session(time.children[0], end)
    return FoundWindow(_read_regular(end, slides[0]), (time.children[0],))


def _read_constant(literal: Node) -> FoundWindow | None:
    """A window of the clock is one literal in each batch."""
    struct = literal.fields.get("dataType")
    fields = struct.get("fields", ()) if isinstance(struct, dict) else ()
    ends = re.fullmatch(r"\[(\d+),(\d+)\]", literal.text("value"))
    if ends is None or [each["name"] for each in fields] != ["start", "end"]:
        return None
    return FoundWindow(Window(WindowKind.PROCESSING, int(ends[2]) - int(ends[1])), ())


def _read_regular(end: Node, slide_us: int | None) -> Window:
    """The end is the start plus the length: the outermost sum."""
    sums = [each for each in end.walk() if each.kind == "Add"]
    length_us = _number(sums[0].children[1]) if sums else None
    return Window(WindowKind.REGULAR, length_us, slide_us, _offset_us(end))


def _offset_us(end: Node) -> int:
    """What is taken from the event time before the remainder: where windows begin."""
    remainders = [each for each in end.walk() if each.kind == "Remainder"]
    shifts = [_number(each.children[1]) for each in remainders[0].walk() if each.kind == "Subtract"]
    return (shifts[0] if shifts else None) or 0


def _read_session(time: Node, end: Node) -> FoundWindow:
    """A session ends a gap after its event: a literal, or what the query computes it from."""
    sums = [each for each in end.walk() if len(each.children) == 2]
    gap = sums[0].children[1] if sums else end
    while gap.kind == "Cast":
        gap = gap.children[0]
    literal = gap.fields.get("value") if gap.kind == "Literal" else None
    if literal:
        return FoundWindow(Window(WindowKind.SESSION, gap=str(literal)), (time,))
    return FoundWindow(Window(WindowKind.SESSION), (time, gap))


def _number(node: Node) -> int | None:
    value = node.fields.get("value")
    return int(value) if isinstance(value, str) and value.lstrip("-").isdigit() else None
