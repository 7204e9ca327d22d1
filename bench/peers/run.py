"""One measurement: a peer's process started, talked to, measured and ended.

What it is: `PeerProcess`, and `run_bounded`, which lands topics with it.
What it promises: nothing that was started stays behind, whatever happens; a peer that hangs is
ended after a deadline; a measurement that has not landed all rows raises.
What it must not know: how a peer lands.
"""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from bench.peers.measure import Meter, Stored, Usage, list_table, read_session
from bench.peers.peer import Order

PEERS = ("ashore", "ashore-provenance", "spark", "flink")
DEADLINE_S = 400.0
GRACE_S = 20.0
LOG_TAIL_LINES = 25


class PeerFailed(Exception):
    """A peer's process ended, or said something else than was expected."""


class PeerProcess:
    """A peer in a session of its own. A context manager: all of the session is gone after it."""

    def __init__(self, order: Order, prefix: Sequence[str] = ()) -> None:
        self._module = f"bench.peers.{order.peer.partition('-')[0]}_peer"
        self._command = [*prefix, sys.executable, "-m", self._module, order.to_text()]
        self._log_path = Path(order.directory, "peer.log")
        self._watchdog = threading.Timer(DEADLINE_S, self._signal, (signal.SIGKILL,))
        self._watchdog.daemon = True
        self._process: subprocess.Popen[str] | None = None

    @property
    def session(self) -> int:
        """The session, which has the id of its first process."""
        return self._running().pid

    def expect(self, event: str) -> Mapping[str, object]:
        """Wait for what the peer says next, which must be `event`."""
        stdout = self._running().stdout
        line = stdout.readline() if stdout else ""
        said = json.loads(line) if line.startswith("{") else {}
        if said.get("event") != event:
            tail = self._log_path.read_text("utf-8", "replace").splitlines()[-LOG_TAIL_LINES:]
            raise PeerFailed(f"{self._module}: no {event!r} but {line!r}\n  " + "\n  ".join(tail))
        return said

    def answer(self) -> None:
        """Let the peer go on."""
        stdin = self._running().stdin
        if stdin:
            stdin.write("\n")
            stdin.flush()

    def wait(self) -> None:
        """Wait for an orderly end."""
        code = self._running().wait(DEADLINE_S)
        if code:
            raise PeerFailed(f"{self._module} ended with {code}")

    def __enter__(self) -> Self:
        self._log_path.parent.mkdir(parents=True)
        with self._log_path.open("wb") as log:
            self._process = subprocess.Popen(
                self._command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                start_new_session=True,
                env={**os.environ, "SPARK_LOCAL_IP": "127.0.0.1"},
            )
        self._watchdog.start()
        return self

    def __exit__(self, *_: object) -> None:
        process = self._running()
        self._watchdog.cancel()
        for number in (signal.SIGTERM, signal.SIGKILL):
            if read_session(process.pid):
                self._signal(number)
                self._wait_until_gone()
        for pipe in (process.stdin, process.stdout):
            if pipe:
                with suppress(BrokenPipeError):
                    pipe.close()

    def _signal(self, number: signal.Signals) -> None:
        for pid in read_session(self._running().pid):
            with suppress(ProcessLookupError):
                os.kill(pid, number)

    def _wait_until_gone(self) -> None:
        process = self._running()
        deadline_s = time.monotonic() + GRACE_S
        while time.monotonic() < deadline_s:
            process.poll()
            if not read_session(process.pid):
                return
            time.sleep(0.05)

    def _running(self) -> subprocess.Popen[str]:
        if self._process is None:
            raise PeerFailed(f"{self._module} was not started")
        return self._process


@dataclass(frozen=True, slots=True)
class Bounded:
    """What landing one topic took."""

    seconds: float
    usage: Usage
    stored: Stored


def table_path(order: Order, topic: str) -> Path:
    """Return where a peer's table of a topic is."""
    name = "peers.db/records" if order.peer.startswith("ashore") else "table"
    return order.root(topic) / name


def run_bounded(order: Order, records: int, prefix: Sequence[str] = ()) -> Bounded:
    """Land the topics of an order and return what the last one took."""
    with PeerProcess(order, prefix) as process:
        ready = process.expect("ready")
        excluded = ready["excluded"]
        with Meter(process.session, excluded if isinstance(excluded, list) else []) as meter:
            process.answer()
            seconds = float(str(process.expect("landed")["seconds"]))
        process.answer()
        process.wait()
    stored = list_table(table_path(order, order.topics[-1]))
    if stored.rows != records:
        raise PeerFailed(f"{order.peer} landed {stored.rows:,} rows of {records:,}")
    return Bounded(seconds, meter.usage, stored)
