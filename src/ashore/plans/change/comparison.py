"""Two queries as far as they read the same, so that their operators can be compared.

What it is: `compare_plans`, both plans without the inputs of unions that only one of them has.
What it promises: pure. Operators keep the ids and numbers that they have in the whole plans.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from ashore.base.codec import Json
from ashore.plans.change.side import Beside, Side
from ashore.plans.change.sources import SourceMapping
from ashore.plans.log_form import StoredPlan
from ashore.plans.operator_graph import OperatorGraph, describe_graph
from ashore.plans.operators import OperatorKind
from ashore.plans.restriction import narrow

_DISTINCT = {OperatorKind.DISTINCT, OperatorKind.DEDUPLICATE}


@dataclass(frozen=True, slots=True)
class ComparedPlans:
    """What two plans are compared by.

    Arguments:
        old, new: the whole plans.
        before, after: the operators of both, over what both read.

    """

    old: StoredPlan
    new: StoredPlan
    before: OperatorGraph
    after: OperatorGraph
    _narrowed: tuple[StoredPlan, StoredPlan]
    _numbers_old: Sequence[Json]

    def sides(self, numbers: Mapping[int, int]) -> tuple[Side, Side]:
        """Return both queries. `numbers`: which stateful operator of the new one an old one is."""
        old, new = self._narrowed
        gone = _find_distinct(self.before) - numbers.keys()
        come = _find_distinct(self.after) - {*numbers.values()}
        return (
            Side(old, self.before, self.old.graph, Beside(numbers, self._numbers_old, gone)),
            Side(new, self.after, self.new.graph, Beside(passed=come)),
        )


def _find_distinct(graph: OperatorGraph) -> frozenset[int]:
    """Return the ids of operators that hand on each distinct row once, as it is."""
    return frozenset(
        each.state.operator_id
        for each in graph.operators
        if each.state is not None and each.kind in _DISTINCT
    )


def compare_plans(old: StoredPlan, new: StoredPlan, mapping: SourceMapping) -> ComparedPlans:
    """Return two plans as they are compared. `mapping`: of their sources. Raises SparkUnknown."""
    narrowed = (
        replace(old, graph=narrow(old.graph, mapping.dropped)),
        replace(new, graph=narrow(new.graph, mapping.added)),
    )
    before, after = (
        describe_graph(some.graph, whole.graph)
        for some, whole in zip(narrowed, (old, new), strict=True)
    )
    numbers = mapping.number_old(old.graph, new.graph)
    return ComparedPlans(old, new, before, after, narrowed, numbers)
