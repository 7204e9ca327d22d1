from dataclasses import replace

import pytest
from tests.strategies import TABLE, Chain, Part, key_of, target_of

from ashore.log.entries import Commit, DeferredAction, Prepare, Seal, SealedPartition
from ashore.log.files import DataFile, FilePlace
from ashore.log.fold import Action
from ashore.log.names import SliceName
from ashore.log.plan_commit import (
    NO_CATALOG,
    CloseEntry,
    MoveOutcome,
    Publish,
    PublishBatch,
    Publishing,
    SyncLog,
    explain_sync,
    find_moves,
    judge_move,
    places_of,
    plan_commit,
    plan_publish_batch,
)

NAME = SliceName("clicks", "main")
CATALOG = Publishing(registers=True)
FILE = DataFile(0, 0, "0" * 16, 3, 1000, "0" * 16, (), None, None)
PLACE = FilePlace(FILE, "pending", "final")
RIGHT, WRONG, ABSENT = 1000, 999, None


@pytest.mark.parametrize(
    ("source", "target", "outcome"),
    [
        (RIGHT, RIGHT, MoveOutcome.ALREADY_MOVED),
        (WRONG, RIGHT, MoveOutcome.ALREADY_MOVED),
        (ABSENT, RIGHT, MoveOutcome.ALREADY_MOVED),
        (RIGHT, WRONG, MoveOutcome.CONFLICT),
        (WRONG, WRONG, MoveOutcome.CONFLICT),
        (ABSENT, WRONG, MoveOutcome.CONFLICT),
        (RIGHT, 0, MoveOutcome.CONFLICT),
        (RIGHT, ABSENT, MoveOutcome.AGAIN),
        (WRONG, ABSENT, MoveOutcome.LOST),
        (0, ABSENT, MoveOutcome.LOST),
        (ABSENT, ABSENT, MoveOutcome.LOST),
    ],
)
def test_what_a_failed_move_came_to(source, target, outcome: MoveOutcome):
    assert judge_move(PLACE, source, target) is outcome


def test_an_empty_file_that_is_there_is_not_a_file_that_is_gone():
    empty = replace(PLACE, file=replace(FILE, size_bytes=0))
    assert judge_move(empty, None, 0) is MoveOutcome.ALREADY_MOVED
    assert judge_move(empty, 0, None) is MoveOutcome.AGAIN
    assert judge_move(empty, None, None) is MoveOutcome.LOST


@pytest.fixture
def chain() -> Chain:
    """A log with an unclosed batch of two files in two hours, and one dead file."""
    chain = Chain.started()
    chain.prepare(Part(key_of(), 7, {8: 3, 9: 3}, dead=1))
    return chain


def test_nothing_is_to_be_done_where_nothing_is_unclosed(chain: Chain):
    chain.commit()
    assert plan_commit(NAME, chain.fold, CATALOG) == ()


def published(chain: Chain) -> Publish | None:
    """Return the step that makes the unclosed entry known, if there is one."""
    steps = plan_commit(NAME, chain.fold, CATALOG)
    return next((step for step in steps if isinstance(step, Publish)), None)


def register(table: str, partition: str) -> DeferredAction:
    return DeferredAction(f"register:{table}:{partition}", Action.REGISTER, table, partition)


def test_the_steps_of_a_batch_make_it_readable_then_known_then_close(chain: Chain):
    steps = plan_commit(NAME, chain.fold, CATALOG)
    move, publish, close = steps
    assert move == PublishBatch(tuple(places_of(NAME, chain.fold.unclosed)))
    assert len(move.places) == 3
    assert (
        move.places[0].pending
        == "ods.db/clicks/.ashore/clicks/main/1/0-0000000000000001.in-progress"
    )
    assert move.places[0].final == (
        "ods.db/clicks/date=2026-11-21/hour=08/a-main-1-0-0000-0000000000000001.parquet"
    )
    assert move.directories == (
        "ods.db/clicks/date=2026-11-21/hour=08",
        "ods.db/clicks/date=2026-11-21/hour=09",
        "ods.db/clicks__dead/date=2026-11-21/hour=00",
    )
    registered = (
        register(TABLE, target_of(8).partition),
        register(TABLE, target_of(9).partition),
        register(f"{TABLE}__dead", target_of(0).partition),
    )
    assert publish == Publish(registered, registers_all=True)
    assert close == CloseEntry(2)


