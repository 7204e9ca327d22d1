"""Columns of unions, distinguished from the columns of their inputs.

What it is: `separate_unions`, which gives the columns of a union ids of their own: Spark lets a
union's column keep the id that it has in the first input, so that whatever is computed above would
look as if it were computed of that input alone.
What it promises: pure. Below a union, and beside it, nothing is changed.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from ashore.plans.graph import UNION
from ashore.plans.physical import Planned, PlannedNode, rename_node
from ashore.plans.trees import Node, expressions_in

NUMBER = "union"  # the option by which a node and the terms of its columns belong together
READS = "reads"  # the option that says what the inputs read: it distinguishes them
_FIRST_ID = 1 << 40  # Spark counts from 0


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
    separator = _Separator(planned.columns, planned.copies)
    root, _ = separator.separate(planned.root)
    return replace(planned, root=root), separator.columns


@dataclass(slots=True)
class _Separator:
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
                renamed[known] = _FIRST_ID + len(self.columns)
                of = tuple(child.columns[place] for child in children)
                self.columns[renamed[known]] = UnionColumn(number, of, sources)
        node = replace(planned.node, fields={**planned.node.fields, NUMBER: str(number)})
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
