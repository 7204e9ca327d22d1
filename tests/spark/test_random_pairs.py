"""Pairs of queries made at random: `full` is said only where the results are those of a replay.

Each pair is judged; where the verdict is `full` and nothing is said of other rows, both are played:
the old SQL over half of the input and the new one over the rest with its state, against the new one
over all of it. All pairs share one Spark session.
"""

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession
from tests.examples import examples
from tests.spark.compatibility.played import Played
from tests.spark.compatibility.sabotage import AGGREGATES, NO_NET, Patch
from tests.spark.programs import conf

from ashore.plans.change import judge
from ashore.plans.change.judge import judge_query
from ashore.plans.change.verdicts import StateVerdict

# Of each part of a query: texts that differ, some of which mean the same.
KEYS = (
    ("country",),
    ("id % 4",),
    ("mod(id, 4)",),
    ("id % 5",),
    ("upper(country)",),
    ("country", "id % 4"),
    ("id % 4", "country"),
    ("window(ts, '1 hour')",),
    ("window(ts, '60 minutes')",),
    ("window(ts, '2 hours')",),
    ("window(ts, '1 hour', '30 minutes')", "country"),
)
FUNCTIONS = (
    ("sum(id)",),
    ("sum(id + 0)",),
    ("sum(id * 2)",),
    ("count(*)",),
    ("count(1)",),
    ("count(country)",),
    ("min(id)",),
    ("max(id)",),
    ("avg(amount)",),
    ("sum(id)", "count(*)"),
    ("count(*)", "sum(id)"),
    ("max(id)", "min(id)"),
    ("min(id)", "max(id)"),
    ("sum(id) FILTER (WHERE amount > 20)", "count(*)"),
    ("sum(id) FILTER (WHERE amount > 30)", "count(*)"),
)
WHERE = ("", "id > 3", "3 < id", "id > 9", "id > 3 AND amount > 10", "amount > 10 AND id > 3")
HAVING = ("", "count(*) > 40", "1 = 1")
LABELLED = (
    "(SELECT id, '{0}' AS country, ts, amount FROM plain WHERE id {2} "
    "UNION ALL SELECT id, '{1}' AS country, ts, amount FROM plain WHERE id {3})"
)
FROM = (
    "plain",
    "(SELECT * FROM plain)",
    "(SELECT id, country, ts, amount FROM plain WHERE id > 3)",
    "(SELECT id + 1 AS id, country, ts, amount FROM plain)",
    "(SELECT plain.* FROM plain JOIN countries ON code = country)",
    "(SELECT * FROM plain UNION ALL SELECT * FROM clicks)",
    "(SELECT * FROM clicks UNION ALL SELECT * FROM plain)",
    *(
        LABELLED.format(*labels, *conditions)
        for labels in (("DE", "FR"), ("FR", "DE"))
        for conditions in (("> 9", "<= 9"), ("<= 9", "> 9"))
    ),
)
# Of a join of one view with itself.
ON = ("", "AND a.amount > 20", "AND b.amount > 20", "AND a.amount > b.amount")
TAKEN = ("a.id, a.country, b.amount", "a.id, b.country, a.amount", "b.id, a.country, b.amount")
VIEW = ("plain", "(SELECT * FROM plain)", "(SELECT * FROM plain WHERE amount > 5)")
SHOWN = ("{}", "{} AS other", "({}) + 1")
PARTS: Mapping[str, tuple[object, ...]] = {
    "keys": KEYS,
    "functions": FUNCTIONS,
    "where": WHERE,
    "having": HAVING,
    "rows": FROM,
    "shown": SHOWN,
}


@dataclass(frozen=True)
class Query:
    """A query over groups, in parts."""

    keys: tuple[str, ...]
    functions: tuple[str, ...]
    where: str
    having: str
    rows: str
    shown: str

    @property
    def sql(self) -> str:
        names = [self.shown.format(each) for each in self.functions]
        numbered = [f"{each.replace(' AS other', '')} AS f{at}" for at, each in enumerate(names)]
        keys = [f"{each} AS k{at}" for at, each in enumerate(self.keys)]
        where = f" WHERE {self.where}" if self.where else ""
        having = f" HAVING {self.having}" if self.having else ""
        by = ", ".join(self.keys)
        return (
            f"SELECT {', '.join([*keys, *numbered])} FROM {self.rows}{where} GROUP BY {by}{having}"
        )


QUERIES = st.builds(Query, **{name: st.sampled_from(texts) for name, texts in PARTS.items()})


