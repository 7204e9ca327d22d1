"""Operations as pages ask for them and show them.

What it is: `Commands`, over the operations of a server.
What it promises: what is asked for is what the API would ask for: the words of a command line are
made of checked values.
"""

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from ashore.base.clock import Clock
from ashore.errors import OperationUnknown
from ashore.fleet.operate.commands import BY_NAME, Value
from ashore.fleet.operate.operations import Operations, OperationView

SHOWN = 100
LOOK_S = 1.0


@dataclass(frozen=True, slots=True)
class CommandSeen:
    """An operation, as it is now.

    Arguments:
        id: its own.
        kind: the command: `verify`, `migrate check` and so on.
        job: of the server.
        by: who asked for it.
        asked_ms: when.
        state: where it is; one that has answered, with its answer: `answered: lost`.
        began_ms: None: it waits for its turn.
        ended_ms: None: it has not ended.
        exit_code: None, as above.
        progress: how far it is, in words; empty: it does not say.
        answer: the document that it printed; None: none, or it was not asked for.
        error: what it said on stderr.

    """

    id: str
    kind: str
    job: str
    by: str
    asked_ms: int
    state: str
    began_ms: int | None = None
    ended_ms: int | None = None
    exit_code: int | None = None
    progress: str = ""
    answer: Mapping[str, object] | None = None
    error: str = ""

    @property
    def failure(self) -> Mapping[str, object] | None:
        """The error that it ended with, if it reported one."""
        found = self.answer.get("error") if self.answer else None
        return found if isinstance(found, Mapping) else None


class Commands:
    """Asks for operations. Methods may be called by any thread."""

    def __init__(self, operations: Operations, clock: Clock) -> None:
        self._operations = operations
        self._clock = clock

    def start(
        self,
        what: tuple[str, str, str],
        values: Mapping[str, Value],
        then: Callable[[CommandSeen], None] | None = None,
        hold: Callable[[str], object] | None = None,
    ) -> str:
        """Ask for an operation and return its id. Raises RequestInvalid, ServerBusy.

        Arguments:
            what: the command, the job, who asks.
            values: of the parameters of the command, by name.
            then: called once it has ended, unless this server ends before.
            hold: as `Operations.ask` has it.

        """
        command = BY_NAME[what[0]]
        line = command.line(values, as_json=True)
        made = self._operations.ask(what, line, is_json=command.has_json, hold=hold)
        if then is not None:
            waiting = threading.Thread(target=self._wait, args=(made, then), daemon=True)
            waiting.start()
        return made

    def all(self, is_shown: Callable[[str], bool] = lambda _job: True) -> tuple[CommandSeen, ...]:
        """Return the newest ones, without their answers. `is_shown`: of which jobs, by name."""
        found = [each for each in self._operations.all() if is_shown(each.request.job)]
        return tuple(_seen(each, None) for each in found[:SHOWN])

    def find(self, id_: str) -> CommandSeen | None:
        """Return an operation with its answer, or None."""
        try:
            found = self._operations.get(id_)
        except OperationUnknown:
            return None
        return _seen(found, self._operations.result(found))

    def job_of(self, id_: str) -> str:
        """Return the job of an operation; empty: it has none, or there is no such operation."""
        try:
            return self._operations.get(id_).request.job
        except OperationUnknown:
            return ""

    def cancel(self, id_: str) -> None:
        """End an operation, if it runs or waits. Raises OperationUnknown."""
        self._operations.cancel(id_)

    def _wait(self, id_: str, then: Callable[[CommandSeen], None]) -> None:
        while (found := self.find(id_)) is not None and found.ended_ms is None:
            self._clock.sleep(LOOK_S)
        if found is not None:
            then(found)


def _seen(found: OperationView, answer: object) -> CommandSeen:
    request, progress, end = found.request, found.progress, found.end
    text = "" if progress is None else f"{progress.what}: {progress.done:,} of {progress.total:,}"
    return CommandSeen(
        id=request.id,
        kind=request.command,
        job=request.job,
        by=request.by,
        asked_ms=request.created_ms,
        state=found.outcome,
        began_ms=found.process.started_ms if found.process else None,
        ended_ms=_ended_ms(found),
        exit_code=end.code if found.is_final and end else None,
        progress=text,
        answer=answer if isinstance(answer, dict) else None,
        error=found.stderr,
    )


def _ended_ms(found: OperationView) -> int | None:
    """Return when an operation ended; of one that was lost or cancelled early, when it came."""
    if not found.is_final:
        return None
    return found.end.ended_ms if found.end else found.request.created_ms
