"""What a peer writes: seen from outside, the same way for all.

What it is: files by listing, storage calls by strace.
What it promises: only what readers of the table see counts as stored.
What it must not know: which peer it is.
"""

import re
import shutil
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import pyarrow.parquet as pq


@dataclass(frozen=True, slots=True)
class Stored:
    """What a reader of the table finds."""

    files: int
    size_bytes: int
    rows: int
    metadata_bytes: int = 0  # of a lakehouse table


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
