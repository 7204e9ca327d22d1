"""A migration: plan and state change with one entry, and an undo takes both back."""

from collections.abc import Callable
from dataclasses import replace

import pytest
from tests.strategies import Chain, Part, key_of

from ashore.errors import LogDamaged
from ashore.log.entries import Commit, Define, LeaveOut, Migrate, MigratedOperator, Plan, Query
from ashore.log.plan_query import QueryBatch, WriteRows, plan_query_batch
from ashore.log.plan_rollback import NoRollback, Wish, plan_rollback
from ashore.log.positions import OffsetRange, ShardRange
from ashore.log.query import EditsState, Letter, MappingEdit, MigrationState, choose_letters
from ashore.log.query_history import find_tables, read_landed_batches
from ashore.log.snapshot import read_snapshot, write_snapshot
from ashore.log.tables import TableColumn, TableDefinition

KEY = key_of(0)
MAPPING = (MigratedOperator("n3", "n2", "digest"),)


def land(chain: Chain, number: int, plan: str) -> None:
    ranges = (ShardRange(KEY, OffsetRange(10 * number, 10 * number + 10)),)
    left_out = choose_letters(chain.fold.left_out, ranges)
    decided = plan_query_batch(chain.fold, QueryBatch("q", number, plan, ranges, left_out=left_out))
    assert isinstance(decided, WriteRows), decided
    chain.add(chain.query_batch(Query("q", number, decided.lineage), Part(KEY, 10, {})))
    chain.add(Commit("query"))


def two_batches() -> Chain:
    chain = Chain.started(KEY)
    chain.add(Plan("old", "{}"))
    land(chain, 0, "old")
    land(chain, 1, "old")
    return chain


def forth(chain: Chain) -> Migrate:
    return Migrate(
        "new", '{"n":1}', "old", 1, chain.fold.epoch, "/saved/1", MAPPING, "ana", "wrong country"
    )


def undo(chain: Chain) -> Migrate:
    known = chain.fold.migrations[-1]
    return Migrate(
        known.before, "{}", "new", known.batch, chain.fold.epoch, known.savepoint, (), "ana",
        "back", known.entry,
    )  # fmt: skip


def migrated() -> Chain:
    chain = two_batches()
    chain.open()
    chain.add(forth(chain))
    return chain


def test_plan_and_attempt_change_with_one_entry() -> None:
    chain = migrated()
    fold = chain.fold
    made = MigrationState(fold.end, fold.epoch, 1, "old", "/saved/1")
    assert (fold.plan.digest, fold.attempt, fold.migrations) == ("new", fold.epoch, (made,))
    assert fold.migration == fold.epoch
    land(chain, 2, "new")
    assert (chain.fold.attempt, chain.fold.migrations) == (made.attempt, (made,))


def test_a_snapshot_has_it() -> None:
    fold = migrated().fold
    again = read_snapshot(write_snapshot(fold))
    assert (again.migrations, again.attempt) == (fold.migrations, fold.attempt)


def test_what_was_said_of_operators_is_kept_after_an_undo_too() -> None:
    chain = two_batches()
    chain.open()
    pins = (MappingEdit("n3", "n2"),)
    chain.add(replace(forth(chain), pinned=pins))
    kept = EditsState(chain.fold.end, "old", pins)
    assert chain.fold.edits == kept
    assert read_snapshot(write_snapshot(chain.fold)).edits == kept
    chain.open()
    with pytest.raises(LogDamaged, match="pairs no operators"):
        chain.add(replace(undo(chain), pinned=pins))
    chain.add(undo(chain))
    assert chain.fold.edits == kept
    chain.open()
    chain.add(forth(chain))
    assert chain.fold.edits == kept, "nothing else was said"


def test_an_undo_returns_to_the_plan_of_before() -> None:
    chain = migrated()
    chain.open()
    chain.add(undo(chain))
    fold = chain.fold
    assert (fold.plan.digest, fold.attempt, fold.migration) == ("old", fold.epoch, 0)
    chain.add(forth(chain))
    assert chain.fold.migration == fold.epoch, "it may be applied again"


def test_an_undo_is_one_entry_with_the_rollback_of_what_was_landed_since() -> None:
    chain = migrated()
    land(chain, 2, "new")
    chain.add(LeaveOut((Letter(KEY, 35, "no number"),)))
    chain.open()
    past = read_landed_batches(chain.entries, 0)
    body = plan_rollback(chain.fold, past, Wish(1, "ana", "back"))
    chain.add(replace(body, undo=undo(chain)))
    fold = chain.fold
    assert (fold.plan.digest, fold.query.batch_id, fold.migrations) == ("old", 1, ())
    assert (fold.left_out, fold.shards[KEY].next) == ((), 20)
    chain.add(Commit("recovery"))
    land(chain, 2, "old")
    assert read_landed_batches(chain.entries, 2)[2].query.lineage == chain.fold.query.lineage


