from dataclasses import replace

import pytest
from tests.strategies import TABLE, Chain, Part, key_of, target_of

from ashore.protocol.entries import Commit, Owed, Prepare, Seal
from ashore.protocol.files import DataFile, FilePlace
from ashore.protocol.names import SliceName
from ashore.protocol.plan_commit import (
    CloseEntry,
    MoveFile,
    MoveOutcome,
    OpenSlice,
    RegisterPartitions,
    SyncDirectories,
    explain,
    judge_move,
    places_of,
    plan_commit,
    plan_recovery,
)

NAME = SliceName("clicks", "main")
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
    assert plan_commit(NAME, chain.fold, registers=True) == ()
    assert plan_recovery(NAME, chain.fold, registers=True) == (OpenSlice(2),)


def test_the_steps_of_a_batch_are_move_sync_register_close(chain: Chain):
    steps = plan_commit(NAME, chain.fold, registers=True)
    moves, (sync, register, close) = steps[:3], steps[3:]
    assert [move.place for move in moves] == places_of(NAME, chain.fold.unclosed)
    assert (
        moves[0].place.pending
        == "ods.db/clicks/.ashore/clicks/main/1/0-0000000000000001.in-progress"
    )
    assert moves[0].place.final == (
        "ods.db/clicks/date=2026-11-21/hour=08/a-main-1-0-0000-0000000000000001.parquet"
    )
    assert sync == SyncDirectories(
        (
            "ods.db/clicks/.ashore/clicks/main/1",
            "ods.db/clicks/date=2026-11-21/hour=08",
            "ods.db/clicks/date=2026-11-21/hour=09",
            "ods.db/clicks__dead/.ashore/clicks/main/1",
            "ods.db/clicks__dead/date=2026-11-21/hour=00",
        )
    )
    assert register == RegisterPartitions(
        (
            (TABLE, target_of(8).partition),
            (TABLE, target_of(9).partition),
            (f"{TABLE}__dead", target_of(0).partition),
        )
    )
    assert close == CloseEntry(2)


def test_nothing_is_registered_without_a_catalog(chain: Chain):
    steps = plan_commit(NAME, chain.fold, registers=False)
    assert not any(isinstance(step, RegisterPartitions) for step in steps)


def test_only_new_partitions_of_partitioned_tables_are_registered(chain: Chain):
    chain.commit()
    chain.prepare(Part(key_of(), 6, {9: 3, 10: 3}))
    (register,) = (
        step
        for step in plan_commit(NAME, chain.fold, registers=True)
        if isinstance(step, RegisterPartitions)
    )
    assert register.partitions == ((TABLE, target_of(10).partition),)
    body = chain.fold.unclosed.body
    plain = tuple(replace(each, partition="", values=()) for each in body.targets)
    unpartitioned = replace(chain.fold.unclosed, body=replace(body, targets=plain))
    steps = plan_commit(NAME, replace(chain.fold, unclosed=unpartitioned), registers=True)
    assert not any(isinstance(step, RegisterPartitions) for step in steps)


def test_a_partition_whose_registration_is_owed_is_registered_with_the_next_batch(chain: Chain):
    owed = Owed("register:8", "register", TABLE, target_of(8).partition)
    chain.prepare(Part(key_of(), 6, {8: 3, 9: 3}), owed=[owed])
    steps = plan_commit(NAME, chain.fold, registers=True)
    assert RegisterPartitions(((TABLE, target_of(8).partition),)) in steps


def test_a_target_without_files_does_not_stop_the_plan(chain: Chain):
    body = replace(chain.batch(), targets=(target_of(11),))
    chain.add(body)
    assert CloseEntry(3) in plan_commit(NAME, chain.fold, registers=True)


def test_files_are_placed_by_the_epoch_that_wrote_them_not_by_the_one_that_moves_them(chain: Chain):
    before = places_of(NAME, chain.fold.unclosed)
    chain.open()
    assert places_of(NAME, chain.fold.unclosed) == before
    first, *steps = plan_recovery(NAME, chain.fold, registers=True)
    assert first == OpenSlice(3)
    assert tuple(steps) == plan_commit(NAME, chain.fold, registers=True)


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
    steps = plan_commit(NAME, chain.fold, registers=False, without=[lost])
    assert lost not in {step.place.file.unique for step in steps if isinstance(step, MoveFile)}
    assert sum(isinstance(step, MoveFile) for step in steps) == 2


def test_a_seal_moves_nothing(chain: Chain):
    chain.add(Seal((), (), ()))
    assert plan_commit(NAME, chain.fold, registers=True) == (CloseEntry(3),)


def test_each_step_explains_itself(chain: Chain):
    lines = [explain(step) for step in plan_recovery(NAME, chain.fold, registers=True)]
    assert lines[0] == "open the slice as epoch 2"
    assert lines[1].startswith("move ods.db/clicks/.ashore/clicks/main/1/0-")
    assert lines[-3:] == [
        "sync 5 directories",
        "register 3 partitions in the catalog",
        "close entry 2 with the next one",
    ]


def test_the_plan_changes_nothing(chain: Chain):
    before = chain.fold
    plan_recovery(NAME, chain.fold, registers=True)
    assert chain.fold == before
    chain.append(chain.draft(Commit("idle"), chain.closing()))
