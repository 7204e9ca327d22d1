"""All that a job does, side by side: rhythm, patience, stops, housekeeping.

What it is: `JobLoop`, which runs each `Worker` in a thread of its own: slices of topics, queries.
What it promises: workers fail alone: what stops one does not stop the others. A stop is orderly:
the batch under way is finished, or cancelled at half of the grace, and the last entry closed.
"""

import contextlib
import math
import posixpath
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial

from ashore.base.clock import Clock
from ashore.base.unique import unique
from ashore.errors import AshoreError, PathExists, PathMissing, QueryStopped, Stopped, StorageError
from ashore.jobs.requests import LastEntry
from ashore.log import names
from ashore.log.names import SliceName
from ashore.log.progress import Progress, Retrying
from ashore.storage.base import Staged, Storage
from ashore.storage.calls import Backoff, Jitter, any_between
from ashore.topics.loop.housekeeping import CleanRule, Housekeeping
from ashore.topics.loop.worker import Tick, Worker, ends_worker
from ashore.topics.write.batch import BatchRunner

CANCEL_AGAIN_S = 1.0
TRIES_UNTIL_DRAINED = 10  # of `--available-now`: a job that is to end cannot wait for ever
RACERS = 16  # writers of one name, at a start
TRIES_AT_START = 5  # then who has started the job hears of it, while he looks


@dataclass(frozen=True, slots=True)
class Rhythm:
    """When a job does what."""

    interval_s: float
    clean: CleanRule
    grace_s: float
    until_drained: bool  # end when everything that was there has landed


