"""Pages over jobs that are only watched: nobody here starts them.

What it must not know: supervisors.
"""

from collections.abc import Sequence
from contextlib import AbstractContextManager

from ashore.base.clock import Clock, SystemClock
from ashore.errors import ServerRefused
from ashore.fleet.access.tokens import Caller
from ashore.fleet.operate.operations import Operations
from ashore.fleet.records.server_files import Asker, RunFiles, ServerFiles
from ashore.fleet.server.condition import SeenJob
from ashore.fleet.server.job_watch import FleetWatch
from ashore.fleet.server.pages.job_text import Drafts
from ashore.topics.open_job import OpenJob


class OnlyWatched:
    """Jobs that are started elsewhere."""

    def __init__(self, watch: FleetWatch, clock: Clock | None = None) -> None:
        self._watch = watch
        self._clock = clock or SystemClock()
        operations = watch.directory / ".ashore" / "operations"
        operations.mkdir(parents=True)
        self.operations = Operations(operations, watch.directory)
        self.drafts = Drafts(watch.directory / ".ashore" / "drafts", watch.directory)

    @property
    def directory(self) -> str:
        """Where job files are looked for."""
        return str(self._watch.directory)

    @property
    def problem(self) -> str:
        """Nothing."""
        return ""

    def now_ms(self) -> int:
        """Return the time."""
        return self._clock.now_ms()

    def jobs(self) -> Sequence[SeenJob]:
        """Return all jobs by name, as they were last seen."""
        return self._watch.jobs()

    def job(self, name: str) -> SeenJob | None:
        """Return a job as it was last seen, or None."""
        return self._watch.job(name)

    def labels(self, name: str) -> None:
        """None are known: these tests have roles on all jobs."""

    def job_of(self, operation: str) -> str:
        """Return the job of an operation."""
        return self.operations.get(operation).request.job

    def stamp(self, name: str | None) -> str:
        """Return a text that changes with what a page of a job, or of all, would show."""
        return self._watch.stamp(name)

    def open_job(self, name: str) -> AbstractContextManager[OpenJob]:
        """Open a job for a look at its lake. Raises JobFileInvalid."""
        return self._watch.open_job(name)

    def run_files(self, name: str) -> RunFiles:
        """Return where the files of a job's process would be."""
        return ServerFiles.of(self._watch.directory).run_of(name)

    def act(self, name: str, verb: str, asker: Asker) -> None:
        raise ServerRefused(f"{name}: nobody starts it here", hint="use what started it")

    def deploy(self, name: str, text: str, caller: Caller, beside: object = None) -> None:
        (self._watch.directory / f"{name}.yaml").write_text(text, "utf-8")
