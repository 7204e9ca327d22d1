"""A physical plan as Spark made it, with the answers to what its JSON does not say.

What it is: `Node`, a node of a plan or of an expression, read from the JSON that Spark writes of
it; `Planned`, the value that the reading of a plan gives, before anything is understood of it; and
`rename_node`, which gives its expression ids other numbers. Columns get ids of their own, where
Spark gives one id to several: `separate_unions`, for the columns of a union: Spark lets such a
column keep the id that it has in the first input, so that whatever is computed above would look as
if it were computed of that input alone. `separate_branches`, for an expression id that two inputs
of an operator both define: Spark lets both readings of one view keep the ids of its columns, so
that a condition on one side of a self-join looks as if it were on the other. Columns that a join
hands on are marked with what the join makes of them: NULL where no row matches, or, if they are of
no column of a source, the input that computes them.
What it promises: pure; nothing of the JVM is in it. A node keeps its class's own name, its fields
and its children; fields that hold expressions hold nodes. Types are written as Spark's SQL writes
them. Expression ids are Spark's, good for this plan only. Where ids are separated, nothing is
changed below a union or a join, and beside it.
"""

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from ashore.errors import check
from ashore.plans.graph import NULLABLE, OF_BRANCH, UNION, UNION_NUMBER, PlanSource

Field = object  # a JSON value, a Node, or a tuple of such


@dataclass(frozen=True, slots=True)
class Node:
    """A node of a plan or of an expression."""

    kind: str
    fields: Mapping[str, Field]
    children: tuple["Node", ...]

    def text(self, name: str) -> str:
        """Return a field that Spark writes as text; empty where it has none."""
        value = self.fields.get(name)
        return value if isinstance(value, str) else ""

    def nodes(self, name: str) -> tuple["Node", ...]:
        """Return a field that holds expressions; nothing where it has none."""
        value = self.fields.get(name)
        values = value if isinstance(value, tuple) else (value,)
        return tuple(each for each in values if isinstance(each, Node))

    def number_of(self, name: str) -> int | None:
        """Return the expression id in a field."""
        value = self.fields.get(name)
        number = value.get("id") if isinstance(value, Mapping) else None
        return number if isinstance(number, int) else None

    def walk(self) -> Iterator["Node"]:
        """Yield this node and all below it, in the order in which Spark writes them."""
        yield self
        for child in self.children:
            yield from child.walk()


def expressions_in(value: object) -> Iterator[Node]:
    """Yield the expressions in a field of a node: it may hold one, several, or lists of them."""
    if isinstance(value, Node):
        yield value
    elif isinstance(value, tuple):
        for each in value:
            yield from expressions_in(each)


def parse_tree(text: str) -> Node:
    """Return the tree that `TreeNode.toJSON` wrote."""
    return _build(json.loads(text))


def _build(flat: Sequence[Mapping[str, object]]) -> Node:
    """Return the tree of nodes written one after the other, parents first."""
    rest = iter(flat)
    node = _take(rest)
    check(next(rest, None) is None, "a tree of Spark's has unconnected nodes")
    return node


def _take(rest: Iterator[Mapping[str, object]]) -> Node:
    head = next(rest)
    count = head["num-children"]
    children = tuple(_take(rest) for _ in range(count if isinstance(count, int) else 0))
    kind = str(head["class"]).rpartition(".")[2]
    return Node(kind, {name: _field(value) for name, value in head.items()}, children)


def _field(value: object) -> Field:
    """Return a field's value; lists that are flat trees become nodes."""
    if not isinstance(value, list):
        return value
    if value and isinstance(value[0], dict) and "num-children" in value[0]:
        return _build(value)
    return tuple(_field(each) for each in value)


def write_option(value: object) -> str | None:
    """Return a field that is no expression as text; None where there is nothing to write.

    A constant of Scala has the name of its class.
    """
    match value:
        case bool():
            return str(value).lower()
        case str() | int() | float():
            return str(value)
        case {"object": str(name)}:
            return name.rpartition(".")[2].rstrip("$")
        case _:
            return None


# ---- types

_NAMES = {
    "byte": "tinyint",
    "short": "smallint",
    "integer": "int",
    "long": "bigint",
}


