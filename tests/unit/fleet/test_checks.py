"""Texts that anybody may have written: read in a process with limits, and files by their size."""

import asyncio
import os
import pickle
import signal
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import psutil
import pytest
from tests.unit.fleet.conftest import Served, serving_app
from tests.unit.fleet.profile import Entered
from tests.unit.fleet.test_access import form_word, login

from ashore.errors import AshoreError, JobFileInvalid, RequestInvalid, ServerBusy
from ashore.fleet.machine.check_process import PROCESSES, WAITING_MAX, CheckProcesses
from ashore.fleet.operate.verbs import Verbs
from ashore.fleet.records import job_files
from ashore.fleet.records.job_files import BYTES_MAX, read_job_file
from ashore.fleet.records.server_files import ServerFiles
from ashore.fleet.server.pages import job_text, write_routes
from ashore.fleet.server.pages.write_routes import PROBLEMS_MAX
from ashore.jobs.file import document
from ashore.jobs.file import load as config_load
from ashore.jobs.file.load import FILE_BYTES_MAX
from ashore_lab.testing.simulation import write_simulated_job

ROOT = Path(__file__).parents[3]
FLAT = "\n".join(f"k{each}: v" for each in range(200_000))

WITH_SQL = """\
job: clicks
lake: file:///tmp/lake
source: {kafka: {bootstrap_servers: "127.0.0.1:1"}}
tables:
  - {topic: clicks, table: ods.clicks, schema: "id INT"}
  - {table: ods.copied}
sql: {file: x.sql, functions: x.py}
"""


@pytest.fixture
def checks() -> Iterator[CheckProcesses]:
    made = CheckProcesses(check_s=0.5)
    yield made
    made.close()


def test_a_check_that_takes_too_long_is_ended_and_the_next_is_done(checks: CheckProcesses) -> None:
    assert checks.call(len, "first") == 5, "the process has started"
    with pytest.raises(RequestInvalid, match="takes more than"):
        checks.call(time.sleep, 600)
    assert checks.call(len, "second") == 6


def test_a_check_that_takes_too_much_memory_is_refused(checks: CheckProcesses) -> None:
    with pytest.raises(AshoreError, match=r"MemoryError|too much memory"):
        checks.call(bytearray, 4 << 30)
    assert checks.call(len, "next") == 4


def test_an_error_of_a_check_keeps_its_kind_and_hint(checks: CheckProcesses) -> None:
    with pytest.raises(JobFileInvalid) as caught:
        checks.call(job_text.mask_secrets, "password: {")
    assert "ashore validate" in caught.value.hint


