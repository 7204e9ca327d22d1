"""Savepoints and restored checkpoints are whole or not there, whatever call is struck."""

import itertools
from collections.abc import Mapping
from contextlib import suppress

import pytest
from tests.checkpoint_files import list_paths, opened, unpack
from tests.crash.test_checkpoint_attempts import STRIKES
from tests.marks import but

from ashore.errors import CheckpointUnfit, StorageError
from ashore.queries.state.checkpoint import Checkpoint
from ashore.queries.state.files import CheckpointStore
from ashore.queries.state.savepoints.restore import restore
from ashore.queries.state.savepoints.save import Shelf, save
from ashore.queries.state.savepoints.store import (
    Savepoint,
    delete_savepoint,
    list_savepoints,
)
from ashore.queries.state.survey import take_survey
from ashore.storage import MemoryStorage, Storage
from ashore_lab.testing import FakeClock, FaultyStorage, ProcessStopped

BATCH = 0  # with one change and no snapshot: seven files
EVERY_DAY = "stops before"
UNIQUE = "0123456789abcdef"


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, bytes]:
    """The files that a batch needs of a checkpoint that Spark wrote."""
    root = unpack("no-keys", tmp_path_factory.mktemp("whole"))
    needed = {each.path for each in take_survey(opened(root), BATCH).required.files}
    return {path: (root / path).read_bytes() for path in list_paths(root) if path in needed}


def begun(source: Mapping[str, bytes]) -> MemoryStorage:
    storage = MemoryStorage(FakeClock())
    for path, data in source.items():
        storage.create(f"live/{path}", data)
    return storage


def at(storage: Storage, path: str) -> Checkpoint:
    return Checkpoint(storage, path, f"memory:{path}")


def shelf_in(storage: Storage) -> Shelf:
    return Shelf(storage, "saved", "memory:saved", lambda: UNIQUE)


def silent(_done: int, _total: int) -> None:
    """Show no progress."""


def contents(checkpoint: Checkpoint) -> dict[str, bytes]:
    return {
        each.path: checkpoint.storage.read(f"{checkpoint.path}/{each.path}")
        for each in checkpoint.list_files()
    }


def require_whole(savepoint: Savepoint, source: Mapping[str, bytes], number: int) -> None:
    target = at(MemoryStorage(FakeClock()), f"back-{number}")
    restore(savepoint, target, FakeClock(), silent)
    assert contents(target) == source


@pytest.mark.parametrize("strike", but(pytest.mark.slow, STRIKES, lambda kind: kind == EVERY_DAY))
def test_whatever_call_of_a_savepoint_is_struck(strike: str, source: Mapping[str, bytes]) -> None:
    for number in itertools.count(1):
        storage = begun(source)
        faulty = FaultyStorage(storage, [STRIKES[strike](number)])
        saved = None
        with suppress(StorageError, CheckpointUnfit, ProcessStopped):
            saved = save(at(faulty, "live"), BATCH, shelf_in(faulty), FakeClock(), silent)
        faulty.pending.release()
        faulty.pending.release()

        assert contents(at(storage, "live")) == source
        listed = list_savepoints(CheckpointStore(storage, "saved", "memory:saved"))
        complete = [each.savepoint for each in listed if each.manifest is not None]
        assert len(complete) == 1 or saved is None
        for each in complete:
            require_whole(each, source, number)
        for each in listed:
            delete_savepoint(each.savepoint)
        assert list_savepoints(CheckpointStore(storage, "saved", "memory:saved")) == []
        again = save(at(storage, "live"), BATCH, shelf_in(storage), FakeClock(), silent)
        require_whole(again.savepoint, source, number)
        if not faulty.fired:
            assert number > 40
            return


@pytest.mark.parametrize("strike", but(pytest.mark.slow, STRIKES, lambda kind: kind == EVERY_DAY))
def test_whatever_call_of_a_restore_is_struck(strike: str, source: Mapping[str, bytes]) -> None:
    for number in itertools.count(1):
        storage = begun(source)
        savepoint = save(
            at(storage, "live"), BATCH, shelf_in(storage), FakeClock(), silent
        ).savepoint
        faulty = FaultyStorage(storage, [STRIKES[strike](number)])
        struck = Savepoint(faulty, savepoint.path, savepoint.uri)
        target, is_done = at(storage, "back"), False
        with suppress(StorageError, CheckpointUnfit, ProcessStopped):
            restore(struck, at(faulty, "back"), FakeClock(), silent)
            is_done = True
        faulty.pending.release()
        faulty.pending.release()

        found = contents(target)
        assert found == source or "metadata" not in found
        assert found == source or not is_done
        require_whole(savepoint, source, number)
        CheckpointStore(storage, "back", "").delete_all()
        restore(savepoint, target, FakeClock(), silent)
        assert contents(target) == source
        if not faulty.fired:
            assert number > 40
            return