class JobLoop:
    """Runs workers until they are drained, stopped or broken.

    Arguments:
        slices: of the job's topics. All are opened before the first of them takes a turn.
        queries: have shards and tables of their own, and do not wait for others.
        rhythm: of the job; `jitter` of the waits between tries.
        tables: that the slices fill.

    """

    def __init__(  # noqa: PLR0913 - given by name
        self,
        slices: Sequence[Worker],
        queries: Sequence[Worker],
        rhythm: Rhythm,
        *,
        storage: Storage,
        clock: Clock,
        progress: Progress,
        tables: Callable[[], Sequence[str]],
        jitter: Jitter = any_between,
    ) -> None:
        self._slices = slices
        self._queries = queries
        self._rhythm = rhythm
        self._storage = storage
        self._clock = clock
        self._progress = progress
        self._tables = tables
        self._jitter = jitter
        self._stop = threading.Event()
        self._have_slices_ended = threading.Event()
        self._ended = threading.Event()
        self._failures: list[BaseException] = []
        self._stopped: dict[str, AshoreError] = {}  # queries that wait for a decision

    def run(self, probe: BatchRunner | None = None) -> None:
        """Run to the end. Raises what stopped the first worker that broke, after all have ended.

        Where nothing but queries has stopped, and others continued: QueryStopped, which names them.

        With `probe` the lake is tried out by an executor before the first batch of a slice.
        """
        queries = [self._start(each) for each in self._queries]
        try:
            self._run_slices(probe)
        except BaseException as error:  # noqa: BLE001 - raised once the queries have ended
            self._failures.append(error)
        if not all(isinstance(error, AshoreError) for error in self._failures):
            self.stop()  # a bug must not go unseen behind queries that never end
        for thread in queries:
            thread.join()
        self._stop.set()
        self._ended.set()
        if self._failures:
            raise self._gravest()

    def _gravest(self) -> BaseException:
        """Return what the job ends with: others must not hide queries that stopped."""
        others = [each for each in self._failures if each not in self._stopped.values()]
        count = len(self._slices) + len(self._queries)
        if others or len(self._stopped) == count:
            return [*others, *self._failures][0]
        return stopped_queries(self._stopped, count)

    def stop(self, *, finishes: bool = False) -> None:
        """Ask for an orderly stop. May be called from a signal handler, once or often.

        `finishes`: the batch under way is not cancelled, however long it takes, unless a call
        without follows.
        """
        self._stop.set()
        for each in (*self._slices, *self._queries):
            each.stop(finishes=finishes)
        if not finishes:
            threading.Thread(target=self._cancel_late, name="grace", daemon=True).start()

    @property
    def queries(self) -> Sequence[Worker]:
        """The workers that have shards and tables of their own."""
        return self._queries

    def log_ends(self) -> tuple[LastEntry, ...]:
        """Return the last entry of each log that was opened."""
        logs = [each.log for each in (*self._slices, *self._queries)]
        return tuple(LastEntry(log.name.slice, log.end) for log in logs if log.end is not None)

    def _cancel_late(self) -> None:
        """Cancel what is unfinished at half of the grace, unless all has ended by then."""
        delay_s = self._rhythm.grace_s / 2
        while not self._ended.wait(delay_s):
            for each in (*self._slices, *self._queries):
                each.cancel()
            delay_s = CANCEL_AGAIN_S  # a batch may just have been on its way to its executors

    def _run_slices(self, probe: BatchRunner | None) -> None:
        for each in self._slices:
            self._patiently(each, each.open)
        if probe is not None:
            for each in self._slices:
                self._patiently(each, partial(self._probe, probe, each.log.name))
        threads = [self._start(each) for each in self._slices]
        keeper = threading.Thread(target=self._keep_houses, name="housekeeping", daemon=True)
        keeper.start()
        for thread in threads:
            thread.join()
        self._have_slices_ended.set()
        keeper.join(timeout=1.0)

    def _patiently(self, worker: Worker, act: Callable[[], None]) -> None:
        """Do what comes before the first turns, again where an error may pass."""
        patience = self._patience(worker, TRIES_AT_START)
        while not self._stop.is_set():
            try:
                act()
            except AshoreError as error:
                patience.bear(error)
            else:
                patience.renew()
                return

    def _probe(self, runner: BatchRunner, name: SliceName) -> None:
        probe_lake(self._storage, runner, name, self._tables())

    def _patience(self, worker: Worker, tries_max: float) -> "_Patience":
        slice_name = worker.log.name.slice

        def wait(message: str, seconds: float) -> None:
            if not self._stop.is_set():
                self._progress.warn(slice_name, message)
                self._progress.measured(Retrying(slice_name, round(1000 * seconds)))
                self._clock.wait(self._stop, seconds)

        def recovered(after_ms: int, tries: int) -> None:
            self._progress.recovered(slice_name, after_ms, tries)

        return _Patience(tries_max, wait, recovered, self._clock, self._jitter)

    # ---- one worker

    def _start(self, worker: Worker) -> threading.Thread:
        thread = threading.Thread(target=self._guard, args=(worker,), name=f"{worker.log.name}")
        thread.start()
        return thread

    def _guard(self, worker: Worker) -> None:
        """Run a worker and keep what it raises: it must not take the others along."""
        slice_name, progress = worker.log.name.slice, self._progress
        try:
            self._run(worker)
        except AshoreError as error:
            self._failures.append(error)
            if worker in self._queries and isinstance(error, Stopped):
                self._stopped[slice_name] = error
            progress.stopped(slice_name, error.message)
        except Exception as error:  # noqa: BLE001 - a thread's last line: it is raised by `run`
            self._failures.append(error)
            progress.warn(slice_name, f"broke: {error!r}")
        except BaseException as error:  # noqa: BLE001 - as above; no reader is left for a warning
            self._failures.append(error)

    def _run(self, worker: Worker) -> None:
        clock, until_drained = self._clock, self._rhythm.until_drained
        tries_max = TRIES_UNTIL_DRAINED if until_drained else math.inf
        patience, landed = self._patience(worker, tries_max), worker.batches_landed
        while not self._stop.is_set():
            began_s = clock.monotonic_s()
            try:
                tick = worker.tick()
            except AshoreError as error:
                if worker.batches_landed > landed:
                    patience.renew()
                    landed = worker.batches_landed
                patience.bear(error)
                continue
            patience.renew()
            landed = worker.batches_landed
            if tick is not Tick.BEHIND:
                if until_drained:
                    break
                spent_s = clock.monotonic_s() - began_s
                clock.wait(self._stop, max(0.0, self._rhythm.interval_s - spent_s))
        worker.close("drained" if until_drained else "stop")

    # ---- off the commit path

    def _keep_houses(self) -> None:
        """Keep the houses of all slices. What is no trouble but a bug stops the job."""
        try:
            self._tick_houses([self._housekeeping(each) for each in self._slices])
        except Exception as error:  # noqa: BLE001 - a thread's last line: it is raised by `run`
            self._failures.append(error)
            self._progress.warn("", f"housekeeping failed: {error!r}")
            self.stop()

    def _tick_houses(self, houses: Sequence[Housekeeping]) -> None:
        # By the machine's time, whatever the job's clock is: it is no part of what the job does.
        while not self._have_slices_ended.wait(self._rhythm.clean.look_every_s):
            if self._stop.is_set():
                return
            for each in houses:
                each.tick()

    def _housekeeping(self, worker: Worker) -> Housekeeping:
        return Housekeeping(
            worker.log,
            self._rhythm.clean,
            storage=self._storage,
            clock=self._clock,
            progress=self._progress,
            tables=self._tables,
        )


