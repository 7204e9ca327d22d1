"""Running a server: its supervisor and its application, until it is ended.

What it promises: one server per state directory. Jobs continue when it ends, however it ends.
"""

import gc
import os
import resource
import signal
import socket
import sys
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any

import uvicorn
from fastapi import FastAPI

from ashore import __version__
from ashore.base.clock import SystemClock
from ashore.errors import RequestInvalid, ServerDiskFailed, ServerRefused, ServerRuns
from ashore.fleet.access.guard import RequestAccess, TrustedProxy, names_of
from ashore.fleet.access.permissions import JobAccess
from ashore.fleet.access.tokens import TokenFile
from ashore.fleet.machine.check_process import CheckProcesses
from ashore.fleet.machine.locks import take_lock
from ashore.fleet.machine.processes import Command, Processes, ServerLimits, run_command
from ashore.fleet.operate.operations import Operations, Starter, operation_command
from ashore.fleet.operate.roots import Roots
from ashore.fleet.operate.verbs import Verbs
from ashore.fleet.operate.webhook import Webhook, WebhookAddress
from ashore.fleet.records.index import Index
from ashore.fleet.records.job_files import JobFiles, KnownJobs
from ashore.fleet.records.journal import Journal
from ashore.fleet.records.server_files import ServerFiles
from ashore.fleet.server.api import jobs, operations, server
from ashore.fleet.server.certificate import PASSWORD, ServerCertificate
from ashore.fleet.server.context import Context
from ashore.fleet.server.doorway import ClientConnection, Doorway
from ashore.fleet.server.job_watch import FleetWatch
from ashore.fleet.server.log_follower import LogFollower
from ashore.fleet.server.pages.routes import pages_router
from ashore.fleet.server.pages.supervision import SupervisedJobs, marks_of
from ashore.fleet.server.problems import PROBLEMS, add_handlers
from ashore.fleet.supervise.supervisor import Supervisor

SHUT_DOWN_S = 3  # for requests under way; streams are ended
END_S = 10.0  # for all that is under way: a job file that is parsed, a lake that does not answer
SWITCH_S = 0.001  # a page's thread gives way often while it reads a log; 5 ms each are too many
KEEP_S = 75  # a connection without requests: longer than who asks each minute waits


@dataclass(frozen=True, slots=True)
class ServerSettings:
    """How a server runs."""

    jobs: Path
    state: Path | None = None
    host: str = "127.0.0.1"
    port: int = 8420
    certificate: Path | None = None  # with it, TLS
    certificate_key: Path | None = None
    is_open: bool = False  # no token is needed
    hosts: tuple[str, ...] = ()  # names that it is asked by, beside its own
    proxy: TrustedProxy | None = None  # who is believed about users and where they are
    roots: tuple[str, ...] = ()  # what requests may name; see Roots
    webhook: WebhookAddress | None = None
    index: str | None = None  # the URL of a database; None: SQLite's, beside the files
    command: Command = run_command  # how the process that runs a job is started
    starter: Starter = operation_command  # and that of an operation
    limits: ServerLimits = field(default_factory=ServerLimits)

    @property
    def files(self) -> ServerFiles:
        """Where its files are."""
        return ServerFiles.of(self.jobs, self.state)


def serve(settings: ServerSettings, started: Callable[[str], None]) -> None:
    """Run a server until SIGTERM or Ctrl-C. Raises ServerRuns, ServerDiskFailed,
    ServerRefused, NotAllowed, OSError.

    `started` is called with its address once it can be asked.
    """
    files = settings.files
    sys.setswitchinterval(SWITCH_S)
    allow_files()
    with _alone(files), _listening(settings) as listener:
        tokens = TokenFile(files.tokens)
        tokens.open()
        hook = None if settings.webhook is None else Webhook(files.deliveries, settings.webhook)
        index = Index(files, settings.index)
        journal = Journal(files, [index.add], None if hook is None else hook.take)
        operations = Operations(files.operations, files.jobs, settings.starter)
        processes = Processes(files, settings.command, operations.is_under_way)
        supervisor = Supervisor(files, processes, settings.limits, journal.take)
        checks = CheckProcesses()
        supervisor.job_files = JobFiles(files.jobs, checks.load_job)
        roots = Roots(files.jobs, settings.roots, (files.state,))
        allowed = frozenset(each.casefold() for each in settings.hosts)
        names = names_of(settings.host)
        access = RequestAccess(tokens, settings.is_open, names, allowed, settings.proxy)
        verbs = Verbs(
            files,
            check=lambda job: roots.check_job(job, supervisor.lakes()),
            cancel=operations.cancel,
            load=partial(checks.load_job, is_patient=False),
        )
        works = (supervisor, verbs, operations, journal, hook, index)
        context = Context(files, *works, roots, access, SystemClock(), checks)
        app = create_app(context)
        door = Doorway(app, access, files, context.clock)
        certificate = _certificate_of(settings)
        server = _Server(_config(settings, door, certificate), started)
        server.config.load()  # reads certificate and key
        index.open()
        supervisor.start()
        operations.start()
        for each in (hook, certificate):
            if each is not None:
                each.start()
        # Garbage is looked for in what comes from now on alone: a look through all modules and jobs
        # takes a third of a second, in which no request is answered.
        gc.collect()
        gc.freeze()
        try:
            with _ending_in_order():
                server.run([listener])
        finally:
            for each in (hook, certificate):
                if each is not None:
                    each.end()
            operations.end()
            supervisor.end()
            checks.close()  # what they were checking for has ended
            index.close()