def test_nothing_is_registered_without_a_catalog(chain: Chain):
    steps = plan_commit(NAME, chain.fold, NO_CATALOG)
    assert not any(isinstance(step, Publish) for step in steps)


def test_only_new_partitions_of_partitioned_tables_are_registered(chain: Chain):
    chain.commit()
    chain.prepare(Part(key_of(), 6, {9: 3, 10: 3}))
    new = register(TABLE, target_of(10).partition)
    assert published(chain) == Publish((new,), registers_all=True)
    unclosed = chain.fold.unclosed
    plain = tuple(replace(each, partition="", values=()) for each in unclosed.body.targets)
    unpartitioned = replace(unclosed, body=replace(unclosed.body, targets=plain))
    chain.fold = replace(chain.fold, unclosed=unpartitioned)
    assert published(chain) == Publish((), registers_all=True)


def test_a_registration_that_is_owed_is_not_owed_again_by_the_next_batch(chain: Chain):
    deferred = register(TABLE, target_of(8).partition)
    chain.prepare(Part(key_of(), 6, {8: 3, 9: 3}), deferred=[deferred])
    assert not chain.fold.partitions[TABLE, target_of(8).partition].registered
    assert published(chain) == Publish((), registers_all=True)


def test_a_target_without_files_does_not_stop_the_plan(chain: Chain):
    body = replace(chain.batch(), targets=(target_of(11),))
    chain.add(body)
    assert CloseEntry(3) in plan_commit(NAME, chain.fold, CATALOG)


def test_files_are_placed_by_the_epoch_that_wrote_them_not_by_the_one_that_moves_them(chain: Chain):
    before = places_of(NAME, chain.fold.unclosed)
    chain.open()
    assert places_of(NAME, chain.fold.unclosed) == before
    steps = plan_commit(NAME, chain.fold, NO_CATALOG)
    assert find_moves(steps) == before


def test_relanded_files_are_placed_by_the_epoch_that_landed_them_again(chain: Chain):
    body = chain.fold.unclosed.body
    assert isinstance(body, Prepare)
    chain.open()
    chain.add(chain.reland(body.files[0]))
    (place,) = places_of(NAME, chain.fold.unclosed)
    assert "/clicks/main/2/0-" in place.pending
    assert "/a-main-2-0-" in place.final


def test_files_that_are_known_to_be_lost_are_left_out(chain: Chain):
    lost = chain.fold.unclosed.body.files[0].unique
    steps = plan_commit(NAME, chain.fold, NO_CATALOG, without=[lost])
    places = find_moves(steps)
    assert lost not in {place.file.unique for place in places}
    assert len(places) == 2


def test_a_seal_moves_nothing_and_publishes_its_actions(chain: Chain):
    partition = target_of(8).partition
    sealed = SealedPartition(TABLE, partition, 1, 3, 3, chain.fold.now_ms)
    chain.add(Seal((sealed,), (Action.SUCCESS_FILE, "snapshot"), ()))
    publish, close = plan_commit(NAME, chain.fold, NO_CATALOG)
    assert [each.id for each in publish.effects] == [
        f"{action}:{TABLE}:{partition}:1" for action in ("snapshot", "success_file")
    ]
    assert not publish.registers_all
    assert close == CloseEntry(3)


def test_a_seal_of_nothing_publishes_nothing(chain: Chain):
    chain.add(Seal((), (), ()))
    assert plan_commit(NAME, chain.fold, CATALOG) == (CloseEntry(3),)


def test_a_step_explains_what_it_makes_durable(chain: Chain):
    batch = plan_publish_batch(NAME, chain.fold.unclosed)
    assert explain_sync(batch) == "sync 3 directories"
    assert explain_sync(SyncLog("ods.db/clicks")) == "sync ods.db/clicks"


def test_moves_are_the_part_of_the_plan_that_needs_no_writer(chain: Chain):
    steps = plan_commit(NAME, chain.fold, CATALOG)
    assert plan_publish_batch(NAME, chain.fold.unclosed) == steps[0]
    chain.add(Seal((), (), ()))
    assert plan_publish_batch(NAME, chain.fold.unclosed) is None


def test_the_plan_changes_nothing(chain: Chain):
    before = chain.fold
    plan_commit(NAME, chain.fold, CATALOG)
    assert chain.fold == before
    chain.append(chain.draft(Commit("idle"), chain.closing()))