def type_name(written: object) -> str:
    """Return a type, from the JSON that Spark writes of it: `bigint`, `array<string>`."""
    if not isinstance(written, Mapping):
        return _NAMES.get(str(written), str(written))
    match written.get("type"):
        case "struct":
            inner = [f"{each['name']}:{type_name(each['type'])}" for each in _fields(written)]
            return f"struct<{','.join(inner)}>"
        case "array":
            return f"array<{type_name(written.get('elementType'))}>"
        case "map":
            return f"map<{type_name(written.get('keyType'))},{type_name(written.get('valueType'))}>"
        case kind:
            return str(kind)


def field_of(written: object, ordinal: int) -> tuple[str, str] | None:
    """Return name and type of a struct's field; None where there is none."""
    fields = _fields(written) if isinstance(written, Mapping) else []
    if not 0 <= ordinal < len(fields):
        return None
    return str(fields[ordinal]["name"]), type_name(fields[ordinal]["type"])


def _fields(struct: Mapping[str, object]) -> list[Mapping[str, object]]:
    found = struct.get("fields")
    return found if isinstance(found, list) else []


# ---- plans


@dataclass(frozen=True, slots=True)
class StateInfo:
    """Where an operator keeps state, on a first start."""

    operator_id: int
    partitions: int


@dataclass(frozen=True, slots=True)
class PlannedSide:
    """What Spark does with rows of one side of a join of two streams."""

    is_bounded: bool  # it forgets them
    early: Node | None  # the event time by which it forgets them while they can still match


@dataclass(frozen=True, slots=True)
class PlannedJoin:
    """What Spark's JSON does not say of a join of two streams."""

    condition: Node | None  # besides the equality of keys
    left: PlannedSide
    right: PlannedSide


@dataclass(frozen=True, slots=True)
class PlannedNode:
    """A node of a plan."""

    node: Node  # what Spark writes of it
    children: tuple["PlannedNode", ...]  # its inputs
    columns: tuple[Node, ...] = ()
    # the ids of those columns that are event time with a watermark
    watermarked: frozenset[int] = frozenset()
    # columns that each of its aggregate functions keeps, where it takes in rows
    buffers: tuple[tuple[Node, ...], ...] = ()
    state: StateInfo | None = None
    join: PlannedJoin | None = None
    delay_ms: int | None = None  # how late a watermark is that it makes

    @property
    def kind(self) -> str:
        """The name of its class."""
        return self.node.kind

    def walk(self) -> Iterator["PlannedNode"]:
        """Yield this node and all below it."""
        yield self
        for child in self.children:
            yield from child.walk()


@dataclass(frozen=True, slots=True)
class Planned:
    """A plan, and what it reads."""

    root: PlannedNode  # whose rows the sink takes
    sources: tuple[PlanSource, ...]  # what it reads, in the order of the analysed plan
    # the place of the source in `sources`, for each expression id that is a source's
    columns: Mapping[int, int]
    # the places of all sources that have such an id: Spark gives the columns of a view the same ids
    # as often as the view is read
    readings: Mapping[int, tuple[int, ...]] = field(default_factory=dict)
    # which copy of its source an id is of, where a plan has several
    copies: Mapping[int, int] = field(default_factory=dict)


# ---- expression ids


def rename_node(planned: PlannedNode, renamed: Mapping[int, int]) -> PlannedNode:
    """Return a node in which columns have their new ids. Its inputs stay as they are."""
    if not renamed:
        return planned
    fields = {name: _rename(value, renamed) for name, value in planned.node.fields.items()}
    return replace(
        planned,
        node=replace(planned.node, fields=fields),
        columns=rename_columns(planned.columns, renamed),
        watermarked=frozenset(renamed.get(each, each) for each in planned.watermarked),
        buffers=tuple(rename_columns(each, renamed) for each in planned.buffers),
        join=None if planned.join is None else _rename_join(planned.join, renamed),
    )


def _rename_join(join: PlannedJoin, renamed: Mapping[int, int]) -> PlannedJoin:
    condition = None if join.condition is None else _rename_in(join.condition, renamed)
    return PlannedJoin(
        condition, _rename_side(join.left, renamed), _rename_side(join.right, renamed)
    )


def _rename_side(side: PlannedSide, renamed: Mapping[int, int]) -> PlannedSide:
    return replace(side, early=None if side.early is None else _rename_in(side.early, renamed))


def rename_columns(nodes: tuple[Node, ...], renamed: Mapping[int, int]) -> tuple[Node, ...]:
    """Return expressions in which columns have their new ids."""
    return tuple(_rename_in(each, renamed) for each in nodes)


