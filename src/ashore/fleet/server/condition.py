"""What a job is at and what it needs: one value, which pages, REST and `ashore jobs` show.

What it is: `SeenJob`, what supervisor, process and landing log last said of a job; `JobCondition`,
which `judge_condition` makes of it; `find_needs`, what needs a person, and what they can do.
What it promises: pure. What a view shows of a job is in this value, so no two views disagree. A lag
is known only where it was read lately: else it is None, and never 0. Whatever keeps a job from
landing is in the list, gravest first, each with what to do; the commands name the job's own file.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import IntEnum
from pathlib import Path
from typing import TypeGuard

from ashore.base.units import format_duration
from ashore.errors import AshoreError, JobFileInvalid
from ashore.fleet.records.server_files import DesiredState, SliceSeen
from ashore.fleet.supervise.decide import CONTINUES, FILE, NEVER, PERSON, Phase
from ashore.fleet.supervise.supervisor import ManagedJob
from ashore.jobs.state import JobState
from ashore.proof.status.health import BAD_STATES, DECISIONS, OF_RECORDS, FleetRow
from ashore.proof.status.status import JobStatus
from ashore.topics.loop.shares import SEE_STATUS
from ashore.topics.use.run_job import AGAIN

NO_HINT = "the log of the job process says more: see the page of the job"
TRIED_AGAIN = "the server starts it again by itself"
LOOKED_AGAIN = "the server looks again by itself, and a running job tries again by itself"
PASSES_NOT = PERSON | NEVER | FILE  # exit codes of errors that no later try repairs
JOB_RETRIES = (
    "The job tries again by itself, and nothing is lost as long as Kafka keeps the records"
)
WHY_OF_RECORDS = "for the reason, run: ashore status JOB.yaml"
RECREATE_TOPIC = (
    "was the topic deleted? create it again, then run: ashore rejoin JOB.yaml TOPIC; what the old "
    "one contained stays in the table"
)
KNOWN = {
    "no space left": "free space on the disk that is named, or give it a larger one",
    "quota": "free space within the quota, or raise it",
    "permission denied": "let the user that runs the server write there",
    "read-only file system": "look at the disk and the kernel's messages, then mount it again",
    "safe mode": "the NameNode is in safe mode: wait, or ask who runs HDFS",
    "no broker": "check the brokers and the network",
    "cannot be decoded": "look at the dead letters, and ask the producer's team",
}
FAILING = frozenset({Phase.BACKING_OFF, Phase.MISSING, Phase.WAITING})
NO_ANSWER = (
    "check the network, the NameNodes or the mount of the lake, and the brokers; the job itself "
    "waits for as long as it takes"
)
STUCK_AGAIN = (
    "If it is stuck at the same step again, look at what that step needs: Kafka, the lake, the "
    "catalog"
)
STUCK = f"kill its process: any moment is safe, and {TRIED_AGAIN}. {STUCK_AGAIN}"
_STATES = {
    JobState.STUCK: f"kill its process and start it: any moment is safe. {STUCK_AGAIN}",
    JobState.FAILED: "start it: it resumes from its landing log",
    JobState.NEVER_STARTED: "start it: nothing has landed yet",
}


@dataclass(frozen=True, slots=True)
class FreshNumbers:
    """What the process of a job said at most seconds ago; None: it did not say."""

    lag: int | None
    records_per_s: float | None
    last_commit_ms: int | None
    lag_at_ms: int | None = None  # when the lag of the slice was read that was read first
    retrying_since_ms: int | None = None  # None: no slice is retrying


@dataclass(frozen=True, slots=True)
class RateSample:
    """Where a job stood at a moment; None: it was not known."""

    at_ms: int
    records_per_s: float | None
    lag: int | None


@dataclass(frozen=True, slots=True)
class SeenJob:
    """A job as the server last saw it.

    Arguments:
        name: what it is called here: the name of its file.
        path: of the job file.
        row: its status, or why it could not be read.
        seen_ms: when.
        samples: of the last minutes, oldest first.
        supervised: None: no supervisor starts it.
        slow_since_ms: when a look at it began that has not ended; None: none takes long.
        warnings: what its process last warned of, newest first.
        fresh: of a job whose process runs here.
        steps: of the last batches of each slice, as that process reported them.
        problem: why its job file cannot be run; None: it can, or there is none.
        labels: of the job file.

    """

    name: str
    path: Path
    row: FleetRow
    seen_ms: int
    samples: tuple[RateSample, ...] = ()
    slow_since_ms: int | None = None
    supervised: ManagedJob | None = None
    warnings: tuple[str, ...] = ()
    fresh: FreshNumbers | None = None
    steps: tuple[SliceSeen, ...] = ()
    problem: AshoreError | None = None
    labels: Mapping[str, str] = field(default_factory=dict)


class Level(IntEnum):
    """How much something needs a person."""

    DECIDE = 3  # nothing continues before a person has decided
    BROKEN = 2
    WATCH = 1


@dataclass(frozen=True, slots=True)
class Need:
    """Something that needs a person: what is so, and what to do."""

    level: Level
    subject: str
    text: str
    hint: str

    @property
    def word(self) -> str:
        """What the level is called on a page."""
        return {Level.DECIDE: "decide", Level.BROKEN: "broken", Level.WATCH: "look"}[self.level]


def find_needs(seen: SeenJob) -> tuple[Need, ...]:
    """Return what needs a person, gravest first; nothing twice."""
    found: dict[str, Need] = {}
    for each in _all_needs(seen):
        known = found.get(each.text)
        if known is None or known.level < each.level:
            found[each.text] = each
    ordered = sorted(found.values(), key=lambda each: -each.level)
    path = str(seen.path)
    return tuple(replace(each, hint=each.hint.replace("JOB.yaml", path)) for each in ordered)


def _all_needs(seen: SeenJob) -> Iterator[Need]:
    error, status, supervised = seen.row.error, seen.row.status, seen.supervised
    problem = seen.problem or (error if isinstance(error, JobFileInvalid) else None)
    if seen.slow_since_ms is not None:
        text = "its lake or its Kafka does not answer: what is shown may be old"
        yield Need(Level.BROKEN, seen.name, text, NO_ANSWER)
    if problem is not None:
        yield from _of_file(seen, problem)
    elif error is not None:
        yield _of_error(seen.name, error)
    if supervised is not None and problem is None:
        yield from _of_supervisor(supervised)
    is_retrying = seen.fresh is not None and seen.fresh.retrying_since_ms is not None
    warnings = [text for text in seen.warnings if not _is_in_status(text, status)]
    for text in warnings[:1]:
        yield _of_warning(seen.name, text, is_retrying=is_retrying)
    if status is None:
        return
    for warned in status.warnings:
        level = Level.DECIDE if warned.kind in DECISIONS else Level.WATCH
        level = Level.BROKEN if warned.kind in {"kafka", "unclosed", "log_lost"} else level
        yield Need(level, warned.subject, warned.text, warned.hint or NO_HINT)
    yield from _of_state(seen, status)


def _of_file(seen: SeenJob, error: AshoreError) -> Iterator[Need]:
    """Yield why a job file cannot be run: each problem with its line."""
    supervised = seen.supervised
    is_running = supervised is not None and supervised.process is not None
    is_wanted = supervised is None or supervised.desired.state is DesiredState.RUNNING
    level = Level.DECIDE if is_wanted and not is_running else Level.WATCH
    also = f"; {CONTINUES}" if is_running else ""
    problems = error.fields.get("problems")
    found = [each for each in problems if isinstance(each, Mapping)] if _is_list(problems) else []
    for each in found:
        place = f"line {each['line']}: " if each["line"] else ""
        key = f"{each['key']}: " if each["key"] else ""
        text = f"its file cannot be run: {place}{key}{each['message']}"
        yield Need(level, seen.name, f"{text}{also}", str(each["instead"]) or error.hint)
    if not found:
        text = f"its file cannot be run: {error.message}{also}"
        yield Need(level, seen.name, text, error.hint or NO_HINT)


def _of_error(name: str, error: AshoreError) -> Need:
    """Return why a lake cannot be read: most of these errors pass."""
    if error.exit_code in PASSES_NOT:
        return Need(Level.DECIDE, name, error.message, error.hint or NO_HINT)
    hint = f"{error.hint or NO_ANSWER}. {LOOKED_AGAIN}"
    return Need(Level.BROKEN, name, error.message, hint)


def _is_list(value: object) -> TypeGuard[Sequence[object]]:
    return isinstance(value, Sequence) and not isinstance(value, str)


def _is_in_status(text: str, status: JobStatus | None) -> bool:
    """Whether a warning of a job process is in the status too, which has the reason."""
    found = () if status is None else status.warnings
    about = [each.subject for each in found if each.kind in OF_RECORDS]
    return text.endswith(SEE_STATUS) and any(subject in text for subject in about)


def _of_warning(name: str, text: str, *, is_retrying: bool) -> Need:
    """Return what a warning of a job process asks for, where its words show it."""
    if text.endswith(SEE_STATUS):
        return Need(Level.WATCH, name, text.removesuffix(SEE_STATUS), WHY_OF_RECORDS)
    for words, hint in KNOWN.items():
        if words.casefold() in text.casefold():
            return Need(Level.BROKEN, name, text, f"{hint}. {JOB_RETRIES}")
    if "does not exist" in text:
        return Need(Level.BROKEN, name, text, RECREATE_TOPIC)
    return Need(Level.BROKEN if is_retrying else Level.WATCH, name, text, JOB_RETRIES)


def _of_supervisor(supervised: ManagedJob) -> Iterator[Need]:
    name, phase, why = supervised.name, supervised.phase, supervised.decision.why
    hint = supervised.decision.hint
    if supervised.needs_person:
        yield Need(Level.DECIDE, name, why or f"it is {phase}", hint or NO_HINT)
    elif phase in FAILING:
        text = why if phase is Phase.WAITING else f"{phase}: {why}"  # why it waits says it all
        hint = hint.removesuffix(f"; then {AGAIN}").removesuffix(AGAIN)
        yield Need(Level.BROKEN, name, text, f"{hint}. {TRIED_AGAIN}" if hint else TRIED_AGAIN)
    elif phase is Phase.RUNNING and why:
        yield Need(Level.WATCH, name, why, hint or NO_HINT)
    elif supervised.is_changed:
        text = "its file has changed since its process was started"
        yield Need(Level.WATCH, name, text, "restart it to run with the file as it is now")


def _of_state(seen: SeenJob, status: JobStatus) -> Iterator[Need]:
    # Of a job that a supervisor keeps, that says more: but for one that hangs.
    is_known = seen.supervised is not None and status.state is not JobState.STUCK
    if status.state not in BAD_STATES or is_known:
        return
    since = status.since_ms
    ago = "" if since is None else f" for {format_duration(max(0, status.now_ms - since))}"
    never = status.state is JobState.NEVER_STARTED
    level = Level.WATCH if never else Level.BROKEN
    hint = _STATES[status.state] if seen.supervised is None else STUCK
    yield Need(level, seen.name, f"{status.state}{ago}: {status.why}", hint)


LAG_MS_MAX = 60_000  # a lag that is older is not known
UNREADABLE, RETRYING = "not readable", "retrying"


@dataclass(frozen=True, slots=True)
class JobCondition:
    """What a job is at. Times are in milliseconds; None: not known.

    Arguments:
        name: of the job.
        state: in a word, or two: `running`, `idle`, `stuck`, `retrying`, or the supervisor's phase.
        since_ms: when it came to that.
        why: of the state, or the gravest thing that needs a person; empty: the state says it all.
        hint: what a person can do about that.
        needs: everything that needs a person, gravest first.
        lag: offsets that wait.
        lag_at_ms: when that was read; of a lag that is not known, when it was last known.
        records_per_s: over the last batches.
        last_entry_ms: when the newest entry of its logs was written.
        retrying_since_ms: since when tries have failed; None: none has failed since the last one
            that succeeded.
        landed: rows that its logs count.

    """

    name: str
    state: str
    since_ms: int | None
    why: str
    hint: str
    needs: tuple[Need, ...]
    lag: int | None
    lag_at_ms: int | None
    records_per_s: float | None
    last_entry_ms: int | None
    retrying_since_ms: int | None
    landed: int

    @property
    def level(self) -> int:
        """How much it needs a person; 0: it does not."""
        return max((each.level for each in self.needs), default=0)


def judge_condition(seen: SeenJob) -> JobCondition:
    """Return what a job is at."""
    status, fresh = seen.row.status, seen.fresh
    needs = find_needs(seen)
    state, since_ms = _state_of(seen)
    why, hint = _why_of(seen, needs)
    lag, lag_at_ms = _lag_of(seen)
    rate = fresh.records_per_s if fresh else None
    return JobCondition(
        name=seen.name,
        state=state,
        since_ms=since_ms,
        why=why,
        hint=hint,
        needs=needs,
        lag=lag,
        lag_at_ms=lag_at_ms,
        records_per_s=rate if rate is not None or status is None else job_rate(status),
        last_entry_ms=_last_entry_ms(status, fresh),
        retrying_since_ms=fresh.retrying_since_ms if fresh else None,
        landed=0 if status is None else sum(each.landed for each in status.slices),
    )


def _state_of(seen: SeenJob) -> tuple[str, int | None]:
    """Return what a job is at, and since when."""
    status, supervised = seen.row.status, seen.supervised
    if supervised is None:
        return (UNREADABLE, None) if status is None else (str(status.state), status.since_ms)
    if supervised.phase is Phase.RUNNING:
        retrying_ms = seen.fresh.retrying_since_ms if seen.fresh else None
        if status is not None and status.state is JobState.STUCK:
            return str(status.state), status.since_ms
        if retrying_ms is not None:
            return RETRYING, retrying_ms
        # Between two batches a process waits as well where records do.
        if status is not None and status.state is JobState.IDLE and not _lag_of(seen)[0]:
            return str(status.state), status.since_ms
    return supervised.phase.replace("-", " "), supervised.since_ms


def _why_of(seen: SeenJob, needs: tuple[Need, ...]) -> tuple[str, str]:
    """Return why it is at that, and what to do."""
    supervised = seen.supervised
    decision = None if supervised is None else supervised.decision
    if needs and (needs[0].level >= Level.BROKEN or decision is None or not decision.why):
        return needs[0].text, needs[0].hint
    return ("", "") if decision is None else (decision.why, decision.hint)


def _lag_of(seen: SeenJob) -> tuple[int | None, int | None]:
    """Return the lag that was read last, by the job's process or by this server, and when."""
    status, fresh = seen.row.status, seen.fresh
    read = []
    if fresh is not None and fresh.lag is not None and fresh.lag_at_ms is not None:
        read.append((fresh.lag_at_ms, fresh.lag))
    if status is not None and status.lag is not None:
        read.append((status.now_ms, status.lag))
    if not read:
        return None, None
    at_ms, lag = max(read)
    return (lag if seen.seen_ms - at_ms <= LAG_MS_MAX else None), at_ms


def job_rate(status: JobStatus) -> float | None:
    """Return records per second over all slices; None: there are too few batches."""
    known = [each.records_per_s for each in status.slices if each.records_per_s is not None]
    return sum(known) if known else None


def _last_entry_ms(status: JobStatus | None, fresh: FreshNumbers | None) -> int | None:
    known = [fresh.last_commit_ms] if fresh is not None and fresh.last_commit_ms else []
    if status is not None:
        known += [status.now_ms - each.last.age_ms for each in status.slices if each.last]
    return max(known, default=None)
