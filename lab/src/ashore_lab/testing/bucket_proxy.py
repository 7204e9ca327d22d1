"""A proxy before a server of S3 or of Azure, which counts requests and makes faults.

What it is: `BucketProxy`, one thread for each connection, in the process of the test.
What it promises: each request is carried out as often as its `Fault` says, and answered or not.
"""

from collections.abc import Callable
from contextlib import closing
from enum import Enum
from http.client import HTTPConnection, HTTPResponse
from http.server import BaseHTTPRequestHandler
from typing import ClassVar, NamedTuple

from ashore.base.clock import SystemClock
from ashore_lab.services.ports import LOOPBACK
from ashore_lab.testing.http_server import HttpServer

LATE_S = 0.5
_CLOCK = SystemClock()
_COPY_SOURCES = ("x-amz-copy-source", "x-ms-copy-source")  # else copies look like other puts
_REFUSAL = """<?xml version="1.0" encoding="UTF-8"?>
<Error><Code>{}</Code><Message>Please reduce your request rate.</Message></Error>"""


class BucketRequest(NamedTuple):
    """One request. `path` has the bucket and, after `?`, what the store calls the operation."""

    method: str
    path: str
    is_copy: bool = False

    @property
    def kind(self) -> str:
        """Return what is asked for: parts of an upload, and what begins or completes one, too."""
        _, _, query = self.path.partition("?")
        match self.method:
            case "POST" if query == "delete" or "comp=batch" in query:
                return "delete"
            case "POST":
                return "begin" if query.startswith("uploads") else "complete"
            case "PUT" if "comp=blocklist" in query:
                return "complete"
            case "PUT" if self.is_copy:
                return "copy"
            case "PUT":
                return "part" if "comp=block" in query or "partNumber" in query else "put"
            case "GET" if "list-type" in query or "comp=list" in query:
                return "list"
            case _:
                return self.method.lower()

    @property
    def is_change(self) -> bool:
        """Return whether it may change something."""
        return self.kind not in ("get", "head", "list")


class Fault(Enum):
    """What becomes of a request."""

    NONE = "carried out and answered"
    LOSE = "carried out, not answered"
    LATE = "not answered, carried out later"
    REPEAT = "carried out twice, and answered for the second time"
    THROTTLE = "answered by 503, not carried out"
    PENDING = "answered by 202, not carried out"  # Azure's copy may be, until later
    CONFLICT = "answered by 409, not carried out"  # S3 had another write of the name at that time


_REFUSED = {
    Fault.PENDING: (202, "Pending"),
    Fault.THROTTLE: (503, "SlowDown"),
    Fault.CONFLICT: (409, "ConditionalRequestConflict"),
}


class BucketProxy(HttpServer):
    """As a context manager it listens inside. `requests` has all of them, in their order."""

    def __init__(self, target_port: int) -> None:
        self.requests: list[BucketRequest] = []
        self.strike: Callable[[BucketRequest], Fault] = lambda _request: Fault.NONE
        self.target_port = target_port
        super().__init__(type("_Bound", (_Handler,), {"proxy": self}))


class _Handler(BaseHTTPRequestHandler):
    proxy: ClassVar[BucketProxy]
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # headers and body are two writes

    def serve(self) -> None:
        is_copy = any(name in self.headers for name in _COPY_SOURCES)
        request = BucketRequest(self.command, self.path, is_copy)
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        fault = self.proxy.strike(request)
        self.proxy.requests.append(request)
        if fault in _REFUSED:
            status, code = _REFUSED[fault]
            content = _REFUSAL.format(code).encode()
            self._answer(status, [("Content-Type", "application/xml")], content)
            return
        if fault is Fault.LATE:
            self._hang_up()
            _CLOCK.sleep(LATE_S)
        answer, content = self._forward(body)
        if fault is Fault.REPEAT:
            answer, content = self._forward(body)
        if fault is Fault.LOSE:
            self._hang_up()
        if fault in (Fault.NONE, Fault.REPEAT):
            self._answer(answer.status, answer.getheaders(), content)

    def _forward(self, body: bytes) -> tuple[HTTPResponse, bytes]:
        with closing(HTTPConnection(LOOPBACK, self.proxy.target_port, timeout=30)) as server:
            server.putrequest(self.command, self.path, skip_host=True, skip_accept_encoding=True)
            for name, value in self.headers.items():  # signed: sent on as they are
                server.putheader(name, value)
            server.endheaders(body)
            answer = server.getresponse()
            return answer, answer.read()

    def _hang_up(self) -> None:
        self.close_connection = True
        self.connection.shutdown(2)

    def _answer(self, status: int, headers: list[tuple[str, str]], content: bytes) -> None:
        self.send_response_only(status)
        length = str(len(content))
        for name, value in headers:
            if name.lower() == "content-length" and self.command == "HEAD":
                length = value
            if name.lower() not in ("connection", "transfer-encoding", "content-length"):
                self.send_header(name, value)
        self.send_header("Content-Length", length)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)

    do_GET = do_PUT = do_POST = do_HEAD = do_DELETE = serve  # noqa: N815

    def log_message(self, *_: object) -> None:
        """Keep quiet."""
