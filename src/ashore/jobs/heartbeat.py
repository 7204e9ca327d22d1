"""The heartbeat of a job process: a file with what it was doing a second ago.

What it promises: replaced as a whole, each second, by a thread of its own. A hint for people and
probes: no writer reads it, and a missing or wrong heartbeat fences no process.
"""

import contextlib
import hashlib
import json
import os
import socket
import threading
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

import psutil

from ashore.base import codec
from ashore.base.clock import SystemClock
from ashore.base.codec import Malformed
from ashore.log.progress import QueryProgress

BEAT_S = 1.0
SAME_START_S = 2.0  # of a process, between two readings of it


class ProcessMark(NamedTuple):
    """The identity of a process on a machine; no later process has the same."""

    pid: int
    started_ms: int


@dataclass(frozen=True, slots=True)
class WorkerBeat:
    """The last report of a worker of a job: a query after a batch, or that it stopped."""

    slice: str
    since_ms: int  # when it reported that
    stopped: str | None = None  # why it has stopped
    query: QueryProgress | None = None


@dataclass(frozen=True, slots=True)
class Heartbeat:
    """What a job process says of itself. Times are the machine's, in milliseconds."""

    job: str
    lake: str
    host: str
    pid: int
    started_ms: int
    beat_ms: int
    step: str  # the one at work that began first, else `idle`; `starting` before the first
    step_since_ms: int
    ended: str | None = None  # stopped | failed
    why: str | None = None  # it failed
    workers: tuple[WorkerBeat, ...] = codec.added(())
    reader: str | None = codec.added(None)  # that of Started; None: not started yet

    @property
    def is_alive(self) -> bool | None:
        """Whether its process is there; None: it is on another machine."""
        if self.host != socket.gethostname():
            return None
        try:
            process = psutil.Process(self.pid)
            is_same = abs(process.create_time() - self.started_ms / 1000) < SAME_START_S
            return is_same and process.status() != psutil.STATUS_ZOMBIE
        except psutil.Error:
            return False


def is_process_alive(host: str, pid: int, seen_ms: int) -> bool | None:
    """Return whether a process is there still; None: it is, or was, on another machine.

    Arguments:
        host: where it was.
        pid: its number, which another process may have by now.
        seen_ms: when it was there.

    """
    if host != socket.gethostname():
        return None
    try:
        started_s = psutil.Process(pid).create_time()
    except psutil.Error:
        return False
    return started_s <= seen_ms / 1000 + SAME_START_S


def heartbeat_path(job: str, lake: str) -> Path:
    """Return where the heartbeat of a job on a lake is."""
    return state_directory() / "jobs" / f"{hashlib.sha256(f'{lake} {job}'.encode()).hexdigest()}"


def read_heartbeat(job: str, lake: str) -> Heartbeat | None:
    """Return the last heartbeat of a job on this machine, or None."""
    try:
        return codec.decode(Heartbeat, json.loads(heartbeat_path(job, lake).read_bytes()))
    except (OSError, ValueError, Malformed):
        return None


class Heart:
    """Writes the heartbeat of this process, and reports each beat. As a context manager.

    Arguments:
        job: the job's name.
        lake: its lake, as it is shown.
        at_work: returns the step at work and since when, in milliseconds.
        on_beat: called with each beat.
        workers: returns the last reports of its workers.

    """

    def __init__(
        self,
        job: str,
        lake: str,
        at_work: Callable[[], tuple[str, int]],
        on_beat: Callable[[], None],
        workers: Callable[[], tuple[WorkerBeat, ...]] = tuple,
    ) -> None:
        self._clock = SystemClock()
        self._path = heartbeat_path(job, lake)
        self._at_work = at_work
        self._on_beat = on_beat
        self._workers = workers
        self._ended = threading.Event()
        self.reader: str | None = None  # who reads and decodes records, once that is known
        started_ms = round(psutil.Process().create_time() * 1000)
        self.own = ProcessMark(os.getpid(), started_ms)
        host = socket.gethostname()
        self.last = Heartbeat(job, lake, host, *self.own, 0, "starting", started_ms)
        self._thread = threading.Thread(target=self._beat, name="heart", daemon=True)

    def start(self) -> None:
        """Write the first heartbeat, so that the job can be asked from here on; then beat on."""
        self._write(self.last)
        self._thread.start()

    def end(self, why: str | None) -> None:
        """Write the last heartbeat: the job stopped, or failed and `why`."""
        self._ended.set()
        self._thread.join()
        self._write(replace(self.last, ended="stopped" if why is None else "failed", why=why))

    def _beat(self) -> None:
        while True:
            step, since_ms = self._at_work()
            self._write(replace(self.last, step=step, step_since_ms=since_ms))
            self._on_beat()
            if self._ended.wait(BEAT_S):
                return

    def _write(self, beat: Heartbeat) -> None:
        now_ms, workers = self._clock.now_ms(), self._workers()
        self.last = replace(beat, beat_ms=now_ms, workers=workers, reader=self.reader)
        with contextlib.suppress(OSError):  # a hint: the job continues without it
            self._path.parent.mkdir(parents=True, exist_ok=True)
            made = self._path.with_suffix(f".{os.getpid()}")
            made.write_text(json.dumps(codec.encode_object(self.last)), "utf-8")
            made.replace(self._path)


def state_directory() -> Path:
    """Return where a machine keeps what it knows of jobs: $ASHORE_HOME, ~/.local/state/ashore."""
    own = os.environ.get("ASHORE_HOME")
    return Path(own) if own else Path.home() / ".local" / "state" / "ashore"
