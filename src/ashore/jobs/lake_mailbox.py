"""`LakeMailbox`: requests to a job as files in its lake, for jobs with `requests: lake`.

What it promises: as `Mailbox`, except that each writer of the lake may ask, and no file is
replaced. The job process lists one directory each 5 s, off its commit path.
"""

import contextlib
import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, TypeVar

from ashore.base import codec
from ashore.base.clock import SystemClock
from ashore.base.codec import Malformed
from ashore.errors import PathExists, PathMissing, StorageError
from ashore.jobs.heartbeat import Heartbeat
from ashore.jobs.mailbox import BYTES_MAX, KEEP_S, AnswerState, Request, RequestAnswer
from ashore.log import names

if TYPE_CHECKING:  # loads what reaches each kind of lake
    from ashore.storage.base import Storage

_REQUEST, _PROCESS = ".request", ".process"

T = TypeVar("T")


class LakeMailbox:
    """The requests to a job, and their answers, in its lake. By many processes at once.

    Arguments:
        storage: the lake.
        job: the job's name.
        own: the first heartbeat of the job process; None: of a process that asks.

    """

    poll_s = 1.0
    look_s = 5.0  # a listing: on HDFS 200 jobs make 40 a second

    def __init__(self, storage: "Storage", job: str, own: Heartbeat | None = None) -> None:
        self._storage = storage
        self.path = names.requests_directory(job)
        self._own = own
        self._is_open = False
        self._read_before: set[str] = set()

    # ---- the job process

    def open(self) -> None:
        """Do nothing: the first `requests` announces the process, in the thread that looks."""

    def requests(self) -> Iterator[tuple[str, Request | None]]:
        """Yield the id of each new request, and the request; None: it is none. Raises OSError."""
        if not self._is_open:
            self._announce()
        for name in self._names(_REQUEST):
            if name not in self._read_before:
                request = self._read(Request, name)
                self._read_before.add(name)
                if request is not None or self._is_there(name):  # else it was withdrawn
                    yield name.removesuffix(_REQUEST), request

    def answer(self, answer: RequestAnswer) -> None:
        """Write an answer. Raises OSError."""
        self._create(_answer_name(answer.id, is_final=answer.is_final), answer)

    def close(self) -> None:
        """Take the announcement of the process away."""
        if self._own is not None and self._is_open:
            self._delete(_process_name(self._own))

    # ---- who asks

    def find_process(self) -> Heartbeat | None:
        """Return the first heartbeat of the job process; None: none listens. Raises OSError."""
        started = sorted(self._names(_PROCESS), key=lambda name: int(name.split("-")[0]))
        return self._read(Heartbeat, started[-1]) if started else None

    def ask(self, request: Request) -> bool:
        """Write a request; return False where one of this id already exists. Raises OSError."""
        return self._create(f"{request.id}{_REQUEST}", request)

    def read_answer(self, request_id: str) -> RequestAnswer | None:
        """Return the answer so far."""
        with contextlib.suppress(OSError):
            for is_final in (True, False):
                found = self._read(RequestAnswer, _answer_name(request_id, is_final=is_final))
                if found is not None:
                    return found
        return None

    def withdraw(self, request_id: str) -> None:
        """Take a request away. One that was read is done all the same."""
        self._delete(f"{request_id}{_REQUEST}")

    def forget(self, request_id: str) -> None:
        """Remove a request and its answers, once no process waits for it."""
        self.withdraw(request_id)
        for is_final in (True, False):
            self._delete(_answer_name(request_id, is_final=is_final))

    def _announce(self) -> None:
        if self._own is None:
            return
        old_ms = SystemClock().now_ms() - KEEP_S * 1000
        with _as_os_error():
            # What comes once this process is known is for it, whatever the storage's clock says.
            before = self._storage.list(self.path)
        self._create(_process_name(self._own), self._own)
        self._is_open = True
        for each in before:
            name = names.leaf(each.path)
            is_other = name.endswith(_PROCESS) and name != _process_name(self._own)
            if is_other or (each.modified_ms < old_ms and not name.endswith(_PROCESS)):
                self._delete(name)

    def _names(self, suffix: str) -> list[str]:
        with _as_os_error():
            found = [names.leaf(each.path) for each in self._storage.list(self.path)]
        return [each for each in found if each.endswith(suffix)]

    def _create(self, name: str, document: "Heartbeat | Request | RequestAnswer") -> bool:
        data = json.dumps(codec.encode_object(document)).encode()
        with _as_os_error():
            try:
                self._storage.create(names.join(self.path, name), data)
            except PathExists:
                return False
        return True

    def _read(self, kind: type[T], name: str) -> T | None:
        with _as_os_error():
            try:
                data = self._storage.read(names.join(self.path, name), 0, BYTES_MAX)
                return codec.decode(kind, json.loads(data))
            except (PathMissing, ValueError, RecursionError, Malformed):
                return None

    def _is_there(self, name: str) -> bool:
        with _as_os_error():
            return self._storage.stat(names.join(self.path, name)) is not None

    def _delete(self, name: str) -> None:
        with contextlib.suppress(StorageError):
            self._storage.delete(names.join(self.path, name))


@contextlib.contextmanager
def _as_os_error() -> Iterator[None]:
    try:
        yield
    except StorageError as error:
        raise OSError(error.message) from error


def _process_name(process: Heartbeat) -> str:
    return f"{process.started_ms}-{process.pid}{_PROCESS}"


def _answer_name(request_id: str, *, is_final: bool) -> str:
    state = AnswerState.DONE if is_final else AnswerState.ACCEPTED
    return f"{request_id}.{state.value}"
