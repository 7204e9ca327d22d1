"""Files with untrusted bytes: ORC is read in a process of its own, which a parser may crash.

What it promises: such a file is Unreadable, and this process continues. One process reads for all
callers, one file after the other, and is replaced after a crash. It opens no storage.
"""

import atexit
import contextlib
import functools
import signal
import subprocess
import sys
import threading
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from typing import Any

from ashore.log import names
from ashore.log.files import Role
from ashore.log.tables import DEAD_SUFFIX
from ashore.proof.evidence.offsets import FileOffsets, Readable, Unreadable, read_file

SILENT_S_MAX = 300.0  # neither asks for bytes nor answers: the parser hangs
_EXTENSIONS = {"json": "jsonl"}  # as other writers name a format
_CHILD = "from ashore.proof.evidence.reader_process import main; main()"


def read_unproven(
    storage: Readable, path: str, size_bytes: int, kind: tuple[str, Role]
) -> FileOffsets:
    """Return the rows and offsets of a file, whatever its bytes are. See `read_file`.

    Raises Unreadable, or StorageError.
    """
    if kind[0] != "orc":
        return read_file(storage, path, size_bytes, kind)
    return _reader().read(storage, path, size_bytes, kind)


def read_orphan(
    storage: Readable, path: str, size_bytes: int, extension: str | None = None
) -> FileOffsets | None:
    """Return what a file holds that no entry lists; None: it cannot be read. Raises StorageError.

    Its table is in its path, and its format, unless it is staged, too.
    """
    extension = extension or names.leaf(path).rpartition(".")[2]
    role = Role.DEAD if path.split("/")[1].endswith(DEAD_SUFFIX) else Role.MAIN
    try:
        kind = (_EXTENSIONS.get(extension, extension), role)
        return read_unproven(storage, path, size_bytes, kind)
    except Unreadable:
        return None


class _Reader:
    """The process that reads. Any thread may call."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._link: Connection | None = None

    def read(
        self, storage: Readable, path: str, size_bytes: int, kind: tuple[str, Role]
    ) -> FileOffsets:
        with self._lock:
            link = self._link or self._start()
            is_whole = False
            try:
                self._send(link, (path, size_bytes, kind))
                answer = self._receive(link)
                while isinstance(answer, tuple):
                    self._send(link, storage.read(path, *answer))
                    answer = self._receive(link)
                is_whole = True
            finally:
                if not is_whole:  # it may wait for bytes that do not come
                    self._stop()
        if isinstance(answer, FileOffsets):
            return answer
        raise Unreadable(answer)

    def close(self) -> None:
        with self._lock:
            self._stop()

    def _start(self) -> Connection:
        self._link, theirs = Pipe()
        command = [sys.executable, "-c", _CHILD, str(theirs.fileno())]
        self._process = subprocess.Popen(
            command, pass_fds=[theirs.fileno()], stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        theirs.close()
        return self._link

    def _send(self, link: Connection, message: object) -> None:
        try:
            link.send(message)
        except OSError:
            raise self._died() from None

    def _receive(self, link: Connection) -> Any:
        try:
            if link.poll(SILENT_S_MAX):
                return link.recv()
        except (EOFError, OSError):
            raise self._died() from None
        raise Unreadable(f"reading it took more than {SILENT_S_MAX:g} s")

    def _died(self) -> Unreadable:
        code = self._process.wait() if self._process else 0
        how = signal.Signals(-code).name if code < 0 else f"exit code {code}"
        return Unreadable(f"reading it crashed a process: {how}")

    def _stop(self) -> None:
        if self._link is not None:
            self._link.close()
        if self._process is not None:
            self._process.kill()
            self._process.wait()
        self._link = self._process = None


@functools.cache
def _reader() -> _Reader:
    reader = _Reader()
    atexit.register(reader.close)
    return reader


class _Asking:
    def __init__(self, link: Connection) -> None:
        self._link = link

    def read(self, path: str, start: int = 0, length: int | None = None) -> bytes:  # noqa: ARG002 - there is one file
        self._link.send((start, length))
        found: bytes = self._link.recv()
        return found


def main() -> None:
    """Read files for another process, until that ends."""
    link = Connection(int(sys.argv[1]))
    with contextlib.suppress(EOFError):
        while True:
            path, size_bytes, kind = link.recv()
            try:
                answer: object = read_file(_Asking(link), path, size_bytes, kind)
            except Unreadable as error:
                answer = str(error)
            link.send(answer)
