"""The jobs of a server as pages see them: what its supervisor knows, and what their logs say.

What it promises: what the supervisor knows is shown at once, whatever a lake does; logs are read
beside, where something changed.
"""

import hashlib
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import partial

from ashore.base.clock import SystemClock
from ashore.errors import JobUnknown, OperationUnknown, RequestInvalid
from ashore.fleet.access.permissions import JobAccess
from ashore.fleet.access.tokens import Caller
from ashore.fleet.machine.background import END_S, Background
from ashore.fleet.operate.commands import BY_NAME, Value
from ashore.fleet.operate.operations import Operations
from ashore.fleet.operate.verbs import Verbs
from ashore.fleet.records.server_files import Asker, RunFiles, RunSeen, ServerFiles
from ashore.fleet.server.condition import LAG_MS_MAX, FreshNumbers, RateSample, SeenJob
from ashore.fleet.server.job_watch import FleetWatch, Marks
from ashore.fleet.server.pages.job_text import Drafts
from ashore.fleet.supervise.supervisor import ManagedJob, Supervisor
from ashore.jobs.file import Job
from ashore.proof.status.health import FleetRow
from ashore.proof.status.status import add_lags
from ashore.topics.open_job import OpenJob

SAMPLE_S = 5.0
SAMPLES = 120
VERBS: Mapping[str, str] = {
    "start": "It starts as soon as the server has looked, whatever it ended with before.",
    "stop": "It ends in order: the batch under way is finished or left. It stays stopped until "
    "it is started. Kafka keeps the records as long as its retention says.",
    "drain": "It ends in order, and is run by an operation until everything has landed that is in "
    "its topics now. Then it stays stopped until it is started.",
    "restart": "It ends in order and starts again with its file as it is now.",
    "pause": "It ends in order, and stays so until it is started.",
    "remove": "Its job file is deleted. Its lake, its landing log and its tables stay.",
}


class SupervisedJobs:
    """The jobs of a server, as pages see them. Methods are called by several threads at once.

    `jobs` and `job` answer from memory: a page never waits for a lake.
    """

    def __init__(
        self,
        layout: ServerFiles,
        supervisor: Supervisor,
        verbs: Verbs,
        operations: Operations,
        watch: FleetWatch,
    ) -> None:
        clock = SystemClock()
        self._layout = layout
        self._supervisor = supervisor
        self._verbs = verbs
        self._clock = clock
        self.operations = operations
        self.drafts = Drafts(layout.state / "drafts", layout.jobs)
        self.watch = watch
        self._samples: dict[str, deque[RateSample]] = {}
        self._stamp: tuple[int, str] = (-1, "")  # looks of the supervisor, and what they found
        self._thread = Background("ashore-samples", self._sample)

    def start(self) -> None:
        """Begin to read logs, and to keep rates."""
        self.watch.start()
        self._thread.start()

    def close(self) -> None:
        """End that."""
        self._thread.end(END_S)
        self.watch.close()

    @property
    def directory(self) -> str:
        """Where job files are looked for."""
        return str(self._layout.jobs)

    @property
    def problem(self) -> str:
        """What keeps the server from its work, whichever the job; empty: nothing."""
        return self._supervisor.problem

    def now_ms(self) -> int:
        """Return the time."""
        return self._clock.now_ms()

    def jobs(self) -> Sequence[SeenJob]:
        """Return all jobs by name, as they were last seen; their ages are of one time."""
        watched = {each.name: each for each in self.watch.jobs()}
        views, now_ms = self._supervisor.views, self.now_ms()
        return [self._seen(views[name], watched.get(name), now_ms) for name in sorted(views)]

    def job(self, name: str) -> SeenJob | None:
        """Return a job as it was last seen, or None."""
        view = self._supervisor.views.get(name)
        if view is None:
            return None
        return self._seen(view, self.watch.job(name), self.now_ms())

    def labels(self, name: str) -> Mapping[str, str] | None:
        """Return the labels of a job; None: there is no such job, or its file is not valid."""
        return _labels_of(self._supervisor.views.get(name))

    def job_of(self, operation: str) -> str:
        """Return the job of an operation; empty: it has none, or there is no such operation."""
        try:
            return self.operations.get(operation).request.job
        except OperationUnknown:
            return ""

    def stamp(self, name: str | None) -> str:
        """Return a text that changes with what a page of a job, or of all, would show."""
        views = self._supervisor.views
        if name is not None:
            view = views.get(name)
            return "gone" if view is None else f"{_digest(_facts(view))}/{self.watch.stamp(name)}"
        looks, watched = self._supervisor.looks, self.watch.stamp(None)
        known, facts = self._stamp
        if known != looks:
            facts = _digest(tuple(map(_facts, views.values())))
            self._stamp = looks, facts
        return f"{facts}/{watched}/{_digest(self.problem)[:4]}"

    def open_job(self, name: str) -> AbstractContextManager[OpenJob]:
        """Open a job for a look at its lake. Raises JobFileInvalid."""
        return self.watch.open_job(name)

    def run_files(self, name: str) -> RunFiles:
        """Return where the files of a job's process are."""
        return self._layout.run_of(name)

    def act(self, name: str, verb: str, asker: Asker) -> None:
        """Do what a verb says with a job. Raises AshoreError where that cannot be."""
        verbs: Mapping[str, Callable[[], object]] = {
            "start": lambda: self._verbs.start(name, asker),
            "stop": lambda: self._verbs.stop(name, asker),
            "drain": lambda: self._drain(name, asker),
            "restart": lambda: self._verbs.restart(name, asker),
            "pause": lambda: self._verbs.pause(name, asker),
            "remove": lambda: self._verbs.remove(name),
        }
        if verb not in verbs:
            raise RequestInvalid(f"{verb} is not a verb", hint=f"there is {', '.join(verbs)}")
        verbs[verb]()
        self._supervisor.wait_looked()

    def _drain(self, name: str, asker: Asker) -> None:
        view = self._supervisor.views.get(name)
        if view is None or view.file is None:
            raise JobUnknown(f"there is no job file of {name}", hint="deploy it again")
        values: dict[str, Value] = {"job_file": str(view.file.path), "drain": True}
        hold = partial(self._verbs.stop, name, asker)
        self.operations.run(BY_NAME["stop"], (name, asker.by), values, hold=hold)

    def deploy(
        self, name: str, text: str, caller: Caller, beside: Mapping[str, str] | None = None
    ) -> None:
        """Write a job file, and the files beside it. Raises as `Verbs.deploy`; NotAllowed."""

        def permit(job: Job) -> None:
            files = {each.name: each.file for each in self._supervisor.views.values()}
            was_run = self._layout.run_of(name).root.exists()
            if was_run or any(each.request.job == name for each in self.operations.all()):
                files.setdefault(name, None)
            access, directory = JobAccess(self), self._layout.jobs
            access.check_deploy(caller, job, tuple(beside or ()), directory, files)

        self._verbs.deploy(name, text, beside, permit)
        self._supervisor.wait_looked()

    # ---- one job

    def _seen(self, view: ManagedJob, watched: SeenJob | None, now_ms: int) -> SeenJob:
        seen = view.running
        path = view.file.path if view.file else self._layout.jobs / f"{view.name}.yaml"
        row = watched.row if watched else FleetRow(view.name, None, (), None)
        return SeenJob(
            name=view.name,
            path=path,
            row=row,
            seen_ms=now_ms,
            samples=tuple(self._samples.get(view.name, ())),
            slow_since_ms=watched.slow_since_ms if watched else None,
            supervised=view,
            warnings=tuple(reversed(seen.warnings)) if seen else (),
            fresh=_fresh(seen),
            steps=seen.slices if seen else (),
            problem=view.file.problem if view.file else None,
            labels=_labels_of(view) or {},
        )

    def _sample(self) -> float:
        now_ms, views = self._clock.now_ms(), self._supervisor.views
        for name, view in views.items():
            fresh = _fresh(view.running)
            kept = self._samples.setdefault(name, deque(maxlen=SAMPLES))
            if fresh is not None:
                is_old = now_ms - (fresh.lag_at_ms or 0) > LAG_MS_MAX
                lag = None if is_old else fresh.lag
                kept.append(RateSample(now_ms, fresh.records_per_s, lag))
        for name in self._samples.keys() - views.keys():
            del self._samples[name]
        return SAMPLE_S