def stopped_queries(stopped: Mapping[str, AshoreError], count: int) -> QueryStopped:
    """Return the error that names queries which stopped, of `count` workers, and why."""
    reported = "; ".join(f"{name}: {error.message}" for name, error in sorted(stopped.items()))
    first = stopped[min(stopped)]
    return QueryStopped(
        f"{len(stopped)} of {count} parts of the job stopped, the others exited normally: "
        f"{reported}",
        hint=first.hint,
        stopped=[{"slice": name, **error.to_dict()} for name, error in sorted(stopped.items())],
    )


class _Patience:
    """How often a worker may fail in a row, and how long it waits before it tries again."""

    def __init__(
        self,
        tries_max: float,
        wait: Callable[[str, float], None],
        recovered: Callable[[int, int], None],
        clock: Clock,
        jitter: Jitter,
    ) -> None:
        self._tries_max = tries_max
        self._wait = wait
        self._recovered = recovered
        self._clock = clock
        self._jitter = jitter
        self._tries, self._failing_s = 0, 0.0
        self.renew()

    def renew(self) -> None:
        """Begin anew: the worker works again."""
        if self._tries:
            failing_s = self._clock.monotonic_s() - self._failing_s
            self._recovered(round(1000 * failing_s), self._tries)
        self._tries = 0
        self._delays_s = Backoff(0.5, 30.0).delays_s(self._jitter)

    def bear(self, error: AshoreError) -> None:
        """Wait until another try is worth it. Raises `error` where none is."""
        if not self._tries:
            self._failing_s = self._clock.monotonic_s()
        self._tries += 1
        if ends_worker(error) or self._tries >= self._tries_max:
            raise error
        self._wait(error.message, next(self._delays_s))


def probe_lake(
    storage: Storage, runner: BatchRunner, name: SliceName, tables: Sequence[str]
) -> None:
    """Write, move, read and delete a probe file in each table. Raises StorageError with a hint.

    A lake that the executors do not share, a mount or an encryption zone between staging and
    table, missing rights, names that ignore case, a store that lets two writers create one name:
    all are found before the first batch is read.

    The probe moves out of the staging directory into the table itself, where final files go; its
    name begins with `_`, so that no reader sees it. One executor writes for all tables: a Spark job
    for each would be most of what a start takes.
    """
    probes: dict[str, str] = {}
    raced = names.join(names.job_directory(name.job), names.probe_name(unique()))
    for table in tables:
        probe = names.probe_name(unique())
        source = names.join(names.staging_root(table, name), probe)
        probes[source] = names.join(names.table_path(table), probe)
    try:
        runner.probe({source: target.encode() for source, target in probes.items()})
        for source, target in probes.items():
            _move(storage, source, target)
            _check_case(storage, target)
        _check_race(storage, raced)
    finally:
        for path in (*probes, *probes.values(), raced):
            with contextlib.suppress(StorageError):
                storage.delete(path)


def _move(storage: Storage, source: str, target: str) -> None:
    try:
        storage.publish(Staged(source), target)
        found = storage.read(target)
    except PathMissing:
        raise StorageError(
            f"an executor wrote {source}, but the driver cannot see it",
            hint=f"is {storage.describe()} the same directory on every node?",
        ) from None
    except StorageError as error:
        raise StorageError(
            f"a file could not be moved from staging to its table: {error.message}",
            hint="is there a mount or an encryption zone inside the table?",
        ) from error
    if found != target.encode():
        raise StorageError(f"{target} holds other bytes than an executor wrote")


def _check_race(storage: Storage, path: str) -> None:
    """Raise StorageError where of many that create a path at once not exactly one succeeds.

    Two writers would each append the same entry of a log. One after the other, every store looks
    right.
    """

    def creates(number: int) -> bool:
        try:
            storage.create(path, b"%d" % number)
        except PathExists:
            return False
        return True

    with ThreadPoolExecutor(RACERS, "ashore-race") as pool:
        winners = sum(pool.map(creates, range(RACERS)))
    if winners != 1:
        raise StorageError(
            f"{storage.describe()} let {winners} of {RACERS} writers create one name",
            hint="keep the lake in a store with conditional writes (If-None-Match) that hold under "
            "a race, with no proxy before it that drops the condition",
            path=path,
        )


def _check_case(storage: Storage, target: str) -> None:
    """Raise StorageError if the table's directory takes `A` and `a` for one name.

    Partition values `DE` and `de` would share the directory of whichever came first, and readers
    take the value from the directory's name: rows would change their value without an error.
    """
    directory, name = posixpath.split(target)
    if storage.stat(names.join(directory, name.upper())) is not None:
        raise StorageError(
            f"{storage.describe()} ignores the case of file names, so that rows of the partitions "
            "`DE` and `de` would be stored under one value",
            hint="keep the lake on a file system with case-sensitive names",
            path=directory,
        )
