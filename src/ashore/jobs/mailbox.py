"""Requests to a job process and its answers: files beside its heartbeat.

What it promises: a request is created whole, and once; an answer is replaced whole. The user that
runs the job may ask, and root. No writer waits for it, and no process is fenced by it.
"""

import contextlib
import json
import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TypeVar

from ashore.base import codec
from ashore.base.clock import SystemClock
from ashore.base.codec import Malformed
from ashore.jobs.heartbeat import heartbeat_path

BYTES_MAX = 1 << 16  # of a file that is read
KEEP_S = 3600.0  # then a file that was not taken away is removed
_REQUEST, _ANSWER = ".request", ".answer"


@dataclass(frozen=True, slots=True)
class Request:
    """What one process is asked.

    Arguments:
        id: no other request has it; the answer does.
        verb: what is to be done.
        text: how, as `ashore.jobs.requests` writes it.
        pid: of the process that is asked: one that comes after it is not.
        started_ms: when that process was started.
        by: who asks.
        expires_ms: from then on it is not to be done any more, by the asker's clock.

    """

    id: str
    verb: str
    text: str
    pid: int
    started_ms: int
    by: str
    expires_ms: int


class AnswerState(StrEnum):
    """How far a request is."""

    ACCEPTED = "accepted"
    DONE = "done"
    REFUSED = "refused"  # nothing of it is under way; the answer says why


@dataclass(frozen=True, slots=True)
class RequestAnswer:
    """What a job process says to a request; of a refusal the code, message and hint of an error."""

    id: str
    state: AnswerState
    text: str = ""  # of what was done, as `ashore.jobs.requests` writes it
    code: str = ""
    message: str = ""
    hint: str = ""

    @property
    def is_final(self) -> bool:
        """Whether no other answer follows."""
        return self.state is not AnswerState.ACCEPTED


class Mailbox:
    """The requests to a job on this machine, and their answers. By many processes at once."""

    poll_s = 0.1  # how often an asker looks for its answer
    look_s: float | None = None  # how often the job looks for requests; None: as its Listener does

    def __init__(self, job: str, lake: str) -> None:
        self.path = heartbeat_path(job, lake).with_suffix(".asked")

    # ---- the job process

    def open(self) -> None:
        """Make the directory, for this user alone, and remove what is old.

        Raises OSError; PermissionError where it belongs to another user.
        """
        self.path.mkdir(parents=True, exist_ok=True, mode=0o700)
        found = self.path.lstat()
        if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid():
            raise PermissionError(f"{self.path} belongs to another user")
        self.path.chmod(0o700)
        for each in self.path.iterdir():
            with contextlib.suppress(OSError):
                if each.lstat().st_mtime < SystemClock().now_ms() / 1000 - KEEP_S:
                    each.unlink()

    def requests(self) -> Iterator[tuple[str, Request | None]]:
        """Yield the id of each request that is there, and the request; None: it is none.

        Files that belong neither to this user nor to root are passed over.
        """
        with os.scandir(self.path) as found:
            names = sorted(each.name for each in found if each.name.endswith(_REQUEST))
        for name in names:
            path = self.path / name
            with contextlib.suppress(FileNotFoundError, PermissionError):
                if path.lstat().st_uid not in (os.geteuid(), 0):
                    continue
                request = _read(Request, path)
                if request is not None or path.exists():  # else it was withdrawn
                    yield name.removesuffix(_REQUEST), request

    def answer(self, answer: RequestAnswer) -> None:
        """Write an answer in the place of the one before. Raises OSError."""
        made = self._write(answer.id, codec.encode_object(answer))
        made.replace(self.path / f"{answer.id}{_ANSWER}")

    def close(self) -> None:
        """Do nothing: the directory stays for the next process."""

    # ---- who asks

    def ask(self, request: Request) -> bool:
        """Write a request; return False where one of this id already exists.

        Raises FileNotFoundError where no job process has made the directory, PermissionError where
        it is another user's, and OSError.
        """
        made = self._write(request.id, codec.encode_object(request))
        try:
            os.link(made, self.path / f"{request.id}{_REQUEST}")
        except FileExistsError:
            return False
        finally:
            made.unlink()
        return True

    def read_answer(self, request_id: str) -> RequestAnswer | None:
        """Return the answer so far."""
        return _read(RequestAnswer, self.path / f"{request_id}{_ANSWER}")

    def withdraw(self, request_id: str) -> None:
        """Take a request away. One that was read is done all the same."""
        with contextlib.suppress(OSError):
            (self.path / f"{request_id}{_REQUEST}").unlink(missing_ok=True)

    def forget(self, request_id: str) -> None:
        """Remove a request and its answer, once no process waits for it."""
        self.withdraw(request_id)
        with contextlib.suppress(OSError):
            (self.path / f"{request_id}{_ANSWER}").unlink(missing_ok=True)

    def _write(self, name: str, document: dict[str, codec.Json]) -> Path:
        made = self.path / f"{name}.{os.getpid()}"
        made.write_text(json.dumps(document), "utf-8")
        return made


T = TypeVar("T")


def _read(kind: type[T], path: Path) -> T | None:
    """Return what a file holds; None: it is not there, or something else."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        with os.fdopen(handle, "rb") as file:
            return codec.decode(kind, json.loads(file.read(BYTES_MAX)))
    except (OSError, ValueError, RecursionError, Malformed):
        return None
