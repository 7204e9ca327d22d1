"""The SQL changes over half of the input, and its state goes on: plain Spark, the whole way."""

import re
from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from tests.checkpoint_files import opened, unpack
from tests.marks import but
from tests.spark.migrations import Changed, Rows, lay_out
from tests.spark.programs import Use, conf, contents

from ashore.errors import CheckpointUnfit, QueryRefused
from ashore.plans.change.rewriting import NeverNull, StateRewrite
from ashore.queries.spark.internals import state
from ashore.queries.spark.internals.state import StateStores
from ashore.queries.spark.state import new_rows, verifying
from ashore.queries.spark.state.rewrite import Migration, NewQuery, migrate
from ashore.queries.state.layout import UNSAFE_ROW
from ashore.queries.state.rescaling import finish
from ashore.queries.state.survey import take_survey

SUMS = "SELECT k, sum(v) AS s, count(*) AS n FROM clicks GROUP BY k"
BELOW = "SELECT k, sum(v) AS s, count(*) AS n FROM (SELECT DISTINCT k, v FROM clicks) GROUP BY k"
WINDOWED = "SELECT window(ts, '1 hour') AS w, k, sum(v) AS s FROM clicks GROUP BY 1, 2"
ABOVE = f"SELECT DISTINCT w, s % 5 AS r FROM ({WINDOWED})"


def state_files(checkpoint: Path, operator: int) -> dict[str, bytes]:
    """Return the files of an operator's stores; what it says of itself is none."""
    found = contents(checkpoint / "state" / str(operator))
    return {path: data for path, data in found.items() if "_metadata" not in path}


@pytest.mark.parametrize("state_format", but(pytest.mark.long, [1, 2], lambda each: each == 1))
def test_state_is_kept_where_only_the_number_of_its_operator_changes(
    spark: SparkSession,
    use: Use,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    state_format: int,
) -> None:
    """A deduplication above an aggregate takes number 0; no row of the aggregate is read."""
    use(conf(state_format))
    program = Changed(spark, tmp_path / "program", "append")
    program.put(900)
    passed = {row[0] for row in program.run(WINDOWED, tmp_path / "old")}
    before = contents(tmp_path / "old")
    read = []

    def read_state(spark: SparkSession, uri: str, batch: int, stores: StateStores) -> DataFrame:
        read.append((uri.rpartition("/")[2], stores.operator))
        return state.read_state(spark, uri, batch, stores)

    for owner in (new_rows, verifying):
        monkeypatch.setattr(owner, "read_state", read_state)

    done = program.migrate(WINDOWED, ABOVE, tmp_path / "old", tmp_path / "new")

    assert read == [("new", 0)], "rows were read"
    assert contents(tmp_path / "old") == before, "the original was changed"
    assert [(each.operator, each.rewrite, each.old, each.after) for each in done.stores] == [
        (0, "empty", None, 0),
        (1, "keep", 0, None),
    ]
    kept = [path for path in state_files(tmp_path / "new", 1) if not path.endswith(".crc")]
    old = state_files(tmp_path / "old", 0)
    assert kept
    assert all(state_files(tmp_path / "new", 1)[path] == old[path] for path in kept)
    take_survey(opened(tmp_path / "new"))
    program.put(900)
    emitted = program.run(ABOVE, tmp_path / "new")
    assert emitted
    whole = program.run(ABOVE, tmp_path / "whole")
    assert emitted == [row for row in whole if row[0] not in passed]


def test_what_spark_plans_is_held_against_the_rewrite(
    spark: SparkSession, use: Use, tmp_path: Path
) -> None:
    use(conf())
    program = Changed(spark, tmp_path / "program")
    program.put()
    program.run(SUMS, tmp_path / "old")
    one, batch = opened(tmp_path / "old"), 0
    rewrite = program.rewrite(SUMS, SUMS)
    other_type = SUMS.replace("sum(v)", "sum(d)")  # LONG and DOUBLE have as many bytes
    for why, sql in (("other_form", other_type), ("operators", BELOW)):
        target = opened(tmp_path / why)
        lay_out(one, target, batch)
        query = NewQuery(program.frame(sql), program.mode)
        with pytest.raises(CheckpointUnfit) as refused:
            migrate(spark, Migration(one, target, batch, rewrite), query, lambda _event: None)
        assert refused.value.fields["why"] == why
        assert not (tmp_path / why / "state").exists()


