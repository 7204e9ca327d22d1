"""The job process with SQL: killed at each step and in an upload, stopped, frozen, taken over."""

import os
import re
import signal
import threading
import time
import zipfile
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

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
    read_only,
    read_per_minute,
    sql_job,
)
from tests.spark.test_processes import LOCAL, ended, is_step, launched, wait_for

from ashore.jobs.events import Landed, WarningEvent
from ashore.jobs.failure import Failed
from ashore.jobs.launch import JobLaunch
from ashore.proof.status.health import DECIDE, Allowed, read_job, worst_ailment
from ashore.topics.open_job import open_job
from ashore_lab.drills.sites.ahead import Ahead

COUNT = 90
STOP_S = 2.0
SLICE = "ods__per_minute"
FIRSTS = """
    INSERT INTO ods.firsts SELECT id, max(country) AS country FROM clicks
    GROUP BY id, window(event_time, '1 second');
"""


def kill_at(launch: JobLaunch, step: str) -> None:
    wait_for(launch, is_step(step))
    launch.kill()
    assert launch.wait() == -signal.SIGKILL


def freeze(launch: JobLaunch) -> None:
    """Stop driver and JVM, and wait until each of their threads stands still."""
    while True:
        os.killpg(launch.pid, signal.SIGSTOP)
        end_s = time.monotonic() + STOP_S
        while time.monotonic() < end_s:
            if all(state in "TZX" for state in states_of_threads(launch.pid)):
                return
            time.sleep(0.01)
        # A thread that starts a program waits until that has begun, and cannot be stopped before:
        # never, where the program is stopped as well.
        os.killpg(launch.pid, signal.SIGCONT)
        time.sleep(0.05)


def states_of_threads(group: int) -> Iterator[str]:
    """Yield what each thread of a process group does, as the kernel writes it: T is stopped."""
    for path in Path("/proc").glob("[0-9]*/task/*/stat"):
        with suppress(FileNotFoundError, ProcessLookupError):
            state, _parent, of_group, *_ = path.read_text().rpartition(")")[2].split()
            if int(of_group) == group:
                yield state


def drain(job_file: Path) -> None:
    with launched(job_file, available_now=True) as launch:
        code, events = ended(launch)
        assert code == 0, (events[-3:], launch.log_path.read_text()[-3000:])


def test_a_query_that_stops_is_reported_in_sentences_and_hides_behind_no_other(site: Site) -> None:
    topic = site.topic(1)
    sql = """
        INSERT INTO ods.numbers SELECT id, CAST(country AS INT) AS number FROM clicks;
        INSERT INTO ods.all SELECT id FROM clicks;
    """
    tables = [read_only(topic), {"table": "ods.numbers"}, {"table": "ods.all"}]
    job_file = sql_job(site, sql, *tables, spark=LOCAL)
    site.produce(topic, encode(clicks(0, 5)))
    with launched(job_file, available_now=True) as launch:
        code, events = ended(launch)
    assert code == 8, events[-3:]
    assert not [each for each in events if "Traceback" in str(each) or "\\n" in str(each)]
    warnings = [each for each in events if isinstance(each, WarningEvent)]
    assert [each.slice for each in warnings] == ["ods__numbers"]  # once: it is not run again
    assert warnings[0].message.startswith("stopped: ")
    assert "CAST_INVALID_INPUT" in warnings[0].message
    landed = [each for each in events if isinstance(each, Landed)]
    assert {each.tables for each in landed} == {("ods.all",)}
    assert isinstance(events[-1], Failed)
    assert (events[-1].code, events[-1].exit_code) == ("query-stopped", 8)
    with open_job(job_file) as opened:
        status, ailments = read_job(opened, Allowed())
    queries = {each.slice: each.query for each in status.slices}
    stopped, other = queries["ods__numbers"], queries["ods__all"]
    assert stopped is not None
    assert stopped.why is not None
    assert "CAST_INVALID_INPUT" in stopped.why
    assert other is not None
    assert (other.why, other.state_bytes) == (None, 0)
    assert worst_ailment(ailments) == DECIDE


# Every day a kill in the moves, in test_sql_hdfs.py, and all calls in memory: tests/crash.
@pytest.mark.long
@pytest.mark.timeout(900)  # up to six starts of Spark
@pytest.mark.parametrize(
    "steps",
    [("prepare", "landed"), ("plan", "write", "prepare", "move", "landed")],
    ids="-".join,
)
def test_killed_at_each_step_of_a_batch_it_counts_once(
    site: Site, ahead: Ahead, steps: tuple[str, ...]
) -> None:
    """The rows are those of one run over the whole input: state and table go on together."""
    topic = site.topic(2)
    job_file = sql_job(site, PER_MINUTE, read_only(topic), PER_MINUTE_TABLE, spark=LOCAL)
    ahead.expect(len(steps))
    for number, step in enumerate(steps):
        part = encode(clicks(number * COUNT, COUNT))
        site.produce(topic, part[::2], 0)
        site.produce(topic, part[1::2], 1)
        launch = ahead.take(job_file)
        ahead.start_next(job_file)
        kill_at(launch, step)
    launch = ahead.take(job_file)
    assert ended(launch)[0] == 0, launch.log_path.read_text()[-3000:]
    total = COUNT * len(steps)
    watermark_ms = START_MS + (total - 1) * 1000 - 10_000
    assert read_per_minute(site) == per_minute(clicks(0, total), watermark_ms=watermark_ms)
    site.prove(job_file)


