"""The local storage stopped, and its power cut, at every system call it makes."""

from collections.abc import Callable, Iterator

import pytest

from ashore.errors import PathExists, StorageError, SyncFailed
from ashore.storage import LocalStorage, is_temporary
from ashore.storage.base import Staged
from ashore_lab.testing import (
    DiskFault,
    FailAfterEffect,
    FailBefore,
    FakeClock,
    PowerCutPolicy,
    ProcessStopped,
    SimulatedDisk,
    StopProcess,
)

ROOT = "/data/lake"
CONTENT = b"content" * 100
POLICIES = list(PowerCutPolicy)
Action = Callable[[LocalStorage], None]


@pytest.fixture(params=[True, False], ids=["rename", "links"])
def can_rename(request: pytest.FixtureRequest) -> bool:
    return request.param


def storage_on(disk: SimulatedDisk) -> LocalStorage:
    return LocalStorage(ROOT, disk)


def new_disk(*, can_rename: bool) -> SimulatedDisk:
    return SimulatedDisk(clock=FakeClock(), can_rename=can_rename)


def staged_disk(*, can_rename: bool) -> SimulatedDisk:
    """A disk with one durable pending file."""
    disk = new_disk(can_rename=can_rename)
    storage = storage_on(disk)
    writer = storage.open_write("staging/x")
    writer.write(CONTENT)
    writer.close()
    storage.sync(["staging"])
    return disk


def create(storage: LocalStorage) -> None:
    storage.create("log/1", CONTENT)


def move(storage: LocalStorage) -> None:
    storage.publish(Staged("staging/x"), "t/date=1/y")


def move_durably(storage: LocalStorage) -> None:
    move(storage)
    storage.sync(["staging", "t/date=1"])


def stopped_runs(build: Callable[[], SimulatedDisk], action: Action) -> Iterator[SimulatedDisk]:
    """Yield a disk for each place at which `action` can be stopped."""
    whole = build().restarted()
    action(storage_on(whole))
    assert len(whole.calls) >= 5
    for number in range(1, len(whole.calls) + 1):
        for when in ("before", "after"):
            disk = build().restarted([StopProcess(number, when=when)])
            with pytest.raises(ProcessStopped):
                action(storage_on(disk))
            yield disk


def cuts(disk: SimulatedDisk) -> Iterator[LocalStorage]:
    for policy in POLICIES:
        yield storage_on(disk.power_cut(policy))


def read_or_none(storage: LocalStorage, path: str) -> bytes | None:
    return None if storage.stat(path) is None else storage.read(path)


def test_create_is_all_or_nothing_at_every_system_call(can_rename: bool) -> None:
    seen = set()
    for disk in stopped_runs(lambda: new_disk(can_rename=can_rename), create):
        for storage in (storage_on(disk.restarted()), *cuts(disk)):
            found = read_or_none(storage, "log/1")
            assert found in (None, CONTENT)
            assert all(is_temporary(e.path) for e in storage.list("log") if e.path != "log/1")
            seen.add(found is None)
            if found is None:
                create(storage)
            else:
                with pytest.raises(PathExists):
                    create(storage)
            assert storage.read("log/1") == CONTENT
    assert seen == {True, False}


def test_what_create_has_answered_survives(can_rename: bool) -> None:
    disk = new_disk(can_rename=can_rename)
    create(storage_on(disk))
    for storage in cuts(disk):
        assert storage.read("log/1") == CONTENT
        assert [entry.path for entry in storage.list("log")] == ["log/1"] or not can_rename


def test_create_survives_in_directories_of_a_process_that_was_killed(can_rename: bool) -> None:
    for killed in stopped_runs(lambda: new_disk(can_rename=can_rename), create):
        disk = killed.restarted()
        storage_on(disk).create("log/2", CONTENT)
        for storage in cuts(disk):
            assert storage.read("log/2") == CONTENT


def test_later_syncs_survive_in_new_directories_of_known_ones(can_rename: bool) -> None:
    disk = staged_disk(can_rename=can_rename).restarted()
    storage = storage_on(disk)
    storage.sync(["staging"])
    for batch in (1, 2):
        writer = storage.open_write(f"staging/{batch}/file")
        writer.write(CONTENT)
        writer.close()
        storage.sync([f"staging/{batch}"])
    for after in cuts(disk):
        assert [after.read(f"staging/{batch}/file") for batch in (1, 2)] == [CONTENT, CONTENT]


def test_later_creates_survive_without_looking_upwards() -> None:
    disk = new_disk(can_rename=True)
    storage = storage_on(disk)
    create(storage)
    before = len(disk.calls)
    storage.create("log/2", CONTENT)
    kinds = [call.kind for call in disk.calls[before:]]
    assert kinds == [
        "open_new",
        "write",
        "sync_file",
        "close",
        "rename_noreplace",
        "sync_directory",
    ]
    for after in cuts(disk):
        assert after.read("log/2") == CONTENT