def test_more_checks_than_may_wait_are_refused() -> None:
    checks, found = CheckProcesses(), list[str]()

    def ask() -> None:
        try:
            checks.call(time.sleep, 0.3)
            found.append("done")
        except ServerBusy:
            found.append("busy")

    threads = [threading.Thread(target=ask) for _ in range(PROCESSES + WAITING_MAX + 5)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    checks.close()
    assert found.count("done") >= PROCESSES + WAITING_MAX
    assert "busy" in found


def test_no_job_file_is_parsed_where_requests_are_answered(served: Served) -> None:
    """Red where a page parses a text on the event loop, or in any thread of the server."""
    text = (served.files.jobs / "clicks.yaml").read_text()
    token = served.read["authorization"].split()[1]
    with login(served, token) as client:
        cookie, word = client.cookies["ashore_session"], form_word(client)

    async def ask_all() -> list[int]:
        transport = httpx.ASGITransport(app=served.door)
        async with httpx.AsyncClient(
            transport=transport, base_url="http://127.0.0.1", cookies={"ashore_session": cookie}
        ) as client:
            sent = {"csrf": word, "do": "check", "name": "clicks", "text": text}
            answers = [
                await client.get("/ui/write?job=clicks"),
                await client.get("/ui/jobs/clicks/migrate"),
                await client.post("/ui/write", data=sent),
            ]
            assert "can be run" in answers[-1].text
            return [each.status_code for each in answers]

    with Entered() as entered:
        assert asyncio.run(ask_all()) == [200, 200, 200]
    for function in (document.compose, job_text.mask_secrets, write_routes.check_draft):
        assert function.__code__ not in entered.codes, function


def test_no_thread_of_a_server_reads_job_files(tmp_path: Path) -> None:
    """Red where its supervisor, its watch of landing logs or `PUT /api/jobs` loads one itself."""
    jobs = tmp_path / "jobs"
    jobs.mkdir()
    with Entered() as entered, serving_app(jobs) as served:
        text = (jobs / "clicks.yaml").read_text()
        asked = {"file": text.replace("job: clicks", "job: fresh")}
        assert served.ask("PUT", "/api/jobs/fresh", asked).status_code == 200
        deadline_s = time.monotonic() + 30
        while not {"clicks", "fresh"} <= {
            each.name for each in served.app.state.plane.watch.jobs()
        }:
            assert time.monotonic() < deadline_s
            time.sleep(0.1)
        assert served.context.supervisor.views["fresh"].file is not None
        assert served.context.supervisor.views["fresh"].file.job is not None
    assert job_files.read_job_file.__code__ in entered.codes, "its threads were watched"
    assert document.compose.__code__ not in entered.codes
    assert config_load.load_job.__code__ not in entered.codes


def test_a_job_file_that_takes_minutes_is_refused(checks: CheckProcesses, tmp_path: Path) -> None:
    files = ServerFiles.of(tmp_path)
    files.make()
    path = write_simulated_job(tmp_path, "clicks")
    assert checks.load_job(path).job == "clicks"
    path.write_text(FLAT[: BYTES_MAX - 10])
    with pytest.raises(JobFileInvalid, match=r"clicks\.yaml: .* takes more"):
        checks.load_job(path)
    with pytest.raises(JobFileInvalid, match="takes more than"):
        Verbs(files, load=checks.load_job).deploy("large", path.read_text())
    assert not (tmp_path / "large.yaml").exists()
    path.write_text("job: clicks\n")
    with pytest.raises(JobFileInvalid) as caught:
        checks.load_job(path)
    assert caught.value.fields["problems"], "pages list each with its line"


def test_the_end_of_a_server_ends_a_check_that_is_under_way() -> None:
    checks, found = CheckProcesses(), list[AshoreError]()
    assert checks.call(len, "one") == 3, "the process has started"

    def ask() -> None:
        try:
            checks.call(time.sleep, 600)
        except AshoreError as error:
            found.append(error)

    thread = threading.Thread(target=ask)
    thread.start()
    time.sleep(0.2)
    checks.close()
    thread.join(5)
    assert found, "it does not wait for the limit of a check"
    with pytest.raises(ServerBusy, match="shutting down"):
        checks.call(len, "two")


def test_a_check_whose_server_was_killed_ends_by_itself() -> None:
    code = "from ashore.fleet.machine import check_process as c; c.ALONE_S = 1; c.main()"
    with subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE) as process:
        assert process.stdin is not None
        pickle.dump((time.sleep, (600,)), process.stdin)
        process.stdin.close()
        assert process.wait(60) == -signal.SIGALRM


def test_a_text_with_many_problems_is_answered_with_the_first_of_them(served: Served) -> None:
    with login(served, served.read["authorization"].split()[1]) as client:
        fields = {"csrf": form_word(client), "do": "check", "name": "x"}
        found = client.post("/ui/write", data={**fields, "text": FLAT[:5_000]})
        assert f"the first {PROBLEMS_MAX} are listed" in found.text
        assert found.text.count("need-broken") == PROBLEMS_MAX
        found = client.post("/ui/write", data={**fields, "text": FLAT[:300_000]})
        assert "more than 200,000 characters" in found.text, "it is not cut and then checked"


# ---- sizes, before a file is read


def sparse(path: Path, size: int) -> Path:
    """Make a file that is large, and costs no disk."""
    with path.open("wb") as file:
        file.truncate(size)
    return path