def tree(root: Path) -> dict[str, tuple[int, bytes]]:
    """Every file below a directory: which file it is, and what it holds."""
    return {
        str(path.relative_to(root)): (path.stat().st_ino, path.read_bytes())
        for path in root.rglob("*")
        if path.is_file()
    }


@pytest.mark.long
def test_a_frozen_owner_that_wakes_disturbs_nothing(site: Site) -> None:
    """Driver and JVM stand still while another takes over; each has a root of its own."""
    topic = site.topic(1)
    job_file = sql_job(site, PER_MINUTE, read_only(topic), PER_MINUTE_TABLE, spark=LOCAL)
    site.produce(topic, encode(clicks(0, 200)))
    with launched(job_file) as launch:
        wait_for(launch, is_step("landed"))
        freeze(launch)
        own = checkpoint(site, SLICE)
        frozen = tree(own)
        site.produce(topic, encode(clicks(200, 200)))
        drain(job_file)
        assert tree(own) == frozen, "what a frozen process may still write is not touched"
        successors = checkpoint(site, SLICE)
        assert successors != own
        before = tree(successors)
        os.killpg(launch.pid, signal.SIGCONT)
        code, events = ended(launch)
        assert code == 3, events[-3:]
    assert tree(successors) == before
    site.produce(topic, encode(clicks(400, 200)))
    drain(job_file)
    assert read_per_minute(site) == per_minute(
        clicks(0, 600), watermark_ms=START_MS + 599_000 - 10_000
    )
    site.prove(job_file)


@pytest.mark.long
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
        wait_for(launch, is_step("idle"))  # else `status` would take the pause for a long step
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


# --- a snapshot of the state ---------------------------------------------------------------------

OFTEN = {
    "spark.sql.streaming.stateStore.minDeltasForSnapshot": "2",
    "spark.sql.streaming.stateStore.maintenanceInterval": "100ms",
}


UPLOAD_S = 240.0  # until one is met; there is one every few batches


@dataclass(frozen=True)
class Store:
    """A state store as its directory shows it."""

    snapshots: list[int]  # versions that there is a snapshot of
    changes: list[int]
    unnamed: set[str]  # tables that no snapshot names: it is not whole yet


def read_store(directory: Path) -> Store:
    names = [each.name for each in directory.iterdir()]
    snapshots = sorted(int(name[:-4]) for name in names if re.fullmatch(r"[0-9]+\.zip", name))
    named: set[str] = set()
    for snapshot in snapshots:
        with zipfile.ZipFile(directory / f"{snapshot}.zip") as archive:
            named |= set(re.findall(r"[\w-]+\.sst", archive.read("metadata").decode()))
    changes = sorted(int(name.split(".")[0]) for name in names if name.endswith(".changelog"))
    tables = {each.name for each in directory.glob("SSTs/*.sst")}
    return Store(snapshots, changes, tables - named if snapshots else set())


def kill_in_an_upload(launch: JobLaunch, root: Path) -> Store:
    """Kill a job when files of a snapshot are there, and not the snapshot that names them."""
    seen: set[Path] = set()
    end_s = time.monotonic() + UPLOAD_S
    while time.monotonic() < end_s:
        time.sleep(0.001)
        found = set(root.glob("state/0/*/SSTs/*.sst"))
        if found == seen:
            continue
        seen = found
        freeze(launch)
        for directory in {each.parent.parent for each in found}:
            store = read_store(directory)
            if store.unnamed:
                launch.kill()
                assert launch.wait() == -signal.SIGKILL
                return store
        os.killpg(launch.pid, signal.SIGCONT)
    raise AssertionError(f"no upload was met: {len(seen)} tables, {launch.log_path.read_text()}")


@pytest.mark.long
@pytest.mark.timeout(600)
def test_killed_while_a_snapshot_uploads_it_goes_on_from_the_older_one(site: Site) -> None:
    """Its state is the snapshot before, and more changelogs."""
    topic = site.topic(1)
    spark = {**LOCAL, "conf": {**LOCAL["conf"], **OFTEN}}
    job_file = sql_job(site, FIRSTS, read_only(topic), {"table": "ods.firsts"}, spark=spark)
    each, stop, commits = 2_000, threading.Event(), checkpoint(site, "ods__firsts") / "commits"
    sent = [0]  # records, all within the watermark of each other

    def send() -> None:
        """Send some for each batch that is done: batch after batch, however slow they are."""
        done = -1
        while not stop.wait(0.05):
            if len(list(commits.glob("[0-9]*"))) > done:
                done = len(list(commits.glob("[0-9]*")))
                part = [
                    (n, country, START_MS + n % 5_000) for n, country, _ in clicks(sent[0], each)
                ]
                site.produce(topic, encode(part))
                sent[0] += each

    with launched(job_file) as launch:
        wait_for(launch, is_step("open"))
        sender = threading.Thread(target=send)
        sender.start()
        try:
            store = kill_in_an_upload(launch, checkpoint(site, "ods__firsts"))
        finally:
            stop.set()
            sender.join()
    assert store.changes[-1] > store.snapshots[-1], "the chain goes on behind the older snapshot"

    drain(job_file)
    # Beyond the watermark, so that all is final; and not so far ahead that it is not believed.
    site.produce(topic, encode(clicks(100_000, 1)))
    drain(job_file)
    ids = [row.id for row in site.read("ods.firsts").select("id").collect()]
    assert sorted(ids) == list(range(sent[0]))
    site.prove(job_file)
