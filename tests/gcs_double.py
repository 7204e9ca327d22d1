"""A double of Google's Cloud Storage: its XML API, in memory, as far as Ashore uses it.

What it is: `GcsDouble`, one thread for each connection, in the process of the test. No server that
can be had here answers the client.
What it promises: a write is carried out under the condition that it bears, under one lock; one
without a condition overwrites, as Google's does.
"""

import itertools
import json
import re
from http.server import BaseHTTPRequestHandler
from threading import Lock
from typing import ClassVar
from urllib.parse import parse_qs, unquote, urlsplit
from xml.sax.saxutils import escape

from ashore_lab.testing.http_server import HttpServer

CONDITION, COPY_SOURCE = "x-goog-if-generation-match", "x-goog-copy-source"
BUCKET = "lake"
_TIME, _HTTP_TIME = "2026-11-01T00:00:00.000Z", "Sun, 01 Nov 2026 00:00:00 GMT"


class GcsDouble(HttpServer):
    """As a context manager it listens inside. `objects`: contents by name.

    `conditions`: of each put and copy at a name, the generation that it asked for, or None.
    """

    def __init__(self) -> None:
        self.objects: dict[str, bytes] = {}
        self.conditions: list[tuple[str, str | None]] = []
        self.uploads: dict[str, dict[int, bytes]] = {}
        self.lock = Lock()
        self.ids = itertools.count()
        super().__init__(type("_Bound", (_Handler,), {"double": self}))

    def key(self) -> str:
        """Return the key of a service account that is not asked for a token."""
        secrets = {"client_email": "", "private_key": "", "private_key_id": ""}
        return json.dumps({"gcs_base_url": self.endpoint, "disable_oauth": True, **secrets})


class _Handler(BaseHTTPRequestHandler):
    double: ClassVar[GcsDouble]
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # headers and body are two writes

    def serve(self) -> None:
        url = urlsplit(self.path)
        bucket, _, self.name = unquote(url.path).lstrip("/").partition("/")
        self.query = {
            key: values[0] for key, values in parse_qs(url.query, keep_blank_values=True).items()
        }
        self.body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        with self.double.lock:
            if bucket != BUCKET:
                self._answer(404, _error("NoSuchBucket"))
            else:
                getattr(self, f"_{self.command.lower()}")()

    do_GET = do_PUT = do_POST = do_HEAD = do_DELETE = serve  # noqa: N815

    def _put(self) -> None:
        if "uploadId" in self.query:
            parts = self.double.uploads[self.query["uploadId"]]
            parts[int(self.query["partNumber"])] = self.body
            self._answer(200)
            return
        self.double.conditions.append((self.name, self.headers.get(CONDITION)))
        source = self.headers.get(COPY_SOURCE)
        if source is not None:
            content = self.double.objects.get(unquote(source).partition("/")[2])
        else:
            content = self.body
        if content is None:
            self._answer(404, _error("NoSuchKey"))
        elif self.headers.get(CONDITION) == "0" and self.name in self.double.objects:
            self._answer(412, _error("PreconditionFailed"))
        else:
            self.double.objects[self.name] = content
            self._answer(200)

    def _post(self) -> None:
        if "uploads" in self.query:
            upload = f"upload-{next(self.double.ids)}"
            self.double.uploads[upload] = {}
            self._answer(200, _node("InitiateMultipartUploadResult", _node("UploadId", upload)))
            return
        parts = self.double.uploads.pop(self.query["uploadId"])
        self.double.objects[self.name] = b"".join(parts[number] for number in sorted(parts))
        self._answer(200, _node("CompleteMultipartUploadResult", _node("ETag", "x")))

    def _head(self) -> None:
        self._get()

    def _get(self) -> None:
        if not self.name:
            self._list()
            return
        content = self.double.objects.get(self.name)
        asked = re.fullmatch(r"bytes=(\d+)-(\d*)", self.headers.get("Range", ""))
        if content is None:
            self._answer(404, _error("NoSuchKey"))
        elif asked is None:
            self._answer(200, content)
        elif int(asked[1]) >= len(content):
            self._answer(416, _error("InvalidRange"))
        else:
            start, end = int(asked[1]), min(int(asked[2] or len(content)), len(content) - 1)
            where = f"bytes {start}-{end}/{len(content)}"
            self._answer(206, content[start : end + 1], where)

    def _delete(self) -> None:
        found = self.double.objects.pop(self.name, None)
        self._answer(404 if found is None else 204, b"")

    def _list(self) -> None:
        prefix, delimiter = self.query.get("prefix", ""), self.query.get("delimiter")
        found, common = "", set()
        for name, content in sorted(self.double.objects.items()):
            below, separator, _ = name.removeprefix(prefix).partition(delimiter or "\0")
            if not name.startswith(prefix):
                continue
            if separator:
                common.add(prefix + below + separator)
                continue
            inside = (("Key", name), ("Size", str(len(content))), ("LastModified", _TIME))
            found += _node("Contents", "".join(_node(*each) for each in inside))
        for each in sorted(common):
            found += _node("CommonPrefixes", _node("Prefix", each))
        self._answer(200, _node("ListBucketResult", found))

    def _answer(self, status: int, content: str | bytes = b"", part: str = "") -> None:
        body = content.encode() if isinstance(content, str) else content
        self.send_response_only(status)
        self.send_header("Content-Length", "0" if status == 204 else str(len(body)))
        self.send_header("ETag", '"x"')
        self.send_header("x-goog-generation", "1")
        self.send_header("Last-Modified", _HTTP_TIME)
        if part:
            self.send_header("Content-Range", part)
        self.end_headers()
        if self.command != "HEAD" and status != 204:
            self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Keep quiet."""


def _node(name: str, inside: str) -> str:
    return f"<{name}>{inside if inside.startswith('<') else escape(inside)}</{name}>"


def _error(code: str) -> str:
    return _node("Error", _node("Code", code) + _node("Message", code))