@pytest.mark.parametrize("size", [BYTES_MAX + 1, 1 << 40])
@pytest.mark.parametrize("kind", ["job", "sql", "functions"])
def test_files_that_are_too_large_are_not_read(tmp_path: Path, kind: str, size: int) -> None:
    """A file of a TB would take all memory, were it read."""
    path = write_simulated_job(tmp_path, "clicks")
    if kind == "job":
        sparse(path, size)
    else:
        path.write_text(WITH_SQL)
        (tmp_path / "x.sql").write_text("INSERT INTO ods.copied SELECT id FROM clicks")
        (tmp_path / "x.py").write_text("")
        sparse(tmp_path / ("x.sql" if kind == "sql" else "x.py"), size)
    found = read_job_file(path)
    assert found.problem is not None
    told = f"{found.problem.message} {found.problem.hint}"
    assert f"{BYTES_MAX:,}" in told or f"{FILE_BYTES_MAX:,}" in told, told


def test_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    path = write_simulated_job(tmp_path, "clicks")
    path.write_text(path.read_text() + 'sql: {"file": "x.sql"}\n')
    os.mkfifo(tmp_path / "x.sql")
    found = read_job_file(path)
    assert found.problem is not None
    assert "not a file" in found.problem.message


@pytest.mark.slow
def test_a_server_ends_at_once_while_it_reads_a_job_file_that_takes_minutes(tmp_path: Path) -> None:
    write_simulated_job(tmp_path, "clicks")
    (tmp_path / "large.yaml").write_text(FLAT[: BYTES_MAX - 10])
    command = [sys.executable, "-c", "from ashore.cli import main; main()", "serve", str(tmp_path)]
    with subprocess.Popen(
        [*command, "--port", "0"], cwd=ROOT, stderr=subprocess.PIPE, text=True
    ) as server:
        try:
            assert server.stderr is not None
            assert "serving" in server.stderr.readline()
            checking = [each for each in psutil.Process(server.pid).children() if _checks(each)]
            assert checking, "the file is being checked"
            server.send_signal(signal.SIGTERM)
            assert server.wait(30) == 0
            assert not psutil.wait_procs(checking, 5)[1], "no process computes on"
        finally:
            server.kill()


def _checks(process: psutil.Process) -> bool:
    return "check_process" in " ".join(process.cmdline())


# ---- what is written, and where


@pytest.mark.parametrize("mode", [0o600, 0o640, 0o664])
def test_a_job_file_that_is_saved_keeps_its_mode_and_a_new_one_is_private(
    served: Served, mode: int
) -> None:
    path = write_simulated_job(served.files.jobs, "kept")
    path.chmod(mode)
    text = path.read_text()
    assert served.ask("PUT", "/api/jobs/kept", {"file": text}).status_code == 200
    assert stat.S_IMODE(path.stat().st_mode) == mode
    new = text.replace("job: kept", "job: fresh")
    asked = {"file": new, "beside": {"fresh.sql": "SELECT 1"}}
    assert served.ask("PUT", "/api/jobs/fresh", asked).status_code == 200
    for name in ("fresh.yaml", "fresh.sql"):
        assert stat.S_IMODE((served.files.jobs / name).stat().st_mode) == 0o600
    for name in ("kept", "fresh"):
        assert served.ask("DELETE", f"/api/jobs/{name}").status_code == 204


@pytest.mark.parametrize("path", [".ashore", ".ashore/tokens.json", "x/../.ashore/saved"])
def test_no_request_names_the_state_directory(served: Served, path: str) -> None:
    asked = {"to": path}
    answer = served.ask("POST", "/api/jobs/clicks/operations/checkpoint/savepoint", asked)
    assert (answer.status_code, answer.json()["code"]) == (403, "path-not-allowed")
    text = (served.files.jobs / "clicks.yaml").read_text()
    lake = f"file://{served.files.state}/lake"
    lines = [f"lake: {lake}" if each.startswith("lake:") else each for each in text.splitlines()]
    answer = served.ask("PUT", "/api/jobs/clicks", {"file": "\n".join(lines) + "\n"})
    assert (answer.status_code, answer.json()["code"]) == (403, "path-not-allowed"), answer.text
