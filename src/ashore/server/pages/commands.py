"""Commands that a page has asked for: each a process of its own, whose answer is kept for a while.

What it is: `Commands`: verify, audit, savepoints, migrations.
What it promises: whatever a command needs or breaks, the server goes on. A few run at once, others
wait; a command can be cancelled. What is kept is bounded, and forgotten when the server ends.
What it must not know: what commands say.
"""

import json
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

from ashore.base.clock import Clock
from ashore.base.unique import unique

AT_ONCE = 2
KEPT = 50
ANSWER_BYTES_MAX = 5_000_000
RUN_CLI = "from ashore.cli import main; main()"


@dataclass(frozen=True, slots=True)
class CommandSeen:
    """A command, as it is now.

    Arguments:
        id: its own.
        kind: what it does: `verify`, `migrate check` and so on.
        job: of the server.
        by: who asked for it.
        asked_ms: when.
        began_ms: None: it waits for its turn.
        ended_ms: None: it has not ended.
        exit_code: None, as above; negative: the signal that ended it.
        answer: the document that it printed; empty: none that can be read.
        error: what it said where it printed none.

    """

    id: str
    kind: str
    job: str
    by: str
    asked_ms: int
    began_ms: int | None = None
    ended_ms: int | None = None
    exit_code: int | None = None
    answer: Mapping[str, object] | None = None
    error: str = ""

    @property
    def state(self) -> str:
        """What it is at, in a word."""
        if self.ended_ms is None:
            return "waiting" if self.began_ms is None else "running"
        return "done" if self.exit_code == 0 else "cancelled" if self.was_cancelled else "ended"

    @property
    def was_cancelled(self) -> bool:
        """Whether somebody has ended it."""
        return self.exit_code is not None and self.exit_code < 0

    @property
    def failure(self) -> Mapping[str, object] | None:
        """The error that it ended with, if it told one."""
        found = self.answer.get("error") if self.answer else None
        return found if isinstance(found, Mapping) else None


class Commands:
    """Runs commands. Methods may be called by any thread."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._pool = ThreadPoolExecutor(AT_ONCE, "ashore-command")
        self._lock = threading.Lock()
        self._seen: dict[str, CommandSeen] = {}
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self._cancelled: set[str] = set()

    def start(
        self,
        what: tuple[str, str, str],
        arguments: Sequence[str],
        then: Callable[[CommandSeen], None] = lambda _: None,
    ) -> str:
        """Start a command and return its id.

        Arguments:
            what: its kind, the job, who asks.
            arguments: of `ashore`, without `--json`.
            then: called when it has ended.

        """
        kind, job, by = what
        found = CommandSeen(unique(), kind, job, by, self._clock.now_ms())
        with self._lock:
            self._seen[found.id] = found
            for old in [each for each in self._seen.values() if each.ended_ms][:-KEPT]:
                del self._seen[old.id]
        self._pool.submit(self._run, found.id, [*arguments, "--json"], then)
        return found.id

    def all(self) -> tuple[CommandSeen, ...]:
        """Return all that are kept, the newest first."""
        with self._lock:
            return tuple(reversed(self._seen.values()))

    def find(self, id_: str) -> CommandSeen | None:
        """Return a command, or None."""
        with self._lock:
            return self._seen.get(id_)

    def cancel(self, id_: str) -> None:
        """End a command, if it runs or waits."""
        with self._lock:
            self._cancelled.add(id_)
            process = self._processes.get(id_)
        if process is not None:
            process.terminate()

    def close(self) -> None:
        """End all."""
        for each in self.all():
            if each.ended_ms is None:
                self.cancel(each.id)
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _run(self, id_: str, arguments: Sequence[str], then: Callable[[CommandSeen], None]) -> None:
        code, out, said = -15, b"", b""
        if id_ not in self._cancelled:
            self._update(id_, began_ms=self._clock.now_ms())
            process = subprocess.Popen(
                [sys.executable, "-c", RUN_CLI, *arguments],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
            )
            with self._lock:
                self._processes[id_] = process
            if id_ in self._cancelled:
                process.terminate()
            out, said = process.communicate()
            code = process.returncode
        with self._lock:
            self._processes.pop(id_, None)
        error = said[-4000:].decode("utf-8", "replace")
        ended = self._update(
            id_,
            ended_ms=self._clock.now_ms(),
            exit_code=-15 if id_ in self._cancelled else code,
            answer=_read(out),
            error=error,
        )
        then(ended)

    def _update(self, id_: str, **changed: object) -> CommandSeen:
        with self._lock:
            found = replace(self._seen[id_], **changed)  # type: ignore[arg-type]
            self._seen[id_] = found
            return found


def _read(out: bytes) -> Mapping[str, object] | None:
    if len(out) > ANSWER_BYTES_MAX:
        return None
    try:
        document = json.loads(out)
    except ValueError:
        return None
    return document if isinstance(document, dict) else None
