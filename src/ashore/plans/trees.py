"""Spark's plans and expressions as values, read from the JSON that Spark writes of them.

What it promises: pure. A node keeps its class's own name, its fields and its children; fields that
hold expressions hold nodes. Types are written as Spark's SQL writes them.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from ashore.errors import check

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
