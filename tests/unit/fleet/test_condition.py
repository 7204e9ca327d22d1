"""What a job is at, under twelve faults: the page, REST and `ashore jobs` show the same.

The supervisor, the watch and the control plane are those of a server; lakes are in memory, and the
process of each job that lives is this one.
"""

import html
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import psutil
import pytest
from tests.unit.proof.lakes import CLICKS_0, make_lake

from ashore.base.clock import SystemClock
from ashore.base.units import format_duration, format_lag
from ashore.cli.fleet import show_jobs
from ashore.errors import AnswerUnknown
from ashore.fleet.machine.locks import take_lock
from ashore.fleet.machine.processes import Processes
from ashore.fleet.operate.operations import Operations
from ashore.fleet.operate.verbs import Verbs
from ashore.fleet.records.job_files import read_job_file
from ashore.fleet.records.server_files import (
    Desired,
    DesiredState,
    ExitRecord,
    ProcessRecord,
    RetryRecord,
    RunSeen,
    ServerFiles,
    SliceSeen,
    desired_name,
)
from ashore.fleet.records.store import write_record
from ashore.fleet.server.condition import LAG_MS_MAX, JobCondition, Need, judge_condition
from ashore.fleet.server.job_watch import FleetWatch
from ashore.fleet.server.models import JobDocument
from ashore.fleet.server.pages.fleet_page import list_jobs, view_fleet
from ashore.fleet.server.pages.supervision import SupervisedJobs, marks_of
from ashore.fleet.supervise.supervisor import Supervisor
from ashore.log.entries import Commit
from ashore.topics.loop.job import load_job_file
from ashore.topics.open_job import OpenJob
from ashore_lab.testing.simulation import simulated_command, write_simulated_job

MINUTES_5 = 300_000
NAMENODE = "batch 3 failed: no NameNode answers at hdfs://lake:8020"
LAGGING = SliceSeen("main", "running", "write", 0, lag=7, rate=100, rows=50)


@dataclass
class Fault:
    """A fault of a job, and what every view has to show of it."""

    state: str
    needs: tuple[tuple[str, str], ...]  # level, a part of the text
    lag: int | None = None
    lives: bool = True
    desired: DesiredState = DesiredState.RUNNING
    exit_code: int | None = None
    backs_off: bool = False
    is_file_broken: bool = False
    has_file: bool = True
    lake: str = "grown"  # grown | lagging | deaf | away | deleted
    seen: SliceSeen | None = None
    warnings: tuple[str, ...] = ()
    lag_age_ms: int = 0


RETRYING = replace(LAGGING, state="retrying", retrying_since_ms=1)
FAULTS = {
    "healthy": Fault("idle", (), lag=0),
    "between-batches": Fault(
        "running", (), lag=200_000, lag_age_ms=-9_999,
        seen=replace(LAGGING, step="idle", lag=200_000),
    ),
    "stuck": Fault("stuck", (("broken", "records wait"),), lag=2, lake="lagging"),
    "retrying": Fault(
        "retrying",
        (("broken", "no NameNode has"), ("broken", NAMENODE)),
        lag=7,
        lake="away",
        seen=RETRYING,
        warnings=(NAMENODE,),
    ),
    "old-lag": Fault(
        "retrying",
        (("broken", "no NameNode has"), ("broken", NAMENODE)),
        lake="away",
        seen=replace(RETRYING, lag=0),
        warnings=(NAMENODE,),
        lag_age_ms=2 * LAG_MS_MAX,
    ),
    "broken-file": Fault(
        "invalid", (("look", "continues with the file that it was started with"),), lag=0,
        is_file_broken=True, seen=replace(LAGGING, lag=0),
    ),
    "broken-and-stopped": Fault(
        "invalid", (("look", "its file cannot be run"),), lives=False,
        desired=DesiredState.STOPPED, is_file_broken=True,
    ),
    "broken-and-dead": Fault(
        "invalid", (("decide", "its file cannot be run"),), lives=False, is_file_broken=True,
    ),
    "topic-deleted": Fault("idle", (("decide", "topic clicks does not exist"),), lake="deleted"),
    "kafka-away": Fault("idle", (("broken", "lag is not known"),), lake="deaf"),
    "undecided": Fault(
        "needs decision", (("decide", "offsets are gone"),), lag=0, lives=False, exit_code=4
    ),
    "backing-off": Fault(
        "backing off", (("broken", "offsets are gone"),), lag=0, lives=False, exit_code=7,
        backs_off=True,
    ),
    "fenced": Fault("fenced", (("decide", "offsets are gone"),), lag=0, lives=False, exit_code=3),
    "missing": Fault("missing", (("decide", "file is gone"),), lives=False, has_file=False),
    "file-gone": Fault(
        "running", (("look", "file is gone"),), lag=7, has_file=False, seen=LAGGING
    ),
}  # fmt: skip


