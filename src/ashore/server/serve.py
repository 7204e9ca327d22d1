"""Running a server: its supervisor and its application, until it is ended.

What it is: `serve`.
What it promises: one server per state directory. Jobs go on when it ends, however it ends.
What it must not know: terminals.
"""

import fcntl
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import uvicorn

from ashore.base.clock import SystemClock
from ashore.errors import ServerRuns
from ashore.runtime.layout import ServerFiles
from ashore.runtime.limits import ServerLimits
from ashore.runtime.supervisor import Supervisor
from ashore.runtime.verbs import Verbs
from ashore.server.app import create_app
from ashore.server.context import Context

SHUT_DOWN_S = 3  # for requests under way; streams are ended


@dataclass(frozen=True, slots=True)
class ServerSettings:
    """How a server runs."""

    jobs: Path
    state: Path | None = None
    host: str = "127.0.0.1"
    port: int = 8420
    limits: ServerLimits = field(default_factory=ServerLimits)


def serve(settings: ServerSettings, started: Callable[[str], None]) -> None:
    """Run a server until SIGTERM or Ctrl-C. Raises ServerRuns, OSError.

    `started` is called with its address once it can be asked.
    """
    layout = ServerFiles.of(settings.jobs, settings.state)
    layout.make()
    with _alone(layout):
        supervisor = Supervisor(layout, limits=settings.limits)
        app = create_app(Context(layout, supervisor, Verbs(layout), SystemClock()))
        config = uvicorn.Config(
            app,
            host=settings.host,
            port=settings.port,
            log_level="warning",
            access_log=False,
            timeout_graceful_shutdown=SHUT_DOWN_S,
        )
        server = _Server(config, started)
        supervisor.start()
        try:
            server.run()
        finally:
            supervisor.end()


class _Server(uvicorn.Server):
    """Tells when it can be asked, and where."""

    def __init__(self, config: uvicorn.Config, started: Callable[[str], None]) -> None:
        super().__init__(config)
        self._tell = started

    async def startup(self, sockets: list[object] | None = None) -> None:  # type: ignore[override]
        await super().startup(sockets)  # type: ignore[arg-type]
        if self.started:
            host, port = self.servers[0].sockets[0].getsockname()[:2]
            scheme = "https" if self.config.is_ssl else "http"
            shown = f"[{host}]" if ":" in host else host
            self._tell(f"{scheme}://{shown}:{port}")


@contextmanager
def _alone(layout: ServerFiles) -> Iterator[None]:
    """Be the one server of a state directory while inside. Raises ServerRuns."""
    handle = os.open(layout.lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise ServerRuns(
                f"another server runs the jobs of {layout.jobs}",
                hint="ask that one, or end it first; its jobs continue",
            ) from None
        yield
    finally:
        os.close(handle)
