"""What a peer's processes use and write: seen from outside, the same way for all.

What it is: CPU time and memory from /proc, files by listing, storage calls by strace.
What it promises: CPU time of processes that have ended meanwhile is counted if their parent waited
for them. Memory is the sum of resident sets, sampled; pages that processes share count for each.
What it must not know: which peer it is.
"""

import os
import re
import shutil
import threading
from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, Self

import pyarrow.parquet as pq

SAMPLE_EVERY_S = 0.1
TICK_S = 1 / os.sysconf("SC_CLK_TCK")
PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


@dataclass(frozen=True, slots=True)
class Usage:
    """What processes used between two moments."""

    cpu_s: float
    rss_peak_bytes: int


class Seen(NamedTuple):
    """What the kernel says of one process."""

    cpu_s: float  # with that of children it has waited for
    rss_bytes: int


class Meter:
    """A context manager that measures all processes of a session but the excluded ones."""

    def __init__(self, session: int, excluded: Collection[int]) -> None:
        self._session = session
        self._excluded = frozenset(excluded)
        self._ended = threading.Event()
        self._rss_peak_bytes = 0
        self._cpu_before_s = self._cpu_after_s = 0.0
        self._sampler = threading.Thread(target=self._sample, name="meter", daemon=True)

    @property
    def usage(self) -> Usage:
        """What was used inside the block."""
        return Usage(self._cpu_after_s - self._cpu_before_s, self._rss_peak_bytes)

    def __enter__(self) -> Self:
        self._cpu_before_s = sum(each.cpu_s for each in self._look())
        self._sampler.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._cpu_after_s = sum(each.cpu_s for each in self._look())
        self._ended.set()
        self._sampler.join()

    def _look(self) -> list[Seen]:
        seen = read_session(self._session)
        return [each for pid, each in seen.items() if pid not in self._excluded]

    def _sample(self) -> None:
        while True:
            now_bytes = sum(each.rss_bytes for each in self._look())
            self._rss_peak_bytes = max(self._rss_peak_bytes, now_bytes)
            if self._ended.wait(SAMPLE_EVERY_S):
                return


def read_session(session: int) -> dict[int, Seen]:
    """Return the processes of a session, by their ids."""
    found = {}
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            text = (entry / "stat").read_text("utf-8", "replace")
        except (FileNotFoundError, ProcessLookupError):
            continue
        # The second field is the name in parentheses, which may hold anything.
        fields = text.rpartition(")")[2].split()
        if int(fields[3]) == session:
            cpu_s = sum(map(int, fields[11:15])) * TICK_S
            found[int(entry.name)] = Seen(cpu_s, int(fields[21]) * PAGE_BYTES)
    return found


@dataclass(frozen=True, slots=True)
class Stored:
    """What a reader of the table finds."""

    files: int
    size_bytes: int
    rows: int


def is_visible(path: Path, root: Path) -> bool:
    """Tell whether readers see a file: no part of its path is hidden."""
    return all(part[0] not in "._" for part in path.relative_to(root).parts)


def list_table(root: Path) -> Stored:
    """List the visible files below `root` and read their footers."""
    files = [path for path in root.rglob("*") if path.is_file() and is_visible(path, root)]
    rows = sum(pq.read_metadata(path).num_rows for path in files)
    return Stored(len(files), sum(path.stat().st_size for path in files), rows)


# --- storage calls -----------------------------------------------------------------------------

CALL = re.compile(r"^\d+ +(\d+\.\d+) (\w+)\((.*)$")
STRACE = ("strace", "-f", "--seccomp-bpf", "-qq", "-y", "-ttt", "-s", "512")
KINDS = {
    "open": ("open", "openat", "openat2", "creat"),
    "look": ("stat", "lstat", "newfstatat", "statx", "access", "faccessat", "faccessat2"),
    "rename": ("rename", "renameat", "renameat2"),
    "link": ("link", "linkat"),
    "delete": ("unlink", "unlinkat", "rmdir"),
    "directory": ("mkdir", "mkdirat"),
    "mode": ("chmod", "fchmodat", "fchmodat2", "chown", "fchownat", "utimensat"),
    "list": ("getdents64",),
    "sync": ("fsync", "fdatasync"),
}
KIND_OF = {call: kind for kind, calls in KINDS.items() for call in calls}


def can_trace() -> bool:
    """Tell whether strace is on this machine."""
    return shutil.which("strace") is not None


def trace_prefix(target: Path) -> list[str]:
    """Return what to put before a command so that its storage calls are written to `target`."""
    calls = f"trace=?{',?'.join(KIND_OF)}"
    return [*STRACE, "-e", calls, "-o", str(target)]


def count_calls(trace: Path, root: Path, from_s: float) -> Counter[str]:
    """Count the calls by kind that name a path below `root`, from a moment on."""
    found: Counter[str] = Counter()
    with trace.open("r", encoding="utf-8", errors="replace") as lines:
        for line in lines:
            match = CALL.match(line)
            if not match or match[2] not in KIND_OF or float(match[1]) < from_s:
                continue
            if str(root) in match[3]:
                found[KIND_OF[match[2]]] += 1
    return found