class Fleet:
    """A server's jobs, one per fault."""

    def __init__(self, directory: Path) -> None:
        self.files = ServerFiles.of(directory)
        self.files.make()
        self.now_ms = SystemClock().now_ms()
        self.locks = [self._write(name, fault) for name, fault in FAULTS.items()]
        processes = Processes(self.files, simulated_command)
        self.supervisor = Supervisor(self.files, processes)
        watch = FleetWatch(directory, opener=self._open, marks=marks_of(self.supervisor))
        operations = Operations(self.files.operations, directory, lambda _files, _lock: [])
        works = (self.supervisor, Verbs(self.files), operations, watch)
        self.plane = SupervisedJobs(self.files, *works)
        self.supervisor.look()
        watch.look()

    def close(self) -> None:
        self.supervisor.end()
        self.plane.close()
        for each in self.locks:
            if each is not None:
                os.close(each)

    def conditions(self) -> dict[str, JobCondition]:
        return {each.name: judge_condition(each) for each in self.plane.jobs()}

    def _write(self, name: str, fault: Fault) -> int | None:
        """Write the files of a job; return the lock of its process, where it has one."""
        if fault.has_file:
            path = write_simulated_job(self.files.jobs, name)
            if fault.is_file_broken:
                path.write_text(path.read_text("utf-8").replace("BIGINT", "BIGNT"), "utf-8")
        run, then_ms = self.files.run_of(name), self.now_ms - MINUTES_5
        run.root.mkdir()
        desired = Desired(fault.desired, 0, 1, "ann", then_ms)
        write_record(self.files.state / desired_name(name), desired)
        if fault.exit_code is not None:
            said = ("offsets-gone", "offsets are gone", "decide it")
            write_record(run.exit, ExitRecord("r", 1, "digest", fault.exit_code, then_ms, *said))
            until_ms = self.now_ms + MINUTES_5 if fault.backs_off else 0
            write_record(run.retry, RetryRecord("r", 2, until_ms))
        if not fault.lives:
            return None
        lock = take_lock(run.lock)
        started_ms = round(psutil.Process().create_time() * 1000)
        digest = read_job_file(self.files.jobs / f"{name}.yaml").digest
        record = ProcessRecord("r", name, 0, 1, os.getpid(), started_ms, digest)
        write_record(run.process, record)
        part = fault.seen or SliceSeen("main", "running", "idle", 0)
        since_ms = then_ms if part.retrying_since_ms else None
        part = replace(part, lag_at_ms=self.now_ms - fault.lag_age_ms, retrying_since_ms=since_ms)
        seen = RunSeen("r", name, self.now_ms, "running", 7, (part,), fault.warnings)
        write_record(run.seen, seen)
        return lock

    @contextmanager
    def _open(self, path: Path) -> Iterator[OpenJob]:
        fault, lake = FAULTS[path.stem], make_lake()
        if fault.is_file_broken:
            load_job_file(path)  # raises what is wrong
        if fault.lake == "away":
            raise AnswerUnknown("no NameNode has answered for 30 s", hint="check the NameNodes")
        lake.append(Commit("idle"))
        if fault.lake == "deleted":
            lake.source.delete("clicks")
        lake.source.is_reachable = fault.lake != "deaf"
        if fault.lake == "lagging":
            lake.source.append(CLICKS_0, b"{}", b"{}")
        yield replace(lake.opened(), clock=SystemClock())


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    made = Fleet(tmp_path_factory.mktemp("fleet"))
    yield made
    made.close()


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_is_judged_once(fleet: Fleet, name: str) -> None:
    fault, found = FAULTS[name], fleet.conditions()[name]
    assert found.state == fault.state, found
    assert found.lag == fault.lag, found
    levels = [(each.word, each.text) for each in found.needs]
    assert [level for level, _ in levels] == [level for level, _ in fault.needs], levels
    for (_, text), (_, part) in zip(levels, fault.needs, strict=True):
        assert part in text
    assert all(each.hint for each in found.needs)
    if fault.lives:
        assert not any("start it" in each.hint for each in found.needs), "it runs"


