"""A physical plan as Spark made it, with the answers to what its JSON does not say.

What it is: the value that the reading of a plan gives, before anything is understood of it; and
`rename_node`, which gives its expression ids other numbers.
What it promises: nothing of the JVM is in it. Expression ids are Spark's, good for this plan only.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

from ashore.plans.graph import PlanSource
from ashore.plans.trees import Field, Node


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
