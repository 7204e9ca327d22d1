"""Classes of Spark's JVM in a file, so that the next one starts with a third less work.

What it promises: an archive is found by Java, PySpark and jars, and is complete: a JVM would crash
on a part of one. A JVM that an archive does not fit starts as without.
"""

import hashlib
import os
import re
import subprocess
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Self

from ashore.base.clock import SystemClock
from ashore.base.unique import unique
from ashore.jobs.jars import cache_directory, find_java, find_pyspark_home, jar_paths

# Else each class that is left out is reported on stdout, which is for events.
SILENT = "-Xshare:auto -Xlog:disable -Xlog:all=error:stderr"
_PLAIN = re.compile(r"[\w/.@:+~-]+")  # what no one on the way to the JVM takes for more than a path
SUFFIX = ".jsa"
UNUSED_S = 30 * 86_400  # an archive that no JVM has asked for since is that of an older release
ABANDONED_S = 86_400  # what a process has begun to write, and was killed


def archive_stem() -> Path:
    """Return where archives that fit this machine are kept, without their ends. Raises JavaMissing.

    The end of a name has the size: a JVM that is given a part of an archive dies of it.
    """
    java, own = find_java().resolve(), find_pyspark_home() / "jars"
    facts = [
        *(str(java), str(int(java.stat().st_mtime))),  # layers of an image keep whole seconds
        *(str(own), str(int(own.stat().st_mtime))),  # another release is other files in there
        *map(str, jar_paths("spark-kafka")),  # whose bytes are those of the lock list
    ]
    name = hashlib.sha256("\n".join(facts).encode()).hexdigest()[:16]
    return cache_directory().parent / "classes" / name


def find_archive() -> Path | None:
    """Return the archive that fits this machine and is whole, if there is one."""
    stem = archive_stem()
    with suppress(OSError):
        for path in stem.parent.glob(f"{stem.name}-*{SUFFIX}"):
            if path.stem == f"{stem.name}-{path.stat().st_size}":
                return path
    return None


def write_options(path: Path) -> str:
    """Return the options of a JVM that writes an archive when it ends well."""
    return f"-XX:ArchiveClassesAtExit={path} {SILENT}"


def use_options(path: Path) -> str:
    """Return the options of a JVM that has an archive."""
    return f"-XX:SharedArchiveFile={path} {SILENT}"


def find_options() -> str:
    """Return the options of a JVM that is started now: none where there is no archive."""
    path = find_archive()
    if path is None or not _PLAIN.fullmatch(str(path)):
        return ""
    with suppress(OSError):
        os.utime(path)  # it is in use: see UNUSED_S
    return use_options(path)


def is_sound(path: Path) -> bool:
    """Return whether a JVM takes an archive: it reads all of it, once. Raises JavaMissing."""
    options = [*use_options(path).split(), "-XX:+VerifySharedSpaces", "-version"]
    command = [str(find_java()), *options]
    with TemporaryDirectory() as scratch:  # for what a JVM writes down when it dies
        answer = subprocess.run(command, cwd=scratch, capture_output=True, check=False)
    return answer.returncode == 0


class NewArchive:
    """An archive that a JVM is to write. As a context manager: nothing half written stays.

    Others may do the same at this moment: the last one that is kept stays. Raises JavaMissing;
    OSError where nothing can be written.

    If interrupted: what the JVM has written stays until another archive is kept a day later.
    """

    def __init__(self) -> None:
        self._stem = archive_stem()
        self._written = self._stem.with_suffix(f".{unique()}")
        self._stem.parent.mkdir(parents=True, exist_ok=True)
        self._written.touch()  # now or never
        self._written.unlink()

    @property
    def options(self) -> str:
        """The options of the JVM; empty where its path would be taken apart on the way."""
        return write_options(self._written) if _PLAIN.fullmatch(str(self._written)) else ""

    def keep(self, is_whole: Callable[[Path], bool] = is_sound) -> Path | None:
        """Keep what the JVM has written, and return where; None: it has not, or not all of it.

        Requires: the JVM has ended. Raises OSError.
        """
        if not self._written.exists() or not is_whole(self._written):
            return None
        with self._written.open("rb") as file:
            os.fsync(file.fileno())
            size_bytes = os.fstat(file.fileno()).st_size
        path = self._stem.with_name(f"{self._stem.name}-{size_bytes}{SUFFIX}")
        self._written.replace(path)
        self._remove_others(path, SystemClock().now_ms() / 1000)
        return path

    def _remove_others(self, kept: Path, now_s: float) -> None:
        for path in kept.parent.iterdir():
            allowed_s = UNUSED_S if path.suffix == SUFFIX else ABANDONED_S
            if path.suffix == SUFFIX and path.stem.startswith(f"{self._stem.name}-"):
                allowed_s = 0  # whose JVMs have opened it
            with suppress(OSError):
                if path != kept and now_s - path.stat().st_mtime >= allowed_s:
                    path.unlink()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        with suppress(OSError):
            self._written.unlink(missing_ok=True)
