"""Where the columns of a plan come from, in words.

What it is: a text for an expression, as its author would write it over the source's columns.
What it promises: pure. The same text whatever a query calls its columns, subqueries and views, and
whatever ids Spark gives them.
What it must not know: operators.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from ashore.spark.internals.trees import Node
from ashore.spark.internals.windows import (
    describe_duration,
    describe_window,
)

TEXT_LENGTH_MAX = 60
DAY_TIME = ("interval day", "interval hour", "interval minute", "interval second")

# They change how a value is held, not what it means.
TRANSPARENT = {
    *("Alias", "Cast", "KnownNotNull", "KnownNullable", "PreciseTimestampConversion"),
    *("KnownFloatingPointNormalized", "NormalizeNaNAndZero", "CheckOverflow", "UpCast"),
}
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


@dataclass(frozen=True, slots=True)
class Lineage:
    """The columns of one plan.

    `definitions` has what each expression id stands for, `sources` the name of the source of each
    column that comes from one. If qualified, columns of sources are told with that name.
    """

    definitions: Mapping[int, Node]
    sources: Mapping[int, str]
    is_qualified: bool = False

    def qualified(self) -> "Lineage":
        """Return the same that tells of columns which source they are of."""
        return replace(self, is_qualified=True)

    def describe(self, expression: Node) -> str:
        """Return a text for an expression, cut where it would be too long to read."""
        text = self._describe(expression)
        return text if len(text) <= TEXT_LENGTH_MAX else text[: TEXT_LENGTH_MAX - 3] + "..."

    def _qualify(self, name: str, expression: Node) -> str:
        if not self.is_qualified:
            return name
        owners = {self.sources[each] for each in self._roots(expression) if each in self.sources}
        return f"{owners.pop()}.{name}" if len(owners) == 1 else name

    def _roots(self, expression: Node) -> Iterator[int]:
        """Yield the expression ids that an expression rests on and that nothing defines."""
        for node in expression.walk():
            definition = self._definition(node)
            number = node.number_of("exprId")
            if definition is not None:
                yield from self._roots(definition)
            elif number is not None:
                yield number

    def _definition(self, node: Node) -> Node | None:
        number = node.number_of("exprId") if node.kind == "AttributeReference" else None
        return None if number is None else self.definitions.get(number)

    def _describe(self, node: Node) -> str:
        match node.kind:
            case "AttributeReference":
                return self._describe_attribute(node)
            case "AggregateExpression":
                return self._describe_aggregate(node)
            case "Literal":
                return _literal(node)
            case "GetStructField":
                return self._describe_field(node)
            case "CreateNamedStruct" | "NamedStruct":
                return describe_window(node) or self._call("struct", node.children[1::2])
            case kind if kind in TRANSPARENT:
                return self._describe(node.children[0])
            case kind if kind in SUFFIX:
                return f"{self._describe(node.children[0])} {SUFFIX[kind]}"
            case kind if kind in INFIX:
                return f" {INFIX[kind]} ".join(self._operand(each) for each in node.children)
            case kind:
                return self._call(FUNCTIONS.get(kind) or _snake(kind), node.children)

    def _call(self, name: str, arguments: Iterable[Node]) -> str:
        return f"{name}({', '.join(self._describe(each) for each in arguments)})"

    def _operand(self, node: Node) -> str:
        text = self._describe(node)
        return f"({text})" if self._bare(node).kind in INFIX else text

    def _bare(self, node: Node) -> Node:
        """Return what a node stands for, without what is transparent and without names."""
        while True:
            definition = self._definition(node)
            if node.kind in TRANSPARENT:
                node = node.children[0]
            elif definition is not None:
                node = definition
            else:
                return node

    def _describe_attribute(self, node: Node) -> str:
        definition = self._definition(node)
        if definition is not None:
            return self._describe(definition)
        return self._qualify(node.text("name"), node)

    def _describe_aggregate(self, node: Node) -> str:
        function = node.children[0]
        arguments = [self._describe(each) for each in function.children]
        name = FUNCTIONS.get(function.kind) or _snake(function.kind)
        if name == "count" and arguments == ["1"]:
            arguments = ["*"]
        distinct = "distinct " if node.fields.get("isDistinct") else ""
        filters = "".join(f" where {self._describe(each)}" for each in node.children[1:])
        return f"{name}({distinct}{', '.join(arguments)}{filters})"

    def _describe_field(self, node: Node) -> str:
        """A field of a decoded record is a column of the source; others keep their struct."""
        child, name = self._bare(node.children[0]), _field_name(node)
        if window := describe_window(child):
            return f"{name} of {window}"
        if child.kind in {"AttributeReference", "GetStructField"}:
            return f"{self._describe(child)}.{name}"
        return self._qualify(name, child)


def learn_lineage(plan: Node, sources: Mapping[int, str]) -> Lineage:
    """Return the lineage of a plan's columns."""
    definitions = {
        attribute: definition
        for node in plan.walk()
        for attribute, definition in _definitions(node)
        if attribute is not None and definition.number_of("exprId") != attribute
    }
    return Lineage(definitions, sources)


def _definitions(node: Node) -> Iterator[tuple[int | None, Node]]:
    """Yield the expression ids that a node of a plan gives, with what they stand for."""
    for field in node.fields.values():
        for found in _expressions(field):
            if found.kind == "Alias":
                yield found.number_of("exprId"), found.children[0]
    if node.kind == "ExpandExec":
        yield from _expanded(node)
    elif "aggregateAttributes" in node.fields:
        functions = node.nodes("aggregateExpressions")
        for attribute, function in zip(node.nodes("aggregateAttributes"), functions, strict=True):
            yield attribute.number_of("exprId"), function


def _expanded(node: Node) -> Iterator[tuple[int | None, Node]]:
    """Each row becomes several; what is a number in them tells the copies apart."""
    rows = node.fields.get("projections")
    first = rows[0] if isinstance(rows, tuple) and rows else ()
    for attribute, definition in zip(node.nodes("output"), first, strict=True):
        is_number = definition.kind == "Literal" and isinstance(definition.fields["dataType"], str)
        if not is_number:
            yield attribute.number_of("exprId"), definition


def _expressions(field: object) -> Iterator[Node]:
    if isinstance(field, Node):
        yield from field.walk()
    elif isinstance(field, tuple):
        for each in field:
            yield from _expressions(each)


def _literal(node: Node) -> str:
    value, kind = node.fields.get("value"), node.fields.get("dataType")
    if value is None:
        return "null"
    if window := describe_window(node):
        return window
    if str(kind).startswith(DAY_TIME) and str(value).isdigit():
        return f"interval {describe_duration(int(str(value)))}"
    return f"'{value}'" if kind == "string" else str(value)


def _field_name(node: Node) -> str:
    """Return the name of the field that is taken: Spark writes its number, and mostly the name."""
    ordinal = node.fields.get("ordinal")
    for below in node.children[0].walk():
        struct = below.fields.get("dataType", below.fields.get("schema"))
        fields = struct.get("fields") if isinstance(struct, Mapping) else None
        if isinstance(fields, list) and isinstance(ordinal, int) and ordinal < len(fields):
            return str(fields[ordinal]["name"])
    return node.text("name") or "field"


def _snake(kind: str) -> str:
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", kind).lower()
