"""The job process with SQL: killed at each step, stopped in order, frozen while another runs."""

import os
import signal
import time
from pathlib import Path

from tests.spark.site import Site
from tests.spark.sql_jobs import (
    PER_MINUTE,
    PER_MINUTE_TABLE,
    START_MS,
    clicks,
    encode,
    per_minute,
    read_only,
    read_per_minute,
    sql_job,
)
from tests.spark.test_processes import LOCAL, ended, is_step, launched, wait_for

COUNT = 90


def kill_at(job_file: Path, step: str) -> None:
    with launched(job_file) as launch:
        wait_for(launch, is_step(step))
        launch.kill()
        assert launch.wait() == -signal.SIGKILL


def drain(job_file: Path) -> None:
    with launched(job_file, available_now=True) as launch:
        code, events = ended(launch)
        assert code == 0, (events[-3:], launch.log_path.read_text()[-3000:])


def test_killed_at_each_step_of_a_batch_it_counts_once(site: Site) -> None:
    """The rows are those of one run over the whole input: state and table go on together."""
    topic = site.topic(2)
    job_file = sql_job(site, PER_MINUTE, read_only(topic), PER_MINUTE_TABLE, spark=LOCAL)
    steps = ("plan", "prepare", "move", "landed")
    for number, step in enumerate(steps):
        part = encode(clicks(number * COUNT, COUNT))
        site.produce(topic, part[::2], 0)
        site.produce(topic, part[1::2], 1)
        kill_at(job_file, step)
    drain(job_file)
    total = COUNT * len(steps)
    watermark_ms = START_MS + (total - 1) * 1000 - 10_000
    assert read_per_minute(site) == per_minute(clicks(0, total), watermark_ms=watermark_ms)
    site.prove(job_file)


def test_a_stop_by_sigterm_is_orderly_and_a_frozen_process_is_fenced(site: Site) -> None:
    topic = site.topic(1)
    job_file = sql_job(site, PER_MINUTE, read_only(topic), PER_MINUTE_TABLE, spark=LOCAL)
    site.produce(topic, encode(clicks(0, 200)))
    with launched(job_file) as launch:
        wait_for(launch, is_step("landed"))
        os.kill(launch.pid, signal.SIGSTOP)  # the driver; its JVM goes on until it needs it
        drain(job_file)
        os.kill(launch.pid, signal.SIGCONT)
        site.produce(topic, encode(clicks(200, 200)))
        code, events = ended(launch)
        assert code == 3, events[-3:]
    with launched(job_file) as launch:
        wait_for(launch, is_step("landed"))
        began_s = time.monotonic()
        launch.stop()
        code, events = ended(launch)
        assert code == 0, events[-3:]
        assert time.monotonic() - began_s < 30
    drain(job_file)
    assert read_per_minute(site) == per_minute(
        clicks(0, 400), watermark_ms=START_MS + 399_000 - 10_000
    )
    site.prove(job_file)
