"""What all jobs of a directory are at, looked at again and again while jobs run.

What it is: `FleetWatch`: a thread that looks, and answers from memory.
What it promises: a job whose log, heartbeat and file have not changed costs a listing; a lake or a
broker that does not answer delays no other job, and is reported as that. A file that comes, changes
or goes is seen with the next look.
"""

import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

from ashore.base.clock import Clock, SystemClock
from ashore.errors import AshoreError
from ashore.fleet.machine.background import END_S, Background
from ashore.fleet.records.job_files import KnownJobs, find_job_files
from ashore.fleet.server.condition import RateSample, SeenJob
from ashore.jobs.file import Job
from ashore.jobs.heartbeat import read_heartbeat
from ashore.log.store.fold_cache import KnownFolds
from ashore.proof.status.health import FleetRow, read_job
from ashore.topics.open_job import SOURCE_TIMEOUT_S, OpenJob, open_job
from ashore.topics.read.lazy import open_later
from ashore.topics.read.source import Source

LOOK_S = 1.0  # between two rounds
FULL_MS = 3_000  # a job that seems unchanged is read again after so long: Kafka may have changed
SLOW_MS = 4_000  # a look that takes longer is worth saying
SAMPLES = 150
AT_ONCE = 8
LOOKS_MAX, AGAIN_MAX = 5, 3  # that begin in a round: of changed jobs, and of all others
Marks = Callable[[str], object]  # changes when a job, by its name, did something
Opener = Callable[[Path], AbstractContextManager[OpenJob]]
Follow = Callable[[str, OpenJob], None]  # reads the logs of a job on


@dataclass
class _Place:
    """What is kept of a job file."""

    path: Path
    modified: tuple[int, int] = (0, 0)
    stack: ExitStack = field(default_factory=ExitStack)
    opened: OpenJob | None = None
    error: AshoreError | None = None
    mark: object = None  # as of the last look
    full_ms: int = 0  # when that was
    signature: object = None  # of what was read
    followed: object = None  # the logs, as they were when they had been read on
    read_ms: int = 0
    began_ms: int | None = None
    seen: SeenJob | None = None
    samples: deque[RateSample] = field(default_factory=lambda: deque(maxlen=SAMPLES))
    changes: int = 0

    def close(self) -> None:
        self.stack.close()