def _certificate_of(settings: ServerSettings) -> ServerCertificate | None:
    """Return what makes connections safe; None: they are not. Raises RequestInvalid."""
    if settings.certificate is None:
        if settings.certificate_key is not None:
            raise RequestInvalid(
                "--tls-key names a key, and there is no certificate",
                hint="name it: --tls-certificate",
            )
        return None
    password = os.environ.get(PASSWORD, "")
    return ServerCertificate(settings.certificate, settings.certificate_key, password)


def _config(
    settings: ServerSettings, door: Doorway, certificate: ServerCertificate | None
) -> uvicorn.Config:
    return uvicorn.Config(
        door,
        host=settings.host,
        port=settings.port,
        log_level="warning",
        access_log=False,
        timeout_graceful_shutdown=SHUT_DOWN_S,
        timeout_keep_alive=KEEP_S,
        ssl_context_factory=None if certificate is None else lambda *_: certificate.open(),
        server_header=False,
        proxy_headers=False,  # only a proxy that is named is believed; see TrustedProxy
        http=ClientConnection,
        limit_concurrency=CONNECTIONS_MAX,
    )


class _Server(uvicorn.Server):
    """Report when and where it answers."""

    def __init__(self, config: uvicorn.Config, started: Callable[[str], None]) -> None:
        super().__init__(config)
        self._report_address = started

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """End in order, and after `END_S` at once: files are written whole, and jobs continue."""
        super().handle_exit(sig, frame)
        watch = threading.Timer(END_S, os._exit, (0,))
        watch.daemon = True
        watch.start()

    async def startup(self, sockets: list[object] | None = None) -> None:  # type: ignore[override]
        await super().startup(sockets)  # type: ignore[arg-type]
        if self.started:
            host, port = self.servers[0].sockets[0].getsockname()[:2]
            scheme = "https" if self.config.is_ssl else "http"
            shown = f"[{host}]" if ":" in host else host
            self._report_address(f"{scheme}://{shown}:{port}")


@contextmanager
def _listening(settings: ServerSettings) -> Iterator[socket.socket]:
    """Have the port, before any job is started. Raises ServerRefused."""
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    # Named, as asyncio lets a connection send at once only where its protocol is known to be TCP:
    # else the end of an answer waits 40 ms for the other side.
    with socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP) as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((settings.host, settings.port))
        except (OSError, OverflowError) as error:
            raise ServerRefused(
                f"nothing can listen at {settings.host} port {settings.port}: {error}",
                hint="does another server have it? choose others with --port and --host",
            ) from None
        yield listener


@contextmanager
def _ending_in_order() -> Iterator[None]:
    """Let what follows be done: uvicorn repeats the signal that ended it, once it is down."""
    signals = (signal.SIGTERM, signal.SIGINT)
    before = {each: signal.signal(each, lambda *_: None) for each in signals}
    try:
        yield
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)


@contextmanager
def _alone(files: ServerFiles) -> Iterator[None]:
    """Be the one server of a state directory while inside. Raises ServerRuns, ServerDiskFailed."""
    try:
        files.make()
        handle = take_lock(files.lock)
    except OSError as error:
        raise ServerDiskFailed(
            f"the state directory {files.state} cannot be written: {error.strerror}",
            hint="let the server's user write there: free space, or mount its disk writable; or "
            "name another directory with --state, which knows nothing of jobs that run",
        ) from None
    if handle is None:
        raise ServerRuns(
            f"another server runs the jobs of {files.jobs}",
            hint="ask that one, or end it first; its jobs continue",
        )
    try:
        yield
    finally:
        os.close(handle)


CONNECTIONS_MAX = 4_000  # with more, requests are answered with 503
FILES_MAX = 3 * CONNECTIONS_MAX


def allow_files() -> None:
    """Let this process have as many open files as connections and jobs need, if it may."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    limit = FILES_MAX if hard == resource.RLIM_INFINITY else min(FILES_MAX, hard)
    if soft != resource.RLIM_INFINITY and soft < limit:
        resource.setrlimit(resource.RLIMIT_NOFILE, (limit, hard))


def create_app(context: Context) -> FastAPI:
    """Return the application of a server."""
    follower = LogFollower(context.files, context.journal.take, context.clock)
    marks = marks_of(context.supervisor)
    watch = FleetWatch(context.files.jobs, context.clock, marks=marks, follow=follower.follow)
    watch.job_files = KnownJobs(context.checks.load_job)
    works = (context.supervisor, context.verbs, context.operations)
    plane = SupervisedJobs(context.files, *works, watch)

    @asynccontextmanager
    async def living(_app: FastAPI) -> AsyncIterator[None]:
        plane.start()
        yield
        plane.close()

    app = FastAPI(
        title="Ashore",
        version=__version__,
        openapi_url="/api/openapi.json",
        docs_url=None,
        redoc_url=None,
        lifespan=living,
    )
    app.state.context = context
    app.state.plane = plane
    app.state.job_access = JobAccess(plane)
    app.state.list_cache = jobs.ListCache()
    add_handlers(app)
    _include(app)
    app.include_router(pages_router(plane, context.access, context.checks))
    return app


def describe_api() -> dict[str, Any]:
    """Return the API as OpenAPI describes it. No server is needed."""
    app = FastAPI(title="Ashore", version=__version__)
    _include(app)
    return app.openapi()


def _include(app: FastAPI) -> None:
    for each in (jobs.router, operations.router, server.router):
        app.include_router(each, responses=PROBLEMS)
