"""A rescaled attempt is whole or is not taken, whatever call of it is struck.

Spark's part, the state itself, is written here by copying: it goes to files that nobody looks for
until the attempt is complete.
"""

import itertools
from contextlib import suppress
from pathlib import Path

import pytest
from tests.checkpoint_files import list_paths, unpack
from tests.crash.test_checkpoint_attempts import STRIKES
from tests.marks import but
from tests.unit.queries.test_attempts import attempts_of, files

from ashore.errors import StorageError
from ashore.queries.state.attempts import Attempts
from ashore.queries.state.checkpoint import Checkpoint
from ashore.queries.state.rescaling import commit, finish, lay_out, plan_rescale
from ashore.queries.state.survey import take_survey
from ashore.storage import MemoryStorage, Storage
from ashore_lab.testing import FakeClock, FaultyStorage, ProcessStopped

BATCH, WANTED = 11, 3


@pytest.fixture(scope="module")
def contents(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """A checkpoint that Spark wrote."""
    root = unpack("rocksdb-changelog", tmp_path_factory.mktemp("kept"))
    shown = (each for each in list_paths(root) if not Path(each).name.startswith("."))
    return {each: (root / each).read_bytes() for each in shown}


def begun(storage: Storage, contents: dict[str, bytes]) -> Attempts:
    """A first attempt with these files, whose writer was killed."""
    attempts = attempts_of(storage)
    attempt = attempts.take(1, is_mine=False)
    for path, data in contents.items():
        storage.create(f"{attempt.path}/{path}", data)
    return attempts


def rescale(attempts: Attempts, state: Storage) -> None:
    """Do what `rescale` does. `state`: the storage as Spark sees it."""
    newest = attempts.newest()
    assert newest is not None
    plan = plan_rescale(newest, WANTED)

    with attempts.remake(2, newest) as target:
        lay_out(newest, target, plan)
        for partition in range(WANTED):
            with suppress(FileExistsError):
                state.create(f"{target.path}/state/0/{partition}/{BATCH + 1}.changelog", b"")
        commit(newest, target, BATCH, {})
        finish(newest, target)


def partitions(checkpoint: Checkpoint) -> int | None:
    settings = checkpoint.read_offsets(BATCH).settings
    return settings.partitions if settings else None


@pytest.mark.parametrize(
    "strike", but(pytest.mark.slow, STRIKES, lambda strike: strike == "stops after")
)
def test_whatever_call_of_a_rescale_is_struck_the_job_goes_on_from_a_whole_one(
    strike: str, contents: dict[str, bytes]
) -> None:
    seen = set()
    for number in itertools.count(1):
        storage = MemoryStorage(FakeClock())
        attempts = begun(storage, contents)
        faulty = FaultyStorage(storage, [STRIKES[strike](number)])
        with suppress(StorageError, ProcessStopped):
            rescale(attempts_of(faulty), storage)

        taken = attempts.take(3, is_mine=False)
        faulty.pending.release()
        faulty.pending.release()

        first = attempts.attempt(1)
        assert {each: storage.read(f"{first.path}/{each}") for each in files(first)} == contents
        assert (taken.read_position().planned, taken.read_position().committed) == (BATCH, BATCH)
        assert partitions(taken) in {2, WANTED}
        if partitions(taken) == 2:
            assert take_survey(taken).required.batch == BATCH
        seen.add(partitions(taken))
        if not faulty.fired:
            assert number > 30
            assert partitions(taken) == WANTED
            assert seen == {2, WANTED}
            return
