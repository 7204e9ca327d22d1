"""What one process tells another of queries."""

import json

import pytest
from tests.unit.plans.trees import CLICKS

from ashore.base.codec import Malformed
from ashore.plans.operators import OperatorKind, StateColumn, StatefulOperator
from ashore.plans.query import TableQuery, TopicQuery, read_queries, write_queries

OPERATOR = StatefulOperator(
    operator_id=0,
    kind=OperatorKind.AGGREGATE,
    name="aggregate by country",
    keys=("country",),
    state_columns=(StateColumn("count(*)", "bigint"),),
    state_partitions=32,
    is_bounded=None,
)
COMMON = ("slice", "`country` string", "file:///lake/here", (CLICKS,), (OPERATOR,))
QUERIES = (
    TableQuery("ods.big", ("date",), "exactly once", *COMMON),
    TopicQuery("counts", "upsert", ("country",), "at least once", *COMMON, ("careful",)),
)


def test_queries_are_read_as_they_were_written() -> None:
    assert read_queries(json.loads(json.dumps(write_queries(QUERIES)))) == QUERIES
    assert read_queries([]) == ()


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "not an array"),
        ({}, "not an array"),
        ([None], r"queries\[0\]: None is not"),
        ([{"table": "a"}], r"queries\[0\]: unknown or missing keys: checkpoint"),
        ([{**write_queries(QUERIES)[1], "mode": 3}], r"queries\[0\].mode: 3 is not str"),
    ],
)
def test_what_is_no_query_is_named(value: object, text: str) -> None:
    with pytest.raises(Malformed, match=text):
        read_queries(value)
