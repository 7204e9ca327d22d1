"""Rows and dead letters of a query are there once, whatever call of the sink is struck."""

from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest
from tests.crash import query_job, storage_calls
from tests.crash.harness import (
    check_end,
    check_readers,
    check_table,
    find_failures,
    history,
    recorded_rows,
    reference,
    require,
    require_none_fails,
    visible_files,
)
from tests.crash.query_job import AsideQuery, LeavingQuery, QueryWorld, count_state, query_world
from tests.crash.second_writer import WAKING, frozen_queries
from tests.crash.storage_calls import Case, Life, Scenario, Strike
from tests.crash.test_rollback import BACK, GoingBack, back_world
from tests.marks import but

from ashore.log.entries import LeaveOut, Prepare
from ashore.log.files import Role
from ashore.log.plan_commit import places_of
from ashore.log.store.committer import Committer
from ashore.log.store.dead_job import find_gone, plan_help
from ashore.log.store.reader import read_log
from ashore.topics.loop import query_sink
from ashore.topics.loop.query_sink import BegunBatch
from ashore.topics.loop.recovery import accept_loss, open_and_find_lost
from ashore.topics.write.batch import TaskResult, Written
from ashore_lab.testing import RecordedRow, StopProcess

SECOND_BATCH_MOVES = StopProcess(3, kind="publish", when="after")


def aside_world() -> QueryWorld:
    world = query_world()
    world.query = AsideQuery
    return world


ASIDE = Scenario(aside_world, (Life((SECOND_BATCH_MOVES,)), Life()))


def test_some_are_left_aside_in_each_batch() -> None:
    world = aside_world()
    check_end(world.start().run())
    bodies = [each.body for each in history(world.machine) if isinstance(each.body, Prepare)]
    roles = [{body.targets[file.target].role for file in body.files} for body in bodies]
    assert roles.count({Role.MAIN, Role.DEAD}) >= 2
    dead = sum(state.dead for state in read_log(world.machine, query_job.NAME).shards.values())
    assert dead == sum(
        file.rows for body in bodies for file in body.files
        if body.targets[file.target].role is Role.DEAD
    )  # fmt: skip


# Every day all kinds of faults where the query writes down what it leaves out: that has more calls.
LESS = {"stops before", "fails after"}


@pytest.mark.parametrize(
    "strike",
    but(pytest.mark.long, storage_calls.strikes(), lambda strike: strike.name in LESS),
    ids=lambda strike: strike.name,
)
def test_every_storage_call(strike: Strike) -> None:
    require_none_fails(storage_calls.cases_of(ASIDE, strike, range(2)))


def leaving_world() -> QueryWorld:
    world = query_world()
    world.query = LeavingQuery
    return world


LEAVING = Scenario(leaving_world, (Life((SECOND_BATCH_MOVES,)), Life()))


@pytest.mark.slow
@storage_calls.every_strike
def test_every_storage_call_of_a_query_that_writes_down_what_it_leaves_out(strike: Strike) -> None:
    require_none_fails(storage_calls.cases_of(LEAVING, strike, range(2)))


def test_the_state_has_no_record_that_is_a_dead_letter_wherever_a_process_stops() -> None:
    whole = leaving_world()
    check_end(whole.start().run())
    expected, calls = count_state(whole), LEAVING.number_calls()[0]
    assert any(isinstance(each.body, LeaveOut) for each in history(whole.machine))
    for call in calls:
        world = leaving_world()
        world.start([StopProcess(call.number, when="after")]).run()
        last = max(world.checkpoint.offsets, default=-1)
        if last in world.checkpoint.commits:
            world.checkpoint.commits.remove(last)  # it runs again, for its state alone
            del world.checkpoint.state[last]
        check_end(world.start().run())
        assert count_state(world) == expected, f"call {call.number}"


@pytest.mark.slow
@pytest.mark.parametrize("waking", WAKING)
def test_what_a_frozen_process_leaves_out_is_what_the_log_says(waking: str) -> None:
    require_none_fails(frozen_queries(leaving_world, waking))


@pytest.mark.parametrize("waking", but(pytest.mark.long, WAKING, lambda each: each == "wakes"))
def test_a_process_frozen_at_every_call_is_fenced_or_has_nothing_to_do(waking: str) -> None:
    require_none_fails(frozen_queries(aside_world, waking))


def test_lost_letters_are_given_up_by_their_shards() -> None:
    world = aside_world()
    world.start([StopProcess(1, kind="publish", when="before")]).run()
    unclosed = read_log(world.machine, query_job.NAME).unclosed
    require(unclosed is not None, "nothing is unclosed")
    (letters,) = (each for each in places_of(query_job.NAME, unclosed) if "__dead" in each.final)
    world.machine.delete(letters.pending)
    assert find_gone(world.machine, plan_help(world.machine, query_job.NAME)) == 1
    sink = world.start().loop.sink
    lost = open_and_find_lost(Committer(sink.log, world.machine, world.clock))
    assert lost is not None
    count = accept_loss(sink.log, lost, "an operator", "the disk is gone")
    shards = read_log(world.machine, query_job.NAME).shards.values()
    assert count == sum(state.lost for state in shards) > 0


# ---- mutants: each shortcut must be found out


def write_letters_after_the_entry(patch: pytest.MonkeyPatch) -> None:
    """Let the entry name the rows alone."""
    merge = query_sink.merge_rows

    def forgetful(table: str, ranges: object, results: list[TaskResult]) -> Written:
        written = merge(table, ranges, results)
        kept = [file for file in written.files if written.targets[file.target].role is Role.MAIN]
        reads = [replace(each, fetched=0, dead=0, size_bytes=0) for each in written.reads]
        return replace(written, files=tuple(kept), reads=tuple(reads))

    patch.setattr(query_sink, "merge_rows", forgetful)


def land_what_is_left_aside(patch: pytest.MonkeyPatch) -> None:
    """Write the rows of all records, and letters besides."""
    write = query_job.Query._write

    def greedy(self: AsideQuery, begun: BegunBatch, rows: list[RecordedRow]) -> TaskResult:
        everything = [
            RecordedRow(row.stream, row.generation, row.shard, row.offset)
            for row in self._compute(begun.batch)
        ]
        return write(self, begun, everything)

    patch.setattr(query_job.Query, "_write", greedy)


@pytest.mark.parametrize("mutate", [write_letters_after_the_entry, land_what_is_left_aside])
def test_a_mutant_is_found_out(
    mutate: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    strike = Strike("stops after", lambda n: [StopProcess(n, when="after")])
    expected, calls = reference(aside_world()), ASIDE.number_calls()
    mutate(monkeypatch)

    def cases() -> Iterator[Case]:
        for call in calls[0]:
            yield f"call {call.number}", lambda call=call: ASIDE.run_case(strike, 0, call, expected)

    assert next(find_failures(cases()), None) is not None


# ---- a table that goes back


class GoingBackAside(AsideQuery, GoingBack):
    """A query with dead letters that its process takes back first."""


def test_letters_of_a_batch_that_is_taken_back_lie_aside_and_come_again() -> None:
    world = back_world(AsideQuery)
    world.query = GoingBackAside
    before = visible_files(world.machine)
    for life in BACK.lives:
        life.live(world, world.start(life.ends))
    after = visible_files(world.machine)
    assert {path for path in before - after if "__dead" in path}
    assert {path for path in after - before if "__dead" in path}
    check_table(world.machine, check_readers(world.machine), recorded_rows(world.source))
