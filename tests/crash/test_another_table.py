"""A query goes on from a savepoint in an empty table: what comes after is there once, no more.

Whatever call is struck, from the first of the command to the end of the last batch; whoever types
the command types it again until it has said that it is done.
"""

import copy
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

import pytest
from tests.crash import storage_calls
from tests.crash.harness import (
    NAME,
    Reference,
    check_end,
    check_table,
    find_failures,
    history,
    ledger,
    partition_rows,
    recorded_rows,
    require_none_fails,
    visible_files,
)
from tests.crash.query_job import Checkpoint, Query, QueryBehind, QueryWorld, count_state
from tests.crash.storage_calls import Case, Life, Scenario, Strike, describe
from tests.crash.test_resume import SAVED, saved_of
from tests.crash.test_rollback import back_world

from ashore.errors import CheckpointUnfit
from ashore.log.entries import Begin, Prepare
from ashore.log.plan_query import CheckpointPosition
from ashore.log.query import PlanState
from ashore.log.store.committer import Committer
from ashore.log.store.reader import read_log
from ashore.queries.state import resume as beginning_module
from ashore.queries.state.resume import Beginning, begin, preview_beginning
from ashore.storage import MemoryStorage
from ashore.topics.loop.worker import Tick
from ashore_lab.testing import RecordedRow, StopProcess


@dataclass
class Attempts:
    """The one attempt that the world has: what is tried out is the lake."""

    world: "EmptyWorld"

    @contextmanager
    def remake(self, _epoch: int) -> Iterator["Attempts"]:
        yield self

    def restore(self, saved: Checkpoint) -> None:
        self.world.checkpoint = copy.deepcopy(saved)

    def list_versions(self) -> list[int]:
        return []

    def read_migration(self) -> int:
        return 0


class Beginner(QueryBehind):
    """A query that is let begin with the savepoint first, until somebody has seen that it does."""

    def tick(self) -> Tick:
        world = self.world
        assert isinstance(world, EmptyWorld)
        if world.has_begun:
            return super().tick()
        committer = Committer(self.sink.log, self.sink.storage, self.parts.clock)
        attempts = Attempts(world)
        with begin(committer, attempts, world.wanted()):  # type: ignore[arg-type]
            attempts.restore(world.saved)
        world.has_begun = True
        return Tick.LANDED


@dataclass
class EmptyWorld(QueryWorld):
    """A world with a savepoint of another one, and an empty lake."""

    query: type[Query] = Beginner
    saved: Checkpoint = field(default_factory=Checkpoint)
    has_begun: bool = False  # as somebody has seen it

    def wanted(self) -> Beginning:
        ends = self.saved.offsets[SAVED].items()
        streams = self.source.describe_streams(self.source.list_streams())
        return Beginning(
            position=CheckpointPosition(self.saved.query_id, SAVED, SAVED),
            ends={(key.source, key.stream, key.shard): offset for key, offset in ends},
            stream_ids={topic: each.stream_id for topic, each in streams.items()},
            lineage=None,
            plan=PlanState("plan", "{}"),
            owner="clicks/ods__old",
            savepoint="/saved/savepoint-1-0000000000000000",
            by="an operator",
            why="the table is moved",
        )

    def rows_to_come(self) -> Counter[RecordedRow]:
        """What the source has after the savepoint."""
        ends = self.wanted().ends
        return Counter(
            row
            for row in recorded_rows(self.source)
            if row.offset >= ends.get(("kafka:result", row.stream, row.shard), 0)
        )


def empty_world() -> EmptyWorld:
    plain = back_world()
    return EmptyWorld(
        MemoryStorage(plain.clock),
        plain.source,
        plain.clock,
        seed=plain.seed,
        checkpoint=Checkpoint(query_id="none"),
        saved=saved_of(plain.checkpoint),
    )


def expected_of(world: EmptyWorld) -> Reference:
    check_end(world.start().run())
    fold, rows = read_log(world.machine, NAME), world.rows_to_come()
    check_table(world.machine, history(world.machine), rows)
    return Reference(rows, ledger(fold), partition_rows(fold))