STRICT = "SELECT coalesce(k, -1) AS k, count(*) AS n FROM clicks GROUP BY 1"
LOOSE = "SELECT nullif(k, {}) AS k, count(*) AS n FROM clicks GROUP BY 1"
NULLS = {
    "never, then maybe": (STRICT, LOOSE.format(99), ""),
    "maybe, then never": (LOOSE.format(99), STRICT, ""),
    "one, then never": (LOOSE.format(3), STRICT, "a row has NULL in "),
}


@pytest.mark.parametrize(
    "case", but(pytest.mark.long, [*NULLS], lambda case: case != "maybe, then never")
)
def test_a_store_is_kept_whether_its_columns_may_be_null_or_not(
    spark: SparkSession, use: Use, tmp_path: Path, case: str
) -> None:
    """The bytes are the same; Spark alone would refuse the first."""
    use(conf())
    old, new, refused = NULLS[case]
    program = Changed(spark, tmp_path / "program")
    program.put()
    program.run(old, tmp_path / "old")
    before, after = program.plan(old), program.plan(new)
    may = [each.graph.nodes[0].state.keys[0].is_nullable for each in (before, after)]
    assert may == [old != STRICT, new != STRICT]
    keep = program.rewrite(new, new)
    (operator,) = keep.operators
    never = (NeverNull("key", 0),) if new == STRICT else ()
    rewrite = replace(keep, operators=(replace(operator, never_null=never),))
    one, other = opened(tmp_path / "old"), opened(tmp_path / "new")
    lay_out(one, other, 0)
    migration, query = Migration(one, other, 0, rewrite), NewQuery(program.frame(new), "update")

    if refused:
        with pytest.raises(CheckpointUnfit, match=refused) as error:
            migrate(spark, migration, query, lambda _event: None)
        assert error.value.fields["why"] == "holds_null"
        assert not (tmp_path / "new" / "state").exists()
        return
    migrate(spark, migration, query, lambda _event: None)
    finish(one, other)
    program.put()
    emitted = program.run(new, tmp_path / "new")
    assert emitted == program.at_once(new, ["0.json", "1.json"])


UNKNOWN = {
    "hdfs-backed": ("", "", "provider", "its state is in HDFSBackedStateStoreProvider"),
    "rocksdb": (UNSAFE_ROW, "avro", "encoding", "its rows are encoded as avro"),
}


@pytest.mark.parametrize("case", UNKNOWN)
def test_state_in_another_form_is_refused_before_anything_is_planned(
    spark: SparkSession, tmp_path: Path, case: str
) -> None:
    old, new, why, told = UNKNOWN[case]
    root = unpack(case, tmp_path)
    for each in (root / "offsets").glob("[0-9]*"):
        text = each.read_text("utf-8")
        assert old in text
        each.write_text(text.replace(old, new) if old else text, "utf-8")
    one, other = opened(root), opened(tmp_path / "new")
    batch = one.read_position().committed
    lay_out(one, other, batch)
    migration = Migration(one, other, batch, StateRewrite((), ()))
    query = NewQuery(spark.range(1), "update")
    with pytest.raises(CheckpointUnfit, match=told) as refused:
        migrate(spark, migration, query, lambda _event: None)
    assert refused.value.fields["why"] == why
    assert not (tmp_path / "new" / "state").exists()


BEFORE = (
    "SELECT k, avg(v) AS a, min(s) AS lo, sum(v) AS sv, stddev(d) AS sd, sum(m) AS sm, "
    "approx_count_distinct(s) AS u, collect_set(v % 3) AS cs, max(v) AS hi FROM clicks GROUP BY k"
)
AFTER = (
    "SELECT k, max(v) AS hi, sum(w) AS sw, sum(m) AS sm, approx_count_distinct(v) AS uv, "
    "collect_set(v % 3) AS cs, min(s) AS lo, avg(w) AS aw, count(*) AS n, stddev(d) AS sd, "
    "approx_count_distinct(s) AS u, variance(v) AS va, sum(m * 2) AS sm2, max(s) AS his, "
    "avg(v) AS a, collect_set(w % 3) AS cw, collect_list(w) AS lw, first(w) AS fw, "
    "corr(v, d) AS co, percentile_approx(v, 0.5) AS p FROM clicks GROUP BY k"
)
NEW = {
    "sw",
    "uv",
    "aw",
    "n",
    "va",
    "sm2",
    "his",
    "cw",
    "lw",
    "fw",
    "co",
    "p",
}  # they start with the first batch after
FUNCTIONS = {
    "some": (BEFORE, AFTER, NEW),
    "all": (SUMS, "SELECT k, max(w) AS hi, sum(w) AS sw FROM clicks GROUP BY k", {"hi", "sw"}),
}
CASES = [("some", 1), ("some", 2), ("all", 1)]


