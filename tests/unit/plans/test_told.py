"""A verdict in a few words."""

from ashore.plans.change.verdicts import (
    SHOWN_MAX,
    ColumnVerdict,
    OperatorVerdict,
    QueryVerdict,
    SourceVerdict,
    StateVerdict,
    describe_verdict,
)

FULL, LOST, PARTIAL = StateVerdict.FULL, StateVerdict.LOST, StateVerdict.PARTIAL


def operator(name: str, *columns: tuple[str, StateVerdict], why: str = "") -> OperatorVerdict:
    found = tuple(ColumnVerdict(*each) for each in columns)
    verdict = max((each.verdict for each in found), key=lambda each: each.rank, default=PARTIAL)
    return OperatorVerdict(name, verdict, (why,) if why else (), found, "a", "a")


def test_operators_and_columns_that_change_are_told_the_worst_first() -> None:
    changed = operator("sums", ("k", FULL), ("avg(v)", PARTIAL), ("sum(v)", LOST))
    kept = operator("kept", ("k", FULL))
    new = operator("new", why="empty")
    verdict = QueryVerdict(LOST, ("of all",), (changed, kept, new), ())
    assert list(describe_verdict(verdict)) == [
        "of all",
        "`sums` is lost (lost sum(v); partial avg(v))",
        "`new` is partial (empty)",
    ]


def test_of_many_columns_the_rest_is_counted() -> None:
    many = operator("sums", *((f"c{number}", LOST) for number in range(SHOWN_MAX + 3)))
    (told,) = describe_verdict(QueryVerdict(LOST, (), (many,), ()))
    assert told.endswith("; 3 more)")


def test_sources_are_told_before_operators() -> None:
    kept = SourceVerdict("clicks", FULL, (), 0, 0)
    gone = SourceVerdict("views", LOST, ("not read",), 1, None)
    verdict = QueryVerdict(LOST, (), (operator("new"),), (), sources=(kept, gone))
    assert list(describe_verdict(verdict)) == [
        "`views` is lost (not read)",
        "`new` is partial",
    ]
