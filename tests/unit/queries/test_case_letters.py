"""Dead letters of a test case, compared with those that it expects."""

import pytest

from ashore.jobs.file.cases import Expected
from ashore.queries.spark.sql.case_comparison import CaseLetter, letter_problems

FOUND = [
    CaseLetter("clicks", 0, 1, "not-computed: ods__out: no cast (CAST_INVALID_INPUT)"),
    CaseLetter("clicks", 1, 0, "too-far: ods__out"),
]
WANTED = "expected: DIVIDE_BY_ZERO"
CAST = {"topic": "clicks", "offset": 1, "reason": "CAST_INVALID_INPUT"}
AHEAD = {"topic": "clicks", "partition": 1, "offset": 0}


@pytest.mark.parametrize(
    ("expected", "problems"),
    [
        ([AHEAD, CAST], []),
        (
            [{**CAST, "reason": "DIVIDE_BY_ZERO"}, AHEAD],
            [f"ods.out: dead letter clicks/0/1 has another reason: {FOUND[0].reason}; {WANTED}"],
        ),
        (
            [{**CAST, "offset": 2}, AHEAD],
            [
                "ods.out: dead letter missing: clicks/0/2",
                f"ods.out: dead letter not expected: clicks/0/1: {FOUND[0].reason}",
            ],
        ),
        ([CAST, CAST, AHEAD], ["ods.out: dead letter missing: clicks/0/1"]),
    ],
)
def test_what_differs_is_told(expected: list[dict[str, object]], problems: list[str]) -> None:
    wanted = Expected(table="ods.out", dead_letters=expected)  # type: ignore[arg-type]
    assert list(letter_problems(wanted, FOUND)) == problems


def test_without_a_list_no_dead_letter_is_expected() -> None:
    rows_only = Expected(table="ods.out", rows=())
    assert len(list(letter_problems(rows_only, FOUND))) == 2
    assert list(letter_problems(rows_only, [])) == []


def test_only_some_of_many_are_told() -> None:
    many = [CaseLetter("clicks", 0, number, "no JSON") for number in range(15)]
    *shown, rest = letter_problems(Expected(table="ods.clicks", dead_letters=()), many)
    assert len(shown) == 10
    assert rest.startswith("ods.clicks: dead letter not")
    assert rest.endswith(": 5 more records")
