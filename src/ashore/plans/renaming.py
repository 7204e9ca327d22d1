"""Expression ids of a plan replaced by others.

What it promises: pure. Nothing but ids is changed.
"""

from collections.abc import Mapping
from dataclasses import replace

from ashore.plans.physical import PlannedJoin, PlannedNode, PlannedSide
from ashore.plans.trees import Field, Node


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
    """Return an expression in which columns have their new ids."""
    fields = {name: _rename(value, renamed) for name, value in node.fields.items()}
    number, known = node.number_of("exprId"), node.fields.get("exprId")
    if number is not None and number in renamed and isinstance(known, Mapping):
        fields["exprId"] = {**known, "id": renamed[number]}
    return replace(node, fields=fields, children=rename_columns(node.children, renamed))
