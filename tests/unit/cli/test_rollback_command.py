"""`ashore roll-back`, on a lake that a query without Spark has filled."""

import json
from pathlib import Path

import pytest
from tests.crash.harness import checksum_of
from tests.unit.cli.test_commands import invoke

from ashore.log.entries import Commit, Prepare, Query, Rollback
from ashore.log.files import BatchPlace, DataFile, Role, Target
from ashore.log.names import SliceName, checkpoint_directory
from ashore.log.positions import BatchTime
from ashore.log.store.committer import Committer
from ashore.log.store.log import LandingLog, LogContext
from ashore.log.store.reader import read_history, read_log
from ashore.queries.state.attempts import Attempts
from ashore.storage import LocalStorage
from ashore_lab.testing import FakeClock

JOB = """\
job: clicks
lake: file://{lake}
source: {{kafka: {{bootstrap_servers: "127.0.0.1:1"}}}}
batch: {{interval: 10ms}}
tables:
  - {{topic: clicks, table: ods.clicks, schema: "id BIGINT", land: false, on_invalid: drop}}
  - {{table: ods.big, format: jsonl}}
sql: INSERT INTO ods.big SELECT id FROM clicks WHERE id > 10;
"""
NAME = SliceName("clicks", "ods__big")
TARGET = Target("ods.big", Role.MAIN, "", (), "id BIGINT", "jsonl")
BATCHES = 4


@pytest.fixture
def storage(tmp_path: Path) -> LocalStorage:
    """A lake with four batches of one row each, and the checkpoint of three of them."""
    storage, clock = LocalStorage(str(tmp_path / "lake")), FakeClock()
    log = LandingLog(LogContext(storage, clock, lambda: "0" * 16), NAME)
    committer = Committer(log, storage, clock)
    epoch = log.open().epoch
    for number in range(BATCHES):
        content = b'{"id":%d}\n' % number
        file = DataFile(
            0, 0, f"{number:016x}", 1, len(content), checksum_of(content), (), None, None
        )
        writer = storage.open_write(BatchPlace(NAME, epoch, number).place(file, TARGET).pending)
        writer.write(content)
        writer.close()
        query = Query("q", number, f"lineage-{number}")
        log.append(Prepare(number, BatchTime(number), (), (TARGET,), (file,), (), query), None)
        log.append(Commit("query"), committer.finish())
    attempts = attempts_of(storage)
    checkpoint = attempts.take(epoch, is_mine=False)
    storage.create(f"{checkpoint.path}/metadata", b'{"id":"q"}')
    for number in range(1, BATCHES):  # Spark has forgotten the first
        for kind in ("offsets", "commits"):
            storage.create(f"{checkpoint.path}/{kind}/{number}", b"v1\n{}\n")
    return storage


@pytest.fixture
def job_file(tmp_path: Path, storage: LocalStorage) -> Path:
    path = tmp_path / "job.yaml"
    path.write_text(JOB.format(lake=tmp_path / "lake"))
    return path


def attempts_of(storage: LocalStorage) -> Attempts:
    return Attempts(storage, checkpoint_directory(NAME), "")


def ids(storage: LocalStorage) -> list[int]:
    files = [each for each in storage.list("ods.db/big") if each.path.endswith(".jsonl")]
    return sorted(json.loads(storage.read(each.path))["id"] for each in files)


def test_it_shows_what_would_go_and_then_it_goes(job_file: Path, storage: LocalStorage) -> None:
    end = read_log(storage, NAME).end
    code, out, _ = invoke("roll-back", job_file, "ods.big", "--to-batch", 1, "--explain")
    assert code == 0
    assert "would be rolled" in out
    assert "batch 3 to batch 1: 2 rows" in out
    assert read_log(storage, NAME).end == end

    code, out, _ = invoke("roll-back", job_file, "ods.big", "--to-batch", 1, "--why", "wrong")
    assert code == 0
    assert "was rolled back" in out
    assert "batch 3 to batch 1: 2 rows" in out
    assert ids(storage) == [0, 1]
    rollback = next(e.body for e in read_history(storage, NAME) if isinstance(e.body, Rollback))
    assert rollback.why == "wrong"
    newest = attempts_of(storage).newest()
    assert newest is not None
    assert newest.read_position().planned == newest.read_position().committed == 1

    end = read_log(storage, NAME).end
    code, out, _ = invoke("roll-back", job_file, "ods.big", "--to-batch", 1, "--json")
    assert read_log(storage, NAME).end == end, "with nothing to do, no job is taken over"
    assert code == 0
    assert json.loads(out) == {
        "table": "ods.big",
        "from_batch": 1,
        "to_batch": 1,
        "files": 0,
        "rows": 0,
        "done": True,
    }


def test_without_a_batch_the_table_follows_its_checkpoint(
    job_file: Path, storage: LocalStorage
) -> None:
    attempt = attempts_of(storage).attempt(1).path
    for kind in ("offsets", "commits"):
        storage.delete(f"{attempt}/{kind}/3")
    code, out, _ = invoke("roll-back", job_file, "ods.big")
    assert code == 0
    assert "from batch 3 to batch 2" in out
    assert ids(storage) == [0, 1, 2]
    assert "is at batch 2: " in invoke("roll-back", job_file, "ods.big")[1]


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (("ods.bit",), 2, "did you mean `ods.big`?"),
        (("ods.clicks",), 2, "not a sink"),
        (("ods.big", "--to-batch", "0"), 4, "has batches 1 to 3, not batch 0"),
        (("ods.big", "--to-batch", "-1"), 2, "to-batch"),
    ],
)
def test_what_cannot_be_is_reported_and_changes_nothing(
    job_file: Path, storage: LocalStorage, arguments: tuple[str, ...], code: int, said: str
) -> None:
    end = read_log(storage, NAME).end
    found, _, err = invoke("roll-back", job_file, *arguments)
    assert said in err
    assert found == code
    assert read_log(storage, NAME).end == end
    assert ids(storage) == [0, 1, 2, 3]
