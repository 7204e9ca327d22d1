"""A graph without what only some of its sources hand to unions.

What it is: `narrow`, so that a query before and after a union has got another input can be compared
in what both do.
What it promises: pure. Every node and every term keeps its place. A union of which one input is
left is a node that hands on its rows, and its columns are those of that input. A union keeps its
inputs where none would be left.
"""

from collections.abc import Sequence
from dataclasses import replace

from ashore.plans.graph import INPUT, UNION, UNITED, PlanGraph, PlanNode, Term, TermKind
from ashore.plans.unions import NUMBER, READS


def narrow(graph: PlanGraph, without: frozenset[int]) -> PlanGraph:
    """Return a graph without the inputs of unions that read nothing but some sources.

    `without`: places of these sources.
    """
    kept = _find_kept(graph, without)
    if not kept:
        return graph
    of_unions = {graph.nodes[place].option(NUMBER): inputs for place, inputs in kept.items()}
    nodes = tuple(
        _narrow_node(node, kept[place]) if place in kept else node
        for place, node in enumerate(graph.nodes)
    )
    terms: list[Term] = []
    for term in graph.terms:
        terms.append(_narrow_term(term, of_unions, terms))
    return replace(graph, nodes=nodes, terms=tuple(terms))


def find_below(graph: PlanGraph) -> list[frozenset[int]]:
    """Return the sources that each node and those below it read."""
    found = [frozenset[int]()] * len(graph.nodes)
    for place, node in reversed(list(enumerate(graph.nodes))):
        own = () if node.source is None else (node.source,)
        found[place] = frozenset(own).union(*(found[each] for each in node.inputs))
    return found


def _find_kept(graph: PlanGraph, without: frozenset[int]) -> dict[int, list[int]]:
    """Return which inputs are left of each union that loses some."""
    below = find_below(graph)
    found = {}
    for place, node in enumerate(graph.nodes):
        if node.kind == UNION:
            left = [
                at
                for at, each in enumerate(node.inputs)
                if not below[each] or not below[each] <= without
            ]
            if left and len(left) < len(node.inputs):
                found[place] = left
    return found


def _narrow_node(node: PlanNode, kept: Sequence[int]) -> PlanNode:
    taken = [terms for name, terms in node.expressions if name == INPUT]
    others = [each for each in node.expressions if each[0] != INPUT]
    return replace(
        node,
        inputs=tuple(node.inputs[each] for each in kept),
        taken=tuple(node.taken[each] for each in kept) if node.taken else (),
        expressions=(*others, *((INPUT, taken[each]) for each in kept if taken)),
    )


def _narrow_term(term: Term, kept: dict[str, list[int]], before: Sequence[Term]) -> Term:
    """Return a term over what is left. `before`: the terms that stand before it, narrowed."""
    if term.kind is not TermKind.CALL or term.name != UNITED:
        return term
    left = kept.get(dict(term.options).get(NUMBER, ""))
    if left is None:
        return term
    arguments = tuple(term.arguments[each] for each in left)
    if len(arguments) == 1:
        return before[arguments[0]]
    reads = dict(term.options)[READS].split(",")
    options = (*term.options[:-1], (READS, ",".join(reads[each] for each in left)))
    return replace(term, arguments=arguments, options=options)