def _rename(value: Field, renamed: Mapping[int, int]) -> Field:
    if isinstance(value, Node):
        return _rename_in(value, renamed)
    return tuple(_rename(each, renamed) for each in value) if isinstance(value, tuple) else value


def _rename_in(node: Node, renamed: Mapping[int, int]) -> Node:
    fields = {name: _rename(value, renamed) for name, value in node.fields.items()}
    number, known = node.number_of("exprId"), node.fields.get("exprId")
    if number is not None and number in renamed and isinstance(known, Mapping):
        fields["exprId"] = {**known, "id": renamed[number]}
    return replace(node, fields=fields, children=rename_columns(node.children, renamed))


_FIRST_UNION_ID = 1 << 40  # Spark counts from 0


# ---- unions


@dataclass(frozen=True, slots=True)
class UnionColumn:
    """A column of a union."""

    union: int  # which one
    inputs: tuple[Node, ...]  # the columns that it is made of, one of each input
    # the first source that each input reads, as its place; empty where it reads none. A copy of a
    # source is `0.1`
    sources: tuple[str, ...]


def separate_unions(planned: Planned) -> tuple[Planned, dict[int, UnionColumn]]:
    """Return a plan whose unions have columns of their own, and these, by their ids."""
    separator = _UnionSeparator(planned.columns, planned.copies)
    root, _ = separator.separate(planned.root)
    return replace(planned, root=root), separator.columns


@dataclass(slots=True)
class _UnionSeparator:
    sources: Mapping[int, int]  # the place of the source of a column, by its id
    copies: Mapping[int, int]  # which copy of it
    columns: dict[int, UnionColumn] = field(default_factory=dict)
    _count: int = 0

    def separate(self, planned: PlannedNode) -> tuple[PlannedNode, Mapping[int, int]]:
        """Return a node, and what ids of its columns have become."""
        inner = [self.separate(child) for child in planned.children]
        children = tuple(child for child, _ in inner)
        renamed = {old: new for _, some in inner for old, new in some.items()}
        if planned.kind == UNION and _is_even(planned, children):
            return self._union(planned, children)
        return rename_node(replace(planned, children=children), renamed), renamed

    def _union(
        self, planned: PlannedNode, children: tuple[PlannedNode, ...]
    ) -> tuple[PlannedNode, Mapping[int, int]]:
        number, renamed = self._count, dict[int, int]()
        sources = tuple(self._first_source(each) for each in children)
        self._count += 1
        for place, column in enumerate(planned.columns):
            known = column.number_of("exprId")
            if known is not None and known not in renamed:
                renamed[known] = _FIRST_UNION_ID + len(self.columns)
                of = tuple(child.columns[place] for child in children)
                self.columns[renamed[known]] = UnionColumn(number, of, sources)
        node = replace(planned.node, fields={**planned.node.fields, UNION_NUMBER: str(number)})
        made = replace(planned, node=node, children=children)
        return rename_node(made, renamed), renamed

    def _first_source(self, planned: PlannedNode) -> str:
        values = (value for each in planned.walk() for value in each.node.fields.values())
        expressions = (each for value in values for each in expressions_in(value))
        numbers = (part.number_of("exprId") for each in expressions for part in each.walk())
        found = [
            (self.sources[each], self.copies.get(each, 0))
            for each in numbers
            if each is not None and each in self.sources
        ]
        return write_reading(*min(found)) if found else ""


def write_reading(place: int, copy: int) -> str:
    """Return a source and the number of its copy as text: `0`, and `0.1` for the first copy."""
    return f"{place}.{copy}" if copy else str(place)


def _is_even(union: PlannedNode, inputs: tuple[PlannedNode, ...]) -> bool:
    """Return whether a union's columns are known, and those of each input."""
    return {len(each.columns) for each in inputs} == {len(union.columns)}


HANDED_ON = "handedOn"  # the field of a join that defines the columns that it hands on
BRANCH = "input"  # the option of a mark: which input of the join computes the column
_FIRST_BRANCH_ID = 1 << 42  # above those of the columns of unions
# Which inputs of a join may be without a match in a row that it hands on.
_OUTER = {"LeftOuter": {1}, "RightOuter": {0}, "FullOuter": {0, 1}}
_Renamed = Mapping[int, int]


# ---- branches


