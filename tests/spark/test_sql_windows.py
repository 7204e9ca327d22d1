"""When windows close, while a query runs on."""

import threading
import time

import pytest
from tests.spark.site import Site
from tests.spark.sql_jobs import (
    PER_MINUTE,
    PER_MINUTE_TABLE,
    START_MS,
    checkpoint,
    clicks,
    encode,
    per_minute,
    planned_times,
    read_only,
    read_per_minute,
    sql_job,
)

from ashore.log.names import SliceName
from ashore.log.store.reader import read_log

SLICE = "ods__per_minute"
INTERVAL_S, WITHIN_S = 20, 90


@pytest.mark.parametrize("close_windows", ["at_once", "next_batch"])
def test_windows_close_within_the_interval_or_after_it(site: Site, close_windows: str) -> None:
    topic = site.topic(1)
    site.produce(topic, encode(clicks(0, 200)))
    sql = {"text": PER_MINUTE, "state_partitions": 2, "close_windows": close_windows}
    batch = {"interval": f"{INTERVAL_S}s"}
    job_file = sql_job(site, "", read_only(topic), PER_MINUTE_TABLE, sql=sql, batch=batch)
    loop = site.writer(job_file).job.loop(until_drained=False)
    runner = threading.Thread(target=loop.run)
    runner.start()
    deadline = time.monotonic() + WITHIN_S
    try:
        while not read_log(site.storage, SliceName("landing", SLICE)).partitions:
            assert time.monotonic() < deadline
            time.sleep(0.2)
    finally:
        loop.stop()
        runner.join(WITHIN_S)
    assert read_per_minute(site) == per_minute(
        clicks(0, 200), watermark_ms=START_MS + 199_000 - 10_000
    )
    read, closed = sorted(planned_times(checkpoint(site, SLICE)).values())[:2]
    is_within = closed // (INTERVAL_S * 1000) == read // (INTERVAL_S * 1000)
    assert is_within or closed - read < INTERVAL_S * 1000 * 0.75 or close_windows == "next_batch"
    assert close_windows == "at_once" or not is_within
    site.prove(job_file)
