"""A query that goes on from a savepoint after its checkpoint is lost: its rows are there once.

Whatever call is struck while the savepoint is put in place, and whichever of the two becomes of the
output that was landed since.
"""

import copy
import itertools
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

import pytest
from tests.checkpoint_files import opened, unpack
from tests.crash import storage_calls
from tests.crash.harness import (
    NAME,
    check_end,
    find_failures,
    reference,
    require_none_fails,
)
from tests.crash.query_job import (
    Checkpoint,
    Query,
    QueryBehind,
    QueryWorld,
    count_state,
    query_world,
)
from tests.crash.storage_calls import Case, Life, Scenario, Strike
from tests.crash.test_checkpoint_attempts import STRIKES
from tests.crash.test_rollback import back_world, rollbacks_of, up_to_writing
from tests.marks import but
from tests.unit.queries.test_attempts import attempts_of, files
from tests.unit.queries.test_savepoints import shelf_at, silent

from ashore.errors import CheckpointUnfit, StorageError
from ashore.log.plan_query import CheckpointPosition
from ashore.log.store.committer import Committer
from ashore.log.store.reader import read_log
from ashore.queries.state import resume as resume_module
from ashore.queries.state.later_batches import OutputSince
from ashore.queries.state.resume import Place, Resume, preview_resume, resume
from ashore.queries.state.savepoints.restore import restore
from ashore.queries.state.savepoints.save import save
from ashore.storage import MemoryStorage
from ashore.topics.loop.worker import Tick
from ashore_lab.testing import FakeClock, FaultyStorage, ProcessStopped, StopProcess

SAVED, LAST = 1, 3  # the batch of the savepoint, and that of the table


def saved_of(old: Checkpoint) -> Checkpoint:
    """Return a copy of a checkpoint as it was after a batch."""
    return Checkpoint(
        old.query_id,
        old.plan,
        {number: ends for number, ends in old.offsets.items() if number <= SAVED},
        {number for number in old.commits if number <= SAVED},
        {number: seen for number, seen in old.state.items() if number <= SAVED},
    )


@dataclass
class Attempts:
    """The one attempt that the world has: what is tried out is the lake."""

    world: "LostWorld"

    @contextmanager
    def remake(self, _epoch: int) -> Iterator["Attempts"]:
        yield self


class GoingOn(QueryBehind):
    """A query that is let go on from the savepoint first, until somebody has seen that it does."""

    def tick(self) -> Tick:
        world = self.world
        assert isinstance(world, LostWorld)
        if world.goes_on:
            return super().tick()
        committer = Committer(self.sink.log, self.sink.storage, self.parts.clock)
        resume_at(committer, world, world.wanted())
        world.goes_on = True
        return Tick.LANDED


def resume_at(committer: Committer, world: "LostWorld", wanted: Resume) -> None:
    with resume(committer, Attempts(world), wanted):  # type: ignore[arg-type]
        world.checkpoint = copy.deepcopy(world.saved)


@dataclass
class LostWorld(QueryWorld):
    """A world whose query has landed all there was, and whose checkpoint is gone."""

    query: type[Query] = GoingOn
    saved: Checkpoint = field(default_factory=Checkpoint)
    output: OutputSince | None = None
    goes_on: bool = False  # as somebody has seen it

    def ends(self) -> dict[Place, int]:
        ends = self.saved.offsets[SAVED].items()
        return {(key.source, key.stream, key.shard): offset for key, offset in ends}

    def wanted(self) -> Resume:
        position = CheckpointPosition(self.saved.query_id, SAVED, SAVED)
        return Resume(position, self.ends, self.output, "an operator", "the checkpoint is lost")


def lost_world(output: OutputSince | None) -> LostWorld:
    plain = back_world()
    return LostWorld(
        plain.machine,
        plain.source,
        plain.clock,
        seed=plain.seed,
        checkpoint=Checkpoint(query_id="none"),
        saved=saved_of(plain.checkpoint),
        output=output,
    )


CHOICES = [OutputSince.ROLL_BACK, OutputSince.CATCH_UP]


@pytest.mark.parametrize("output", CHOICES)
def test_state_and_table_are_those_of_one_run(output: OutputSince) -> None:
    world = lost_world(output)
    check_end(world.start().run())
    assert count_state(world) == reference(query_world()).rows.total()
    rollbacks = rollbacks_of(world.machine)
    assert [each.query.batch_id for each in rollbacks] == (
        [SAVED] if output is OutputSince.ROLL_BACK else []
    )


# Every day each kind of fault with one of the two.
BY_ROLL_BACK = {"fails before", "stops before", "hangs, at open"}


def is_everyday(output: OutputSince, strike: Strike) -> bool:
    by_this = (output is OutputSince.ROLL_BACK) == (strike.name in BY_ROLL_BACK)
    return by_this and strike.name in storage_calls.EVERYDAY


@pytest.mark.parametrize(
    ("output", "strike"),
    but(pytest.mark.long, itertools.product(CHOICES, storage_calls.strikes()), is_everyday),
    ids=lambda value: value.name if isinstance(value, Strike) else str(value),
)
def test_every_storage_call(output: OutputSince, strike: Strike) -> None:
    require_none_fails(cases(output, strike))


