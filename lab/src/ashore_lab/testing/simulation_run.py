"""A process that runs a job for a server, without a job: a script of the standard library alone.

What it is: what `ashore.fleet.machine.run` is to a server: it holds the lock, writes which process
it is, where it is, and how it ended. `behave.json` beside its files says what becomes of it.
What it promises: it starts in a hundredth of a second, so tests and benchmarks can have hundreds.
That two of one job live at once is written to `doubled`.
"""

import fcntl
import json
import os
import signal
import sys
import time
from pathlib import Path

_CLOCK_TICKS = os.sysconf("SC_CLK_TCK")


def started_ms() -> int:
    """Return when this process was started, as the system reports it."""
    ticks = int(Path("/proc/self/stat").read_text().rpartition(")")[2].split()[19])
    for line in Path("/proc/stat").read_text().splitlines():
        if line.startswith("btime "):
            return int(line.split()[1]) * 1000 + ticks * 1000 // _CLOCK_TICKS
    return 0


def write(path: Path, document: dict[str, object]) -> None:
    """Replace a file."""
    made = path.with_name(f".{path.name}.{os.getpid()}")
    made.write_text(json.dumps(document))
    made.replace(path)


def main() -> int:
    """Be the process of a job, until a signal or `behave.json` ends it."""
    run, job_file, directory, generation, attempt, lock = sys.argv[1:]
    os.set_inheritable(int(lock), False)
    root = Path(directory)
    with (root / "starts").open("a") as starts:
        starts.write(f"{os.getpid()}\n")
    alive = os.open(root / "alive.lock", os.O_RDWR | os.O_CREAT)
    try:
        fcntl.flock(alive, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        (root / "doubled").touch()
    try:
        behave = json.loads((root / "behave.json").read_text())
    except (OSError, ValueError):
        behave = {}
    memory = b"x" * int(behave.get("memory_bytes", 0))
    is_ended = False
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})  # it is waited for below
    job = Path(job_file).stem
    marks = {"run": run, "job": job, "pid": os.getpid(), "digest": "simulated"}
    numbers = {"generation": int(generation), "attempt": int(attempt)}
    write(root / "process.json", {**marks, **numbers, "started_ms": started_ms()})
    until_s = time.monotonic() + behave.get("exit_after_s", 1e9)
    batch = 0
    while not is_ended and time.monotonic() < until_s:
        now_ms = time.time_ns() // 1_000_000
        here = {"slice": "main", "state": "running", "step": "idle", "step_since_ms": now_ms}
        here |= {"epoch": 1, "batch": batch, "lag": 0, "rows": batch, "last_commit_ms": now_ms}
        seen = {"run": run, "job": job, "at_ms": now_ms, "phase": "running", "job_pid": None}
        filled = {"entry": None, "rate": 0, "newest_ms": None, "watermark_ms": None}
        here |= {**filled, "deferred": 0, "why": "", "batches": []}
        write(root / "seen.json", {**seen, "slices": [here], "warnings": [], "log": ""})
        batch += 1
        wait_s = min(behave.get("every_s", 10.0), max(0.0, until_s - time.monotonic()))
        is_asked = signal.sigtimedwait({signal.SIGTERM}, wait_s) is not None
        is_ended = is_asked and not behave.get("deaf", False)
    del memory
    code = 0 if is_ended else int(behave.get("code", 0))
    error = {name: behave.get(name, "") for name in ("error", "message", "hint")}
    end = {"run": run, "attempt": int(attempt), "digest": behave.get("digest", "simulated")}
    write(
        root / "exit.json", {**end, "code": code, "ended_ms": time.time_ns() // 1_000_000, **error}
    )
    return code


if __name__ == "__main__":
    sys.exit(main())
