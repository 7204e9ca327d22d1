"""A query that is taken back to an earlier batch: its rows are there once, whatever is struck."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import takewhile

import pytest
from tests.crash import storage_calls
from tests.crash.harness import (
    NAME,
    check_end,
    find_failures,
    reference,
    require_none_fails,
    visible_files,
    walk,
)
from tests.crash.query_job import (
    Checkpoint,
    Query,
    QueryBehind,
    QueryWorld,
    count_state,
    query_world,
)
from tests.crash.second_writer import WAKING, frozen_queries
from tests.crash.storage_calls import Case, Life, Scenario, Strike

from ashore.errors import CheckpointUnfit, QueryRefused
from ashore.log import extend as extend_module
from ashore.log.entries import Rollback, Version
from ashore.log.plan_rollback import Wish
from ashore.log.store.committer import Committer
from ashore.log.store.reader import read_history, read_log
from ashore.queries.state import rollback as rollback_module
from ashore.queries.state.rollback import preview_rollback, roll_back
from ashore.storage import Storage
from ashore.topics.loop.worker import Tick
from ashore_lab.testing import StopProcess

WISH = Wish(1, "an operator", "the SQL was wrong")


@dataclass
class Attempts:
    """The one attempt that the world has: what is tried out is the lake."""

    world: "BackWorld"

    def newest(self) -> "Attempts":
        return self

    def read_query_id(self) -> str:
        return self.world.checkpoint.query_id

    def list_finished(self) -> list[int]:
        return sorted(self.world.checkpoint.commits)

    def read_migration(self) -> int:
        return 0

    def cut(self, _epoch: int, batch: int) -> None:
        old = self.world.checkpoint
        self.world.checkpoint = Checkpoint(
            old.query_id,
            old.plan,
            {number: ends for number, ends in old.offsets.items() if number <= batch},
            {number for number in old.commits if number <= batch},
            {number: seen for number, seen in old.state.items() if number <= batch},
        )


class GoingBack(QueryBehind):
    """A query that its process takes back first, unless the log says that it has been."""

    def tick(self) -> Tick:
        storage, world = self.sink.storage, self.world
        if world.is_back:
            return super().tick()
        if not rollbacks_of(storage):
            attempts = Attempts(world)
            committer = Committer(self.sink.log, storage, self.parts.clock)
            roll_back(committer, attempts, WISH)  # type: ignore[arg-type]
        world.is_back = True
        return Tick.LANDED


@dataclass
class BackWorld(QueryWorld):
    """A world whose query is taken back to its first batch."""

    query: type[Query] = GoingBack
    is_back: bool = False  # as somebody has seen it


def rollbacks_of(storage: Storage) -> list[Rollback]:
    return [each.body for each in read_history(storage, NAME) if isinstance(each.body, Rollback)]


def back_world(query: type[Query] = Query) -> BackWorld:
    """A world whose query has landed all that there was."""
    plain = query_world()
    plain.query = query
    check_end(plain.start().run())
    return BackWorld(
        plain.machine,
        plain.source,
        plain.clock,
        seed=plain.seed,
        checkpoint=plain.checkpoint,
    )


# The first process is killed when the first file has gone aside; the second does the rest.
BACK = Scenario(back_world, (Life((StopProcess(1, kind="publish", when="after"),)), Life()))


def test_what_is_withdrawn_lies_aside() -> None:
    world = back_world()
    for life in BACK.lives:
        life.live(world, world.start(life.ends))
    (rollback,) = rollbacks_of(world.machine)
    assert (rollback.query.batch_id, rollback.by, rollback.why) == (1, WISH.by, WISH.why)
    assert rollback.shards
    aside = {path for path in walk(world.machine, "ods.db") if "/_aside-" in path}
    assert len(aside) == len(rollback.files) > 1
    assert not aside & visible_files(world.machine)
    assert count_state(world) == reference(query_world()).rows.total()


def test_a_rollback_takes_no_version_back_and_the_next_one_begins_earlier() -> None:
    world = back_world()
    check_end(world.start().run())
    assert versions_of(world) == [(1, 0)]
    back = back_world()
    back.start(BACK.lives[0].ends).run()
    back.checkpoint.plan = "other"
    back.is_back = True
    check_end(back.start().run())
    assert versions_of(back) == [(1, 0), (2, WISH.batch_id + 1)]


def versions_of(world: BackWorld) -> list[tuple[int, int]]:
    bodies = (each.body for each in read_history(world.machine, NAME))
    return [(each.version, each.batch) for each in bodies if isinstance(each, Version)]


@storage_calls.every_strike
def test_every_storage_call(strike: Strike) -> None:
    require_none_fails(cases(strike))


def cases(strike: Strike) -> Iterator[Case]:
    """Yield the strike at every call, up to where batches are written again: those are like any."""
    for life in range(len(BACK.lives)):
        yield from up_to_writing(storage_calls.cases_of(BACK, strike, [life]))


def up_to_writing(found: Iterator[Case]) -> Iterator[Case]:
    return takewhile(lambda case: ": open_write " not in case[0], found)


@pytest.mark.parametrize("waking", WAKING)
def test_a_process_frozen_at_every_call_is_fenced_or_has_nothing_to_do(waking: str) -> None:
    require_none_fails(up_to_writing(frozen_queries(back_world, waking)))


# ---- mutants


def take_the_log_back_first(patch: pytest.MonkeyPatch) -> None:
    """Cut the attempt after the entry: a kill in between leaves a checkpoint ahead of its table."""
    cut = Attempts.cut
    waiting: list[Callable[[], None]] = []
    patch.setattr(Attempts, "cut", lambda *given: waiting.append(lambda: cut(*given)))
    report = rollback_module._report

    def later(*given):
        while waiting:
            waiting.pop()()
        return report(*given)

    patch.setattr(rollback_module, "_report", later)


def leave_the_files(patch: pytest.MonkeyPatch) -> None:
    """Take offsets back, and leave the files where readers see them."""
    patch.setattr(rollback_module, "plan_rollback", without_files(rollback_module.plan_rollback))


def without_files(plan):
    def careless(*given):
        body = plan(*given)
        return replace(body, files=(), targets=()) if isinstance(body, Rollback) else body

    return careless


def keep_the_offsets(patch: pytest.MonkeyPatch) -> None:
    """Put files aside, and read on where the last batch had ended."""
    fold_rollback = extend_module.fold_rollback

    def careless(fold, body, number):
        return {**fold_rollback(fold, body, number), "shards": fold.shards}

    patch.setattr(extend_module, "fold_rollback", careless)


@pytest.mark.parametrize("mutate", [take_the_log_back_first, leave_the_files, keep_the_offsets])
def test_a_mutant_is_found_out(
    mutate: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    strike = Strike("stops after", lambda n: [StopProcess(n, when="after")])
    struck = list(cases(strike))
    mutate(monkeypatch)
    assert next(find_failures(iter(struck)), None) is not None


# ---- refusals: nothing is appended


@pytest.mark.parametrize(
    ("batch", "kept", "why"),
    [
        pytest.param(4, {2, 3, 4}, "not after batch 4", id="later than the table"),
        pytest.param(1, {2}, "has batches 2 to 2, not batch 1", id="not kept any more"),
        pytest.param(1, set(), "has no batch", id="empty"),
    ],
)
def test_what_cannot_go_back_is_refused(batch: int, kept: set[int], why: str) -> None:
    world = back_world()
    world.checkpoint.commits = kept
    end = read_log(world.machine, NAME).end
    attempts, wish = Attempts(world), Wish(batch, "an operator", "why")
    committer = Committer(world.start().loop.sink.log, world.machine, world.clock)
    with pytest.raises((QueryRefused, CheckpointUnfit), match=why):
        roll_back(committer, attempts, wish)  # type: ignore[arg-type]
    assert read_log(world.machine, NAME).end == end


def test_a_plan_appends_nothing_and_says_what_goes() -> None:
    world = back_world()
    end = read_log(world.machine, NAME).end
    plan = preview_rollback(world.machine, NAME, Attempts(world), WISH)  # type: ignore[arg-type]
    assert (plan.from_batch, plan.to_batch) == (3, 1)
    assert plan.files > 0
    assert plan.rows > 0
    assert read_log(world.machine, NAME).end == end


def test_a_table_that_is_there_already_stays() -> None:
    world = back_world()
    committer = Committer(world.start().loop.sink.log, world.machine, world.clock)
    went = roll_back(committer, Attempts(world), Wish(3, "an operator", "why"))  # type: ignore[arg-type]
    assert (went.from_batch, went.to_batch, went.files) == (3, 3, 0)
    assert rollbacks_of(world.machine) == []