def test_a_rollback_stays_after_the_migration() -> None:
    chain = migrated()
    land(chain, 2, "new")
    past = read_landed_batches(chain.entries, 0)
    wish = Wish(0, "ana", "wrong")
    refused = plan_rollback(chain.fold, past, wish)
    assert isinstance(refused, NoRollback)
    assert "migrate undo" in refused.hint
    with pytest.raises(LogDamaged, match="before the last migration"):
        chain.add(plan_rollback(replace(chain.fold, migrations=()), past, wish))
    chain.add(plan_rollback(chain.fold, past, Wish(1, "ana", "wrong")))
    assert chain.fold.plan.digest == "new"


def test_what_is_left_out_and_not_read_may_be_computed_by_the_new_sql() -> None:
    chain = two_batches()
    read, ahead = Letter(KEY, 25, "no number"), Letter(KEY, 35, "no number")
    chain.add(LeaveOut((read, ahead)))
    land_with = QueryBatch("q", 2, "old", (ShardRange(KEY, OffsetRange(20, 30)),))
    assert choose_letters(chain.fold.left_out, land_with.ranges) == (read,)
    chain.add(forth(chain))
    assert chain.fold.left_out == ()


@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        (lambda body: replace(body, before="other"), "another plan before"),
        (lambda body: replace(body, batch=0), "batch 0 is not"),
        (lambda body: replace(body, attempt=9), "of epoch 9"),
        (lambda body: replace(body, document=""), "empty"),
        (lambda body: replace(body, undoes=3), "there is none"),
    ],
)
def test_a_migration_that_does_not_follow_is_refused(
    wrong: Callable[[Migrate], Migrate], why: str
) -> None:
    chain = two_batches()
    with pytest.raises(LogDamaged, match=why):
        chain.add(wrong(forth(chain)))


@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        (lambda body: replace(body, undoes=3), "it undoes entry 3"),
        (lambda body: replace(body, digest="other"), "another plan or batch"),
    ],
)
def test_an_undo_that_does_not_follow_is_refused(
    wrong: Callable[[Migrate], Migrate], why: str
) -> None:
    chain = migrated()
    with pytest.raises(LogDamaged, match=why):
        chain.add(wrong(undo(chain)))


def test_a_slice_without_a_batch_is_not_migrated() -> None:
    chain = Chain.started(KEY)
    chain.add(Plan("old", "{}"))
    with pytest.raises(LogDamaged, match="without a plan"):
        chain.add(forth(chain))


def table_of(*names: str) -> TableDefinition:
    columns = tuple(TableColumn(each, "BIGINT", nullable=True) for each in names)
    return TableDefinition("ods.clicks", columns, (), "UTC", "parquet", False, ())


def test_an_undo_defines_the_table_as_it_was() -> None:
    chain = two_batches()
    before, after = table_of("n"), table_of("n", "last")
    chain.add(Define((before,), (), ""))
    chain.open()
    chain.add(forth(chain))
    (made,) = chain.fold.migrations
    chain.add(Define((after,), (), ""))
    found = find_tables(chain.entries, made.entry, chain.fold.tables)
    assert found == (before,)
    chain.open()
    with pytest.raises(LogDamaged, match="defines no table"):
        chain.add(replace(forth(chain), before="new", tables=found))
    chain.add(replace(undo(chain), tables=found))
    assert chain.fold.tables == {before.table: before}
    assert read_snapshot(write_snapshot(chain.fold)).tables == chain.fold.tables
    assert find_tables(chain.entries, chain.fold.end + 1, {}) == (before,), "it is of the history"


def test_a_rollback_defines_the_table_as_it_was_when_the_batch_was_landed() -> None:
    before, after = table_of("n"), table_of("n", "last")
    chain = Chain.started(KEY)
    chain.add(Plan("old", "{}"))
    chain.add(Define((before,), (), ""))
    land(chain, 0, "old")
    chain.add(Define((after,), (), ""))
    land(chain, 1, "old")
    body = plan_rollback(chain.fold, read_landed_batches(chain.entries, 0), Wish(0, "ana", "back"))
    tables = find_tables(chain.entries, body.entry, chain.fold.tables)
    chain.add(replace(body, tables=tables))
    assert chain.fold.tables == {before.table: before}
    assert find_tables(chain.entries, chain.fold.end + 1, {}) == (before,)
