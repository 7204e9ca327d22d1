"""The disk that forgets: what survives a power cut, and what a policy may drop."""

import pytest

from ashore.errors import InvariantBroken
from ashore_lab.testing import (
    FailAfterEffect,
    FailBefore,
    FakeClock,
    PowerCut,
    PowerCutPolicy,
    ProcessStopped,
    SimulatedDisk,
    StopProcess,
)

NOTHING = PowerCutPolicy.NOTHING_UNSYNCED
NAMES = PowerCutPolicy.NAMES_WITHOUT_CONTENT
LAST = PowerCutPolicy.LAST_NAME_LOST
REMOVALS = PowerCutPolicy.REMOVALS_LOST
POLICIES = list(PowerCutPolicy)


def disk_with_two_directories() -> SimulatedDisk:
    """A disk on which /s with /s/x, and /t, are durable."""
    disk = SimulatedDisk(clock=FakeClock())
    disk.make_directory("/s")
    disk.make_directory("/t")
    write(disk, "/s/x", b"content", is_synced=True)
    disk.sync_directory("/s")
    disk.sync_directory("/")
    return disk


def write(disk: SimulatedDisk, path: str, content: bytes, *, is_synced: bool) -> None:
    descriptor = disk.open_new(path)
    disk.write(descriptor, memoryview(content))
    if is_synced:
        disk.sync_file(descriptor)
    disk.close(descriptor)


def names(disk: SimulatedDisk, *directories: str) -> list[list[str]]:
    return [sorted(disk.list_names(directory)) for directory in directories]


def test_content_is_durable_once_the_file_is_synced() -> None:
    disk = SimulatedDisk()
    descriptor = disk.open_new("/x")
    disk.write(descriptor, memoryview(b"synced"))
    disk.sync_file(descriptor)
    disk.write(descriptor, memoryview(b"-and-torn"))
    disk.sync_directory("/")
    assert disk.power_cut(NOTHING).read("/x", 0, None) == b"synced"
    assert disk.power_cut(NAMES).read("/x", 0, None) == b"synced"
    assert disk.power_cut(LAST).read("/x", 0, None) == b"synced-and"
    assert disk.power_cut(REMOVALS).read("/x", 0, None) == b"synced-and-torn"


def test_a_name_is_durable_once_its_directory_is_synced() -> None:
    disk = SimulatedDisk()
    write(disk, "/x", b"content", is_synced=True)
    assert names(disk.power_cut(NOTHING), "/") == [[]]
    assert names(disk.power_cut(LAST), "/") == [[]]
    assert names(disk.power_cut(NAMES), "/") == [["x"]]
    disk.sync_directory("/")
    for policy in POLICIES:
        assert disk.power_cut(policy).read("/x", 0, None) == b"content"


def test_a_file_is_lost_with_the_name_of_its_directory() -> None:
    disk = SimulatedDisk()
    disk.make_directory("/d")
    write(disk, "/d/x", b"content", is_synced=True)
    disk.sync_directory("/d")
    assert names(disk.power_cut(NOTHING), "/") == [[]]
    disk.sync_directory("/")
    assert disk.power_cut(NOTHING).read("/d/x", 0, None) == b"content"


def test_an_unlink_is_durable_once_its_directory_is_synced() -> None:
    disk = disk_with_two_directories()
    disk.unlink("/s/x")
    assert names(disk, "/s") == [[]]
    assert names(disk.power_cut(NOTHING), "/s") == [["x"]]
    assert names(disk.power_cut(NAMES), "/s") == [[]]
    disk.sync_directory("/s")
    for policy in POLICIES:
        assert names(disk.power_cut(policy), "/s") == [[]]


def test_a_rename_survives_whole_or_on_the_new_side() -> None:
    disk = disk_with_two_directories()
    disk.rename_noreplace("/s/x", "/t/y")
    assert names(disk, "/s", "/t") == [[], ["y"]]
    assert names(disk.power_cut(NOTHING), "/s", "/t") == [["x"], []]
    assert names(disk.power_cut(LAST), "/s", "/t") == [["x"], []]
    assert names(disk.power_cut(NAMES), "/s", "/t") == [[], ["y"]]
    both = disk.power_cut(REMOVALS)
    assert names(both, "/s", "/t") == [["x"], ["y"]]
    assert both.stat("/s/x").inode == both.stat("/t/y").inode
    assert both.stat("/s/x").links == 2

    disk.sync_directory("/t")
    assert names(disk.power_cut(NOTHING), "/s", "/t") == [["x"], ["y"]]
    disk.sync_directory("/s")
    assert names(disk.power_cut(NOTHING), "/s", "/t") == [[], ["y"]]


def test_the_old_name_stays_where_the_new_one_is_lost() -> None:
    disk = disk_with_two_directories()
    disk.rename_noreplace("/s/x", "/t/y")
    disk.unlink("/t/y")
    write(disk, "/s/later", b"", is_synced=True)
    disk.sync_directory("/t")
    assert names(disk.power_cut(LAST), "/s", "/t") == [[], []]

    disk = disk_with_two_directories()
    disk.rename_noreplace("/s/x", "/t/y")
    write(disk, "/s/later", b"", is_synced=True)
    assert names(disk.power_cut(LAST), "/s", "/t") == [["x"], []]


