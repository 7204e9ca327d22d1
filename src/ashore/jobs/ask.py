"""`RunningJob`: requests to a running job, and their answers.

What it promises: an answer, or an error that says what is known, within seconds where no process
answers. Nothing is fenced. The lake is called only for a job with `requests: lake` that has no
process on this machine.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

from ashore.base.clock import Clock
from ashore.base.operator import operator
from ashore.base.unique import unique
from ashore.base.units import format_duration
from ashore.errors import JobNotAnswering, JobNotRunning, error_of
from ashore.jobs.heartbeat import Heartbeat, read_heartbeat
from ashore.jobs.lake_mailbox import LakeMailbox
from ashore.jobs.mailbox import AnswerState, Mailbox, Request, RequestAnswer

ACCEPTED_WITHIN_S = 5.0  # a process looks twice a second
ACCEPTED_BY_LAKE_S = 30.0  # it looks there each 5 s, and a lake may take seconds
SILENT_S = 10.0  # a process beats each second
LOOK_AGAIN_S = 2.5  # whether it beats: clocks of machines differ
_SAFE = "stopping it is safe at any moment: the next start resumes from its log"


@dataclass(frozen=True, slots=True)
class Patience:
    """How long an answer is waited for. `done_s`: once it was accepted; `math.inf`: for ever."""

    done_s: float
    accepted_s: float = ACCEPTED_WITHIN_S
    silent_s: float = SILENT_S


@dataclass(frozen=True, slots=True)
class RunningJob:
    """A job that may run on this machine, or be asked by its lake.

    Arguments:
        job: its name.
        lake: its lake, as it is shown.
        clock: of this machine.
        report: called with a sentence for people, whenever there is something new.
        in_lake: returns its mailbox in the lake; None: it has none.

    """

    job: str
    lake: str
    clock: Clock
    report: Callable[[str], None]
    in_lake: Callable[[], LakeMailbox | None] = lambda: None

    def beat(self) -> Heartbeat | None:
        """Return its last heartbeat on this machine."""
        return read_heartbeat(self.job, self.lake)

    def find_beating(self) -> Heartbeat | None:
        """Return the last heartbeat of a process that seems to run; None: there is none.

        No process is waited for: one that was killed on another machine seems to run for seconds.
        """
        beat = self.beat()
        if beat is None or beat.ended is not None or beat.is_alive is False:
            return None
        age_ms = self.clock.now_ms() - beat.beat_ms
        return beat if 0 <= age_ms <= SILENT_S * 1000 else None

    def find_process(self, *, must_beat: bool = True) -> Heartbeat:
        """Return the last heartbeat of its process, which is there and beats.

        `must_beat`: False: one of this machine that is frozen, or hangs, is returned as well.

        Raises JobNotRunning where there is none; JobNotAnswering where it does not beat.
        """
        beat = self.beat()
        if beat is None:
            raise JobNotRunning(f"there is no heartbeat of job {self.job} on this machine")
        if beat.ended is not None:
            raise _ended(beat, "before it was asked")
        if beat.is_alive is False:
            raise _died(beat, "it was gone before it was asked")
        age_ms = self.clock.now_ms() - beat.beat_ms
        if 0 <= age_ms <= SILENT_S * 1000 or not must_beat:
            return beat
        self.clock.sleep(LOOK_AGAIN_S)
        again = self.beat()
        if again is not None and again.beat_ms != beat.beat_ms and again.ended is None:
            return again
        raise _silent(beat, age_ms)

    def ask(self, verb: str, text: str, patience: Patience) -> tuple[Heartbeat, str]:
        """Ask its process, and return its heartbeat and the text of its answer.

        Arguments:
            verb: what it is to do.
            text: how, as `ashore.jobs.requests` writes it.
            patience: how long is waited.

        Raises JobNotRunning, JobNotAnswering, and as what it was refused.
        If interrupted: what was accepted continues.

        """
        mailbox: Mailbox | LakeMailbox = Mailbox(self.job, self.lake)
        try:
            beat = self.find_process()
        except JobNotRunning:
            in_lake = self.in_lake()
            found = in_lake.find_process() if in_lake else None
            if in_lake is None or found is None:
                raise
            beat, mailbox = found, in_lake
            patience = replace(patience, accepted_s=ACCEPTED_BY_LAKE_S)
        expires_ms = self.clock.now_ms() + round(2000 * patience.accepted_s)
        mark = (beat.pid, beat.started_ms)
        request = Request(unique(), verb, text, *mark, operator(), expires_ms)
        try:
            mailbox.ask(request)
        except FileNotFoundError:
            message = f"process {beat.pid} cannot be asked anything"
            hint = f"it is of an earlier release of Ashore; to stop it: kill {beat.pid}"
            raise JobNotAnswering(message, hint=hint) from None
        except PermissionError:
            message = f"process {beat.pid} of job {self.job} belongs to another user"
            hint = f"ask as the user that runs it, or as root: {mailbox.path}"
            raise JobNotAnswering(message, hint=hint) from None
        self.report(f"asked process {beat.pid} to {verb}")
        try:
            return beat, _Waiting(self, beat, mailbox, request.id).wait(patience)
        finally:
            mailbox.forget(request.id)


class _Waiting:
    def __init__(
        self, job: RunningJob, beat: Heartbeat, mailbox: Mailbox | LakeMailbox, request_id: str
    ) -> None:
        self._job = job
        self._beat = beat
        self._mailbox = mailbox
        self._id = request_id
        self._clock = job.clock
        self._report = job.report
        self._beaten_s = job.clock.monotonic_s()
        self._shown = ""

    def wait(self, patience: Patience) -> str:
        began_s = self._clock.monotonic_s()
        is_accepted = False
        while True:
            is_alive = self._beat.is_alive  # before the answer is looked for, which comes first
            answer = self._mailbox.read_answer(self._id)
            if answer is not None and answer.is_final:
                text = _text_of(answer)
                if not is_accepted:  # it was done between two looks
                    self._report(f"process {self._beat.pid} has accepted it")
                return text
            waited_s = self._clock.monotonic_s() - began_s
            if answer is not None and not is_accepted:
                is_accepted = True
                self._report(f"process {self._beat.pid} has accepted it")
            if is_alive is False:
                raise self._death(is_accepted=is_accepted)
            if not is_accepted and waited_s > patience.accepted_s:
                self._mailbox.withdraw(self._id)  # first: what is accepted then was read before
                if (answer := self._mailbox.read_answer(self._id)) is None:
                    raise _silent(self._beat, round(1000 * waited_s))
            if waited_s > patience.done_s:
                raise JobNotAnswering(
                    f"it is not done after {format_duration(round(1000 * waited_s))}: process "
                    f"{self._beat.pid} has accepted it and continues with it",
                    hint="wait for it with a longer --timeout",
                )
            self._look_at_beat(patience)
            self._clock.sleep(self._mailbox.poll_s)

    def _look_at_beat(self, patience: Patience) -> None:
        beat, now_s = self._job.beat(), self._clock.monotonic_s()
        if beat is None or beat.pid != self._beat.pid or beat.started_ms != self._beat.started_ms:
            return  # another process of the job has begun to beat; this one is looked for itself
        if beat.beat_ms != self._beat.beat_ms:
            self._beat, self._beaten_s = beat, now_s
        elif beat.ended is None and now_s - self._beaten_s > patience.silent_s:
            raise _silent(beat, round(1000 * (now_s - self._beaten_s)))
        if beat.step != self._shown:
            self._shown = beat.step
            self._report(f"process {beat.pid} is at the step {beat.step}")

    def _death(self, *, is_accepted: bool) -> JobNotRunning:
        beat = self._job.beat()
        is_same = beat is not None and beat.pid == self._beat.pid
        if beat is not None and is_same and beat.ended is not None:
            return _ended(beat, "before it had answered")
        when = "after it had accepted" if is_accepted else "before it had accepted"
        return _died(self._beat, f"it died {when}")


def _text_of(answer: RequestAnswer) -> str:
    if answer.state is AnswerState.REFUSED:
        raise error_of(answer.code, answer.message, hint=answer.hint)
    return answer.text


def _ended(beat: Heartbeat, when: str) -> JobNotRunning:
    why = f": {beat.why}" if beat.why else ""
    message = f"process {beat.pid} of job {beat.job} {beat.ended} {when}{why}"
    hint = "start it: it resumes from its log"
    details = {"ended": beat.ended, "beat_ms": beat.beat_ms}
    return JobNotRunning(message, hint=hint, pid=beat.pid, **details)


def _died(beat: Heartbeat, when: str) -> JobNotRunning:
    return JobNotRunning(
        f"process {beat.pid} of job {beat.job} exited without an error message: {when}",
        hint="start it: it finishes what was started",
        pid=beat.pid,
        beat_ms=beat.beat_ms,
    )


def _silent(beat: Heartbeat, age_ms: int) -> JobNotAnswering:
    where = f"process {beat.pid}"
    if beat.is_alive is None:
        message = f"{where} on {beat.host} has not answered for {format_duration(abs(age_ms))}"
        hint = f"it is gone, or cut off from this machine; look on {beat.host}"
        return JobNotAnswering(message, hint=hint)
    message = f"{where} is there and has not answered for {format_duration(abs(age_ms))}"
    return JobNotAnswering(message, hint=f"it is frozen, or hangs: kill -9 {beat.pid}; {_SAFE}")