@pytest.mark.parametrize(
    ("case", "state_format"), but(pytest.mark.long, CASES, lambda *each: each == ("some", 1))
)
def test_functions_are_added_dropped_and_moved(
    spark: SparkSession, use: Use, tmp_path: Path, case: str, state_format: int
) -> None:
    """What is kept is that of all rows; what is new, that of the rows since."""
    use(conf(state_format))
    old, new, come = FUNCTIONS[case]
    program = Changed(spark, tmp_path / "program")
    program.put()
    program.run(old, tmp_path / "old")

    done = program.migrate(old, new, tmp_path / "old", tmp_path / "new")

    assert [(each.rewrite, each.before, each.after) for each in done.stores] == [("recode", 7, 7)]
    take_survey(opened(tmp_path / "new"))
    program.put()
    emitted = by_key(program.run(new, tmp_path / "new"), new)
    whole = by_key(program.at_once(new, ["0.json", "1.json"]), new)
    since = by_key(program.at_once(new, ["1.json"]), new)
    assert emitted.keys() == whole.keys()
    assert emitted != whole
    assert (emitted == since) == (case == "all")
    for key, found in emitted.items():
        assert found == {**whole[key], **{name: since[key][name] for name in come}}


TOTALS = (
    "sum(v) AS sv, count(*) AS n, avg(d) AS a, min(s) AS lo, max(w) AS hi, sum(d) AS sd, "
    "stddev(d) AS dev, var_pop(v) AS va, corr(v, d * d) AS c, covar_samp(v, w) AS co, "
    "skewness(d) AS sk, approx_count_distinct(v) AS u, sum(m) AS sm, avg(m) AS am, "
    "collect_set(v % 5) AS cs, count_if(v > 9) AS ci, bool_and(v >= 0) AS ba"
)
LARGER = "window(ts, '1 hour', '1 hour', '20 minutes')"
MERGED = {
    "a coarser key": (
        f"SELECT k, s, {TOTALS} FROM clicks GROUP BY k, s",
        f"SELECT k, {TOTALS} FROM clicks GROUP BY k",
    ),
    "no key": (
        f"SELECT k, {TOTALS} FROM clicks GROUP BY k",
        f"SELECT 0 AS k, {TOTALS} FROM clicks",
    ),
    "windows of several": (
        f"SELECT window(ts, '20 minutes') AS w, k, {TOTALS} FROM clicks GROUP BY 1, k",
        f"SELECT {LARGER} AS w, {TOTALS} FROM clicks GROUP BY 1",
    ),
    "keys in another order": (
        f"SELECT k, s, {TOTALS} FROM clicks GROUP BY k, s",
        f"SELECT concat(s, k) AS c, {TOTALS} FROM clicks GROUP BY s, k",
    ),
    "fewer columns of a distinct": (
        "SELECT DISTINCT k, s FROM clicks",
        "SELECT DISTINCT k FROM clicks",
    ),
    "a wider key": (
        f"SELECT k, s, {TOTALS} FROM clicks GROUP BY k, s",
        f"SELECT bigint(k) AS k, {TOTALS} FROM clicks GROUP BY bigint(k)",
    ),
    "no key before and after": (
        f"SELECT 0 AS k, {TOTALS} FROM clicks",
        "SELECT 0 AS k, max(w) AS hi, sum(v) AS sv FROM clicks",
    ),
}


@pytest.mark.parametrize(
    "case", but(pytest.mark.long, [*MERGED], lambda case: case == "windows of several")
)
def test_groups_that_become_one_are_merged(
    spark: SparkSession, use: Use, tmp_path: Path, case: str
) -> None:
    use(conf())
    old, new = MERGED[case]
    program = Changed(spark, tmp_path / "program")
    program.put()
    program.run(old, tmp_path / "old")

    done = program.migrate(old, new, tmp_path / "old", tmp_path / "new")

    (moved,) = done.stores
    has_fewer = moved.after < moved.before
    assert has_fewer == ("another order" not in case and "before and after" not in case)
    take_survey(opened(tmp_path / "new"))
    program.put()
    emitted = by_key(program.run(new, tmp_path / "new"), new)
    whole = by_key(program.at_once(new, ["0.json", "1.json"]), new)
    since = by_key(program.at_once(new, ["1.json"]), new)
    assert emitted
    assert emitted == {key: whole[key] for key in emitted}
    assert emitted.keys() == since.keys()
    assert any(whole[key] != since[key] for key in since) or "distinct" in case
    stores, batch = StateStores(0, "default"), opened(tmp_path / "new").read_position().committed
    uri = opened(tmp_path / "new").uri
    assert state.read_state(spark, uri, batch, stores).count() == len(whole), "keys are there twice"


