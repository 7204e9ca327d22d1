"""A log that begins with a savepoint, in `status` and `verify`: nothing before it is claimed."""

import pytest
from tests.unit.jobs.test_sql import SQL_JOB
from tests.unit.jobs.texts import job
from tests.unit.proof.test_queries import NAME, shown

from ashore.jobs.heartbeat import Heartbeat
from ashore.log.entries import Begin, Joined, Prepare, Query, ShardRead
from ashore.log.names import query_source
from ashore.log.plan_query import NO_BATCH
from ashore.log.positions import BatchTime, OffsetRange, ShardKey, StreamShard
from ashore.log.store.log import LandingLog, LogContext
from ashore.log.store.reader import read_history
from ashore.proof.evidence.ledger import LedgerBuilder
from ashore.proof.status.status import JobStatus, read_status
from ashore.proof.verify.job import verify_job
from ashore.storage import MemoryStorage
from ashore.topics.open_job import OpenJob
from ashore_lab.testing import FakeClock, RecordedSource

KEY = ShardKey(query_source(NAME), "clicks", 1, "0")
BATCH, OFFSET = 7, 3


class Begun:
    """A job whose query went on from a savepoint, and has landed nothing yet."""

    def __init__(self) -> None:
        self.clock = FakeClock()
        storage = MemoryStorage(self.clock)
        source = RecordedSource("kafka", self.clock)
        source.create("clicks")
        source.append(StreamShard("clicks", "0"), *(b"{}" for _ in range(9)))
        stream_id = source.describe_streams(["clicks"])["clicks"].stream_id
        self.log = LandingLog(LogContext(storage, self.clock, lambda: "0" * 16), NAME)
        self.log.open()
        body = Begin(
            query=Query("q-1", BATCH, "lineage"),
            shards=(Joined(KEY, stream_id, OFFSET, "savepoint"),),
            digest="",
            document="",
            owner="clicks/ods__old",
            savepoint="/saved/savepoint-7-0000000000000000",
            by="ana",
            why="the table is moved",
        )
        self.log.append(body, None)
        self.opened = OpenJob(job(SQL_JOB), storage, source, self.clock)

    def land(self, start: int, end: int) -> None:
        read = ShardRead(KEY, OffsetRange(start, end), "ods.big", 0, 0, 0, 0, 0, 0, None)
        body = Prepare(0, BatchTime(0), (read,), (), (), (), Query("q-1", BATCH + 1, "next"))
        self.log.append(body, None)

    def status(self) -> JobStatus:
        now_ms = self.clock.now_ms()
        started = ("clicks", "lake", "elsewhere", 1, now_ms, now_ms)
        return read_status(self.opened, Heartbeat(*started, "idle", now_ms, workers=()))


def test_status_says_after_which_batch_the_log_begins(monkeypatch: pytest.MonkeyPatch) -> None:
    begun = Begun()
    (found,) = [each.query for each in begun.status().slices if each.query]
    assert (found.batch_id, found.begins_after) == (NO_BATCH, BATCH), "that batch is not here"
    assert "begins after batch 7, " in shown(begun.status(), monkeypatch)
    begun.land(OFFSET, 5)
    (found,) = [each.query for each in begun.status().slices if each.query]
    assert (found.batch_id, found.begins_after) == (BATCH + 1, BATCH)


def test_verify_asks_for_nothing_before_and_says_so() -> None:
    begun = Begun()
    begun.land(OFFSET, 5)
    result = verify_job(begun.opened)
    assert result.problem_counts == {}
    (note,) = [each for each in result.notes if "begins after batch 7" in each]
    assert "clicks/ods__old: earlier batches were" in note


def test_verify_goes_on_from_where_it_ends() -> None:
    builder = LedgerBuilder()
    for entry in read_history(Begun().opened.storage, NAME):
        builder.take(NAME, entry)
    assert builder.positions() == {KEY: OFFSET}
