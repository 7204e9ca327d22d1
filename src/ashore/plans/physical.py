"""A physical plan as Spark made it, with the answers to what its JSON does not say.

What it is: `Node`, a node of a plan or of an expression, read from the JSON that Spark writes of
it; `Planned`, the value that the reading of a plan gives, before anything is understood of it; and
`rename_node`, which gives its expression ids other numbers.
What it promises: pure; nothing of the JVM is in it. A node keeps its class's own name, its fields
and its children; fields that hold expressions hold nodes. Types are written as Spark's SQL writes
them. Expression ids are Spark's, good for this plan only.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from ashore.errors import check
from ashore.plans.graph import PlanSource

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
