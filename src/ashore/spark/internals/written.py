"""The operators of a query as its SQL has them, with the ids that it gives.

What it is: `read_written`, from the analysed plan of a frame.
What it promises: reads only. An operator is where its clause stands in the text that Spark has
parsed: of the statement, or of a view.
What it must not know: how Spark plans them.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

from py4j.java_gateway import JavaObject
from pyspark.sql import DataFrame

from ashore.plans.hints import STATEFUL, WrittenOperator, id_at
from ashore.spark.internals import jvm

_CTES, _DEFINED, _NAMED = "WithCTE", "CTERelationDef", "CTERelationRef"


def read_written(frame: DataFrame) -> tuple[WrittenOperator, ...]:
    """Return the operators with state of a frame's SQL, from the sink on, left before right."""
    root = _Reader().read(jvm.analyzed_plan(frame))
    return tuple(root.list_operators())


@dataclass(slots=True)
class _Written:
    """A node of the analysed plan. `id`: None where it keeps no state."""

    kind: str
    inputs: list["_Written"]
    id: str | None = None
    source: int | None = None

    def list_operators(self) -> Iterator[WrittenOperator]:
        if self.id is not None:
            yield WrittenOperator(STATEFUL[self.kind], self.list_sources(), self.id)
        for each in self.inputs:
            yield from each.list_operators()

    def list_sources(self) -> frozenset[int]:
        own = () if self.source is None else (self.source,)
        return frozenset(own).union(*(each.list_sources() for each in self.inputs))


@dataclass(slots=True)
class _Reader:
    """Reads a plan once, its leaves in the order of its sources."""

    _leaves: int = 0
    _defined: dict[int, _Written] = field(default_factory=dict)  # of WITH, by Spark's ids

    def read(self, java: JavaObject) -> _Written:
        kind, children = jvm.class_name(java), list(jvm.items(jvm.CHILDREN(java)))
        if not children:
            self._leaves += 1
            if kind == _NAMED:
                return self._defined[jvm.CTE_NAMED(java)]
            return _Written(kind, [], source=self._leaves - 1)
        inputs = [self.read(each) for each in children]
        if kind == _DEFINED:
            self._defined[jvm.CTE_DEFINED(java)] = inputs[0]
        if kind == _CTES:
            return inputs[-1]
        return _Written(kind, inputs, _read_id(java, children) if kind in STATEFUL else None)


def _read_id(java: JavaObject, children: list[JavaObject]) -> str | None:
    """Return the id that the SQL gives an operator, empty where none; None: it keeps no state."""
    if not all(jvm.IS_STREAMING(each) for each in children):
        return None
    origin = jvm.PLAN_ORIGIN(java)
    text, start = jvm.ORIGIN_TEXT(origin), jvm.ORIGIN_START(origin)
    if not (jvm.IS_DEFINED(text) and jvm.IS_DEFINED(start)):
        return ""
    return id_at(str(jvm.OPTION_GET(text)), int(jvm.OPTION_GET(start)))