def test_a_job_that_retries_says_since_when_and_a_lag_that_is_old_is_not_known(
    fleet: Fleet,
) -> None:
    found = fleet.conditions()
    assert found["retrying"].retrying_since_ms == fleet.now_ms - MINUTES_5
    assert found["retrying"].since_ms == found["retrying"].retrying_since_ms
    assert found["old-lag"].lag is None
    assert found["old-lag"].lag_at_ms == fleet.now_ms - 2 * LAG_MS_MAX
    assert format_lag(None, 2 * LAG_MS_MAX) == "unknown for 2.0 min"
    assert (found["kafka-away"].lag, found["kafka-away"].lag_at_ms) == (None, None)


def test_page_rest_and_command_show_the_same(
    fleet: Fleet, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ashore.cli.output.out.width", 100_000)
    seen = fleet.plane.jobs()
    found = {each.name: judge_condition(each) for each in seen}
    page = list_jobs(view_fleet(seen), "/jobs")
    documents = [
        JobDocument.of(view, found[name]).model_dump(mode="json")
        for name, view in fleet.supervisor.views.items()
    ]
    show_jobs(documents, seen[0].seen_ms)
    printed = capsys.readouterr().out
    assert {each["name"] for each in documents} == set(FAULTS)
    for document in documents:
        condition, name = found[document["name"]], document["name"]
        lag_ms = condition.lag_at_ms
        lag = format_lag(condition.lag, None if lag_ms is None else seen[0].seen_ms - lag_ms)
        row = text_of(re.search(rf"<tr data-words=\"{name} .*?</tr>", page, re.DOTALL)[0])
        (line,) = [each for each in printed.splitlines() if each.split()[:1] == [name]]
        shown_lag = document["lag"]
        assert (document["state"], shown_lag) == (condition.state, condition.lag)
        assert condition.state in row
        assert f" {condition.state} " in line
        assert lag in row
        assert lag in line
        if condition.since_ms is not None:
            since = format_duration(max(0, seen[0].seen_ms - condition.since_ms))
            assert f"for {since}" in row
            assert since in line
        assert [need_of(each) for each in condition.needs] == document["needs"]
        for need in condition.needs:
            assert need.text in row
            assert need.hint in row
            assert f"{name}: {need.word}: " in printed
            assert need.text in printed
            assert need.hint in printed


def need_of(need: Need) -> dict[str, str]:
    return {"level": need.word, "subject": need.subject, "text": need.text, "hint": need.hint}


def text_of(row: str) -> str:
    coded = re.sub("</?code>", "`", row)  # a page shows as code what stands between backticks
    return html.unescape(re.sub(r"<[^>]+>", " ", coded))