def separate_branches(planned: Planned) -> Planned:
    """Return a plan in which no two inputs of an operator define the same expression id."""
    separator = _BranchSeparator()
    root, _ = separator.separate(planned.root)
    columns, copies = separator.find_sources(planned, root)
    return replace(planned, root=root, columns=columns, copies=copies)


@dataclass(slots=True)
class _BranchSeparator:
    _known_as: dict[int, int] = field(default_factory=dict)  # Spark's id of each that is new

    def separate(self, planned: PlannedNode) -> tuple[PlannedNode, _Renamed]:
        """Return a node, and what has become of ids that it hands on."""
        inputs, seen = list[PlannedNode](), set[int]()
        renamed = dict[int, int]()
        for place, child in enumerate(planned.children):
            found, some = self.separate(child)
            defined = _ids_in(found)
            fresh = {each: self._add(each) for each in sorted(defined & seen)}
            inputs.append(_rename_tree(found, fresh))
            seen |= defined
            # What two inputs hand on is a union's, and has the id of the first one.
            others = _handed(planned.children[:place])
            for number in _handed([child]) - others:
                became = some.get(number, number)
                renamed[number] = fresh.get(became, became)
        changed = {old: new for old, new in renamed.items() if old != new}
        made = rename_node(replace(planned, children=tuple(inputs)), changed)
        if len(inputs) == 2 and "joinType" in planned.node.fields:
            made, marked = self._mark(made)
            changed = {old: marked.get(new, new) for old, new in renamed.items()}
        handed = _handed([planned])
        return made, {old: new for old, new in changed.items() if old != new and old in handed}

    def find_sources(
        self, planned: Planned, root: PlannedNode
    ) -> tuple[dict[int, int], dict[int, int]]:
        """Return the place of the source of each expression id, and which copy of it that is.

        What a WITH names is there once, however often it is read: copies are counted from 1.
        """
        found, copies, counts = dict(planned.columns), dict[int, int](), Counter[int]()
        for leaf in (each for each in root.walk() if not each.children):
            for number in sorted(_ids_of(leaf)):
                known = number
                while known in self._known_as:
                    known = self._known_as[known]
                places = planned.readings.get(known) or (planned.columns.get(known),)
                place = places[counts[known] % len(places)]
                if place is not None:
                    found[number] = place
                    copies[number] = counts[known] // len(places)
                counts[known] += 1
        return found, copies

    def _add(self, number: int) -> int:
        made = _FIRST_BRANCH_ID + len(self._known_as)
        self._known_as[made] = number
        return made

    def _mark(self, join: PlannedNode) -> tuple[PlannedNode, _Renamed]:
        """Return a join that defines the columns that it hands on, and their ids by those below."""
        outer = _OUTER.get(write_option(join.node.fields.get("joinType")) or "", set())
        marks: dict[int, Node] = {}
        for place, child in enumerate(join.children):
            kind = NULLABLE if place in outer else OF_BRANCH
            marks |= {
                number: Node(kind, {BRANCH: f"{place}"}, (column,))
                for column in child.columns
                if (number := column.number_of("exprId")) is not None
            }
        ids = {number: self._add(number) for number in sorted(marks)}
        made = tuple(
            Node("Alias", {"exprId": {"id": ids[number]}}, (mark,))
            for number, mark in marks.items()
        )
        columns = rename_columns(join.columns, ids)
        node = replace(join.node, fields={**join.node.fields, HANDED_ON: made})
        watermarked = frozenset(ids.get(each, each) for each in join.watermarked)
        return replace(join, node=node, columns=columns, watermarked=watermarked), ids


def _rename_tree(planned: PlannedNode, renamed: _Renamed) -> PlannedNode:
    if not renamed:
        return planned
    children = tuple(_rename_tree(each, renamed) for each in planned.children)
    return rename_node(replace(planned, children=children), renamed)


def _handed(inputs: Iterable[PlannedNode]) -> set[int]:
    numbers = (column.number_of("exprId") for each in inputs for column in each.columns)
    return {each for each in numbers if each is not None}


def _ids_in(planned: PlannedNode) -> set[int]:
    return {number for each in planned.walk() for number in _ids_of(each)}


def _ids_of(planned: PlannedNode) -> set[int]:
    roots = [each for value in planned.node.fields.values() for each in expressions_in(value)]
    roots += [*planned.columns, *(column for some in planned.buffers for column in some)]
    numbers = (part.number_of("exprId") for each in roots for part in each.walk())
    return {each for each in numbers if each is not None}
