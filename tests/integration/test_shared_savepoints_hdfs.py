"""Shared savepoints on a real HDFS: a second one copies what is new, and each one comes back."""

import shutil
from pathlib import Path
from uuid import uuid4

import pytest
from tests.checkpoint_files import list_paths, unpack

from ashore.base.clock import SystemClock
from ashore.queries.state.checkpoint import open_directory
from ashore.queries.state.savepoints.save import Saved, open_shelf
from ashore.queries.state.survey import take_survey
from ashore.queries.tools.addresses import find_checkpoint
from ashore.queries.tools.clean_checkpoint import clean
from ashore.queries.tools.savepoints import (
    count_files,
    delete,
    find_savepoint,
    list_directory,
    restore_savepoint,
    take_savepoint,
    verify_savepoint,
)
from ashore_lab.services.hdfs import Hdfs


def silent(_done: int, _total: int) -> None:
    """Show no progress."""


@pytest.mark.long  # every day in memory: tests/crash/test_shared_savepoints.py
def test_each_of_two_comes_back_when_all_else_is_deleted(
    steady_hdfs: Hdfs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HADOOP_CONF_DIR", str(steady_hdfs.conf_dir))
    home, clock = f"{steady_hdfs.uri}/shared-{uuid4()}", SystemClock()
    local = unpack("rocksdb-changelog", tmp_path)

    def take(batch: int, *, is_shared: bool) -> Saved:
        shelf = open_shelf(f"{home}/saved", clock, links=True, is_shared=is_shared)
        found = find_checkpoint(str(local), None, clock)
        return take_savepoint(found, batch, shelf, clock, silent)

    def expected(batch: int) -> dict[str, bytes]:
        files = take_survey(find_checkpoint(str(local), None, clock), batch).required.files
        return {each.path: (local / each.path).read_bytes() for each in files}

    first, second, whole = (
        take(9, is_shared=True),
        take(10, is_shared=True),
        take(10, is_shared=False),
    )
    wanted = {9: expected(9), 10: expected(10)}
    same = wanted[9].items() & wanted[10].items()
    assert (first.shared, {each.path for each in second.shared}) == ((), {path for path, _ in same})
    assert [
        each.manifest and str(each.manifest.kind) for each in list_directory(f"{home}/saved", clock)
    ] == [
        "shared",
        "shared",
        "full",
    ]
    again = take(9, is_shared=True)
    assert len(again.shared) == len(again.manifest.files)
    shutil.rmtree(local)

    def require(saved: Saved) -> None:
        found = find_savepoint(saved.savepoint.uri, clock)
        assert verify_savepoint(found, silent) == (saved.manifest, [])
        back = tmp_path / "back"
        restore_savepoint(found, str(back), clock, silent, links=True)
        assert {path: (back / path).read_bytes() for path in list_paths(back)} == wanted[
            saved.manifest.batch
        ]
        shutil.rmtree(back)

    for saved in (first, again):
        found = find_savepoint(saved.savepoint.uri, clock)
        assert count_files(found) == delete(found)
    require(second)
    require(whole)
    assert clean(f"{home}/saved", None, 0, clock, explain=True).total.files == 0
    delete(find_savepoint(second.savepoint.uri, clock))
    require(whole)
    delete(find_savepoint(whole.savepoint.uri, clock))
    place = open_directory(f"{home}/saved", clock)
    assert [each.path for each in place.storage.list(f"{place.path}/pool")] == []
