"""The auditor beside a job that runs, on a real topic and a local lake."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.kafka_tools import Transaction
from tests.spark.compaction import SETTINGS, produce_compacted
from tests.spark.site import Site, events, table_of

from ashore.log.progress import Quiet
from ashore.proof.audit.auditor import Auditor
from ashore.proof.audit.result import AuditReport, Gauge, Pace
from ashore.proof.evidence.result import ProblemKind
from ashore.topics.open_job import open_job

WAIT_S = 60.0


class Beside(Quiet):
    """Lets the auditor look whenever the job begins a step."""

    def __init__(self, auditor: Auditor) -> None:
        self.auditor = auditor
        self.reports: list[AuditReport] = []

    def step(self, slice_name: str, step: str) -> None:
        self.reports.append(self.auditor.tick())


@pytest.fixture
def topic(site: Site) -> str:
    """A topic with committed and aborted records."""
    topic = site.topic()
    site.produce(topic, events(0, 10))
    with Transaction(site.servers, topic, f"aborted-{topic}") as aborted:
        aborted.send(events(900, 5))
        aborted.abort()
    site.produce(topic, events(10, 10))
    return topic


@pytest.fixture
def job_file(site: Site, topic: str) -> Path:
    return site.job_file(table_of(topic), batch={"interval": "100ms", "max_records": 8})


@pytest.fixture
def beside(job_file: Path) -> Iterator[Beside]:
    with open_job(job_file) as opened:
        yield Beside(Auditor(opened, Pace(1.0)))


def test_a_job_that_runs_raises_no_alarm_and_what_is_done_to_its_files_does(
    site: Site, topic: str, job_file: Path, beside: Beside
) -> None:
    writer = site.writer(job_file, beside)
    writer.loop.open()
    writer.ticks()
    with Transaction(site.servers, topic, f"open-{topic}") as held:
        held.send(events(20, 3))
        site.produce(topic, events(30, 4))
        waiting = beside.auditor.tick()
        assert waiting.gauge == Gauge(lag=0, unaccounted=0, unprovable=0)  # nothing is stable
        held.commit()
    assert beside.auditor.tick().gauge == Gauge(lag=8, unaccounted=0, unprovable=0)
    writer.ticks()
    landed = beside.auditor.tick()
    assert landed.gauge == Gauge(lag=0, unaccounted=0, unprovable=0)
    assert [each.findings for each in (*beside.reports, landed) if each.findings] == []
    assert len(beside.reports) > 10
    site.prove(job_file)

    deleted, cut, flipped = site.files()[:3]
    deleted.unlink()
    os.truncate(cut, cut.stat().st_size - 7)
    with flipped.open("r+b") as file:
        file.seek(10)
        byte = file.read(1)
        file.seek(10)
        file.write(bytes([byte[0] ^ 1]))
    spoiled = beside.auditor.tick()

    kinds = {each.problem.place: each.problem.kind for each in reversed(spoiled.raised)}
    assert kinds == {
        str(deleted.relative_to(site.lake)): ProblemKind.FILE_MISSING,
        str(cut.relative_to(site.lake)): ProblemKind.FILE_SIZE,
        str(flipped.relative_to(site.lake)): ProblemKind.FILE_CHECKSUM,
    }
    assert spoiled.gauge.unaccounted > 0
    assert spoiled.exit_code == 5


def test_compaction_before_and_after_landing_raises_no_alarm(site: Site) -> None:
    topic = site.topic(**SETTINGS)
    number = produce_compacted(site, topic, 0, 200)
    job_file = site.job_file(table_of(topic), batch={"max_records": 60})
    well = Gauge(lag=0, unaccounted=0, unprovable=0)
    with open_job(job_file) as opened:
        auditor = Auditor(opened, Pace(1.0))
        site.writer(job_file).drain()
        assert (auditor.tick().gauge, auditor.tick().findings) == (well, ())

        left = len(site.committed(topic))
        number = produce_compacted(site, topic, number, 200)  # old records go, whose rows are there
        assert len(site.committed(topic)) < left + 200
        site.writer(job_file).drain()
        assert (auditor.tick().gauge, auditor.tick().findings) == (well, ())
        again = Auditor(opened, Pace(1.0)).tick()
    assert (again.gauge, again.findings) == (well, ())
    assert len(site.landed_ids()) < number

    next(iter(site.files())).unlink()
    with open_job(job_file) as opened:
        assert Auditor(opened, Pace(1.0)).tick().exit_code == 5


def test_the_command_tells_of_a_lost_file_and_ends_in_order(
    site: Site, topic: str, job_file: Path
) -> None:
    site.writer(job_file).drain()
    command = [sys.executable, "-c", "from ashore.cli.app import main; main()", "audit"]
    options = [str(job_file), "--continuous", "--interval", "1s", "--json"]
    with subprocess.Popen([*command, *options], stdout=subprocess.PIPE, text=True) as process:
        try:
            reported = (json.loads(line) for line in process.stdout or ())
            first = next(reported)
            assert (first["event"], first["findings"]) == ("looked", 0)
            assert first["gauge"] == {"lag": 0, "unaccounted": 0, "unprovable": 0}
            site.files()[0].unlink()
            raised = next(each for each in reported if each["event"] == "raised")
            assert raised["kind"] == "file_missing"
            looked = next(each for each in reported if each["event"] == "looked")
            assert looked["findings"] > 0
            process.send_signal(signal.SIGINT)
            *_, ended = reported
            assert ended == {"event": "ended", "exit_code": 5}
            assert process.wait(WAIT_S) == 5
        finally:
            process.kill()
