"""Setting back the logs of a job whose clock was ahead, from a job file and without Spark.

What it is: the use case behind `reset-clock`.
What it promises: only logs that are ahead are taken over. What `plan` shows is what `apply` does,
but for the seconds between.
"""

from dataclasses import dataclass

from ashore.base.clock import is_ahead
from ashore.base.operator import operator
from ashore.errors import JobFileInvalid
from ashore.log.names import SliceName
from ashore.log.plan_reset import ClockReset, plan_reset
from ashore.log.store.clock_guard import RecordTimes, require_right_clock, show_time
from ashore.log.store.committer import Committer
from ashore.log.store.reader import read_history, read_log
from ashore.storage.base import Storage
from ashore.topics.open_job import OpenJob
from ashore.topics.use.requirements import require_stopped

LINES_MAX = 20  # partitions that are shown; `--json` has all


@dataclass(frozen=True, slots=True)
class SliceReset:
    """How the log of one slice changes."""

    name: SliceName
    reset: ClockReset

    def explain(self) -> list[str]:
        """Return what is set back, and what stays, for people."""
        reset = self.reset
        from_to = f"from {show_time(reset.log_ms)} to {show_time(reset.body.now_ms)}"
        lines = [f"{self.name}: the log is set back {from_to}"]
        lines += [f"  watermark of {table}: {show_time(ms)}" for table, ms in reset.body.watermarks]
        lines.append(f"  {reset.batches:,} batches were landed ahead; their rows stay:")
        rows = sorted(reset.rows, reverse=True)
        lines += [f"    {table} {where}: {count:,} rows" for (table, where), count in rows]
        if len(lines) > LINES_MAX:
            lines = [*lines[:LINES_MAX], f"    and {len(lines) - LINES_MAX:,} more (--json)"]
        for (table, where), version in reset.seals[:LINES_MAX]:
            lines.append(
                f"  {table} {where} was sealed ahead, as version {version}: it stays sealed"
            )
        return lines

    def to_dict(self) -> dict[str, object]:
        """Return it as `--json` prints it."""
        reset = self.reset
        return {
            "slice": self.name.slice,
            "log_ms": reset.log_ms,
            "now_ms": reset.body.now_ms,
            "watermarks": dict(reset.body.watermarks),
            "batches": reset.batches,
            "rows": [[*key, rows] for key, rows in reset.rows],
            "seals": [[*key, version] for key, version in reset.seals],
        }


def plan(opened: OpenJob) -> tuple[SliceReset, ...]:
    """Return what `apply` would set back, by this machine's clock. Looks only.

    Raises LogDamaged, StorageError.
    """
    found = (
        (name, find_reset(opened.storage, name, opened.clock.now_ms(), "", ""))
        for name in opened.slices
    )
    return tuple(SliceReset(name, reset) for name, reset in found if reset is not None)


def apply(opened: OpenJob, why: str, *, takes_over: bool) -> tuple[SliceReset, ...]:
    """Set back every log of the job that is ahead; an entry says who did it and why.

    Raises JobFileInvalid without a reason; LogGrows where the job runs, unless it `takes_over`;
    and what `reset_clock` raises.
    If interrupted: some logs are set back; the same command continues with the others.
    """
    if not why.strip():
        raise JobFileInvalid("the reason is missing", hint='write --why "what has happened"')
    planned = plan(opened)
    if planned:
        require_stopped(opened, takes_over=takes_over)
    done = []
    for each in planned:
        reset = reset_clock(opened.committer(each.name), opened.source, operator(), why)
        if reset is not None:
            done.append(SliceReset(each.name, reset))
    return tuple(done)


def find_reset(
    storage: Storage, name: SliceName, now_ms: int, by: str, why: str
) -> ClockReset | None:
    """Return what `reset_clock` would do at a time; None: the log is not ahead of it.

    Looks only, beside whatever runs. Raises LogDamaged, StorageError.
    """
    fold = read_log(storage, name)
    if not is_ahead(fold.latest_ms, now_ms):  # its whole history need not be read
        return None
    return plan_reset(fold, read_history(storage, name), now_ms, by, why)


def reset_clock(committer: Committer, source: RecordTimes, by: str, why: str) -> ClockReset | None:
    """Set a log back to what the time is: a `reset_clock` entry says so for ever.

    Takes the slice over, unless its log is not ahead. Raises ClockAhead where this machine's clock
    is not to be believed either, having appended an `open` only; and what finishing the unclosed
    entry raises: FilesLost, FileConflict, Fenced, StorageError.
    If interrupted: the log is set back, or not; doing it again is harmless.
    """
    log, storage, clock = committer.log, committer.storage, committer.clock
    if find_reset(storage, log.name, clock.now_ms(), by, why) is None:
        return None
    log.open()
    require_right_clock(committer, source)
    closing = committer.finish()
    planned = plan_reset(log.fold, read_history(storage, log.name), clock.now_ms(), by, why)
    if planned is not None:
        log.append(planned.body, closing)
    return planned
