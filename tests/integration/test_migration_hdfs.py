"""The crash points of a migration and of its undo again, on a real HDFS: by turns.

The exhaustive suite is `tests/crash/test_migration.py`. Here one call in STEP is struck.
"""

from collections.abc import Callable
from contextlib import suppress
from itertools import count
from pathlib import Path
from uuid import uuid4

import pytest
from tests.crash.test_checkpoint_attempts import STRIKES
from tests.crash.test_migration import (
    apply,
    attempts_of,
    begin_query,
    drop,
    read_contents,
    start,
    undo,
)

from ashore.errors import StorageError
from ashore.storage import Storage, open_storage
from ashore_lab.services.hdfs import Hdfs
from ashore_lab.testing import FaultyStorage, ProcessStopped

STEP = 23
Act = Callable[[Storage, Storage], None]
ACTS: dict[str, tuple[bool, Act]] = {
    "apply": (False, apply),
    "drop": (False, drop),
    "undo": (True, lambda faulty, _whole: undo(faulty)),
}


@pytest.mark.long
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("act", ACTS)
@pytest.mark.parametrize("strike", ["stops after", "answer lost"])
def test_whatever_call_is_struck_one_of_the_two_starts(
    act: str,
    strike: str,
    steady_hdfs: Hdfs,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("HADOOP_CONF_DIR", str(steady_hdfs.conf_dir))
    contents = read_contents(tmp_path)
    is_migrated, play = ACTS[act]
    seen = set()
    for number in count(1, STEP):
        whole = open_storage(f"{steady_hdfs.uri}/migrate-{uuid4()}")
        begin_query(whole, contents)
        if is_migrated:
            apply(whole)
        faulty = FaultyStorage(whole, [STRIKES[strike](number)])
        with suppress(StorageError, ProcessStopped):
            play(faulty, whole)
        assert attempts_of(whole).newest() is not None
        seen.add(start(whole))
        if not faulty.fired:
            assert seen == {"old", "new"}
            return
