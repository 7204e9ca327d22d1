"""Servers that end with the process that started them, however that process ends.

What it is: a small process beside the owner. It waits for the end of a pipe that only the owner
holds, then kills what the notes in the servers' directory name.
What it promises: servers do not outlive an owner that is killed with SIGKILL, also those that were
started again meanwhile. Only processes of the notes are signalled. A server whose note is not yet
written when its owner is killed is not found: microseconds after its start.
"""

import subprocess
import sys
from abc import ABC, abstractmethod
from pathlib import Path
from typing import Self

from ashore_lab.services.process import NOTE_SUFFIX, ServerProcess


class Guard:
    """Kills the servers of a directory when this process ends, or at `close`."""

    def __init__(self, directory: Path) -> None:
        # A session of its own: what ends the owner's group must not end the guard before it acts.
        self._process = subprocess.Popen(
            [sys.executable, "-m", "ashore_lab.services.guard", str(directory.absolute())],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )

    def close(self) -> None:
        """Let it kill what still runs, and wait for its end."""
        self._process.communicate()


class GuardedServers(ABC):
    """Servers in one directory. As a context manager they are up inside and gone after.

    They are gone too when this process is killed inside. Those of a plain `start` stay.
    """

    directory: Path

    @abstractmethod
    def start(self) -> None:
        """Start the servers and wait until they serve. Raises ServiceError if they do not."""

    @abstractmethod
    def stop(self) -> None:
        """End the servers; what is down already is no error."""

    def __enter__(self) -> Self:
        self._guard = Guard(self.directory)
        try:
            self.start()
        except BaseException:
            self._guard.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        try:
            self.stop()
        finally:
            self._guard.close()


def main() -> None:
    """Wait for the end of the owner, then kill its servers."""
    sys.stdin.buffer.read()
    for note in Path(sys.argv[1]).glob(f"*{NOTE_SUFFIX}"):
        ServerProcess(note.name.removesuffix(NOTE_SUFFIX), note.parent).kill()


if __name__ == "__main__":
    main()
