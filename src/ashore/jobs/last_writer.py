"""Who wrote a landing log last, and whether that process is dead, where there is no heartbeat.

What it promises: reads only, about a dozen entries however long the log is. Whether a process of
another machine lives is not known.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ashore.jobs.heartbeat import is_process_alive
from ashore.jobs.state import STOPS
from ashore.log.entries import (
    Begin,
    Commit,
    Compact,
    Entry,
    Migrate,
    Open,
    Reland,
    ResetClock,
    Retire,
    Rollback,
    Skip,
)
from ashore.log.fold import Fold
from ashore.log.names import SliceName
from ashore.log.store.reader import list_log, read_number
from ashore.storage.base import Storage

JOB = "job"  # who a job says that it is, where it skips or retires by itself
COMMAND_ENTRIES = 3  # a command writes this many at most after its own entry


@dataclass(frozen=True, slots=True)
class LastWriter:
    """The process that has opened a log last."""

    host: str
    pid: int
    opened_ms: int  # by its clock

    @property
    def is_alive(self) -> bool | None:
        """Whether it is there; None: it is on another machine."""
        return is_process_alive(self.host, self.pid, self.opened_ms)


def read_writers(storage: Storage, job: str, folds: Mapping[str, Fold]) -> tuple[str | None, bool]:
    """Return the job process that wrote logs last and is dead, and whether a command wrote since.

    One of another machine is not known to be dead. Raises LogDamaged, StorageError.

    Arguments:
        storage: the lake.
        job: its name.
        folds: of its logs, by slice.

    """
    dead, newest_ms, is_command = None, -1, False
    for slice_name, fold in folds.items():
        name = SliceName(job, slice_name)
        newest = [
            entry
            for number in range(fold.end, max(-1, fold.end - COMMAND_ENTRIES), -1)
            if (entry := read_number(storage, name, number)) is not None
        ]
        if not newest:
            continue
        of_command = is_of_command(newest)
        if newest[0].written_ms > newest_ms:
            newest_ms, is_command = newest[0].written_ms, of_command
        is_stopped = isinstance(newest[0].body, Commit) and newest[0].body.reason in STOPS
        writer = None if of_command or is_stopped else find_writer(storage, name, fold)
        if writer is not None and writer.is_alive is False:
            dead = f"process {writer.pid} of this machine, which wrote it,"
    return dead, is_command


def find_writer(storage: Storage, name: SliceName, fold: Fold) -> LastWriter | None:
    """Return who has opened a log last; None: its `open` cannot be found. Raises LogDamaged.

    Epochs grow with the numbers of entries, so that the first one of the fold's is searched for.
    """
    numbers = sorted(each for each in list_log(storage, name).entries if each <= fold.end)
    low, high = 0, len(numbers)
    while low < high:
        middle = (low + high) // 2
        entry = read_number(storage, name, numbers[middle])
        if entry is None or entry.epoch < fold.epoch:  # None: it went to an archive meanwhile
            low = middle + 1
        else:
            high = middle
    # An `open` stays in its place; what came after it may be archived.
    for number in reversed(numbers[max(0, low - 1) : low + 1]):
        entry = read_number(storage, name, number)
        if entry is not None and entry.epoch == fold.epoch and isinstance(entry.body, Open):
            return LastWriter(entry.body.host, entry.body.process, entry.written_ms)
    return None


def is_of_command(newest: Sequence[Entry]) -> bool:
    """Return whether a command wrote a log last, after whatever job had it before.

    `newest`: its last entries, the last one first.
    """
    for entry in newest:
        match entry.body:
            case Commit("retire") | Rollback() | Begin() | Migrate() | ResetClock() | Reland():
                return True
            case Compact():
                return True
            case Skip(by=by) | Retire(by=by):
                return by != JOB
            case Commit():
                continue  # it closes what came before
            case _:
                return False
    return False
