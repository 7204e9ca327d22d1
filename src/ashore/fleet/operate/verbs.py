"""Requests for jobs, written down: deploy, start, stop, restart, pause, remove.

What it promises: a verb has happened once its file is written: it survives the server, and is done
by the supervisor in a moment. A job file is checked as a whole before it takes the place of the one
before. Verbs of several requests come one after the other.
"""

import shutil
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from ashore.base.clock import Clock, SystemClock
from ashore.base.suggest import suggest
from ashore.base.unique import unique
from ashore.errors import (
    JobFileInvalid,
    JobUnknown,
    OperationUnknown,
    RequestInvalid,
    ServerBusy,
    ServerRefused,
)
from ashore.fleet.records.job_files import BYTES_MAX, find_job_files, read_job_file
from ashore.fleet.records.server_files import (
    JOB_SUFFIXES,
    Asker,
    Desired,
    DesiredState,
    ServerFiles,
    desired_name,
    is_name,
)
from ashore.fleet.records.store import FileMark, mark_of, replace_text
from ashore.jobs.file import Job
from ashore.topics.loop.job import load_job_file

BESIDE_SUFFIXES = (".sql", ".py")


class Verbs:
    """Writes down what is wanted of jobs. May be used by many threads.

    Arguments:
        layout: where files are.
        clock: of this machine.
        check: raises where a job file that is deployed is refused.
        cancel: ends the operation that holds a job of which something else is wanted now.
        load: reads a job file.

    """

    def __init__(
        self,
        layout: ServerFiles,
        clock: Clock | None = None,
        check: Callable[[Job], None] = lambda _job: None,
        cancel: Callable[[str], object] = lambda _operation: None,
        load: Callable[[Path], Job] = load_job_file,
    ) -> None:
        self._layout = layout
        self._check = check
        self._cancel = cancel
        self._load = load
        self._clock = clock or SystemClock()
        self._lock = threading.Lock()

    def deploy(
        self,
        name: str,
        text: str,
        beside: Mapping[str, str] | None = None,
        permit: Callable[[Job], None] = lambda _job: None,
    ) -> None:
        """Write a job file, once it was read where it keeps no other verb from its turn.

        Arguments:
            name: of the job.
            text: of the file.
            beside: files of SQL and functions that it names, by name.
            permit: raises where who asks may not deploy what the file says.

        Raises JobFileInvalid, PathNotAllowed, ServerRefused where the file that is there has
        changed meanwhile, and nothing was written; RequestInvalid; OSError.

        """
        beside = beside or {}
        _check_names(name, beside)
        if len(text) > BYTES_MAX:
            raise RequestInvalid(f"the job file has more than {BYTES_MAX:,} characters")
        before = self._mark_of(name)
        made = self._layout.state / f"deploying-{unique()}"
        made.mkdir(mode=0o700)
        try:
            for file_name, content in beside.items():
                (made / file_name).write_text(content, "utf-8")
            (made / f"{name}.yaml").write_text(text, "utf-8")
            job = self._read_new(made, name, beside)
            permit(job)
            self._check(job)
        finally:
            shutil.rmtree(made, ignore_errors=True)
        with self._lock:
            if self._mark_of(name) != before:
                raise ServerRefused(
                    f"the file of job {name} has changed meanwhile",
                    hint="look at what it says now, then deploy again",
                )
            for file_name, content in beside.items():
                replace_text(self._layout.jobs / file_name, content)
            replace_text(self._path_of(name) or self._layout.jobs / f"{name}.yaml", text)

    def start(self, name: str, asker: Asker) -> Desired:
        """Let a job run, whatever it ended with before. Raises JobUnknown, OSError."""
        self._require_file(name)
        return self._want(
            name, asker, lambda at: replace(at, state=DesiredState.RUNNING, attempt=at.attempt + 1)
        )

    def restart(self, name: str, asker: Asker) -> Desired:
        """Stop a job, if it runs, and let it run again. As `start`."""
        self._require_file(name)
        return self._want(
            name,
            asker,
            lambda at: replace(
                at, state=DesiredState.RUNNING, attempt=at.attempt + 1, generation=at.generation + 1
            ),
        )

    def stop(self, name: str, asker: Asker, held_by: str = "") -> Desired:
        """Stop a job in order, until it is started. Raises JobUnknown, OSError.

        `held_by`: the operation that stops it; see `Desired`.
        """
        return self._want(
            name, asker, lambda at: replace(at, state=DesiredState.STOPPED, held_by=held_by)
        )

    def pause(self, name: str, asker: Asker, for_ms: int | None = None) -> Desired:
        """Stop a job for a while: then, or once it is started, it runs. As `stop`."""

        def change(at: Desired) -> Desired:
            until_ms = None if for_ms is None else at.at_ms + for_ms
            return replace(at, state=DesiredState.PAUSED, until_ms=until_ms)

        return self._want(name, asker, change)

    def remove(self, name: str) -> None:
        """Remove the file of a job that does not run; its lake stays as it is.

        Raises JobUnknown, ServerRefused where it is to run, OSError.
        """
        with self._lock:
            path = self._path_of(name)
            desired = self._read(name)
            if path is None and desired is None:
                raise self._unknown(name)
            if desired is not None and desired.state is not DesiredState.STOPPED:
                message = f"job {name} is to be {desired.state}"
                raise ServerRefused(message, hint=f"stop it first: ashore stop {name}")
            if path is not None:
                path.unlink()
            self._layout.records.remove(desired_name(name))
        self._release(desired)

    def _want(self, name: str, asker: Asker, change: Callable[[Desired], Desired]) -> Desired:
        with self._lock:
            known = self._read(name)
            if known is None and self._path_of(name) is None:
                raise self._unknown(name)
            numbers = (0, 0) if known is None else (known.generation, known.attempt)
            now_ms = self._clock.now_ms()
            desired = change(Desired(DesiredState.STOPPED, *numbers, asker.by, now_ms, asker.why))
            self._layout.records.replace(desired_name(name), desired)
        self._release(known)
        return desired

    def _release(self, before: Desired | None) -> None:
        """End the operation that had stopped a job, if it is still under way."""
        if before is not None and before.held_by:
            with suppress(OperationUnknown):
                self._cancel(before.held_by)

    def _require_file(self, name: str) -> None:
        if self._path_of(name) is None:
            if self._read(name) is None:
                raise self._unknown(name)
            raise JobUnknown(f"the job file of {name} is gone", hint="deploy it again")

    def _read(self, name: str) -> Desired | None:
        if not is_name(name):
            raise self._unknown(name)
        return self._layout.records.read(Desired, desired_name(name))

    def _path_of(self, name: str) -> Path | None:
        if not is_name(name):
            return None
        paths = [self._layout.jobs / f"{name}{suffix}" for suffix in JOB_SUFFIXES]
        return next((each for each in paths if each.is_file()), None)

    def _mark_of(self, name: str) -> FileMark | None:
        path = self._path_of(name)
        return None if path is None else mark_of(path)

    def _unknown(self, name: str) -> JobUnknown:
        there = list(find_job_files(self._layout.jobs))
        hint = suggest(name, there) or "`ashore --server URL jobs` lists them"
        return JobUnknown(f"there is no job {name[:100]!r} here", hint=hint)

    def _read_new(self, made: Path, name: str, beside: Mapping[str, str]) -> Job:
        """Read a job file among the files that it will be among. Raises JobFileInvalid."""
        for path in self._layout.jobs.iterdir():
            if path.suffix in BESIDE_SUFFIXES and path.name not in beside:
                (made / path.name).symlink_to(path)
        file = read_job_file(made / f"{name}.yaml", self._load)
        if isinstance(file.problem, ServerBusy):
            raise file.problem
        if file.problem is not None:
            message = file.problem.message.replace(f"{made}/", "")
            raise JobFileInvalid(message, hint=file.problem.hint.replace(f"{made}/", ""))
        return file.valid()


def _check_names(name: str, beside: Mapping[str, str]) -> None:
    if not is_name(name):
        raise RequestInvalid(
            f"{name[:100]!r} is not a name for a job file",
            hint="letters, digits, `-`, `_` and `.`, at most 100",
        )
    for each, content in beside.items():
        path = Path(each)
        if path.name != each or path.suffix not in BESIDE_SUFFIXES or not is_name(path.stem):
            raise RequestInvalid(
                f"{each[:100]!r} is not a name for a file beside a job file",
                hint="a plain name that ends with .sql or .py",
            )
        if len(content) > BYTES_MAX:
            raise RequestInvalid(f"{each} has more than {BYTES_MAX:,} characters")
