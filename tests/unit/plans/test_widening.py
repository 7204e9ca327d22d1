"""Types that have all values of others."""

import pytest

from ashore.plans.change.columns import is_lossless


@pytest.mark.parametrize(
    ("was", "now"),
    [
        ("tinyint", "smallint"),
        ("int", "bigint"),
        ("smallint", "float"),
        ("int", "double"),
        ("float", "double"),
        ("int", "decimal(10,0)"),
        ("bigint", "decimal(21,2)"),
        ("decimal(10,2)", "decimal(12,4)"),
        ("decimal(10,2)", "decimal(11,2)"),
    ],
)
def test_a_wider_type_has_all_values_and_the_other_has_not(was: str, now: str) -> None:
    assert is_lossless(was, now)
    assert not is_lossless(now, was)


@pytest.mark.parametrize(
    ("was", "now"),
    [
        ("int", "int"),
        ("int", "float"),
        ("bigint", "double"),
        ("int", "decimal(9,0)"),
        ("bigint", "decimal(20,2)"),
        ("decimal(10,2)", "decimal(10,3)"),
        ("decimal(10,2)", "double"),
        ("decimal(3,0)", "bigint"),
        ("date", "timestamp"),
        ("int", "string"),
        ("array<int>", "array<bigint>"),
    ],
)
def test_what_may_lose_a_value_is_not_wider(was: str, now: str) -> None:
    assert not is_lossless(was, now)
