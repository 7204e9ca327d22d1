"""A small disk that can be filled: a tmpfs in a mount namespace of whoever runs in it."""

import os
from collections.abc import Sequence
from pathlib import Path

MOUNT = 'mount -t tmpfs -o size="$1" tmpfs "$2" && cp -a "$2".kept/. "$2"/ && shift 2 && exec "$@"'
FILLER, PIECE = "filler", 1 << 16


def on_small_disk(directory: Path, size: str, command: Sequence[str]) -> list[str]:
    """Return a command that runs another one where a directory is a small disk.

    What is in `DIRECTORY.kept` is copied onto it first. Needs no rights: the disk is seen by the
    command, and what comes from it, alone.
    """
    directory.mkdir(exist_ok=True)
    directory.with_name(f"{directory.name}.kept").mkdir(exist_ok=True)
    mounting = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", MOUNT, "sh"]
    return [*mounting, size, str(directory), *command]


def seen_by(pid: int, path: Path) -> Path:
    """Return a path as a process sees it."""
    return Path(f"/proc/{pid}/root{path}")


def fill(directory: Path) -> None:
    """Take all space of a disk."""
    handle = os.open(directory / FILLER, os.O_WRONLY | os.O_CREAT, 0o600)
    try:
        for piece in (b"\0" * PIECE, b"\0"):
            while True:
                try:
                    os.write(handle, piece)
                except OSError:
                    break
    finally:
        os.close(handle)


def free(directory: Path) -> None:
    """Give the space back."""
    (directory / FILLER).unlink()