def test_the_table_gets_what_comes_after_and_the_state_has_seen_all() -> None:
    world = empty_world()
    expected = expected_of(world)
    assert 0 < expected.rows.total() < recorded_rows(world.source).total()
    assert count_state(world) == recorded_rows(world.source).total()
    bodies = [each.body for each in history(world.machine)]
    assert [type(each) for each in bodies].count(Begin) == 1
    batches = [each.query.batch_id for each in bodies if isinstance(each, Prepare) and each.query]
    assert batches == list(range(SAVED + 1, SAVED + 1 + len(batches)))


@storage_calls.every_strike
def test_every_storage_call(strike: Strike) -> None:
    require_none_fails(cases(strike))


def cases(strike: Strike) -> Iterator[Case]:
    """Yield the strike at every call of the command and of all that comes after."""
    ends = (StopProcess(1, kind="publish", when="after"),)
    scenario = Scenario(empty_world, (Life(ends), Life()))
    expected = expected_of(empty_world())
    for life, calls in enumerate(scenario.number_calls()):
        for call in calls:

            def run(life: int = life, call=call) -> None:
                scenario.run_case(strike, life, call, expected)

            yield describe(strike, life, call), run


# ---- mutants


def read_from_the_beginning(patch: pytest.MonkeyPatch) -> None:
    """Let reading begin at the first offset: what the other table has comes once more."""
    plan = beginning_module.plan_begin

    def careless(wanted: Beginning) -> Begin:
        body = plan(wanted)
        return replace(body, shards=tuple(replace(each, first_offset=0) for each in body.shards))

    patch.setattr(beginning_module, "plan_begin", careless)


def begin_twice(patch: pytest.MonkeyPatch) -> None:
    """Never ask whether the log has begun."""
    patch.setattr(beginning_module, "_has_begun", lambda *_: False)


def leave_the_checkpoint(patch: pytest.MonkeyPatch) -> None:
    """Append the entry, and make no attempt of the savepoint."""
    patch.setattr(Attempts, "restore", lambda *_: None)


@pytest.mark.parametrize("mutate", [read_from_the_beginning, begin_twice, leave_the_checkpoint])
def test_a_mutant_is_found_out(
    mutate: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    strike = Strike("stops after", lambda n: [StopProcess(n, when="after")])
    struck = list(cases(strike))
    mutate(monkeypatch)
    assert next(find_failures(iter(struck)), None) is not None


# ---- refusals: nothing is landed


def test_between_the_attempt_and_the_entry_a_start_is_refused_and_lands_nothing() -> None:
    world = empty_world()
    world.checkpoint, world.has_begun = copy.deepcopy(world.saved), True
    ended = world.start().run()
    assert isinstance(ended, CheckpointUnfit)
    assert "--output another-table" in (ended.hint or "")
    assert visible_files(world.machine) == set()
    assert not [each for each in history(world.machine) if isinstance(each.body, Prepare)]


@pytest.mark.parametrize("ticks", [2, 9])
def test_a_log_that_has_landed_something_is_refused(ticks: int) -> None:
    world = empty_world()
    loop = world.start().loop
    for _ in range(ticks):
        loop.tick()
    end = read_log(world.machine, NAME).end
    wanted = world.wanted()
    committer = Committer(world.start().loop.sink.log, world.machine, world.clock)
    begun = begin(committer, Attempts(world), wanted)  # type: ignore[arg-type]
    with pytest.raises(CheckpointUnfit, match="ends with batch"), begun:
        pass
    assert read_log(world.machine, NAME).end == end


def test_another_savepoint_than_it_began_with_is_refused() -> None:
    world = empty_world()
    world.start().loop.tick()
    wanted = world.wanted()
    assert preview_beginning(world.machine, NAME, wanted), "it has begun with this one"
    moved = {place: offset + 1 for place, offset in wanted.ends.items()}
    for other in (
        replace(wanted, ends=moved),
        replace(wanted, lineage="other"),
        replace(wanted, position=CheckpointPosition("query-2", SAVED, SAVED)),
    ):
        with pytest.raises(CheckpointUnfit, match="is not empty"):
            preview_beginning(world.machine, NAME, other)
