"""A cleaning that stops at any call leaves a checkpoint that starts, whatever call is struck."""

import itertools
import shutil
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

import pytest
from tests.checkpoint_files import list_paths, unpack
from tests.crash.test_checkpoint_attempts import STRIKES
from tests.marks import but
from tests.unit.queries.test_garbage import LATER_MS, clean, keep_last, needs

from ashore.errors import StorageError
from ashore.queries.state.checkpoint import Checkpoint
from ashore.queries.state.cleaner import find_garbage
from ashore.queries.state.garbage import Garbage, Unneeded
from ashore.storage import MemoryStorage, Storage
from ashore_lab.testing import FakeClock, FaultyStorage, ProcessStopped

KEPT = 2
CASES = {  # what Spark wrote, and what of it goes beside what goes of each
    "join-3": {Unneeded.OPERATOR, Unneeded.OLD_VERSION, Unneeded.TABLE, Unneeded.CHECKSUM},
    "format-2": {
        *(Unneeded.DEAD_TASK, Unneeded.OLD_VERSION),
        *(Unneeded.TABLE, Unneeded.CHECKSUM),
    },
    "hdfs-backed": {Unneeded.OLD_VERSION, Unneeded.CHECKSUM},
}
OF_EACH = {Unneeded.PARTITION, Unneeded.EMPTY, Unneeded.HALF_MADE}
EVERY_DAY = {("join-3", "stops after"), ("hdfs-backed", "stops before")}
CALLS = [(case, strike) for case in CASES for strike in STRIKES]


def garbage_of(case: str, directory: Path) -> dict[str, bytes]:
    """A checkpoint that was rescaled and has forgotten batches, with a file that is half made."""
    root = unpack(case, directory)
    keep_last(root, KEPT)
    shutil.copytree(root / "state/0/1", root / "state/0/7")
    (root / "state/0/0/.99.changelog.a-b.tmp").write_bytes(b"half")
    if case == "format-2":
        store = next((root / "state/0/0").glob("12_*.changelog"))
        shutil.copy(store, store.with_name("12_dead.changelog"))
    return {path: (root / path).read_bytes() for path in list_paths(root)}


def begun(files: Mapping[str, bytes]) -> MemoryStorage:
    storage = MemoryStorage(FakeClock())
    for path, data in files.items():
        storage.create(f"live/{path}", data)
    return storage


def at(storage: Storage) -> Checkpoint:
    return Checkpoint(storage, "live", "memory:live")


def tree(storage: Storage, directory: str = "live") -> set[str]:
    """All that there is, directories too."""
    listed = storage.list(directory)
    below = [tree(storage, each.path) for each in listed if each.is_directory]
    return {each.path for each in listed}.union(*below)


@pytest.mark.parametrize(
    ("case", "strike"), but(pytest.mark.long, CALLS, lambda *each: each in EVERY_DAY)
)
def test_whatever_call_of_a_cleaning_is_struck_each_kept_batch_has_what_it_needs(
    case: str, strike: str, tmp_path: Path
) -> None:
    files = garbage_of(case, tmp_path)
    whole = begun(files)
    wanted = needs(at(whole))
    whys = {each.why for each in find_garbage(at(whole), LATER_MS) if isinstance(each, Garbage)}
    assert whys == CASES[case] | OF_EACH
    deleted = len(clean(at(whole)))
    for number in itertools.count(1):
        storage = begun(files)
        faulty = FaultyStorage(storage, [STRIKES[strike](number)])
        with suppress(StorageError, ProcessStopped):
            clean(at(faulty))

        assert needs(at(storage)) == wanted
        faulty.pending.release()
        faulty.pending.release()
        assert needs(at(storage)) == wanted
        clean(at(storage))
        assert tree(storage) == tree(whole)
        assert all(storage.read(f"live/{path}") == files[path] for path in shown(storage))
        if not faulty.fired:
            assert number > deleted
            return


def shown(storage: Storage) -> list[str]:
    return [each.path for each in at(storage).list_files()]
