"""Graphs of queries in files, as tests and benchmarks keep them.

What it is: `write_graph` and `read_graph`; in logs a graph is a part of a `StoredPlan`.
What it promises: the same bytes for the same graph.
"""

import json

from ashore.base import codec
from ashore.plans.graph import PlanGraph


def write_graph(graph: PlanGraph) -> str:
    """Return the JSON of a graph: the same bytes for the same graph, a line for each part."""
    parts = {
        "sources": graph.sources,
        "terms": graph.terms,
        "nodes": graph.nodes,
        "columns": graph.columns,
    }
    written = [
        f'"{name}": [\n' + ",\n".join(json.dumps(codec.encode(each)) for each in part) + "\n]"
        for name, part in parts.items()
    ]
    return "{\n" + ",\n".join(written) + "\n}\n"


def read_graph(text: str) -> PlanGraph:
    """Return the graph that was written. Raises ValueError."""
    return codec.decode(PlanGraph, json.loads(text))