@st.composite
def pairs(draw: st.DrawFn) -> tuple[Query, Query]:
    """Return a query, and the same with one or two parts changed."""
    old = draw(QUERIES)
    names = [each.name for each in fields(Query)]
    changed = draw(st.lists(st.sampled_from(names), min_size=1, max_size=2, unique=True))
    drawn = {name: draw(st.sampled_from(PARTS[name])) for name in changed}
    return old, replace(old, **drawn)


@st.composite
def self_joins(draw: st.DrawFn) -> str:
    """Return a join of one view with itself."""
    taken, on, where = (draw(st.sampled_from(each)) for each in (TAKEN, ON, ON))
    left, right = (draw(st.sampled_from(VIEW)) for _ in "ab")
    return (
        f"SELECT {taken} FROM {left} a JOIN {right} b ON a.id = b.id {on}"
        f"{where.replace('AND', ' WHERE')}"
    )


def find_wrong(played: Played, old: str, new: str, mode: str = "update") -> str:
    """Return how a verdict is wrong; empty where it is not, or says that results differ."""
    found = judge_query(played.plan(old, mode), played.plan(new, mode))
    said = any(each.differs_from_replay for each in found.operators)
    if found.verdict is not StateVerdict.FULL or said or old == new:
        return ""
    emitted = played.go_on_as_it_is(old, new, mode)
    expected = played.whole(new, mode)
    return "" if emitted == expected else f"{emitted} instead of {expected}"


@pytest.fixture(scope="module")
def played(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Played:
    session = spark.newSession()
    for name, value in conf().items():
        session.conf.set(name, value)
    return Played(session, tmp_path_factory.mktemp("streams"))


LIMITS = [pytest.param(3, id="3"), pytest.param(400, id="400", marks=pytest.mark.long)]


@pytest.mark.timeout(3600)
@pytest.mark.parametrize("count", LIMITS)
def test_full_is_said_only_where_results_are_those_of_a_replay(played: Played, count: int) -> None:
    @settings(
        max_examples=examples(count),
        deadline=None,
        suppress_health_check=list(HealthCheck),
        database=None,
    )
    @given(pairs())
    def try_pairs(pair: tuple[Query, Query]) -> None:
        old, new = pair
        assert find_wrong(played, old.sql, new.sql) == "", (old.sql, new.sql)

    try_pairs()


@pytest.mark.timeout(3600)
@pytest.mark.parametrize("count", LIMITS)
def test_full_is_said_of_self_joins_only_where_rows_are_those_of_a_replay(
    played: Played, count: int
) -> None:
    @settings(
        max_examples=examples(count),
        deadline=None,
        suppress_health_check=list(HealthCheck),
        database=None,
    )
    @given(self_joins(), self_joins())
    def try_pairs(old: str, new: str) -> None:
        assert find_wrong(played, old, new, "append") == "", (old, new)

    try_pairs()


LABELS = f"SELECT country AS k0, count(*) AS f0 FROM {LABELLED} GROUP BY country"
CHANGED_PLACES = [
    pytest.param(
        LABELS.format("x", "y", "> 9", "<= 9"),
        LABELS.format("y", "x", "> 9", "<= 9"),
        "update",
        id="labels of a union",
    ),
    *(
        pytest.param(
            f"{view}SELECT a.id, b.country FROM {name} a JOIN {name} b ON a.id = b.id "
            "WHERE a.amount > 20",
            f"{view}SELECT a.id, b.country FROM {name} a JOIN {name} b ON a.id = b.id "
            "WHERE b.amount > 20",
            "append",
            id=f"sides of a join of {name}",
            marks=[] if name == "v" else pytest.mark.long,
        )
        for view, name in (("", "plain"), ("WITH v AS (SELECT * FROM plain) ", "v"))
    ),
]


@pytest.mark.parametrize(("old", "new", "mode"), CHANGED_PLACES)
def test_readings_that_change_places_are_noticed(
    played: Played, old: str, new: str, mode: str
) -> None:
    assert find_wrong(played, old, new, mode) == "", "the verdict says that other rows come"
    emitted = played.go_on_as_it_is(old, new, mode)
    assert emitted != played.whole(new, mode), "a wrong verdict would not be noticed"


def test_a_wrong_full_is_found(played: Played, monkeypatch: pytest.MonkeyPatch) -> None:
    old = "SELECT country AS k0, sum(id) AS f0 FROM plain GROUP BY country"
    new = old.replace("sum(id)", "sum(id * 2)")
    assert find_wrong(played, old, new) == "", "the verdict says that it is another function"
    patches: tuple[Patch, ...] = ((judge, "judge_aggregate", AGGREGATES), NO_NET)
    for owner, name, wrong in patches:
        monkeypatch.setattr(owner, name, wrong)
    assert "instead of" in find_wrong(played, old, new)
