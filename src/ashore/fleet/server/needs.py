"""What needs a person, and what that person can do: one list for a job.

What it is: `find_needs`, from what was last seen of a job.
What it promises: pure. Whatever keeps a job from landing is in it, gravest first, each with what to
do; the commands name the job's own file.
What it must not know: HTML.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import IntEnum
from typing import TypeGuard

from ashore.base.units import format_duration
from ashore.errors import AshoreError, JobFileInvalid
from ashore.fleet.server.observation import SeenJob, Supervised
from ashore.fleet.supervise.decide import CONTINUES, FILE, NEVER, PERSON
from ashore.jobs.state import JobState
from ashore.proof.status.health import BAD_STATES, DECISIONS, OF_RECORDS
from ashore.proof.status.status import JobStatus
from ashore.topics.loop.shares import SEE_STATUS
from ashore.topics.use.run import AGAIN

NO_HINT = "the log of the job process says more: see the page of the job"
TRIED_AGAIN = "the server starts it again by itself"
LOOKED_AGAIN = "the server looks again by itself, and a running job tries again by itself"
PASSES_NOT = PERSON | NEVER | FILE  # exit codes of errors that no later try repairs
GOES_ON = "The job tries again by itself, and nothing is lost as long as Kafka keeps the records"
WHY_OF_RECORDS = "for the reason, run: ashore status JOB.yaml"
GONE = (
    "was the topic deleted? create it again, then run: ashore rejoin JOB.yaml TOPIC; what the old "
    "one held stays in the table"
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
FAILING = ("backing-off", "missing", "waiting")
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


class Level(IntEnum):
    """How much something needs a person."""

    DECIDE = 3  # nothing goes on before somebody has decided
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
    return tuple(replace(each, hint=_with_path(each.hint, str(seen.path))) for each in ordered)


def _with_path(hint: str, path: str) -> str:
    return hint.replace("JOB.yaml", path)


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
        yield from _of_supervisor(seen.name, supervised)
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
    is_running = supervised is not None and supervised.pid is not None
    is_wanted = supervised is None or supervised.desired == "running"
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
    """Return what a warning of a job process asks for, where its words tell."""
    if text.endswith(SEE_STATUS):
        return Need(Level.WATCH, name, text.removesuffix(SEE_STATUS), WHY_OF_RECORDS)
    for words, hint in KNOWN.items():
        if words.casefold() in text.casefold():
            return Need(Level.BROKEN, name, text, f"{hint}. {GOES_ON}")
    if "does not exist" in text:
        return Need(Level.BROKEN, name, text, GONE)
    return Need(Level.BROKEN if is_retrying else Level.WATCH, name, text, GOES_ON)


def _of_supervisor(name: str, supervised: Supervised) -> Iterator[Need]:
    if supervised.needs_person:
        text = supervised.why or f"it is {supervised.phase}"
        yield Need(Level.DECIDE, name, text, supervised.hint or NO_HINT)
    elif supervised.phase in FAILING:
        is_waiting = supervised.phase == "waiting"  # its reason says so, and is all of `why`
        text = supervised.why if is_waiting else f"{supervised.phase}: {supervised.why}"
        hint = supervised.hint.removesuffix(f"; then {AGAIN}").removesuffix(AGAIN)
        yield Need(Level.BROKEN, name, text, f"{hint}. {TRIED_AGAIN}" if hint else TRIED_AGAIN)
    elif supervised.phase == "running" and supervised.why:
        yield Need(Level.WATCH, name, supervised.why, supervised.hint or NO_HINT)
    elif supervised.is_changed:
        text = "its file has changed since its process was started"
        yield Need(Level.WATCH, name, text, "restart it to run with the file as it is now")


def _of_state(seen: SeenJob, status: JobStatus) -> Iterator[Need]:
    # Of a job that a supervisor keeps, that says more: but for one that hangs.
    is_told = seen.supervised is not None and status.state is not JobState.STUCK
    if status.state not in BAD_STATES or is_told:
        return
    since = status.since_ms
    ago = "" if since is None else f" for {format_duration(max(0, status.now_ms - since))}"
    never = status.state is JobState.NEVER_STARTED
    level = Level.WATCH if never else Level.BROKEN
    hint = _STATES[status.state] if seen.supervised is None else STUCK
    yield Need(level, seen.name, f"{status.state}{ago}: {status.why}", hint)
