"""A server of HTTP in the process of a test.

What it is: `HttpServer`, one thread for each connection, on the loopback address.
"""

from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Self

from ashore_lab.services.ports import LOOPBACK


class HttpServer:
    """As a context manager it listens inside. `handler` answers."""

    def __init__(self, handler: type[BaseHTTPRequestHandler]) -> None:
        self._server = ThreadingHTTPServer((LOOPBACK, 0), handler)
        self._thread = Thread(target=self._server.serve_forever, daemon=True)

    @property
    def endpoint(self) -> str:
        """Return the address for clients."""
        return f"http://{LOOPBACK}:{self._server.server_port}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
