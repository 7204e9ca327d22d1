"""Calls that compute the same have one digest, and those that nearly do have two."""

import pytest

from ashore.plans.digests import TermDigests
from ashore.plans.graph import PlanGraph, PlanSource, Term, TermKind, Terms

SOURCE = PlanSource("clicks", "kafka", "clicks", True)
ANSI = (("failOnError", "true"),)
Written = str | int | tuple[object, ...] | None


def digest(written: Written, *, is_canonical: bool = True) -> str:
    """Return the digest of an expression: `("EqualTo", "a", 3)` is `a = 3`."""
    terms = Terms()
    place = _add(terms, written)
    graph = PlanGraph((SOURCE,), tuple(terms.table), (), ())
    return TermDigests(graph, ["clicks"], is_canonical=is_canonical)[place]


def _add(terms: Terms, written: object) -> int:
    match written:
        case None:
            return terms.add(Term(TermKind.NULL, type="int"))
        case int():
            return terms.add(Term(TermKind.LITERAL, str(written), "int"))
        case str() if written.startswith("'"):
            return terms.add(Term(TermKind.LITERAL, written.strip("'"), "string"))
        case str():
            return terms.add(Term(TermKind.COLUMN, written, "int", source=0))
        case ("Cast", type_, of):
            return terms.add(Term(TermKind.CALL, "Cast", str(type_), (_add(terms, of),)))
        case (str(name), *arguments):
            options = ANSI if name in {"ElementAt", "GetArrayItem"} else ()
            places = tuple(_add(terms, each) for each in arguments)
            return terms.add(Term(TermKind.CALL, name, arguments=places, options=options))
        case _:
            raise AssertionError(written)


def equal(name: str, *values: Written) -> tuple[object, ...]:
    """Return `name = value OR ...`."""
    first, *others = [("EqualTo", name, each) for each in values]
    made = first
    for each in others:
        made = ("Or", made, each)
    return made


ONE, OTHER, THIRD = ("EqualTo", "a", 1), ("LessThan", "b", 2), ("IsNull", "c")
FAILS = ("LessThan", ("Divide", "a", "b"), 2)

SAME = [
    (("GreaterThan", "a", 3), ("LessThan", 3, "a")),
    (("GreaterThanOrEqual", "a", "b"), ("LessThanOrEqual", "b", "a")),
    (("EqualTo", "a", "b"), ("EqualTo", "b", "a")),
    (("EqualNullSafe", "a", "b"), ("EqualNullSafe", "b", "a")),
    (("Add", "a", "b"), ("Add", "b", "a")),
    (("Multiply", "a", ("Add", "b", 1)), ("Multiply", ("Add", 1, "b"), "a")),
    (("And", ONE, OTHER), ("And", OTHER, ONE)),
    (("And", ("And", ONE, OTHER), THIRD), ("And", THIRD, ("And", OTHER, ONE))),
    (("Or", ("Or", ONE, OTHER), THIRD), ("Or", OTHER, ("Or", THIRD, ONE))),
    (("Or", ("Cast", "bigint", "a"), ONE), ("Or", ONE, ("Cast", "bigint", "a"))),
    (("If", ONE, "a", "b"), ("CaseWhen", ONE, "a", "b")),
    (("If", ONE, "a", None), ("CaseWhen", ONE, "a")),
    (("If", ("EqualTo", "a", 3), None, "a"), ("CaseWhen", ("EqualTo", 3, "a"), None, "a")),
    (("In", "a", 1, 2, 3), ("In", "a", 3, 1, 2)),
    (("In", "a", 1, 2, 3), equal("a", 2, 3, 1)),
    (("Or", ("In", "a", 1, 2), ONE), ("In", "a", 2, 1)),
    (("Or", ("In", "a", 1, 2), THIRD), ("Or", ("Or", THIRD, ("EqualTo", 2, "a")), ONE)),
    (("TruncTimestamp", "'hour'", "t"), ("TruncTimestamp", "'HOUR'", "t")),
    (("TruncDate", "t", "'Month'"), ("TruncDate", "t", "'month'")),
    (("GetArrayItem", "a", 0), ("ElementAt", "a", 1)),
]
DIFFERENT = [
    (("GreaterThan", "a", 3), ("LessThan", "a", 3)),
    (("GreaterThan", "a", 3), ("LessThanOrEqual", 3, "a")),
    (("Subtract", "a", "b"), ("Subtract", "b", "a")),
    (("Divide", "a", "b"), ("Divide", "b", "a")),
    # Sums of DOUBLE depend on how they are grouped.
    (("Add", ("Add", "a", "b"), "c"), ("Add", "a", ("Add", "b", "c"))),
    (("EqualTo", "a", "b"), ("EqualNullSafe", "a", "b")),
    (("And", ONE, OTHER), ("Or", ONE, OTHER)),
    (("And", ("Or", ONE, OTHER), THIRD), ("Or", ("And", ONE, OTHER), THIRD)),
    # `b <> 0 AND a / b < 2` never divides by 0.
    (("And", ONE, FAILS), ("And", FAILS, ONE)),
    (("Or", ONE, FAILS), ("Or", FAILS, ONE)),
    (("And", ("Cast", "tinyint", "a"), ONE), ("And", ONE, ("Cast", "tinyint", "a"))),
    (("And", ("Cast", "bigint", "'x'"), ONE), ("And", ONE, ("Cast", "bigint", "'x'"))),
    (("If", ONE, "a", "b"), ("If", ONE, "b", "a")),
    (("If", ONE, "a", None), ("If", ONE, None, "a")),
    (("If", ONE, "a", 0), ("CaseWhen", ONE, "a")),
    (("CaseWhen", ONE, 1, OTHER, 2, 0), ("CaseWhen", OTHER, 2, ONE, 1, 0)),
    (("CaseWhen", ONE, 1, OTHER, 2), ("CaseWhen", ONE, 1, OTHER, 2, 0)),
    (("In", "a", 1, 2), ("In", "b", 1, 2)),
    (("In", "a", 1, 2), ("In", "a", 1, 3)),
    (("In", "a", 1, None), ("In", "a", 1)),
    (("In", "a", 1, 2), ("Or", ("EqualTo", "a", 1), ("EqualTo", "b", 2))),
    (("In", "a", 1, "b"), ("In", "b", 1, "a")),
    (("In", "a", 1, 2), ("And", ("EqualTo", "a", 1), ("EqualTo", "a", 2))),
    (("TruncTimestamp", "'hour'", "t"), ("TruncTimestamp", "'day'", "t")),
    (("TruncTimestamp", "u", "t"), ("TruncTimestamp", "t", "u")),
    (("Concat", "'hour'", "t"), ("Concat", "'HOUR'", "t")),
    (("GetArrayItem", "a", 1), ("ElementAt", "a", 1)),
    (("ElementAt", "a", -1), ("ElementAt", "a", 1)),
    (("GetArrayItem", "a", -2), ("ElementAt", "a", -1)),
    (("GetArrayItem", "a", "b"), ("ElementAt", "a", "b")),
]


