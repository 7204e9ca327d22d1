"""SIGKILL at moments of a savepoint: the original is as it was, each listed savepoint restores."""

import shutil
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest
from tests.checkpoint_files import list_paths, opened, unpack

from ashore.base.unique import unique
from ashore.queries.state.files import CheckpointStore
from ashore.queries.state.savepoints.restore import restore
from ashore.queries.state.savepoints.store import list_savepoints
from ashore.queries.state.savepoints.sweep import remove_savepoint
from ashore.queries.state.survey import take_survey
from ashore.queries.tools.clean_checkpoint import clean
from ashore.storage import LocalStorage
from ashore_lab.testing import FakeClock

CASE, FIRST, SECOND = "rocksdb-changelog", 8, 10
MOMENTS = {False: 10, True: 50}
FAR_MS = 1 << 42

# Takes a savepoint in a process that kills itself before its storage call of a number.
PROGRAM = """
import itertools, os, signal, sys
from ashore.base.clock import SystemClock
from ashore.queries.state.savepoints.save import open_shelf
from ashore.queries.state.savepoints.save import save
from ashore.queries.tools.addresses import find_checkpoint
from ashore.storage.local import LocalStorage

source, shelf, kind, batch, number = sys.argv[1:]
calls = itertools.count(1)

def killing(call):
    def counted(*arguments):
        if next(calls) == int(number):
            os.kill(os.getpid(), signal.SIGKILL)
        return call(*arguments)
    return counted

for name in ("create", "open_write", "publish", "stat", "list", "read", "delete", "sync", "link"):
    setattr(LocalStorage, name, killing(getattr(LocalStorage, name)))
clock = SystemClock()
to = open_shelf(shelf, clock, links=kind == "full", is_shared=kind == "shared")
save(find_checkpoint(source, None, clock), int(batch), to, clock, lambda done, total: None)
print(next(calls))
"""


def take(source: Path, shelf: Path, kind: str, batch: int, number: int) -> int | None:
    """Return how many calls it took, or None where it was killed."""
    arguments = [str(source), str(shelf), kind, str(batch), str(number)]
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, *arguments], capture_output=True, check=False, text=True
    )
    if done.returncode == -signal.SIGKILL:
        return None
    assert done.returncode == 0, done.stderr
    return int(done.stdout)


def contents(root: Path) -> Mapping[str, bytes]:
    return {path: (root / path).read_bytes() for path in list_paths(root)}


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("many", [False, pytest.param(True, marks=pytest.mark.long)])
@pytest.mark.parametrize("kind", ["full", "shared"])
def test_a_savepoint_that_is_killed_leaves_the_original_and_all_others(
    kind: str, tmp_path: Path, *, many: bool
) -> None:
    root = unpack(CASE, tmp_path / "live")
    before = contents(root)
    needed = {
        batch: {
            each.path: before[each.path] for each in take_survey(opened(root), batch).required.files
        }
        for batch in (FIRST, SECOND)
    }
    storage, uri = LocalStorage(str(tmp_path)), f"{tmp_path.as_uri()}/saved"
    assert take(root, tmp_path / "saved", kind, FIRST, 0) is not None
    shutil.copytree(tmp_path / "saved", tmp_path / "measured")
    calls = take(root, tmp_path / "measured", kind, SECOND, 0)
    assert calls is not None
    killed = 0
    for number in range(1, calls, max(1, calls // MOMENTS[many])):
        killed += take(root, tmp_path / "saved", kind, SECOND, number) is None
        assert contents(root) == before, "the original was changed"
        for each in list_savepoints(CheckpointStore(storage, "saved", uri)):
            if each.manifest is not None:
                target = tmp_path / f"back-{number}-{each.savepoint.unique}"
                restore(each.savepoint, opened(target), FakeClock(), lambda _done, _all: None)
                assert contents(target) == needed[each.manifest.batch]
    assert killed >= MOMENTS[many]
    for each in list_savepoints(CheckpointStore(storage, "saved", uri)):
        remove_savepoint(each.savepoint, unique)
    if kind == "shared":
        clean(str(tmp_path / "saved"), None, 0, FakeClock(FAR_MS), explain=False)
    assert list_paths(tmp_path / "saved") == []
