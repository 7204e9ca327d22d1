"""Trees as Spark writes them, made by hand: attributes, functions, nodes of plans."""

from ashore.plans.graph import PlanSource
from ashore.plans.physical import Node, Planned, PlannedNode, StateInfo

CLICKS = PlanSource("clicks", "kafka", "clicks", True)
VIEWS = PlanSource("views", "kafka", "views", True)
TABLE = PlanSource("countries", "LogicalRDD", "countries", False)
STRUCT = {"type": "struct", "fields": [{"name": "id", "type": "long", "nullable": True}]}


def node(kind: str, *children: Node, **fields: object) -> Node:
    return Node(kind, fields, children)


def attribute(name: str, number: int, type_: object = "long") -> Node:
    return node("AttributeReference", name=name, exprId={"id": number}, dataType=type_)


def alias(child: Node, name: str, number: int) -> Node:
    return node("Alias", child, name=name, exprId={"id": number})


def literal(value: str | None, type_: str = "integer") -> Node:
    return node("Literal", value=value, dataType=type_)


def aggregate(function: Node, *filters: Node, mode: str = "Partial", **fields: object) -> Node:
    return node("AggregateExpression", function, *filters, mode={"object": f"x.{mode}$"}, **fields)


def decoded(value: Node, ordinal: int = 0) -> Node:
    """A field of a record."""
    parsed = node("JsonToStructs", node("Cast", value, dataType="string"), schema=STRUCT)
    return node("GetStructField", parsed, ordinal=ordinal)


def planned(kind: str, *children: PlannedNode, **fields: object) -> PlannedNode:
    inner = tuple(each.node for each in children)
    return PlannedNode(Node(kind, fields, inner), children)


def leaf(*output: Node) -> PlannedNode:
    return planned("StreamingRelationExec", output=output)


def plan(root: PlannedNode, *sources: PlanSource, **columns: int) -> Planned:
    """`columns`: `n7=0` says that expression 7 is a column of source 0."""
    return Planned(root, sources, {int(name[1:]): place for name, place in columns.items()})


INFO = StateInfo(0, 32)
