"""A log that has lost its end, or all of it: no record lands twice, whatever was lost.

The job lands three batches in two lives. Then the last entries of its log are deleted, from none
to all, and it is started again: it stops with `log-lost`, or nothing that readers see was lost
with them, and the tables are exact.
"""

from collections.abc import Iterator

import pytest
from tests.crash.harness import (
    NAME,
    TABLES,
    World,
    find_failures,
    finish,
    history,
    memory_world,
    reference,
    require,
    require_none_fails,
    visible_files,
)
from tests.crash.storage_calls import FIRST_LIFE_ENDS, Case

from ashore.errors import LogLost
from ashore.log import names
from ashore.log.entries import Open, Prepare
from ashore.log.lost_end import find_later
from ashore.log.store.reader import read_log
from ashore.log.store.traces import find_traces


def landed_world() -> World:
    """All has landed: a first life that was killed, and a second one."""
    world = memory_world()
    world.start([FIRST_LIFE_ENDS]).run()
    require(world.start().run() is None, "the second life did not end by itself")
    return world


def lose(world: World, keep: int) -> None:
    """Delete the entries of the log from number `keep` on."""
    for entry in history(world.machine)[keep:]:
        world.machine.delete(names.entry_path(NAME, entry.number))


def lost_ends() -> Iterator[Case]:
    expected = reference(memory_world())
    entries = history(landed_world().machine)
    for keep in range(len(entries) + 1):
        lost = entries[keep:]
        is_harmful = any(isinstance(each.body, Prepare) for each in lost)

        def run(keep: int = keep, is_harmful: bool = is_harmful) -> None:
            world = landed_world()
            lose(world, keep)
            before = visible_files(world.machine)
            ended = world.start().run()
            if isinstance(ended, LogLost):
                require(len(history(world.machine)) == keep, "it has appended")
                require(visible_files(world.machine) == before, "it has changed the tables")
                return
            require(not is_harmful, f"it went on without batches that were landed: {ended!r}")
            finish(world, expected)

        kinds = " ".join(each.kind for each in lost)
        yield f"without the last {len(lost)} entries: {kinds}", run


def test_a_job_whose_log_has_lost_its_end_stops_or_is_exact() -> None:
    require_none_fails(lost_ends())


def test_without_the_look_records_land_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ashore.topics.loop.assembly.find_traces", lambda *_: [])
    failures = list(find_failures(lost_ends()))
    assert any("went on without batches" in each for each in failures)


def test_every_epoch_that_has_staged_is_seen() -> None:
    world = landed_world()
    opens = [each for each in history(world.machine) if isinstance(each.body, Open)]
    assert len(opens) == 2
    lose(world, opens[-1].number)
    traces = find_traces(world.machine, NAME, TABLES, listings_max=0)
    assert find_later(read_log(world.machine, NAME), traces)
