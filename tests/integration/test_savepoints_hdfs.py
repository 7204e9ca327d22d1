"""Savepoints on a real HDFS: from a local disk, back to it, and from HDFS to HDFS."""

import shutil
from pathlib import Path
from uuid import uuid4

import pytest
from tests.checkpoint_files import list_paths, unpack

from ashore.base.clock import SystemClock
from ashore.queries.state.savepoints.save import open_shelf
from ashore.queries.tools.addresses import find_checkpoint
from ashore.queries.tools.inspect import inspect
from ashore.queries.tools.savepoints import (
    delete,
    list_directory,
    restore_savepoint,
    take_savepoint,
    verify_savepoint,
)
from ashore.queries.tools.state_rows import RowsOptions, prepare
from ashore_lab.services.hdfs import Hdfs


def silent(_done: int, _total: int) -> None:
    """Show no progress."""


def test_a_checkpoint_goes_to_hdfs_and_comes_back(
    steady_hdfs: Hdfs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HADOOP_CONF_DIR", str(steady_hdfs.conf_dir))
    home, clock = f"{steady_hdfs.uri}/savepoints-{uuid4()}", SystemClock()
    local = unpack("join-3", tmp_path)
    expected = {each: (local / each).read_bytes() for each in list_paths(local)}

    def save(where: str, to: str):
        shelf = open_shelf(to, clock, links=True)
        return take_savepoint(find_checkpoint(where, None, clock), None, shelf, clock, silent)

    there = save(str(local), f"{home}/saved")
    shutil.rmtree(local)
    restore_savepoint(there.savepoint, f"{home}/live", clock, silent, links=True)
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    live = find_checkpoint(f"{home}/live", None, clock)
    asked = prepare(live, RowsOptions(live.uri), scratch, silent).request
    assert (asked.now.place, asked.now.checkpoint.uri) == (live.uri, f"file://{scratch}/now")
    copied = {each: (scratch / "now" / each).read_bytes() for each in list_paths(scratch / "now")}
    state = {each: data for each, data in copied.items() if "_metadata" not in each}
    assert [each for each in state if "/SSTs/" in each]
    assert state.items() <= expected.items()
    assert b"hdfs:" not in b"".join(copied.values())
    assert delete(there.savepoint) == len(there.manifest.files) + 1
    assert list_directory(f"{home}/saved", clock) == []
    again = save(f"{home}/live", f"{home}/saved")
    assert verify_savepoint(again.savepoint, silent) == (again.manifest, [])
    assert (there.linked, again.linked) == (0, 0)
    back = restore_savepoint(again.savepoint, str(local), clock, silent, links=True)

    assert inspect(str(local), None, None, clock).batch == back.manifest.batch == 11
    for path in list_paths(local):
        data = (local / path).read_bytes()
        own = f"file:{local}".encode()
        assert data.replace(own, b"file:/data/golden/join-3") == expected[path]
    metadata = steady_hdfs.uri.encode()
    assert metadata not in b"".join((local / each).read_bytes() for each in list_paths(local))