class FleetWatch:
    """Looks at the jobs of a directory. Methods may be called by any thread."""

    def __init__(
        self,
        directory: Path,
        clock: Clock | None = None,
        opener: Opener | None = None,
        marks: Marks | None = None,
        follow: Follow | None = None,
    ) -> None:
        self.directory = directory
        self._clock = clock or SystemClock()
        self._folds = KnownFolds()
        self.job_files = KnownJobs()  # before the start another one may be set
        self._sources: dict[tuple[str, str], Source] = {}
        self._opener = opener or self._open_shared
        self._marks = marks
        self._follow = follow
        self._places: dict[str, _Place] = {}
        self._changes = 0
        self._lock = threading.Lock()
        self._pool = ThreadPoolExecutor(AT_ONCE, "ashore-look")
        self._thread = Background("ashore-watch", self._look_again)

    def start(self) -> None:
        """Begin to look."""
        self._thread.start()

    def close(self) -> None:
        """Stop looking."""
        self._thread.end(END_S)
        self._pool.shutdown(wait=False, cancel_futures=True)
        for place in self._places.values():
            place.close()
        for source in self._sources.values():
            source.close()

    def jobs(self) -> Sequence[SeenJob]:
        """Return all jobs by name, as they were last seen."""
        with self._lock:
            places = sorted(self._places.items())
        return [found for name, each in places if (found := self._watched(each))]

    def job(self, name: str) -> SeenJob | None:
        """Return a job as it was last seen, or None."""
        with self._lock:
            place = self._places.get(name)
        return None if place is None else self._watched(place)

    def stamp(self, name: str | None) -> str:
        """Return a text that changes with what was seen of a job, or of all."""
        with self._lock:
            if name is None:
                slow = sum(1 for each in self._places.values() if self._slow_since(each))
                return f"{self._changes}/{slow}"
            place = self._places.get(name)
            return "" if place is None else f"{place.changes}/{self._slow_since(place)}"

    def open_job(self, name: str) -> AbstractContextManager[OpenJob]:
        """Open a job for a look of its own. Raises JobFileInvalid."""
        with self._lock:
            place = self._places.get(name)
        return self._opener(place.path if place else self.directory / f"{name}.yaml")

    def look(self) -> None:
        """Look at all jobs once, and wait for it."""
        self._find_files()
        with self._lock:
            places = list(self._places.values())
        for done in [self._pool.submit(self._look_at, each) for each in places]:
            done.result()

    # ---- the thread

    def _look_again(self) -> float:
        self._find_files()
        for place in self._due():
            place.began_ms = self._clock.now_ms()
            with suppress(RuntimeError):  # the pool is shut down: the watch ends
                self._pool.submit(self._look_at, place)
        return LOOK_S

    def _due(self) -> list[_Place]:
        """Return what is looked at now: what has changed, those that waited longest first."""
        now_ms = self._clock.now_ms()
        with self._lock:
            idle = [each for each in self._places.values() if each.began_ms is None]
        if self._marks is None:
            return idle
        waited = sorted(idle, key=lambda each: each.full_ms)
        changed = [each for each in waited if each.mark != self._mark_of(each)][:LOOKS_MAX]
        old = [each for each in waited if now_ms - each.full_ms >= FULL_MS]
        return [*changed, *[each for each in old if each not in changed][:AGAIN_MAX]]

    def _mark_of(self, place: _Place) -> object:
        return None if self._marks is None else self._marks(place.path.stem)

    def _find_files(self) -> None:
        try:
            files = find_job_files(self.directory)
        except OSError:  # the supervisor reports it
            return
        with self._lock:
            for name in self._places.keys() - files.keys():
                self._places.pop(name).close()
                self._changes += 1
            for name in files.keys() - self._places.keys():
                self._places[name] = _Place(files[name])
                self._changes += 1

    def _look_at(self, place: _Place) -> None:
        place.began_ms = self._clock.now_ms()
        try:
            row = self._row(place)
            if row is not None:
                self._take(place, row)
        finally:
            place.began_ms = None

    def _row(self, place: _Place) -> FleetRow | None:
        """Return what is so with a job; None: as the last time."""
        name, now_ms = place.path.stem, self._clock.now_ms()
        place.mark, place.full_ms = self._mark_of(place), now_ms
        self._open(place)
        if place.opened is None:
            is_known = place.seen is not None and place.seen.row.error is place.error
            return None if is_known else FleetRow(name, None, (), place.error)
        try:
            signature = _signature(place.opened)
            self._read_on(place, place.opened, signature[1])
            if signature == place.signature and now_ms - place.read_ms < FULL_MS:
                return None
            status, _ = read_job(place.opened, None)
        except AshoreError as error:
            place.signature = None
            return FleetRow(name, None, (), error)
        place.signature, place.read_ms = signature, now_ms
        return FleetRow(name, status, (), None)

    def _read_on(self, place: _Place, opened: OpenJob, logs: object) -> None:
        """Have the logs read on, where they have grown. Raises AshoreError of the lake."""
        if self._follow is None or logs == place.followed:
            return
        with suppress(OSError):  # the server's disk is full: it comes again
            self._follow(place.path.stem, opened)
            place.followed = logs

    def _open(self, place: _Place) -> None:
        """Read the job file again if it has changed."""
        try:
            stat = place.path.stat()
            modified = (stat.st_mtime_ns, stat.st_size)
        except OSError:
            modified = (-1, -1)
        if modified == place.modified:
            return
        place.close()
        place.stack, place.opened, place.error = ExitStack(), None, None
        place.modified, place.signature, place.followed = modified, None, None
        try:
            place.opened = place.stack.enter_context(self._opener(place.path))
        except AshoreError as error:
            place.error = error

    @contextmanager
    def _open_shared(self, path: Path) -> Iterator[OpenJob]:
        """Open a job with the client that all jobs of its Kafka cluster share."""
        with open_job(path, self.job_files.load) as opened:
            kafka = opened.job.source.kafka
            options = dict(kafka.options)
            key = (str(kafka.bootstrap_servers), str(sorted(options.items())))
            with self._lock:
                if key not in self._sources:
                    source = open_later(kafka.bootstrap_servers, options, SOURCE_TIMEOUT_S)
                    self._sources[key] = source
                shared = self._sources[key]
            yield replace(opened, source=shared, folds=self._folds)

    def _take(self, place: _Place, row: FleetRow) -> None:
        now_ms = self._clock.now_ms()
        status = row.status
        if status is not None:
            rates = [each.records_per_s for each in status.slices if each.records_per_s is not None]
            place.samples.append(RateSample(now_ms, sum(rates) if rates else None, status.lag))
        with self._lock:
            seen_ms = now_ms if status is None else status.now_ms
            place.seen = SeenJob(place.path.stem, place.path, row, seen_ms, tuple(place.samples))
            place.changes += 1
            self._changes += 1

    def _watched(self, place: _Place) -> SeenJob | None:
        seen, slow = place.seen, self._slow_since(place)
        if seen is None:
            if slow is None:
                return None
            row = FleetRow(place.path.stem, None, (), None)
            return SeenJob(place.path.stem, place.path, row, slow, (), slow)
        return replace(seen, slow_since_ms=slow)

    def _slow_since(self, place: _Place) -> int | None:
        began_ms = place.began_ms
        is_slow = began_ms is not None and self._clock.now_ms() - began_ms > SLOW_MS
        return began_ms if is_slow else None


def _signature(opened: OpenJob) -> tuple[object, object]:
    """Return what changes when a job does something, or its process ends. Raises StorageError."""
    job: Job = opened.job
    beat = read_heartbeat(job.job, str(job.lake))
    heartbeat = None if beat is None else (beat.pid, beat.ended, beat.why, beat.is_alive, beat.step)
    logs = tuple((str(name), opened.fold(name).last) for name in opened.slices)
    return heartbeat, logs