def test_move_never_loses_content_at_any_system_call(can_rename: bool) -> None:
    halfway = 0
    for disk in stopped_runs(lambda: staged_disk(can_rename=can_rename), move_durably):
        for storage in (storage_on(disk.restarted()), *cuts(disk)):
            ends = [read_or_none(storage, path) for path in ("staging/x", "t/date=1/y")]
            assert set(ends) - {None} == {CONTENT}
            halfway += None not in ends
            if ends[0] is not None:
                move_durably(storage)  # also from the state in which both names are one file
            assert storage.stat("staging/x") is None
            assert storage.read("t/date=1/y") == CONTENT
    assert halfway > 0


def test_a_finished_move_survives_once_synced(can_rename: bool) -> None:
    disk = staged_disk(can_rename=can_rename)
    move_durably(storage_on(disk))
    for storage in cuts(disk):
        assert storage.stat("staging/x") is None
        assert storage.read("t/date=1/y") == CONTENT


def test_a_move_without_sync_may_be_undone() -> None:
    disk = staged_disk(can_rename=True)
    move(storage_on(disk))
    undone = storage_on(disk.power_cut(PowerCutPolicy.NOTHING_UNSYNCED))
    assert undone.read("staging/x") == CONTENT
    assert undone.stat("t/date=1/y") is None
    both = storage_on(disk.power_cut(PowerCutPolicy.REMOVALS_LOST))
    assert both.stat("staging/x") is not None
    assert both.stat("t/date=1/y") is not None


def test_a_written_file_survives_only_once_closed_and_synced() -> None:
    disk = new_disk(can_rename=True)
    storage = storage_on(disk)
    writer = storage.open_write("staging/x")
    writer.write(CONTENT)

    open_file = storage_on(disk.power_cut(PowerCutPolicy.NAMES_WITHOUT_CONTENT))
    assert open_file.read("staging/x") == b""
    torn = storage_on(disk.power_cut(PowerCutPolicy.REMOVALS_LOST))
    assert torn.read("staging/x") == CONTENT

    writer.close()
    closed = storage_on(disk.power_cut(PowerCutPolicy.NAMES_WITHOUT_CONTENT))
    assert closed.read("staging/x") == CONTENT
    assert storage_on(disk.power_cut(PowerCutPolicy.NOTHING_UNSYNCED)).list("staging") == []

    storage.sync(["staging"])
    for after in cuts(disk):
        assert after.read("staging/x") == CONTENT


@pytest.mark.parametrize("fault", [FailBefore, FailAfterEffect])
def test_create_with_an_error_at_every_system_call(
    can_rename: bool, fault: type[FailBefore | FailAfterEffect]
) -> None:
    whole = new_disk(can_rename=can_rename)
    create(storage_on(whole))
    for number, call in enumerate(whole.calls, start=1):
        disk = new_disk(can_rename=can_rename).restarted([fault(number)])
        with pytest.raises(StorageError) as caught:
            create(storage_on(disk))
        assert isinstance(caught.value, SyncFailed) == call.kind.startswith("sync_")
        assert disk.open_files == 0 or call.kind in ("open_new", "close")
        storage = storage_on(disk.restarted())
        assert read_or_none(storage, "log/1") in (None, CONTENT)
        left = [entry.path for entry in storage.list("log") if entry.path != "log/1"]
        # Creating the temporary file may have failed after its effect: then nobody knows of it.
        assert left == [] or (call.kind == "open_new" and fault is FailAfterEffect)


@pytest.mark.parametrize("fault", [FailBefore, FailAfterEffect])
def test_move_with_an_error_at_every_system_call(
    can_rename: bool, fault: type[FailBefore | FailAfterEffect]
) -> None:
    whole = staged_disk(can_rename=can_rename).restarted()
    move(storage_on(whole))
    for number in range(1, len(whole.calls) + 1):
        faults: list[DiskFault] = [fault(number)]
        disk = staged_disk(can_rename=can_rename).restarted(faults)
        with pytest.raises(StorageError) as caught:
            move(storage_on(disk))
        assert not isinstance(caught.value, PathExists)
        for storage in (storage_on(disk.restarted()), *cuts(disk)):
            ends = {read_or_none(storage, path) for path in ("staging/x", "t/date=1/y")}
            assert ends - {None} == {CONTENT}


def test_a_failed_sync_is_not_repeated() -> None:
    disk = new_disk(can_rename=True)
    create(storage_on(disk))
    failing = disk.restarted([FailBefore(1, kind="sync_directory")])
    with pytest.raises(SyncFailed):
        storage_on(failing).sync(["log"])
    assert [call.kind for call in failing.calls] == ["sync_directory"]


def test_sync_goes_up_to_the_root_once_each() -> None:
    disk = new_disk(can_rename=True)
    storage = storage_on(disk)
    for path in ("t/date=1/hour=1/x", "t/date=1/hour=2/x"):
        storage.open_write(path).close()
    before = len(disk.calls)
    storage.sync(["t/date=1/hour=1", "t/date=1/hour=2", "t/date=1/hour=1"])
    synced = [call.path for call in disk.calls[before:]]
    assert sorted(synced) == [
        "/",  # once a process: the root may be new
        "/data",
        "/data/lake",
        "/data/lake/t",
        "/data/lake/t/date=1",
        "/data/lake/t/date=1/hour=1",
        "/data/lake/t/date=1/hour=2",
    ]