def _labels_of(view: ManagedJob | None) -> Mapping[str, str] | None:
    job = view.file.job if view is not None and view.file is not None else None
    return None if job is None else job.labels


def marks_of(supervisor: Supervisor) -> Marks:
    """Return what changes when a job does something, as its supervisor sees it."""

    def mark(name: str) -> object:
        view = supervisor.views.get(name)
        return None if view is None else _progress(view)

    return mark


def _progress(view: ManagedJob) -> object:
    """Return what changes when a job does something that its log shows."""
    slices = view.seen.slices if view.seen else ()
    done = tuple((each.slice, each.entry, each.state) for each in slices)
    return view.phase, view.file.digest if view.file else "", done, view.last


def _facts(view: ManagedJob) -> object:
    """Return what a page shows of a job."""
    seen = view.running
    lags = () if seen is None else tuple((each.lag, each.step) for each in seen.slices)
    warnings = () if seen is None else seen.warnings
    why = (view.decision.why, view.decision.hint, view.is_changed, view.desired.at_ms)
    return view.name, _progress(view), why, lags, warnings


def _digest(facts: object) -> str:
    return hashlib.sha256(repr(facts).encode()).hexdigest()[:16]


def _fresh(seen: RunSeen | None) -> FreshNumbers | None:
    if seen is None:
        return None
    rates = [each.rate for each in seen.slices if each.rate is not None]
    read = [each.lag_at_ms for each in seen.slices if each.lag_at_ms is not None]
    retrying = [each.retrying_since_ms for each in seen.slices if each.retrying_since_ms]
    commits = [each.last_commit_ms for each in seen.slices if each.last_commit_ms is not None]
    return FreshNumbers(
        lag=add_lags(each.lag for each in seen.slices),
        records_per_s=sum(rates) if rates else None,
        last_commit_ms=max(commits, default=None),
        lag_at_ms=min(read, default=None),
        retrying_since_ms=min(retrying, default=None),
    )


def offered_verbs(view: ManagedJob | None) -> tuple[str, ...]:
    """Return the verbs that a page offers for a job; none where no supervisor starts it."""
    if view is None:
        return ()
    if view.desired.state == "running":
        return ("restart", "stop", "drain", "pause")
    return ("start", "drain", "remove") if view.desired.state == "stopped" else ("start", "stop")