@pytest.mark.parametrize(("one", "other"), SAME, ids=str)
def test_calls_that_compute_the_same_have_one_digest(one: Written, other: Written) -> None:
    assert digest(one) == digest(other)


@pytest.mark.parametrize(("one", "other"), DIFFERENT, ids=str)
def test_calls_that_compute_something_else_have_two(one: Written, other: Written) -> None:
    assert digest(one) != digest(other)


def test_an_element_that_may_be_null_or_a_default_is_none_of_an_array() -> None:
    def made(name: str, place: int, *options: tuple[str, str]) -> str:
        terms = Terms()
        column, number = _add(terms, "a"), _add(terms, place)
        call = Term(TermKind.CALL, name, arguments=(column, number), options=options)
        graph = PlanGraph((SOURCE,), (*terms.table, call), (), ())
        return TermDigests(graph, ["clicks"])[2]

    lenient = ("failOnError", "false")
    assert made("ElementAt", 1, *ANSI) == made("GetArrayItem", 0, *ANSI)
    assert made("ElementAt", 1, lenient) != made("GetArrayItem", 0, lenient)
    assert made("ElementAt", 1, lenient) != made("GetArrayItem", 0, *ANSI)


def count(*arguments: Written, where: Written = None, is_distinct: bool = False) -> str:
    """Return the digest of `count(arguments) FILTER (WHERE ...)`."""
    terms = Terms()
    filters = () if where is None else (_add(terms, where),)
    places = tuple(_add(terms, each) for each in arguments)
    made = Term(
        TermKind.AGGREGATE, "Count", arguments=places, filters=filters, is_distinct=is_distinct
    )
    graph = PlanGraph((SOURCE,), (*terms.table, made), (), ())
    return TermDigests(graph, ["clicks"])[len(terms.table)]


MORE, NOT_MORE = ("GreaterThan", "a", 3), ("LessThanOrEqual", "a", 3)


@pytest.mark.parametrize(
    "other",
    [
        count(("CaseWhen", MORE, 1)),
        count(("If", MORE, 1, None)),
        count(("If", ("LessThan", 3, "a"), "'x'", None)),
        # What Spark makes of `count_if(a > 3)`, before and after it simplifies `= false`.
        count(("If", ("Not", MORE), None, MORE)),
        count(("If", NOT_MORE, None, MORE)),
        count(2, where=MORE),
        count(1, 2, where=MORE),
    ],
)
def test_counts_of_the_same_rows_have_one_digest(other: str) -> None:
    assert other == count(1, where=MORE)


def test_counts_of_what_is_not_null_have_one_digest() -> None:
    of_both = count("b", where=MORE)
    assert count(("If", MORE, "b", None)) == of_both == count(("CaseWhen", MORE, "b"))
    assert count("b") == count(1, where=("IsNotNull", "b"))
    assert count("a", "b") == count("b", "a")


@pytest.mark.parametrize(
    "other",
    [
        count(1),
        count("a"),
        count(1, where=NOT_MORE),
        count("b", where=MORE),
        count(1, where=MORE, is_distinct=True),
        count(("If", MORE, 1, 0)),
        count(("If", MORE, None, 1)),  # counts where the condition is NULL, too
        count(("If", NOT_MORE, None, ("GreaterThan", "b", 3))),
        count(("If", ("LessThan", "a", 3), None, MORE)),
        count(("If", MORE, None, None)),
        count(("CaseWhen", MORE, 1, NOT_MORE, 1)),
    ],
)
def test_counts_of_other_rows_have_two(other: str) -> None:
    assert other != count(1, where=MORE)


def test_operands_that_are_shared_are_read_once() -> None:
    """Each step doubles what it reads: written out, the last would have 2 to the 60th operands."""
    table = [Term(TermKind.COLUMN, "a", "int", source=0)]
    for place in range(60):
        name = "And" if place % 2 else "Or"
        table.append(Term(TermKind.CALL, name, arguments=(place, place)))
    graph = PlanGraph((SOURCE,), tuple(table), (), ())
    assert len(TermDigests(graph, ["clicks"])[60]) == 64


def test_ids_of_operators_are_of_calls_as_they_are_written() -> None:
    more, less = ("GreaterThan", "a", 3), ("LessThan", 3, "a")
    assert digest(more, is_canonical=False) != digest(less, is_canonical=False)
