"""The directory of job files: which there are, what each says, and what is wrong with it.

What it is: `JobFiles`, which is asked again and again and reads what has changed.
What it promises: a file that cannot be run is a `JobFile` with its problem and keeps no other from
running, and neither does one that takes long to read: it is not checked until it is. A job has the
name of its file: two files can not be one job.
"""

import errno
import hashlib
import os
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from ashore.errors import AshoreError, JobFileInvalid
from ashore.fleet.records.server_files import JOB_SUFFIXES, is_name
from ashore.fleet.records.store import FileMark, mark_of
from ashore.jobs.file import Job
from ashore.topics.loop.job import load_job_file

BYTES_MAX = 1 << 20  # of a job file, and of each file that it names
SETTLED_NS = 2_000_000_000
READERS = 2
FIRST_PATIENCE_S, PATIENCE_S = 5.0, 1.0  # a look waits so long for files that have just changed


@dataclass(frozen=True, slots=True)
class JobFile:
    """A job file as it is now.

    Arguments:
        name: of the job, and of the file.
        path: of the file.
        digest: of its bytes, and of the files of SQL and functions that it names.
        problem: why it cannot be run.
        job: what it says; None where there is a problem.
        is_checked: whether it has been read; until then the rest is of the file before, if any.

    """

    name: str
    path: Path
    digest: str
    problem: AshoreError | None
    job: Job | None
    is_checked: bool = True

    def valid(self) -> Job:
        """Return what it says. Raises what is wrong with it."""
        if self.job is None:
            raise self.problem or JobFileInvalid(f"{self.path.name} cannot be read")
        return self.job


_Read = tuple[tuple[FileMark, ...], JobFile]


class JobFiles:
    """The job files of a directory. Used by one thread; `load` is called by others."""

    def __init__(self, directory: Path, load: Callable[[Path], Job] = load_job_file) -> None:
        self._directory = directory
        self._load = load
        self._known: dict[str, _Read] = {}
        self._reading: dict[str, Future[_Read]] = {}
        self._pool = ThreadPoolExecutor(READERS, "ashore-job-file")
        self._patience_s = FIRST_PATIENCE_S

    def look(self) -> dict[str, JobFile]:
        """Return the job files by name. What has not changed is not read again. Raises OSError.

        One that takes long is returned as not checked, and is as it is with a later look.
        """
        paths, found, begun = find_job_files(self._directory), dict[str, JobFile](), []
        for name in self._known.keys() - paths.keys():
            del self._known[name]
        for name in self._reading.keys() - paths.keys():
            self._reading.pop(name).cancel()
        for name, path in paths.items():
            if name not in self._reading and not self._is_known(name, path):
                self._reading[name] = self._pool.submit(self._read, path)
                begun.append(self._reading[name])
        wait(begun, self._patience_s)
        self._patience_s = PATIENCE_S
        for name, path in paths.items():
            reading = self._reading.get(name)
            if reading is not None and reading.done():
                self._known[name], reading = self._reading.pop(name).result(), None
            known = self._known.get(name)
            file = JobFile(name, path, "", None, None) if known is None else known[1]
            found[name] = file if reading is None else replace(file, is_checked=False)
        return found

    def close(self) -> None:
        """Read no more."""
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _is_known(self, name: str, path: Path) -> bool:
        known = self._known.get(name)
        if known is None:
            return False
        marks, file = known
        return file.path == path and marks == _marks(path, file.job)

    def _read(self, path: Path) -> _Read:
        before = mark_of(path)
        file = read_job_file(path, self._load)
        _now, *beside = _marks(path, file.job)
        return (before, *beside), file


class KnownJobs:
    """Jobs of files that are opened again and again. May be used by many threads.

    A file that changed within a moment is read again, as it might change once more with the same
    time.
    """

    def __init__(self, load: Callable[[Path], Job] = load_job_file) -> None:
        self._load = load
        self._known: dict[Path, tuple[tuple[FileMark, ...], Job]] = {}

    def load(self, path: Path) -> Job:
        """Return the job in a file, as it is now. Raises JobFileInvalid."""
        known = self._known.get(path)
        if known is not None and known[0] == _marks(path, known[1]):
            return known[1]
        job = self._load(path)
        marks = _marks(path, job)
        if max(at for at, _size, _inode in marks) < time.time_ns() - SETTLED_NS:
            self._known[path] = marks, job
        return job


def find_job_files(directory: Path) -> dict[str, Path]:
    """Return the job files of a directory by the names of their jobs. Raises OSError."""
    found: dict[str, Path] = {}
    for entry in sorted(os.scandir(directory), key=lambda each: each.name):
        name, dot, suffix = entry.name.rpartition(".")
        if dot + suffix in JOB_SUFFIXES and is_name(name) and entry.is_file():
            found.setdefault(name, Path(entry.path))
    return {name: found[name] for name in sorted(found)}


def read_job_file(path: Path, load: Callable[[Path], Job] = load_job_file) -> JobFile:
    """Return a job file. Raises nothing: what is wrong with it is its problem."""
    name = path.stem
    digest, problem, job = "", None, None
    try:
        digest = digest_job_file(path, None)
        _check_size(path)  # before it is read: to parse 50 MB takes minutes
        job = load(path)
        for each in _beside(path, job):
            _check_size(each)
        digest = digest_job_file(path, job)
        check_name(name, job)
    except AshoreError as error:
        problem, job = error, None
    except OSError as error:
        problem = JobFileInvalid(f"{path.name} cannot be read: {error.strerror}")
    except (ValueError, RecursionError) as error:
        problem = JobFileInvalid(f"{path.name} cannot be read: {error}")
    return JobFile(name, path, digest, problem, job)


def check_name(name: str, job: Job) -> None:
    """Check that a job has the name of its file. Raises JobFileInvalid."""
    if job.job != name:
        raise JobFileInvalid(
            f"the file is named {name}, and its job {job.job}",
            hint=f"name the file {job.job}.yaml: so no two files are one job",
        )


def digest_job_file(path: Path, job: Job | None) -> str:
    """Return the digest of a job file and of the files that it names. Raises OSError."""
    digest = hashlib.sha256(_content_of(path))
    for each in _beside(path, job):
        with suppress(OSError):  # then it has a problem, which is found when it is loaded
            digest.update(b"\0" + _content_of(each))
    return digest.hexdigest()[:16]


def _content_of(path: Path) -> bytes:
    """Return the content of a file; of one that is too large, a mark that changes with it."""
    if not path.is_file():
        raise FileNotFoundError(errno.ENOENT, "it is not a file", str(path))
    with path.open("rb") as file:
        found = os.fstat(file.fileno())
        if found.st_size > BYTES_MAX:
            return f"{found.st_size} {found.st_mtime_ns}".encode()
        return file.read(BYTES_MAX)


def _check_size(path: Path) -> None:
    """Check that a file is not too large to be read. Raises JobFileInvalid; OSError."""
    size = path.stat().st_size
    if size > BYTES_MAX:
        raise JobFileInvalid(
            f"{path.name} has {size:,} bytes", hint=f"at most {BYTES_MAX:,} are read"
        )


def _beside(path: Path, job: Job | None) -> list[Path]:
    """Return the files that a job file names."""
    if job is None or job.sql is None:
        return []
    return [path.parent / name for name in (job.sql.file, job.sql.functions) if name is not None]


def _marks(path: Path, job: Job | None) -> tuple[FileMark, ...]:
    """Return marks that change with a job file, or with a file that it names."""
    return tuple(mark_of(each) for each in (path, *_beside(path, job)))
