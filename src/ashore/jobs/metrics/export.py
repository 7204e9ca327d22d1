"""Metrics at a port, and in a file.

What it promises: a port in use is refused before anything starts. The file is replaced as a whole,
at intervals and at the end; it stays, so that the last exit code can be read.
"""

import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from prometheus_client import CollectorRegistry, start_http_server, write_to_textfile

from ashore.errors import MetricsNotExported
from ashore.jobs.file.metrics import Metrics


@contextmanager
def exported(
    registry: CollectorRegistry, where: Metrics, warn: Callable[[str], None]
) -> Iterator[None]:
    """Serve metrics while inside. Raises MetricsNotExported.

    `warn` is called with a sentence where the file cannot be written later on, once until it can.
    """
    with ExitStack() as open_ones:
        if where.port is not None:
            open_ones.enter_context(_served(registry, where.host, where.port))
        if where.file is not None:
            file = _File(registry, Path(where.file), where.every_ms / 1000, warn)
            open_ones.enter_context(file.written())
        yield


@contextmanager
def _served(registry: CollectorRegistry, host: str, port: int) -> Iterator[None]:
    try:
        server, thread = start_http_server(port, host, registry)
    except OSError as error:
        raise MetricsNotExported(
            f"metrics cannot be served at {host}:{port}: {error.strerror or error}",
            hint="each job needs a port of its own: change `metrics.port`",
        ) from error
    try:
        yield
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


class _File:
    def __init__(
        self, registry: CollectorRegistry, path: Path, every_s: float, warn: Callable[[str], None]
    ) -> None:
        self._registry = registry
        self._path = path
        self._every_s = every_s
        self._warn = warn
        self._is_over = threading.Event()
        self._has_failed = False

    @contextmanager
    def written(self) -> Iterator[None]:
        try:
            write_to_textfile(str(self._path), self._registry)
        except OSError as error:
            raise MetricsNotExported(
                f"metrics cannot be written to {self._path}: {error.strerror or error}",
                hint="create the directory, or give the job's user write permission there",
            ) from error
        thread = threading.Thread(target=self._write_often, name="metrics", daemon=True)
        thread.start()
        try:
            yield
        finally:
            self._is_over.set()
            thread.join()
            self._write()

    def _write_often(self) -> None:
        while not self._is_over.wait(self._every_s):
            self._write()

    def _write(self) -> None:
        try:
            write_to_textfile(str(self._path), self._registry)
        except OSError as error:
            if not self._has_failed:
                self._warn(f"metrics are not written to {self._path}: {error.strerror or error}")
            self._has_failed = True
        else:
            self._has_failed = False
