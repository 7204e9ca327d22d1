"""What a job is at: one value, which pages, REST and `ashore jobs` show.

What it is: `JobCondition`, and `judge_condition`, which makes it of a job as it was last seen.
What it promises: pure. What a view shows of a job is in this value, so no two views disagree. A lag
is known only where it was read lately: else it is None, and never 0.
What it must not know: HTML, HTTP, terminals.
"""

from dataclasses import dataclass

from ashore.fleet.server.needs import Level, Need, find_needs
from ashore.fleet.server.observation import FreshNumbers, SeenJob
from ashore.jobs.state import JobState
from ashore.proof.status.status import JobStatus

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
        records_per_s=rate if rate is not None or status is None else rate_of(status),
        last_entry_ms=_last_entry_ms(status, fresh),
        retrying_since_ms=_retrying_since(fresh),
        landed=0 if status is None else sum(each.landed for each in status.slices),
    )


def _state_of(seen: SeenJob) -> tuple[str, int | None]:
    """Return what a job is at, and since when."""
    status, supervised = seen.row.status, seen.supervised
    if supervised is None:
        return (UNREADABLE, None) if status is None else (str(status.state), status.since_ms)
    if supervised.phase == "running":
        retrying_ms = _retrying_since(seen.fresh)
        if status is not None and status.state is JobState.STUCK:
            return str(status.state), status.since_ms
        if retrying_ms is not None:
            return RETRYING, retrying_ms
        if status is not None and status.state is JobState.IDLE:
            return str(status.state), status.since_ms
    return supervised.phase.replace("-", " "), supervised.since_ms


def _why_of(seen: SeenJob, needs: tuple[Need, ...]) -> tuple[str, str]:
    """Return why it is at that, and what to do."""
    supervised = seen.supervised
    is_said = supervised is not None and supervised.why
    if needs and (needs[0].level >= Level.BROKEN or not is_said):
        return needs[0].text, needs[0].hint
    return (supervised.why, supervised.hint) if supervised is not None else ("", "")


def _retrying_since(fresh: FreshNumbers | None) -> int | None:
    return fresh.retrying_since_ms if fresh else None


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


def rate_of(status: JobStatus) -> float | None:
    """Return records per second over all slices; None: there are too few batches."""
    known = [each.records_per_s for each in status.slices if each.records_per_s is not None]
    return sum(known) if known else None


def _last_entry_ms(status: JobStatus | None, fresh: FreshNumbers | None) -> int | None:
    known = [fresh.last_commit_ms] if fresh is not None and fresh.last_commit_ms else []
    if status is not None:
        known += [status.now_ms - each.last.age_ms for each in status.slices if each.last]
    return max(known, default=None)
