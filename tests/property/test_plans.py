"""Graphs of plans: whatever a graph holds, its JSON gives back."""

from hypothesis import given
from hypothesis import strategies as st

from ashore.plans.graph import (
    JoinSide,
    KeptColumn,
    OperatorState,
    PlanColumn,
    PlanGraph,
    PlanNode,
    PlanSource,
    Term,
    TermKind,
    Window,
    WindowKind,
)
from ashore.plans.words import TEXT_LENGTH_MAX, Words
from ashore_lab.testing.graph_files import read_graph, write_graph

texts = st.text(max_size=6)
places = st.integers(0, 9)
numbers = st.none() | st.integers(0, 10**12)
options = st.lists(st.tuples(texts, texts), max_size=2).map(tuple)
windows = st.builds(
    Window, st.sampled_from(WindowKind), numbers, numbers, st.integers(0, 9), st.none() | texts
)
sources = st.builds(PlanSource, texts, texts, texts, st.booleans())
some_places = st.lists(places, max_size=2).map(tuple)
sides = st.builds(JoinSide, st.booleans(), st.none() | places, some_places)
kept = st.builds(KeptColumn, texts, places, texts, texts)
states = st.builds(
    OperatorState,
    places,
    places,
    st.booleans(),
    st.lists(kept, max_size=2).map(tuple),
    st.lists(sides, max_size=2).map(tuple),
)
nodes = st.builds(
    PlanNode,
    texts,
    st.lists(places, max_size=2).map(tuple),
    st.lists(st.tuples(texts, st.lists(places, max_size=2).map(tuple)), max_size=2).map(tuple),
    options,
    st.none() | places,
    st.none() | states,
)
columns = st.builds(PlanColumn, texts, texts, places)


@st.composite
def term_tables(draw: st.DrawFn, sources_max: int = 2) -> tuple[Term, ...]:
    """Tables in which each term is over earlier ones, as functions of Spark have arguments."""
    table = [Term(TermKind.COLUMN, "a", "int", source=0)]
    for place in range(1, draw(st.integers(1, 8))):
        before = st.integers(0, place - 1)
        arguments = tuple(draw(st.lists(before, min_size=2, max_size=3)))
        kind = draw(st.sampled_from(TermKind))
        name = draw(st.sampled_from(["Add", "Cast", "IsNull", "CreateNamedStruct", "Upper"]))
        table.append(
            Term(
                kind,
                name,
                draw(texts),
                arguments,
                draw(st.none() | st.integers(0, sources_max - 1)),
                draw(options),
                tuple(draw(st.lists(before, max_size=1))),
                draw(st.booleans()),
                draw(st.none() | windows),
            )
        )
    return tuple(table)


graphs = st.builds(
    PlanGraph,
    st.lists(sources, max_size=2).map(tuple),
    term_tables(),
    st.lists(nodes, max_size=3).map(tuple),
    st.lists(columns, max_size=3).map(tuple),
)


@given(graph=graphs)
def test_a_graph_is_read_as_it_was_written(graph: PlanGraph) -> None:
    text = write_graph(graph)
    assert read_graph(text) == graph
    assert write_graph(read_graph(text)) == text


@given(terms=term_tables(), named=st.tuples(sources, sources), is_qualified=st.booleans())
def test_every_term_has_words(
    terms: tuple[Term, ...], named: tuple[PlanSource, ...], is_qualified: bool
) -> None:
    words = Words(terms, named, is_qualified)
    found = words.all(range(len(terms)))
    assert all(len(text) <= TEXT_LENGTH_MAX for text in found)
    assert found == Words(terms, named, is_qualified).all(range(len(terms)))
