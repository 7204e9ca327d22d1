"""A server over simulated jobs, on a port of this machine, for the tests of this folder."""

import json
import os
import signal
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest
import uvicorn
from fastapi import FastAPI

from ashore.base.clock import SystemClock
from ashore.fleet.access.guard import RequestAccess, TrustedProxy, names_of
from ashore.fleet.access.tokens import TokenFile
from ashore.fleet.machine.check_process import CheckProcesses
from ashore.fleet.machine.processes import Processes
from ashore.fleet.operate.operations import Operations
from ashore.fleet.operate.roots import Roots
from ashore.fleet.operate.verbs import Verbs
from ashore.fleet.records.index import Index
from ashore.fleet.records.job_files import JobFiles
from ashore.fleet.records.journal import Journal
from ashore.fleet.records.server_files import ServerFiles
from ashore.fleet.server.context import Context
from ashore.fleet.server.doorway import ClientConnection, Doorway
from ashore.fleet.server.serve import create_app
from ashore.fleet.supervise.supervisor import Supervisor
from ashore_lab.testing.simulation import simulated_command, write_simulated_job


def tokens_of(file: TokenFile) -> dict[str, str]:
    """Return the tokens that the first start has made, by role."""
    file.open()
    found = json.loads(file.path.read_text("utf-8"))["tokens"]
    return {each["role"]: each["token"] for each in found}


def bearer(token: str) -> dict[str, str]:
    """Return the header that a token is sent in."""
    return {"authorization": f"Bearer {token}"}


@dataclass
class Served:
    """A server on a port of this machine."""

    client: httpx.Client
    files: ServerFiles
    context: Context
    app: FastAPI
    door: Doorway
    operate: dict[str, str]
    read: dict[str, str]

    def ask(self, method: str, path: str, body: Any = None) -> httpx.Response:
        return self.client.request(method, path, json=body, headers=self.operate)


class _QuietServer(uvicorn.Server):
    def install_signal_handlers(self) -> None:
        """Leave signals to pytest."""


def nothing(_files: object, _lock: int) -> list[str]:
    """Stand for an operation: it ends at once and leaves no exit code."""
    return ["/bin/true"]


@contextmanager
def serving_app(
    jobs: Path,
    *,
    is_open: bool = False,
    hosts: Sequence[str] = (),
    proxy: TrustedProxy | None = None,
) -> Iterator[Served]:
    """Serve a directory with two simulated jobs as `ashore serve` does, in this process."""
    files = ServerFiles.of(jobs)
    files.make()
    for name in ("clicks", "orders"):
        write_simulated_job(jobs, name)
    tokens, index = TokenFile(files.tokens), Index(files)
    by_role = tokens_of(tokens)
    index.open()
    journal, roots = Journal(files, [index.add]), Roots(jobs, closed=(files.state,))
    supervisor = Supervisor(files, Processes(files, simulated_command), report=journal.take)
    checks = CheckProcesses()
    supervisor.job_files = JobFiles(files.jobs, checks.load_job)
    verbs = Verbs(
        files,
        check=lambda job: roots.check_job(job, supervisor.lakes()),
        load=partial(checks.load_job, is_patient=False),
    )
    operations = Operations(files.operations, jobs, nothing)
    access = RequestAccess(tokens, is_open, names_of("127.0.0.1"), frozenset(hosts), proxy)
    works = (supervisor, verbs, operations, journal, None, index)
    context = Context(files, *works, roots, access, SystemClock(), checks)
    app = create_app(context)
    door = Doorway(app, access, files, context.clock)
    supervisor.start()
    config = uvicorn.Config(
        door,
        port=0,
        log_level="critical",
        timeout_graceful_shutdown=1,
        http=ClientConnection,
        proxy_headers=False,
    )
    server = _QuietServer(config)
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    while not server.started:
        time.sleep(0.01)
    port = server.servers[0].sockets[0].getsockname()[1]
    headers = {role: bearer(token) for role, token in by_role.items()}
    try:
        with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=60) as client:
            yield Served(client, files, context, app, door, headers["operate"], headers["read"])
    finally:
        server.should_exit = True
        thread.join()
        supervisor.end()
        checks.close()
        index.close()
        for view in supervisor.views.values():
            if view.process is not None and psutil.pid_exists(view.process.pid):
                os.kill(view.process.pid, signal.SIGKILL)


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    jobs = tmp_path_factory.mktemp("served") / "jobs"
    jobs.mkdir()
    with serving_app(jobs) as found:
        yield found
