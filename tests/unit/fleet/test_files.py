"""Locks that are files: who holds one, and for how long."""

import errno
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from ashore.fleet.machine.locks import is_locked, take_lock
from ashore.fleet.records.server_files import RetryRecord
from ashore.fleet.records.store import LocalRecords


def test_a_lock_is_held_by_one_and_looking_takes_it_from_nobody(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    assert not is_locked(path)
    assert not path.exists(), "looking makes none"
    handle = take_lock(path)
    assert handle is not None
    assert is_locked(path)
    assert take_lock(path) is None
    os.close(handle)
    assert not is_locked(path)
    again = take_lock(path)
    assert again is not None
    os.close(again)


def test_a_child_holds_the_lock_that_it_was_given_until_it_is_killed(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    handle = take_lock(path)
    assert handle is not None
    with subprocess.Popen(
        [sys.executable, "-S", "-c", "import sys; sys.stdin.read()"],
        stdin=subprocess.PIPE,
        pass_fds=(handle,),
    ) as child:
        os.close(handle)
        assert is_locked(path)
        os.kill(child.pid, signal.SIGKILL)
        child.wait()
    assert not is_locked(path)


def test_who_holds_a_lock_is_seen_on_a_disk_that_is_mounted_read_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, really_open = tmp_path / "lock", os.open
    handle = take_lock(path)
    assert handle is not None

    def open_read_only(name: Any, flags: int, *mode: int) -> int:
        if flags & os.O_RDWR:
            raise OSError(errno.EROFS, os.strerror(errno.EROFS), str(name))
        return really_open(name, flags, *mode)

    monkeypatch.setattr(os, "open", open_read_only)
    assert is_locked(path)
    os.close(handle)
    assert not is_locked(path)


def test_records_are_replaced_listed_and_removed(tmp_path: Path) -> None:
    (tmp_path / "desired").mkdir()
    records, name = LocalRecords(tmp_path), "desired/clicks.json"
    assert (records.mark(name), records.list("nothing")) == ((0, 0, 0), [])
    for failures in (1, 2):
        before = records.mark(name)
        records.replace(name, RetryRecord("r", failures, 0))
        assert records.mark(name) != before
        assert records.read(RetryRecord, name) == RetryRecord("r", failures, 0)
    assert records.list("desired") == ["clicks.json"]
    records.remove(name)
    assert records.read(RetryRecord, name) is None


def test_older_lines_are_moved_aside_and_the_oldest_are_dropped(tmp_path: Path) -> None:
    records = LocalRecords(tmp_path)
    for number in range(5):
        records.append("events.jsonl", {"n": number}, bytes_max=1, kept=2)
    assert list(records.lines("events.jsonl", 1_000)) == [{"n": 4}]
    assert [each["n"] for each in records.lines("events.jsonl", 1_000, older=True)] == [2, 3, 4]
