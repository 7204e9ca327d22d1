"""Terms in words."""

import pytest
from tests.unit.plans.trees import CLICKS, VIEWS

from ashore.plans.graph import (
    NULLABLE,
    UNITED,
    Term,
    TermKind,
    Terms,
    Window,
    WindowKind,
    describe_duration,
)
from ashore.plans.words import TEXT_LENGTH_MAX, Words

MINUTE_US = 60_000_000


class Table:
    """Terms, and their words."""

    def __init__(self) -> None:
        self.terms = Terms()

    def column(self, name: str, source: int = 0) -> int:
        return self.terms.add(Term(TermKind.COLUMN, name, source=source))

    def call(self, name: str, *arguments: int) -> int:
        return self.terms.add(Term(TermKind.CALL, name, arguments=arguments))

    def literal(self, value: str, type_: str) -> int:
        return self.terms.add(Term(TermKind.LITERAL, value, type_))

    def aggregate(self, name: str, *arguments: int, **more: object) -> int:
        return self.terms.add(Term(TermKind.AGGREGATE, name, arguments=arguments, **more))

    def field(self, name: str, of: int) -> int:
        return self.terms.add(Term(TermKind.FIELD, name, arguments=(of,)))

    def text(self, place: int, *, is_qualified: bool = False) -> str:
        return Words(self.terms.table, (CLICKS, VIEWS, CLICKS), is_qualified).of(place)


@pytest.fixture
def table() -> Table:
    return Table()


def test_calls_are_written_as_sql_has_them(table: Table) -> None:
    a, b, one = table.column("a"), table.column("b"), table.literal("1", "int")
    total = table.call("Add", a, b)
    cast = table.terms.add(Term(TermKind.CALL, "Cast", "int", (total,)))
    found = {
        table.call("Multiply", total, one): "(a + b) * 1",
        table.call("Multiply", cast, one): "(a + b) * 1",
        table.call("IsNull", a): "a is null",
        table.call("DateFormatClass", a, table.literal("HH", "string")): "date_format(a, 'HH')",
        table.call("TruncTimestamp", a): "trunc_timestamp(a)",
        table.call("CreateNamedStruct", table.literal("x", "string"), a, one, b): "struct(a, b)",
        table.terms.add(Term(TermKind.NULL)): "null",
        table.literal("90000000", "interval day to second"): "interval 1 minute 30 seconds",
        table.literal("P1M", "interval month"): "P1M",
        table.terms.add(Term(TermKind.MADE, "item")): "item",
    }
    assert {place: table.text(place) for place in found} == found


def test_aggregates(table: Table) -> None:
    a, one = table.column("a"), table.literal("1", "int")
    found = {
        table.aggregate("Count", one): "count(*)",
        table.aggregate("Average", a, is_distinct=True): "avg(distinct a)",
        table.aggregate("Sum", a, filters=(table.call("IsNotNull", a),)): (
            "sum(a where a is not null)"
        ),
    }
    assert {place: table.text(place) for place in found} == found


def test_all_is_told_where_terms_with_the_same_text_differ(table: Table) -> None:
    def full(term: Term) -> str:
        place = table.terms.add(term)
        return Words(table.terms.table, (CLICKS, VIEWS), is_exact=True, is_full=True).of(place)

    a = table.column("a")
    legacy = (("legacySizeOfNull", "true"),)
    found = {
        full(Term(TermKind.CALL, "Size", arguments=(a,), options=legacy)),
        full(Term(TermKind.CALL, "Size", arguments=(a,))),
        full(Term(TermKind.COLUMN, "a", "int", source=0)),
        full(Term(TermKind.COLUMN, "a", "bigint", source=0, copy=1)),
        full(Term(TermKind.CALL, NULLABLE, arguments=(a,))),
        full(Term(TermKind.CALL, UNITED, arguments=(a, a), options=(("number", "1"),))),
        full(Term(TermKind.NULL, type="int")),
    }
    assert found == {
        "size(a) [legacySizeOfNull true]",
        "size(a)",
        "a [int]",
        "a [bigint, reading 2]",
        "a [or NULL where no row matches]",
        "union(a, a)",
        "null [int]",
    }


def test_fields(table: Table) -> None:
    a = table.column("a")
    window = Window(WindowKind.REGULAR, MINUTE_US, MINUTE_US)
    place = table.terms.add(Term(TermKind.WINDOW, arguments=(a,), window=window))
    assert table.text(table.field("start", place)) == "start of window 1 minute"
    assert table.text(table.field("c", table.field("b", a))) == "a.b.c"
    assert table.text(table.field("c", table.call("Upper", a))) == "c"


def test_columns_are_reported_with_their_sources_where_one_is_meant(table: Table) -> None:
    mine, theirs, again = table.column("a"), table.column("b", 1), table.column("b", 2)
    made = table.terms.add(Term(TermKind.MADE, "item", arguments=(mine,)))
    expected = {
        mine: "clicks.a",
        table.call("Add", mine, theirs): "clicks.a + views.b",
        table.field("x", table.call("Coalesce", mine, theirs)): "x",
        table.field("x", table.call("Coalesce", mine, again)): "clicks.x",
        made: "item",
        table.field("x", table.call("Upper", made)): "x",
    }
    found = {place: table.text(place, is_qualified=True) for place in expected}
    assert found == expected


def test_what_is_too_long_is_cut(table: Table) -> None:
    long = table.call("Upper", table.column("c" * 52))
    assert table.text(long) == f"upper({'c' * 52})"[:60]
    assert len(table.text(long)) == TEXT_LENGTH_MAX - 1
    longer = table.call("Upper", table.call("Upper", table.column("c" * 52)))
    assert table.text(longer) == f"upper(upper({'c' * 45}..."


def test_a_text_is_not_written_longer_than_it_is_read(table: Table) -> None:
    """Written out, it would have 2 to the 80th parts."""
    place = table.column("a")
    for _ in range(80):
        place = table.call("Add", place, place)
    text = table.text(place)
    assert text.startswith("((((")
    assert len(text) == TEXT_LENGTH_MAX
    assert "clicks" in table.text(table.field("x", table.call("Upper", place)), is_qualified=True)


@pytest.mark.parametrize(
    ("window", "text"),
    [
        (Window(WindowKind.REGULAR, MINUTE_US, MINUTE_US), "window 1 minute"),
        (Window(WindowKind.REGULAR, 2 * MINUTE_US, MINUTE_US), "window 2 minutes every 1 minute"),
        (Window(WindowKind.REGULAR, MINUTE_US, MINUTE_US, 1), "window 1 minute from 1 microsecond"),
        (Window(WindowKind.REGULAR), "window"),
        (Window(WindowKind.REGULAR, MINUTE_US), "window"),
        (Window(WindowKind.SESSION, gap="5 minutes"), "session window 5 minutes"),
        (Window(WindowKind.SESSION), "session window of varying length"),
        (Window(WindowKind.PROCESSING, MINUTE_US), "window 1 minute of processing time"),
    ],
)
def test_windows(window: Window, text: str) -> None:
    assert window.text == text


@pytest.mark.parametrize(
    ("length_us", "text"),
    [
        (0, "0 seconds"),
        (1_500_000, "1 second 500 milliseconds"),
        (90_061_000_001, "1 day 1 hour 1 minute 1 second 1 microsecond"),
    ],
)
def test_durations(length_us: int, text: str) -> None:
    assert describe_duration(length_us) == text
