"""What is to be done about a job: decided from what is wanted and what is known of it.

What it is: `decide`, and `after_exit`, which counts failures.
What it promises: pure. The same facts give the same answer, so a server that starts anew decides
as the one before. A job that waits for a person says for what.
"""

from dataclasses import dataclass
from enum import StrEnum

from ashore.errors import ExitCode
from ashore.fleet.records.job_files import JobFile
from ashore.fleet.records.server_files import Desired, DesiredState, ExitRecord, RetryRecord

FIRST_WAIT_MS, LONGEST_WAIT_MS = 1_000, 300_000
STEADY_MS = 600_000  # a run that lasted so long was no failure in a row

CONTINUES = "its process continues with the file that it was started with"

NEVER = frozenset({ExitCode.FENCED})  # another process has the job
PERSON = frozenset({ExitCode.DECISION, ExitCode.WRONG, ExitCode.UNPROVEN, ExitCode.BUG})
FILE = frozenset({ExitCode.USAGE, ExitCode.SQL_FAILED})  # until the job file changes


class Phase(StrEnum):
    """Where a job of a server is, in the order of the table of states in docs/operate/serve.md."""

    RUNNING = "running"
    STARTING = "starting"
    STOPPING = "stopping"
    STOPPED = "stopped"
    PAUSED = "paused"
    WAITING = "waiting"  # for its turn, as a limit is reached, or for the check of its file
    BACKING_OFF = "backing-off"  # it failed, and is started again
    NEEDS_DECISION = "needs-decision"  # a person decides
    INVALID = "invalid"  # its file cannot be run, or was refused by the job
    FENCED = "fenced"  # another process runs it
    MISSING = "missing"  # its file is gone


NEEDING = frozenset({Phase.NEEDS_DECISION, Phase.INVALID, Phase.FENCED, Phase.MISSING})


class Act(StrEnum):
    """What a supervisor does next about a job."""

    NOTHING = "nothing"
    START = "start"
    STOP = "stop"


@dataclass(frozen=True, slots=True)
class Decision:
    """What is to be done about a job, and where it is.

    Arguments:
        act: what to do now.
        phase: where the job is, before that.
        why: for people; empty where the phase says it all.
        until_ms: when to decide again, if nothing else happens before.
        hint: what a person can do.

    """

    act: Act
    phase: Phase
    why: str = ""
    until_ms: int | None = None
    hint: str = ""


@dataclass(frozen=True, slots=True)
class Facts:
    """What is known of a job.

    Arguments:
        file: None: it is gone.
        desired: what is wanted.
        is_alive: whether a process of it lives.
        has_begun: whether that has reported that the job process works.
        generation: of the process that lives; None: it has not written it yet.
        last: how the last run ended; None: there was none, or one lives.
        retry: failures in a row.
        is_held: whether the operation that `desired` names is under way.

    """

    file: JobFile | None
    desired: Desired
    is_alive: bool
    has_begun: bool = False
    generation: int | None = None
    last: ExitRecord | None = None
    retry: RetryRecord | None = None
    is_held: bool = False


def decide(facts: Facts, now_ms: int) -> Decision:
    """Return what is to be done about a job now."""
    state = _state_now(facts.desired, now_ms)
    if facts.is_held and state is DesiredState.STOPPED:
        why = f"operation {facts.desired.held_by} stops it"
        return Decision(Act.NOTHING, Phase.STOPPING, why)
    if facts.is_alive:
        return _of_living(facts, state)
    if facts.file is not None and facts.file.problem is not None:
        error = facts.file.problem
        return Decision(Act.NOTHING, Phase.INVALID, error.message, hint=error.hint)
    if state is DesiredState.STOPPED:
        return Decision(Act.NOTHING, Phase.STOPPED, facts.desired.why)
    if state is DesiredState.PAUSED:
        return Decision(
            Act.NOTHING, Phase.PAUSED, facts.desired.why, until_ms=facts.desired.until_ms
        )
    if facts.file is None:
        return Decision(
            Act.NOTHING, Phase.MISSING, "its job file is gone", hint="deploy it again, or remove it"
        )
    return _of_dead(facts, facts.file, now_ms)


def _state_now(desired: Desired, now_ms: int) -> DesiredState:
    until_ms = desired.until_ms if desired.state is DesiredState.PAUSED else None
    is_over = until_ms is not None and now_ms >= until_ms
    return DesiredState.RUNNING if is_over else desired.state


def _of_living(facts: Facts, state: DesiredState) -> Decision:
    if state is not DesiredState.RUNNING:
        return Decision(Act.STOP, Phase.STOPPING, facts.desired.why)
    if facts.generation is not None and facts.generation < facts.desired.generation:
        return Decision(Act.STOP, Phase.STOPPING, "it is started again afterwards")
    if facts.file is None:
        why = "its job file is gone; the process continues"
        return Decision(Act.NOTHING, Phase.RUNNING, why, hint="deploy it again, or remove it")
    if facts.file.problem is not None:
        error = facts.file.problem
        why = f"{error.message}; {CONTINUES}"
        return Decision(Act.NOTHING, Phase.INVALID, why, hint=error.hint)
    return Decision(Act.NOTHING, Phase.RUNNING if facts.has_begun else Phase.STARTING)


def _of_dead(facts: Facts, file: JobFile, now_ms: int) -> Decision:
    last = facts.last
    if not file.is_checked:
        return Decision(Act.NOTHING, Phase.WAITING, "its job file is being checked")
    if last is None or last.attempt < facts.desired.attempt:
        return Decision(Act.START, Phase.STARTING)
    if last.code in NEVER:
        hint = "stop it there; then start it here"
        return Decision(Act.NOTHING, Phase.FENCED, last.message, hint=hint)
    if last.code in PERSON:
        return Decision(Act.NOTHING, Phase.NEEDS_DECISION, last.message, hint=last.hint)
    if last.code in FILE and last.digest == file.digest:
        return Decision(Act.NOTHING, Phase.INVALID, last.message, hint=last.hint)
    retry = facts.retry
    if retry is not None and retry.run == last.run and now_ms < retry.not_before_ms:
        why = last.message or f"it ended with exit code {last.code}"
        return Decision(Act.NOTHING, Phase.BACKING_OFF, why, retry.not_before_ms, last.hint)
    return Decision(Act.START, Phase.STARTING)


def after_exit(
    last: ExitRecord, started_ms: int | None, before: RetryRecord | None, now_ms: int
) -> RetryRecord:
    """Return when a job may be started again after a run has ended.

    Arguments:
        last: how it ended.
        started_ms: when it was started; None: that is not known.
        before: the failures in a row until then.
        now_ms: the time; it may have been set back, so a wait is never longer than the longest.

    """
    has_lasted = started_ms is not None and last.ended_ms - started_ms >= STEADY_MS
    earlier = 0 if before is None or has_lasted else before.failures
    failures = earlier + 1
    wait_ms = min(FIRST_WAIT_MS << min(failures - 1, 20), LONGEST_WAIT_MS)
    return RetryRecord(last.run, failures, now_ms + wait_ms)
