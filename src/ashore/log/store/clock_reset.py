"""Setting back a log whose clock was ahead, by a command.

What it is: what a log would go back to, looked up, and the `reset_clock` entry that says who did it
and why.
What it promises: a log that is not ahead is not taken over. Nothing that was landed is moved.
"""

from ashore.log.names import SliceName
from ashore.log.plan_reset import ClockReset, is_ahead, plan_reset
from ashore.log.store.clock_guard import RecordTimes, require_right_clock
from ashore.log.store.committer import Committer
from ashore.log.store.reader import read_history, read_log
from ashore.storage.base import Storage


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
