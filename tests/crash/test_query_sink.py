"""Rows of a streaming query are in the table once, whatever call of the sink is struck."""

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest
from tests.crash import storage_calls
from tests.crash.harness import (
    NAME,
    check_end,
    check_readers,
    check_table,
    find_failures,
    finish,
    reference,
    require,
    require_none_fails,
)
from tests.crash.query_job import REMEMBER_MS, RESULT, QueryWorld, count_state, query_world
from tests.crash.second_writer import WAKING, frozen_queries
from tests.crash.storage_calls import Case, Life, Scenario, Strike

from ashore.errors import CheckpointUnfit, FilesLost
from ashore.log.entries import Prepare, Query, Version, batch
from ashore.log.fold import Fold
from ashore.log.plan_commit import places_of
from ashore.log.plan_query import DiscardRows, QueryBatch
from ashore.log.query import QueryState
from ashore.log.store import committer
from ashore.log.store.committer import Committer, Moved
from ashore.log.store.dead_job import find_gone, plan_help
from ashore.log.store.reader import read_history, read_log
from ashore.topics.loop import query_sink
from ashore.topics.loop.recovery import accept_loss, open_and_find_lost
from ashore_lab.testing import StopProcess, read_rows

SECOND_BATCH_MOVES = StopProcess(3, kind="publish", when="after")
QUERY = Scenario(query_world, (Life((SECOND_BATCH_MOVES,)), Life()))


def test_the_query_makes_every_kind_of_call_in_both_lives() -> None:
    for calls in QUERY.number_calls():
        kinds = {call.kind for call in calls}
        assert kinds >= {
            "create",
            "list",
            "publish",
            "open_write",
            "read",
            "sync",
            "write",
            "close",
        }


@storage_calls.every_strike
def test_every_storage_call(strike: Strike) -> None:
    require_none_fails(storage_calls.cases_of(QUERY, strike, range(2)))


@pytest.mark.parametrize("waking", WAKING)
def test_a_process_frozen_at_every_call_is_fenced_or_has_nothing_to_do(waking: str) -> None:
    require_none_fails(frozen_queries(query_world, waking))


def test_a_version_is_written_once_whatever_call_a_start_is_stopped_at() -> None:
    expected = reference(query_world())
    opening = next(call.number for call in QUERY.number_calls()[0] if call.kind == "open_write")
    for number in range(1, opening):
        world = query_world()
        world.start([StopProcess(number, when="after")]).run()
        finish(world, expected)
        assert versions_of(world) == [(1, None, 0)]
        world.checkpoint.plan = "other"
        world.start().run()
        assert [version for version, _, _ in versions_of(world)] == [1, 2]


def versions_of(world: QueryWorld) -> list[tuple[int, int | None, int]]:
    bodies = (each.body for each in read_history(world.machine, NAME))
    return [(each.version, each.before, each.batch) for each in bodies if isinstance(each, Version)]


# ---- mutants: each shortcut must be found out


def write_replays_again(patch: pytest.MonkeyPatch) -> None:
    """Take every batch for a new one, as a sink without a log would."""
    plan = query_sink.plan_query_batch

    def careless(fold: Fold, batch: QueryBatch, past: object = None) -> object:
        decision = plan(fold, batch)
        if isinstance(decision, DiscardRows) and fold.query is not None:
            moved = replace(fold.query, batch_id=batch.batch_id - 1)
            ranges = {each.key: each.offsets.start for each in batch.ranges}
            shards = {
                key: replace(state, next=ranges.get(key, state.next))
                for key, state in fold.shards.items()
            }
            return plan(replace(fold, query=moved, shards=shards), batch)
        return decision

    patch.setattr(query_sink, "plan_query_batch", careless)
    patch.setattr(batch, "_follow", follow_anything)
    patch.setattr(batch, "check_next", lambda state, _key, _offsets: state)


def land_before_prepare(patch: pytest.MonkeyPatch) -> None:
    """Call the batch done without an entry."""
    patch.setattr(query_sink.QuerySink, "land", lambda *_arguments: 0)


def close_without_moving(patch: pytest.MonkeyPatch) -> None:
    """Close entries whose files nobody has moved."""
    patch.setattr(committer, "move_files", lambda *_arguments: Moved(0, 0))


def follow_anything(known: QueryState | None, body: Prepare) -> QueryState:
    query = body.query or Query("", 0, "")
    before = known.lineage if known else ""
    return QueryState(query.query_id, query.batch_id, query.lineage, before)


@pytest.mark.parametrize("mutate", [write_replays_again, land_before_prepare, close_without_moving])
def test_a_mutant_of_the_sink_is_found_out(
    mutate: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    strike = Strike("stops after", lambda n: [StopProcess(n, when="after")])
    expected, calls = reference(query_world()), QUERY.number_calls()
    mutate(monkeypatch)

    def cases() -> Iterator[Case]:
        for call in calls[0]:
            yield f"call {call.number}", lambda call=call: QUERY.run_case(strike, 0, call, expected)

    assert next(find_failures(cases()), None) is not None


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


def test_lost_files_of_a_query_are_given_up_and_it_goes_on() -> None:
    expected, world = reference(query_world()), query_world()
    world.start([StopProcess(3, kind="publish", when="before")]).run()
    unclosed = read_log(world.machine, NAME).unclosed
    require(unclosed is not None, "nothing is unclosed")
    place = places_of(NAME, unclosed)[0]
    rows = Counter(read_rows(world.machine.read(place.pending)))
    world.machine.delete(place.pending)
    steps = plan_help(world.machine, NAME)
    assert find_gone(world.machine, steps) == 1
    assert isinstance(world.start().run(), FilesLost)

    sink = world.start().loop.sink
    lost = open_and_find_lost(Committer(sink.log, world.machine, world.clock))
    assert lost is not None
    assert accept_loss(sink.log, lost, "an operator", "the disk is gone") == rows.total()

    assert world.start().run() is None
    check_table(world.machine, check_readers(world.machine), expected.rows - rows)
    fold = read_log(world.machine, NAME)
    assert sum(state.rows for state in fold.partitions.values()) == ((expected.rows - rows).total())
    assert count_state(world) == expected.rows.total()


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


def test_the_log_of_another_table_is_not_gone_on_with() -> None:
    """`a__b.c` and `a.b__c` have one name in logs: a table that is renamed so gets its own."""
    expected, world = reference(query_world()), finished()
    process = world.start()
    sink = process.loop.assembly.sink(NAME, replace(RESULT, table="ods.other"), REMEMBER_MS)
    with pytest.raises(CheckpointUnfit, match=r"to table ods\.result"):
        sink.open()
    topic = process.loop.assembly.sink(NAME, None, REMEMBER_MS)
    with pytest.raises(CheckpointUnfit, match=r"to table ods\.result"):
        topic.open()
    expected.check(world.machine)
