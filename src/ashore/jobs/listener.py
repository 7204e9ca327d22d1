"""`Listener`: a thread of the job process that reads requests and has them done.

What it promises: a request to this process is done once and answered: accepted, then done or
refused. One that has expired, is unknown, or is not done when the job ends, is refused.
"""

import contextlib
import threading
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from ashore.base.clock import Clock, SystemClock
from ashore.errors import AshoreError, NotDone
from ashore.jobs.heartbeat import ProcessMark
from ashore.jobs.lake_mailbox import LakeMailbox
from ashore.jobs.mailbox import AnswerState, Mailbox, Request, RequestAnswer

POLL_S = 0.5


@dataclass(frozen=True, slots=True)
class Verb:
    """Something that a job process can be asked.

    Arguments:
        act: does it, with the request's text, and returns that of the answer. Raises AshoreError
            where it is refused. Called in a thread of its own.
        ends_job: whether it is done when the job has ended: `act` only begins it, at once, and
            what it returns is not sent.

    """

    act: Callable[[str], str]
    ends_job: bool = False


class Listener:
    """Answers what its process is asked, from `start` to `end`.

    Arguments:
        mailbox: where requests come.
        own: this process.
        verbs: what it can be asked from the start; see `offer`.
        report: called with a sentence for people.
        clock: of this machine.

    """

    def __init__(
        self,
        mailbox: Mailbox | LakeMailbox,
        own: ProcessMark,
        verbs: Mapping[str, Verb],
        report: Callable[[str], None],
        clock: Clock | None = None,
    ) -> None:
        self._mailbox = mailbox
        self._own = own
        self._verbs = dict(verbs)
        self._report = report
        self._clock = clock or SystemClock()
        self._look_s = mailbox.look_s or POLL_S
        self._taken: set[str] = set()
        self._under_way: dict[str, Request] = {}
        self._lock = threading.Lock()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._listen, name="asked", daemon=True)

    def start(self) -> None:
        """Begin to listen. A directory that cannot be had is reported: the job runs without."""
        try:
            self._mailbox.open()
        except OSError as error:
            self._report(f"this job cannot be asked anything (`ashore stop` ...): {error}")
            return
        self._thread.start()

    def offer(self, verbs: Mapping[str, Verb]) -> None:
        """Take more requests from here on."""
        self._verbs |= verbs

    def end(self, done: Callable[[], str], failed: AshoreError | None = None) -> None:
        """Answer what is under way, and listen no more: the job has ended.

        Arguments:
            done: returns the answer to requests that end the job.
            failed: what the job ended with, if not in order.

        """
        self._ended.set()
        if not self._thread.ident:
            return
        self._thread.join()
        self._look()  # what came in the last moment
        with self._lock:
            open_requests = list(self._under_way.values())
            self._under_way.clear()
        for request in open_requests:
            if failed is not None:
                self._answer(_refusal(request.id, failed))
            elif self._verbs[request.verb].ends_job:
                self._answer(RequestAnswer(request.id, AnswerState.DONE, done()))
            else:
                error = NotDone("the job ended before it was done", hint="start the job, ask again")
                self._answer(_refusal(request.id, error))
        self._mailbox.close()

    def _listen(self) -> None:
        while not self._ended.is_set():
            self._look()
            self._ended.wait(self._look_s)

    def _look(self) -> None:
        # A courtesy: where the directory cannot be read, the job continues without it.
        with contextlib.suppress(OSError):
            for request_id, request in self._mailbox.requests():
                if request_id not in self._taken:
                    self._take(request_id, request)

    def _take(self, request_id: str, request: Request | None) -> None:
        if request is None:
            self._taken.add(request_id)
            words = "the request cannot be read: it is of another release of Ashore, or damaged"
            self._answer(_refusal(request_id, NotDone(words)))
            return
        if ProcessMark(request.pid, request.started_ms) != self._own:
            return  # of another process of this job; its own, if it lives, takes it
        self._taken.add(request_id)
        late_ms = self._clock.now_ms() - request.expires_ms
        verb = self._verbs.get(request.verb)
        if late_ms > 0:
            words = f"the request had expired {late_ms / 1000:.0f} s before it was read"
            self._answer(_refusal(request.id, NotDone(words, hint="ask again")))
        elif verb is None:
            words = f"the job process cannot be asked to {request.verb} (now)"
            hint = f"it can be asked to {', '.join(sorted(self._verbs))}; more once it has started"
            self._answer(_refusal(request.id, NotDone(words, hint=hint)))
        else:
            self._begin(request, verb)

    def _begin(self, request: Request, verb: Verb) -> None:
        self._report(f"{request.by} asks to {request.verb}")
        with self._lock:
            self._under_way[request.id] = request
        self._answer(RequestAnswer(request.id, AnswerState.ACCEPTED))
        if verb.ends_job:
            self._act(request, verb)
            return
        if self._ended.is_set():
            return  # `end` refuses it
        name = f"asked-{request.verb}"
        threading.Thread(target=self._act, args=(request, verb), name=name, daemon=True).start()

    def _act(self, request: Request, verb: Verb) -> None:
        try:
            text = verb.act(request.text)
        except AshoreError as error:
            answer = _refusal(request.id, error)
        except Exception as error:  # noqa: BLE001 - the last line of a thread: it is answered
            traceback.print_exc()
            unknown = NotDone(f"{request.verb} failed: {error!r}", hint="please report this")
            answer = _refusal(request.id, unknown)
        else:
            if verb.ends_job:
                return
            answer = RequestAnswer(request.id, AnswerState.DONE, text)
        with self._lock:
            if self._under_way.pop(request.id, None) is None:
                return  # the job has ended, and has said so
        self._answer(answer)

    def _answer(self, answer: RequestAnswer) -> None:
        try:
            self._mailbox.answer(answer)
        except OSError as error:
            self._report(f"an answer could not be written: {error}")


def _refusal(request_id: str, error: AshoreError) -> RequestAnswer:
    return RequestAnswer(request_id, AnswerState.REFUSED, "", error.code, error.message, error.hint)
