"""A repaired copy is whole or no query starts there, whatever call is struck."""

import itertools
from collections.abc import Mapping
from contextlib import suppress

import pytest
from tests.crash.test_checkpoint_attempts import STRIKES
from tests.crash.test_savepoints import EVERY_DAY, at, begun, contents, silent, source
from tests.marks import but

from ashore.errors import CheckpointUnfit, StorageError
from ashore.queries.state.checkpoint import Checkpoint
from ashore.queries.state.diagnosis.diagnose import diagnose
from ashore.queries.state.diagnosis.observe import observe
from ashore.queries.state.diagnosis.repair import plan_repair, write_repair
from ashore.queries.state.files import CheckpointStore
from ashore_lab.testing import FaultyStorage, ProcessStopped

__all__ = ["source"]  # the fixture
SOURCES = 2  # one more than the checkpoint has: the copy's offsets are written anew


def repair(live: Checkpoint, target: Checkpoint) -> None:
    seen = observe(live, SOURCES)
    plan = plan_repair(seen, diagnose(seen))
    assert plan is not None
    write_repair(live, target, plan, silent, lambda: None)


@pytest.mark.parametrize("strike", but(pytest.mark.slow, STRIKES, lambda kind: kind == EVERY_DAY))
def test_whatever_call_of_a_repair_is_struck(strike: str, source: Mapping[str, bytes]) -> None:
    for number in itertools.count(1):
        storage = begun(source)
        faulty = FaultyStorage(storage, [STRIKES[strike](number)])
        is_done = False
        with suppress(StorageError, CheckpointUnfit, ProcessStopped):
            repair(at(faulty, "live"), at(faulty, "copy"))
            is_done = True
        faulty.pending.release()
        faulty.pending.release()

        assert contents(at(storage, "live")) == source
        target = at(storage, "copy")
        found = contents(target)
        if is_done or "metadata" in found:
            assert diagnose(observe(target, SOURCES)) == []
            assert found.keys() == source.keys()
        CheckpointStore(storage, "copy", "").delete_all()
        repair(at(storage, "live"), target)
        assert diagnose(observe(target, SOURCES)) == []
        if not faulty.fired:
            assert number > 20
            return
