"""The picture of crash points, compared with a job that dies at each of them."""

from collections.abc import Callable, Mapping, Sequence

import pytest
from tests.crash.harness import NAME, World, finish, history, reference, walk
from tests.crash.storage_calls import keeper_world
from tools.pictures.crash_points import ROWS

from ashore.log import names
from ashore.log.entries import Prepare
from ashore.storage import Storage
from ashore_lab.testing import Call, ProcessStopped, StopProcess

BATCH = 1  # the second one: of two files, as on the picture


def prepared() -> int:
    """Return the number of the entry that stands for 42."""
    world = keeper_world()
    assert world.start().run() is None
    bodies = {entry.number: entry.body for entry in history(world.machine)}
    (found,) = (
        n for n, body in bodies.items() if isinstance(body, Prepare) and body.batch == BATCH
    )
    assert isinstance(bodies[found - 1], Prepare)
    return found


def is_staged(path: str) -> bool:
    name = names.parse_pending(names.leaf(path))
    return name is not None and name.batch == BATCH


def is_final(path: str) -> bool:
    name = names.parse_final(names.leaf(path))
    return name is not None and name.batch == BATCH


def find_points(calls: Sequence[Call], entry: int) -> Mapping[tuple[str, str], StopProcess]:
    """Return for each row of the picture where its process dies."""

    def first(kind: str, after: int = 0, where: Callable[[str], bool] = lambda _: True) -> int:
        return next(
            call.number
            for call in calls
            if call.number > after and call.kind == kind and where(call.path)
        )

    def created(number: int) -> int:
        return first("create", where=lambda path: path == names.entry_path(NAME, number))

    writes = first("open_write", where=is_staged)
    closed = max(call.number for call in calls[: created(entry)] if call.kind == "close")
    moved = first("publish", created(entry))
    stops = (
        StopProcess(writes, when="before"),
        StopProcess(closed, when="after"),
        StopProcess(created(entry), when="before"),
        StopProcess(created(entry), when="after"),
        StopProcess(moved, when="after"),
        StopProcess(first("sync", first("publish", moved)), when="after"),
        StopProcess(created(entry + 1), when="after"),
    )
    return dict(zip([(row.step, row.where) for row in ROWS], stops, strict=True))


def left_by(machine: Storage, entry: int) -> tuple[int, int, int]:
    paths = list(walk(machine, "ods.db"))
    entries = [each for each in history(machine) if each.number >= entry - 1]
    return sum(map(is_staged, paths)), len(entries), sum(map(is_final, paths))


def killed_at(row_number: int, entry: int) -> World:
    process = keeper_world().start()
    process.run()
    row = ROWS[row_number]
    world = keeper_world()
    stop = find_points(process.faulty.calls, entry)[row.step, row.where]
    assert isinstance(world.start([stop]).run(), ProcessStopped)
    return world


@pytest.mark.parametrize("row_number", range(len(ROWS)), ids=lambda n: f"{ROWS[n].step} {n}")
def test_a_process_that_dies_leaves_what_is_drawn(row_number: int):
    entry, row = prepared(), ROWS[row_number]
    world = killed_at(row_number, entry)
    assert left_by(world.machine, entry) == (row.staged, len(row.log), row.table)
    successor = world.start()
    assert successor.run() is None
    # Above the commit point the same offsets are written again; below it nothing is.
    again = [call for call in successor.faulty.calls if call.kind == "open_write"]
    assert any(is_staged(call.path) for call in again) == (len(row.log) == 1)
    finish(world, reference(keeper_world()))
