"""The lakes that releases leave behind: `python -m tools.old_lakes` writes those that are missing.

What it is: a job of this release in memory, killed while its tasks write and while files move.
What it promises: a lake that is there is never written again: it stands for its release.
What it must not know: drills; they finish what it has left.
"""

import socket
import sys
from pathlib import Path

from ashore.log import names
from ashore.log.entries import FORMAT_VERSION
from ashore.storage.base import Storage
from ashore_lab.drills.recorder import Recorder
from ashore_lab.drills.scenarios.upgrade import OPTIONS, OldLake
from ashore_lab.drills.sites.memory import MemorySite
from ashore_lab.drills.sites.site import TABLE
from ashore_lab.testing import FakeClock, StopProcess

DIRECTORY = Path(__file__).parent.parent / "lab" / "src" / "ashore_lab" / "drills" / "lakes"
SEED = 1
RECORDS = 36
WHILE_TASKS_WRITE = StopProcess(2, kind="close", when="before")
WHILE_FILES_MOVE = StopProcess(4, kind="publish", when="after")


def leave_lake() -> OldLake:
    """Land a batch and a half, and die."""
    clock = FakeClock()
    site = MemorySite(SEED, OPTIONS, clock, Recorder(clock, lambda _snapshot: None))
    site.produce(RECORDS)
    for stop in (WHILE_TASKS_WRITE, WHILE_FILES_MOVE):
        site.live(stop)
    roots = (names.PRIVATE, names.parent(names.table_path(TABLE)))
    found = [each for root in roots for each in _read_below(site.machine, root)]
    return OldLake(FORMAT_VERSION, SEED, RECORDS, dict(sorted(found)))


def _read_below(storage: Storage, directory: str) -> list[tuple[str, str]]:
    found = []
    for each in storage.list(directory):
        if each.is_directory:
            found += _read_below(storage, each.path)
        else:
            found.append((each.path, storage.read(each.path).decode()))
    return found


def main() -> None:
    """Write the lake of this release's format, unless it is there."""
    path = DIRECTORY / f"format-{FORMAT_VERSION}.json"
    if path.exists():
        sys.exit(f"{path} is there: it is never written again")
    socket.gethostname = lambda: "worker-7"  # of no machine that exists
    path.parent.mkdir(exist_ok=True)
    path.write_text(leave_lake().dump(), "utf-8")


if __name__ == "__main__":
    main()
