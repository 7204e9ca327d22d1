"""Rows of a streaming query are in the table once, whatever call of the sink is struck."""

import pytest
from tests.crash import storage_calls
from tests.crash.harness import (
    check_end,
    check_readers,
    find_failures,
    finish,
    reference,
    report,
    require,
)
from tests.crash.query_job import QueryWorld, count_state, query_world
from tests.crash.second_writer import WAKING, FrozenStorage
from tests.crash.storage_calls import Case, Life, Scenario, Strike

from ashore.errors import CheckpointUnfit, Fenced
from ashore.testing import StopProcess

SECOND_BATCH_MOVES = StopProcess(3, kind="move", when="after")
QUERY = Scenario(query_world, (Life((SECOND_BATCH_MOVES,)), Life()), deadline_s=0.1)


def test_the_query_makes_every_kind_of_call_in_both_lives() -> None:
    for calls in QUERY.number_calls():
        kinds = {call.kind for call in calls}
        assert kinds >= {"create", "list", "move", "open_write", "read", "sync", "write", "close"}


@pytest.mark.parametrize("strike", list(storage_calls.strikes()), ids=lambda strike: strike.name)
def test_every_storage_call(strike: Strike) -> None:
    report(find_failures(storage_calls.cases_of(QUERY, strike, range(2))))


def run_frozen(number: int, waking: str) -> None:
    """Freeze the first process before one of its calls; another runs the query to its end."""
    expected = reference(query_world())
    world = query_world()
    frozen = FrozenStorage(
        world.machine, number, lambda: check_end(world.start().run()), WAKING[waking](number)
    )
    ended = world.start_on(frozen).run()
    require(frozen.has_frozen, "it was never frozen")
    require(ended is None or isinstance(ended, Fenced), f"the woken process ended with {ended!r}")
    check_readers(world.machine)
    frozen.pending.release()
    finish(world, expected)


def frozen_cases(waking: str) -> list[Case]:
    whole = query_world().start()
    check_end(whole.run())
    return [
        (
            f"call {call.number} waits: {call.kind} {call.path}",
            lambda n=call.number: run_frozen(n, waking),
        )
        for call in whole.faulty.calls
    ]


@pytest.mark.parametrize("waking", WAKING)
def test_a_process_frozen_at_every_call_is_fenced_or_has_nothing_to_do(waking: str) -> None:
    report(find_failures(iter(frozen_cases(waking))))


def finished() -> QueryWorld:
    world = query_world()
    check_end(world.start().run())
    return world


def test_state_is_built_again_by_a_batch_whose_rows_are_thrown_away() -> None:
    expected, world = reference(query_world()), finished()
    seen, last = count_state(world), max(world.checkpoint.commits)
    world.checkpoint.commits.remove(last)
    del world.checkpoint.state[last]
    finish(world, expected)
    assert count_state(world) == seen


def test_an_empty_checkpoint_on_a_filled_table_is_refused() -> None:
    expected, world = reference(query_world()), finished()
    world.checkpoint = type(world.checkpoint)(query_id="query-2")
    ended = world.start().run()
    assert isinstance(ended, CheckpointUnfit)
    assert ended.fields["why"] == "other_query"
    expected.check(world.machine)


def test_a_batch_that_would_read_other_offsets_is_refused() -> None:
    expected, world = reference(query_world()), finished()
    checkpoint = world.checkpoint
    last = max(checkpoint.commits)
    checkpoint.commits.remove(last)
    before, ends = checkpoint.offsets[last - 1], checkpoint.offsets[last]
    checkpoint.offsets[last] = {key: max(before[key], end - 1) for key, end in ends.items()}
    ended = world.start().run()
    assert isinstance(ended, CheckpointUnfit)
    assert ended.fields["why"] == "other_lineage"
    expected.check(world.machine)


def test_a_changed_plan_goes_on_but_does_not_replay() -> None:
    expected, world = reference(query_world()), finished()
    world.checkpoint.plan = "other"
    finish(world, expected)
    world.checkpoint.commits.remove(max(world.checkpoint.commits))
    ended = world.start().run()
    assert isinstance(ended, CheckpointUnfit)