PAIRS = "SELECT a.v, b.v AS other{} FROM clicks a JOIN views b ON a.k = b.k"
BY_BOTH = "SELECT k, s, sum(v) AS sv FROM clicks GROUP BY k, s"
PARTED = {
    "rows as they are": (WINDOWED, ABOVE, {"move", "empty"}),
    "rows of other columns": (PAIRS.format(""), PAIRS.format(", b.w"), {"recode"}),
    "rows that are merged": (BY_BOTH, "SELECT k, sum(v) AS sv FROM clicks GROUP BY k", {"merge"}),
}
PARTED_RUNS = [(case, form) for case in PARTED for form in ((1, 3), (2, 2))]


@pytest.mark.long  # see test_rescaling.py
@pytest.mark.parametrize(
    ("case", "form"),
    but(
        pytest.mark.long,
        PARTED_RUNS,
        lambda case, form: form == (1, 3) and case == "rows as they are",
    ),
)
def test_a_state_gets_other_partitions_in_the_same_pass(
    spark: SparkSession, use: Use, tmp_path: Path, case: str, form: tuple[int, int]
) -> None:
    """`form`: of the state, and of the state of joins."""
    use(conf(*form))
    old, new, kinds = PARTED[case]
    program = Changed(spark, tmp_path / "program", "update" if "merge" in kinds else "append")
    count = 40 if "JOIN" in old else 900
    program.put(count)
    passed = {row[0] for row in program.run(old, tmp_path / "old")}
    before = contents(tmp_path / "old")

    done = program.migrate(old, new, tmp_path / "old", tmp_path / "new", 5)

    assert {each.rewrite for each in done.stores} == kinds
    assert any(each.after for each in done.stores)
    assert contents(tmp_path / "old") == before, "the original was changed"
    assert take_survey(opened(tmp_path / "new")).required.offsets.partitions == 5
    program.put(count)
    emitted = program.run(new, tmp_path / "new")
    whole = program.at_once(new, ["0.json", "1.json"])
    match case:
        case "rows as they are":
            whole = program.run(new, tmp_path / "whole")
            assert emitted == [row for row in whole if row[0] not in passed]
        case "rows of other columns":
            since = [row for row in whole if max(row[0], row[1]) >= count]
            expected = [(*row[:2], row[2] if row[1] >= count else None) for row in since]
            assert emitted == sorted(expected, key=str)
            assert {row[2] is None for row in emitted} == {True, False}
        case _:
            assert emitted == whole


SESSIONS = "SELECT session_window(ts, '1 hour') AS w, k, {} FROM clicks GROUP BY 1, k"
REFUSED = {
    "lists of several groups": (
        "SELECT k, s, collect_list(d) AS l FROM clicks GROUP BY k, s",
        "SELECT k, collect_list(d) AS l FROM clicks GROUP BY k",
        "what it keeps of two groups cannot be merged",
    ),
    "another verdict": (
        SUMS,
        SUMS.replace(" k", " w").replace("SELECT k", "SELECT w"),
        "the new groups cannot",
    ),
    "keys of sessions": (
        SESSIONS.format("sum(v)"),
        SESSIONS.format("sum(v)").replace(" k", " s"),
        "the new groups cannot",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_not_known_to_be_right_is_refused(
    spark: SparkSession, use: Use, tmp_path: Path, case: str
) -> None:
    use(conf())
    old, new, why = REFUSED[case]
    mode = "append" if "session" in old else "update"
    program = Changed(spark, tmp_path / "program", mode)
    with pytest.raises(QueryRefused, match=f"cannot be rewritten: .*{why}"):
        program.rewrite(old, new)


def by_key(rows: Rows, sql: str) -> dict[object, dict[str, object]]:
    """Return rows by their first column, with names."""
    names = [
        one or other for one, other in re.findall(r"\bAS (\w+)|SELECT (?:DISTINCT )?(k)\b", sql)
    ]
    found = {row[0]: dict(zip(names, map(_rounded, row), strict=True)) for row in rows}
    assert len(found) == len(set(map(str, rows))), "a key has two results"
    return found


def _rounded(value: object) -> object:
    """Return a value without the last digits of a double, which depend on the order of rows."""
    match value:
        case float():
            return round(value, 6)
        case list():
            return sorted(value)
        case _:
            return value
