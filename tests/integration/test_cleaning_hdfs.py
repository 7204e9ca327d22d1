"""Cleaning a checkpoint on a real HDFS: what goes, and how many calls that takes."""

import shutil
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from tests.checkpoint_files import list_paths, opened, unpack
from tests.unit.queries.test_garbage import LATER_MS, clean, found, keep_last, needs

from ashore.base.clock import SystemClock
from ashore.queries.tools.addresses import open_directory
from ashore_lab.services.hdfs import Hdfs

CALLS = ("list", "read", "stat", "delete", "create", "publish")


class Counted:
    """A storage whose calls are counted."""

    def __init__(self, inner: object) -> None:
        self._inner, self.calls = inner, Counter[str]()

    def __getattr__(self, name: str) -> Any:
        if name in CALLS:
            self.calls[name] += 1
        return getattr(self._inner, name)


@pytest.mark.long  # every day on a local disk: tests/unit/queries/test_garbage.py
def test_a_checkpoint_on_hdfs_is_cleaned_with_a_listing_a_directory(
    steady_hdfs: Hdfs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HADOOP_CONF_DIR", str(steady_hdfs.conf_dir))
    root = unpack("join-3", tmp_path)
    keep_last(root, 2)
    shutil.copytree(root / "state/0/1", root / "state/0/9")
    there = open_directory(f"{steady_hdfs.uri}/cleaned-{uuid4()}", SystemClock())

    def upload(path: str) -> None:
        there.storage.create(f"{there.path}/{path}", (root / path).read_bytes())

    with ThreadPoolExecutor(32) as pool:
        list(pool.map(upload, list_paths(root)))
    wanted, kept = found(opened(root)), needs(there)
    counted = Counted(there.storage)
    storage: Any = counted

    assert found(replace(there, storage=storage)) == wanted
    within = {str(each) for path in list_paths(root) for each in Path(path).parents}
    listed = [each for each in within if not each.startswith("sources")]
    # Of each log the newest batch, and the offsets of each kept one, as there are partitions of an
    # old number; what the operator says that stays; a snapshot of each store, which names its
    # tables.
    calls = {"list": len(listed), "read": 1 + 1 + len(kept) + 1 + 2}
    assert counted.calls == calls

    counted.calls.clear()
    gone = clean(replace(there, storage=storage))

    assert sorted(gone) == sorted(wanted)
    assert counted.calls == {**calls, "delete": len(wanted)}
    assert needs(there) == kept
    assert {each.path for each in there.list_files()} == set(list_paths(root)) - set(wanted)
    assert found(there, LATER_MS) == {}
