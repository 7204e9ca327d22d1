"""A proxy before a server of S3, which counts requests and loses answers.

What it is: `S3Proxy`, one thread for each connection, in the process of the test.
What it promises: a request that `loses` names is carried out by the server; its answer is not sent,
and the connection is closed, as by a network that fails at the wrong moment.
"""

from collections.abc import Callable
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import NamedTuple, Self

from ashore_lab.services.ports import LOOPBACK


class S3Request(NamedTuple):
    """One request. `path` has the bucket and, after `?`, what S3 calls the operation."""

    method: str
    path: str


class S3Proxy:
    """As a context manager it listens inside. `requests` has all of them, in their order."""

    def __init__(self, target_port: int) -> None:
        self.requests: list[S3Request] = []
        self.loses: Callable[[S3Request], bool] = lambda _request: False
        self._server = ThreadingHTTPServer((LOOPBACK, 0), _handler(self, target_port))
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


def _handler(proxy: S3Proxy, target_port: int) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def forward(self) -> None:
            request = S3Request(self.command, self.path)
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            server = HTTPConnection(LOOPBACK, target_port, timeout=30)
            server.putrequest(self.command, self.path, skip_host=True, skip_accept_encoding=True)
            for name, value in self.headers.items():  # signed: sent on as they are
                server.putheader(name, value)
            server.endheaders(body)
            answer = server.getresponse()
            content = answer.read()
            server.close()
            proxy.requests.append(request)
            if proxy.loses(request):
                self.close_connection = True
                return
            self.send_response_only(answer.status, answer.reason)
            for name, value in answer.headers.items():
                if name.lower() not in ("connection", "transfer-encoding", "content-length"):
                    self.send_header(name, value)
            length = answer.headers["Content-Length"] if self.command == "HEAD" else len(content)
            self.send_header("Content-Length", str(length or 0))
            self.end_headers()
            self.wfile.write(content)

        do_GET = do_PUT = do_POST = do_HEAD = do_DELETE = forward  # noqa: N815

        def log_message(self, *_: object) -> None:
            """Keep quiet."""

    return Handler
