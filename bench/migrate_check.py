"""How long `ashore migrate check` takes: the verdict alone, and the command as a whole.

    python -m bench.migrate_check

The verdict is what a warm process computes between two plans that are there: it is asked of graphs
of 5, 50 and 200 operators, made of copies of Nexmark's queries under one union, of which one in
five has another function in the new SQL. Medians of five. The command plans the new SQL in a Spark
of its own, which is nearly all of it: its figure is the wall time of the whole process, for a job
of one query that has not run yet; median of three.
"""

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from statistics import median

from ashore.plans.change.judge import judge_query
from ashore.plans.graph import OperatorState, PlanGraph, PlanNode, StoredPlan, Term
from ashore.plans.operator_graph import describe_graph
from ashore_lab.testing.graph_files import read_graph
from bench.table import Row

ROUNDS = 5
SIZES = (5, 50, 200)
AT_MOST_S = 1.0
PLANS = Path(__file__).parents[1] / "tests" / "golden" / "plans"
QUERIES = ("q12", "q15", "q17", "q18", "q5", "q8", "q20", "q9")
CHANGED_EACH = 5  # of so many copies one has other functions
COMMANDS = 3
JOB = """\
job: clicks
lake: file://{lake}
source:
  kafka: {{bootstrap_servers: "127.0.0.1:1"}}
sql:
  text: "INSERT INTO ods.sums SELECT country, {function}(id) AS n FROM clicks GROUP BY \
window(event_time, '1 minute'), country;"
tables:
  - topic: clicks
    table: ods.clicks
    land: false
    on_invalid: drop
    schema: "id BIGINT, country STRING, ts BIGINT"
    event_time: {{column: ts}}
    late: {{after: 10s}}
  - table: ods.sums
    partition_by: []
"""


def main() -> list[Row]:
    graphs = [read_graph((PLANS / f"{name}.json").read_text("utf-8")) for name in QUERIES]
    rows = []
    for size in SIZES:
        old = make_graph(graphs, size, is_changed=False)
        new = make_graph(graphs, size, is_changed=True)
        spent_s = median(_judge_s(old, new) for _ in range(ROUNDS))
        found = len(describe_graph(old).operators)
        question = f"verdict, {found} operators, warm"
        print(f"  {question:42} {spent_s:.3f} s", flush=True)
        rows.append(Row(question, spent_s, "s", at_most=AT_MOST_S))
    spent_s = median(_run_command() for _ in range(COMMANDS))
    question = "ashore migrate check, one query, wall"
    print(f"  {question:42} {spent_s:.1f} s", flush=True)
    return [*rows, Row(question, spent_s, "s")]


def _run_command() -> float:
    """Return how long the command takes, with a Spark of its own."""
    script = str(Path(sys.executable).with_name("ashore"))
    with tempfile.TemporaryDirectory() as name:
        files = [Path(name, "job.yaml"), Path(name, "new.yaml")]
        for path, function in zip(files, ("sum", "max"), strict=True):
            path.write_text(JOB.format(lake=f"{name}/lake", function=function), "utf-8")
        command = [script, "migrate", "check", str(files[0]), "--to", str(files[1]), "--json"]
        began_s = time.perf_counter()
        subprocess.run(
            command,
            env={**os.environ, "ASHORE_HOME": name},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=True,
        )
        return time.perf_counter() - began_s


def _judge_s(old: PlanGraph, new: PlanGraph) -> float:
    before, after = (
        StoredPlan("one", (text,), (), graph) for text, graph in (("a", old), ("b", new))
    )
    began_s = time.perf_counter()
    judge_query(before, after)
    return time.perf_counter() - began_s


def make_graph(graphs: Sequence[PlanGraph], size: int, *, is_changed: bool) -> PlanGraph:
    """Return a union of copies of graphs that has at least `size` operators."""
    made = PlanGraph((), (), (PlanNode("UnionExec"),), ())
    copies = 0
    while len(describe_graph(made).operators) < size:
        other = is_changed and copies % CHANGED_EACH == 0
        made = _add(made, graphs[copies % len(graphs)], copies, is_changed=other)
        copies += 1
    return made


def _add(made: PlanGraph, graph: PlanGraph, copy: int, *, is_changed: bool) -> PlanGraph:
    """Return a graph with a copy of another below its union, over sources of its own."""
    terms, nodes, sources = len(made.terms), len(made.nodes), len(made.sources)
    states = sum(1 for node in made.nodes if node.state)
    union = replace(
        made.nodes[0],
        inputs=(*made.nodes[0].inputs, nodes),
        taken=(*made.nodes[0].taken, ()),
    )
    return PlanGraph(
        (
            *made.sources,
            *(replace(each, reads=f"{each.reads}-{copy}", name="") for each in graph.sources),
        ),
        (*made.terms, *(_move_term(each, terms, sources, is_changed) for each in graph.terms)),
        (
            union,
            *made.nodes[1:],
            *(_move_node(each, (terms, nodes, sources, states)) for each in graph.nodes),
        ),
        (),
    )


def _move_term(term: Term, terms: int, sources: int, is_changed: bool) -> Term:
    name = "Min" if is_changed and term.name in {"Count", "Sum", "Max"} else term.name
    return replace(
        term,
        name=name,
        arguments=tuple(each + terms for each in term.arguments),
        filters=tuple(each + terms for each in term.filters),
        source=None if term.source is None else term.source + sources,
    )


def _move_node(node: PlanNode, at: tuple[int, int, int, int]) -> PlanNode:
    terms, nodes, sources, states = at
    return replace(
        node,
        inputs=tuple(each + nodes for each in node.inputs),
        expressions=tuple(
            (name, tuple(each + terms for each in some)) for name, some in node.expressions
        ),
        source=None if node.source is None else node.source + sources,
        state=_move_state(node.state, terms, states) if node.state else None,
        taken=tuple(tuple(each + terms for each in some) for some in node.taken),
    )


def _move_state(state: OperatorState, terms: int, states: int) -> OperatorState:
    return replace(
        state,
        operator_id=state.operator_id + states,
        columns=tuple(replace(each, term=each.term + terms) for each in state.columns),
        keys=tuple(replace(each, term=each.term + terms) for each in state.keys),
        sides=tuple(
            replace(
                each,
                early=None if each.early is None else each.early + terms,
                times=tuple(time + terms for time in each.times),
            )
            for each in state.sides
        ),
    )


if __name__ == "__main__":
    main()