def test_a_rename_within_a_directory_makes_nothing_above_it_durable() -> None:
    disk = SimulatedDisk()
    disk.make_directory("/d")
    write(disk, "/d/x", b"content", is_synced=True)
    disk.rename_noreplace("/d/x", "/d/y")
    disk.sync_directory("/d")
    assert names(disk.power_cut(NOTHING), "/") == [[]]


def test_syncing_the_old_side_of_a_rename_keeps_the_new_one() -> None:
    disk = disk_with_two_directories()
    disk.make_directory("/t/new")
    disk.rename_noreplace("/s/x", "/t/new/y")
    disk.sync_directory("/s")
    for policy in POLICIES:
        assert disk.power_cut(policy).read("/t/new/y", 0, None) == b"content"


def test_a_link_and_an_unlink_may_lose_the_file() -> None:
    """Unlike a rename: that is why a link-move syncs in between."""
    disk = disk_with_two_directories()
    disk.link("/s/x", "/t/y")
    disk.unlink("/s/x")
    disk.sync_directory("/s")
    assert names(disk.power_cut(NOTHING), "/s", "/t") == [[], []]


def test_what_survived_a_power_cut_survives_the_next() -> None:
    disk = disk_with_two_directories()
    disk.rename_noreplace("/s/x", "/t/y")
    after = disk.power_cut(REMOVALS)
    for policy in POLICIES:
        assert names(after.power_cut(policy), "/s", "/t") == [["x"], ["y"]]
    after.unlink("/s/x")
    after.sync_directory("/s")
    assert names(after.power_cut(NOTHING), "/s", "/t") == [[], ["y"]]
    assert after.power_cut(NOTHING).stat("/t/y").links == 1


def test_a_power_cut_leaves_the_disk_it_was_taken_of() -> None:
    disk = disk_with_two_directories()
    write(disk, "/t/z", b"new", is_synced=False)
    disk.power_cut(NOTHING)
    assert disk.read("/t/z", 0, None) == b"new"


def test_a_restart_loses_nothing_and_makes_nothing_durable() -> None:
    disk = SimulatedDisk([StopProcess(5)])
    write(disk, "/x", b"content", is_synced=True)
    with pytest.raises(ProcessStopped):
        disk.sync_directory("/")
    assert disk.is_stopped
    with pytest.raises(ProcessStopped):
        disk.stat("/x")
    restarted = disk.restarted()
    assert restarted.read("/x", 0, None) == b"content"
    assert names(restarted.power_cut(NOTHING), "/") == [[]]


def test_calls_are_numbered_and_fail_where_reported() -> None:
    disk = SimulatedDisk([FailBefore(1), FailAfterEffect(3), PowerCut(1, kind="stat")])
    with pytest.raises(OSError, match="Input/output error"):
        disk.make_directory("/a")
    assert names(disk, "/") == [[]]
    with pytest.raises(OSError, match="Input/output error"):
        disk.make_directory("/a")
    assert names(disk, "/") == [["a"]]
    with pytest.raises(ProcessStopped):
        disk.stat("/a")
    kinds = ["make_directory", "list_names", "make_directory", "list_names", "stat"]
    assert [call.kind for call in disk.calls] == kinds
    assert [call.number for call in disk.calls] == [1, 2, 3, 4, 5]
    assert len(disk.fired) == 3


def test_a_stop_after_a_refused_call_is_a_stop() -> None:
    with pytest.raises(ProcessStopped):
        SimulatedDisk([StopProcess(1, when="after")]).stat("/missing")


def test_calls_that_do_not_exist_are_bugs() -> None:
    with pytest.raises(InvariantBroken):
        SimulatedDisk([FailBefore(1, kind="publish")])


def test_errors_are_those_of_the_system() -> None:
    disk = disk_with_two_directories()
    for error, attempt in (
        (FileNotFoundError, lambda: disk.stat("/a/b")),
        (NotADirectoryError, lambda: disk.stat("/s/x/y")),
        (FileExistsError, lambda: disk.open_new("/s/x")),
        (FileExistsError, lambda: disk.make_directory("/")),
        (FileExistsError, lambda: disk.link("/s/x", "/t")),
        (FileNotFoundError, lambda: disk.rename_noreplace("/s/y", "/t/y")),
        (IsADirectoryError, lambda: disk.read("/s", 0, None)),
        (IsADirectoryError, lambda: disk.unlink("/s")),
        (OSError, lambda: disk.remove_directory("/s")),
        (NotADirectoryError, lambda: disk.remove_directory("/s/x")),
        (NotADirectoryError, lambda: disk.sync_directory("/s/x")),
    ):
        with pytest.raises(error):
            attempt()
