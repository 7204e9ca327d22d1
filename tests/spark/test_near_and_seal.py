"""When a reader of a metastore sees a partition: strategy `near` against strategy `seal`."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.spark.site import Site, event, table_of

from ashore.base.clock import CLOCK_VARIABLE, SteeredClock, Steering
from ashore.log.progress import Quiet
from ashore.queries.spark.sql.assembly import assembled
from ashore.tables.catalog.hive_client import HiveClient
from ashore.tables.catalog.hive_wire import Address
from ashore.topics.loop.job import load_job_file
from ashore.topics.loop.slice_loop import SliceLoop
from ashore.topics.loop.worker import Tick
from ashore_lab.services.hive import Hive

EIGHT, MINUTE_MS = "date=2020-11-21/hour=08", 60_000
NINE_MS = 1_605_949_200_000  # 09:00 UTC: the hour is over; long ago, so that no clock is ahead
DUE_MS = NINE_MS + 10 * MINUTE_MS  # and `seal.delay` has passed


class Lake:
    """A job in this process whose clock stands where the test says."""

    def __init__(self, site: Site, hive: Hive, strategy: str) -> None:
        self.database = f"seen_{strategy}"
        self.topic = site.topic()
        self.site = site
        self.clock_file = site.directory / "clock.json"
        host, port = hive.uri.removeprefix("thrift://").split(":")
        Steering(0, 0).write(self.clock_file)
        self.clock = SteeredClock(self.clock_file)
        self.client = HiveClient((Address(host, int(port)),), 60, self.clock)
        self.job_file = site.job_file(
            table_of(
                self.topic,
                f"{self.database}.events",
                partition_by=["date", "hour"],
                event_time={"column": "ts"},
            ),
            catalog={"hive": {"uri": hive.uri, "strategy": strategy}},
        )

    @contextmanager
    def running(self) -> Iterator[SliceLoop]:
        job = load_job_file(self.job_file)
        with assembled(job, self.site.spark, Quiet(), self.clock) as found:
            loop = found.slice()
            loop.plan.streams()
            yield loop
        self.client.close()

    def land(self, loop: SliceLoop, now_ms: int) -> None:
        """Let it be `now_ms`, and land a record of that time."""
        Steering(0, now_ms, speed=0).write(self.clock_file)
        self.site.produce(self.topic, [event(now_ms, ts_ms=now_ms)])
        while loop.tick() is not Tick.IDLE:
            pass

    def is_seen(self, table: str = "events", partition: str = EIGHT) -> bool:
        names = (self.database, table, [partition])
        return bool(self.client.call("get_partitions_by_names", *names))


@pytest.mark.thirds("partitions that are told to Hive")
def test_with_near_a_partition_is_seen_long_before_its_hour_is_over(site: Site, hive: Hive) -> None:
    lake = Lake(site, hive, "near")
    with lake.running() as loop:
        lake.land(loop, NINE_MS - 30 * MINUTE_MS)
        assert lake.is_seen()


@pytest.mark.thirds("partitions that are told to Hive")
def test_with_seal_a_partition_is_seen_when_its_hour_and_the_delay_are_over(
    site: Site, hive: Hive
) -> None:
    lake = Lake(site, hive, "seal")
    site.produce(lake.topic, [b"no JSON"])
    with lake.running() as loop:
        lake.land(loop, NINE_MS - 30 * MINUTE_MS)
        assert lake.is_seen("events__dead", "date=2020-11-21")  # it is never sealed
        lake.land(loop, DUE_MS - 1)
        assert not lake.is_seen()
        lake.land(loop, DUE_MS)
        assert lake.is_seen()


@pytest.mark.thirds("partitions that are told to Hive")
def test_a_process_says_whose_clock_it_has(site: Site, tmp_path: Path) -> None:
    job_file = site.job_file(table_of("clicks"))
    run = subprocess.run(
        [sys.executable, "-m", "ashore.queries.spark.main", "run", str(job_file)],
        env={**os.environ, CLOCK_VARIABLE: str(tmp_path / "nowhere.json")},
        input="",
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert run.returncode == 1
    assert '"event": "steered_clock"' in run.stdout
    assert "steers no clock" in run.stdout