def cases(output: OutputSince, strike: Strike) -> Iterator[Case]:
    """Yield the strike at every call, up to where batches are written: those are like any."""
    ends = (
        (StopProcess(1, kind="publish", when="after"),) if output is OutputSince.ROLL_BACK else ()
    )
    scenario = Scenario(partial(lost_world, output), (Life(ends), Life()))
    for life in range(len(scenario.lives)):
        yield from up_to_writing(storage_calls.cases_of(scenario, strike, [life]))


# ---- mutants


def forget_the_files(patch: pytest.MonkeyPatch) -> None:
    """Take offsets back, and leave the files where readers see them."""
    plan = resume_module.plan_entry

    def careless(*given):
        body = plan(*given)
        return replace(body, files=(), targets=()) if body is not None else None

    patch.setattr(resume_module, "plan_entry", careless)


def leave_the_log(patch: pytest.MonkeyPatch) -> None:
    """Never finish what the entry says."""
    patch.setattr(Committer, "finish", lambda *_: None)


@pytest.mark.parametrize("mutate", [forget_the_files, leave_the_log])
def test_a_mutant_is_found_out(
    mutate: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    strike = Strike("stops after", lambda n: [StopProcess(n, when="after")])
    struck = list(cases(OutputSince.ROLL_BACK, strike))
    mutate(monkeypatch)
    assert next(find_failures(iter(struck)), None) is not None


# ---- refusals: nothing is appended


def test_without_a_choice_it_is_refused_and_says_what_was_landed() -> None:
    world = lost_world(None)
    end = read_log(world.machine, NAME).end
    committer = Committer(world.start().loop.sink.log, world.machine, world.clock)
    with pytest.raises(CheckpointUnfit, match="in 2 batches, 2 to 3, ") as refused:
        resume_at(committer, world, world.wanted())
    assert refused.value.fields["batches"] == LAST - SAVED
    assert "--output roll-back" in refused.value.hint
    assert read_log(world.machine, NAME).end == end
    rows = refused.value.fields["rows"]
    since = preview_resume(world.machine, NAME, replace(world.wanted(), output=CHOICES[0]))
    assert (since.batch, since.last, since.rows) == (SAVED, LAST, rows)
    assert since.rows > 0


@pytest.mark.parametrize(
    ("query_id", "batch", "said"),
    [
        pytest.param("query-2", SAVED, "that of query", id="of another query"),
        pytest.param("query-1", LAST + 1, "ends with batch", id="ahead of the table"),
    ],
)
def test_a_savepoint_that_is_not_of_the_log_is_refused(
    query_id: str, batch: int, said: str
) -> None:
    world = lost_world(OutputSince.ROLL_BACK)
    end = read_log(world.machine, NAME).end
    wanted = replace(world.wanted(), position=CheckpointPosition(query_id, batch, batch))
    committer = Committer(world.start().loop.sink.log, world.machine, world.clock)
    with pytest.raises(CheckpointUnfit, match=said):
        resume_at(committer, world, wanted)
    assert read_log(world.machine, NAME).end == end


@pytest.mark.parametrize("output", CHOICES)
def test_a_savepoint_from_before_a_rollback_is_refused(output: OutputSince) -> None:
    world = lost_world(output)
    end, plain = read_log(world.machine, NAME).end, world.wanted()
    ends = {place: offset - 1 for place, offset in plain.ends().items()}
    committer = Committer(world.start().loop.sink.log, world.machine, world.clock)
    with pytest.raises(CheckpointUnfit, match="savepoint ends at"):
        resume_at(committer, world, replace(plain, ends=lambda: ends))
    assert read_log(world.machine, NAME).end == end


# ---- the attempt that is made of a savepoint


@pytest.mark.parametrize(
    "strike", but(pytest.mark.slow, STRIKES, lambda strike: strike == "stops after")
)
def test_whatever_call_is_struck_an_attempt_has_all_of_the_savepoint_or_is_not_taken(
    strike: str, tmp_path: Path
) -> None:
    root = unpack("rocksdb-changelog", tmp_path / "kept")
    shelf, clock = shelf_at(tmp_path / "saved", links=False), FakeClock()
    savepoint = save(opened(root), None, shelf, clock, silent).savepoint
    manifest = savepoint.read_manifest()
    for number in itertools.count(1):
        storage = MemoryStorage(FakeClock())
        faulty = FaultyStorage(storage, [STRIKES[strike](number)])
        attempt = attempts_of(faulty).remake(2)
        with suppress(StorageError, CheckpointUnfit, ProcessStopped), attempt as target:
            restore(savepoint, target, clock, silent, links=False)
        faulty.pending.release()
        faulty.pending.release()
        newest = attempts_of(storage).newest()
        if newest is not None:
            assert files(newest) == {each.path for each in manifest.files}
            assert newest.read_position().committed == manifest.batch
        if not faulty.fired:
            assert newest is not None
            assert attempts_of(storage).take(3, is_mine=False) == newest, "it is released"
            assert number > 10
            return
