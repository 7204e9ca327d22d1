"""How many jobs a server runs at once, and how much memory they may use.

What it is: `ServerLimits`, and `Memory`, which looks at what processes use.
What it promises: a limit that is reached keeps further jobs waiting, and says which; nothing that
runs is ended for another. What processes use is looked at now and then: each look costs time.
"""

from dataclasses import dataclass
from pathlib import Path

from ashore.fleet.records.server_files import ProcessRecord

LOOK_EVERY_MS = 10_000
_PAGE = 4096


@dataclass(frozen=True, slots=True)
class ServerLimits:
    """What a server allows. None: no limit."""

    jobs_max: int | None = None  # at once
    memory_max_bytes: int | None = None  # of all jobs
    job_memory_max_bytes: int | None = None  # of one; one that uses more is started again
    job_memory_bytes: int = 1_500_000_000  # counted for a job that has just been started

    def words_of(self, used_bytes: int) -> str:
        """Return how much a job uses that is above its limit, in words."""
        limit = (
            f" of {self.job_memory_max_bytes / 1e6:,.0f} MB" if self.job_memory_max_bytes else ""
        )
        return f"{used_bytes / 1e6:,.0f} MB, above the limit{limit} (--max-job-memory)"

    def why_full(self, living: int, memory: "Memory") -> str:
        """Return why no further job may start now; empty: one may."""
        if self.jobs_max is not None and living >= self.jobs_max:
            return f"{living} jobs run, as many as --max-jobs allows"
        if self.memory_max_bytes is not None:
            used = memory.used(living)
            if used + self.job_memory_bytes > self.memory_max_bytes:
                limit = self.memory_max_bytes / 1e9
                return f"jobs use {used / 1e9:.1f} GB of the {limit:.1f} GB of --max-memory"
        return ""


class Memory:
    """What the processes of jobs use. Used by one thread."""

    def __init__(self, limits: ServerLimits) -> None:
        self._limits = limits
        self._seen: dict[str, tuple[str, int, int]] = {}  # by job: run, when, bytes

    def look(self, job: str, process: ProcessRecord | None, now_ms: int) -> int | None:
        """Return what the processes of a job use, as of at most ten seconds ago; None: nothing."""
        if process is None:
            self._seen.pop(job, None)
            return None
        known = self._seen.get(job)
        if known is None or known[0] != process.run or not 0 <= now_ms - known[1] < LOOK_EVERY_MS:
            known = process.run, now_ms, tree_bytes(process.pid)
            self._seen[job] = known
        return known[2]

    def is_too_much(self, used_bytes: int) -> bool:
        """Return whether a job uses more than one may."""
        limit = self._limits.job_memory_max_bytes
        return limit is not None and used_bytes > limit

    def used(self, living: int) -> int:
        """Return what all jobs use, those that have just been started by the usual amount."""
        seen = [each for _, _, each in self._seen.values()]
        return sum(seen) + max(0, living - len(seen)) * self._limits.job_memory_bytes


def tree_bytes(pid: int) -> int:
    """Return the resident memory of a process and all that come from it; 0: it is gone."""
    total, todo = 0, [pid]
    while todo:
        found = todo.pop()
        base = Path(f"/proc/{found}")
        try:
            pages = int((base / "statm").read_text().split()[1])
            shared = int((base / "statm").read_text().split()[2])
            total += max(0, pages - shared) * _PAGE
            for thread in (base / "task").iterdir():
                todo += [int(child) for child in (thread / "children").read_text().split()]
        except (OSError, ValueError, IndexError):
            continue
    return total
