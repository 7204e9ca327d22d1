"""One measurement: a job process filled, warmed, looked at, killed and started again.

What it is: `Site`, an HDFS of its own with what is on it; one function for each part.
What it promises: every measurement begins on an empty checkpoint, and leaves none.
What it must not know: what Spark does inside, how results are shown.
"""

import os
import shutil
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Self, cast

from ashore.queries.spark.sql.settings import MAINTENANCE_S, SNAPSHOT_BATCHES
from ashore.queries.state.layout import StateKind, StatePath, Store, parse_path
from ashore.storage import Storage, open_storage
from ashore_lab.services.hdfs import Hdfs, HdfsOptions
from bench.checkpoints.modes import Case, Order
from bench.checkpoints.results import Cut, Shortest, Steady, When
from bench.checkpoints.samples import Sampler, Spread, save_csv, spread_of
from bench.machine import describe_commit
from bench.processes import Child, ChildFailed, Meter

INTERVALS_S = (1.0, 2.0, 5.0, 10.0, 30.0)
DEADLINE_S = 3600.0
CATCH_UP_BATCHES_MAX = 60
CUT_S = 60.0  # at most: a thousand partitions do not end twenty batches by then

Batch = Mapping[str, object]


@dataclass(frozen=True, slots=True)
class Lengths:
    """How long each step is."""

    warm_s: float
    steady_s: float  # at least
    rhythm_s: float  # at most, where it takes longer from one snapshot to the next
    kills: int
    warm_batches: int  # before batches are held against an interval
    stable_batches: int


FULL = Lengths(warm_s=40, steady_s=100, rhythm_s=400, kills=2, warm_batches=5, stable_batches=20)
SMALL = Lengths(warm_s=15, steady_s=20, rhythm_s=0, kills=1, warm_batches=2, stable_batches=4)


class Site:
    """One HDFS: a NameNode, a DataNode, one replica. A context manager."""

    def __init__(self, directory: Path, lengths: Lengths) -> None:
        self.directory = directory
        self.lengths = lengths
        self.hdfs = Hdfs(directory / "hdfs", HdfsOptions(namenodes=1, datanodes=1, heap="512m"))

    def __enter__(self) -> Self:
        self.hdfs.__enter__()
        return self

    def __exit__(self, *ended_by: object) -> None:
        self.hdfs.__exit__(*ended_by)

    @property
    def root(self) -> str:
        """Where checkpoints are."""
        return f"{self.hdfs.uri}/checkpoints"

    @property
    def storage(self) -> Storage:
        """What is at `root`."""
        return open_storage(self.root, options=self.hdfs.client_options())

    @property
    def datanode(self) -> int:
        """The process id of the DataNode."""
        process = next(each for each in self.hdfs.processes if each.name == "dn0")
        found = process.id()
        if found is None:
            raise ChildFailed("the DataNode does not run")
        return found.pid

    def job(self, case: Case) -> Child:
        """Return a job process for a case, not started."""
        local = self.directory / "local"
        order = Order(case, self.root, self.hdfs.client_options(), str(local))
        local.mkdir(exist_ok=True)
        command = [sys.executable, "-m", "bench.checkpoints.job", order.to_text()]
        return Child(command, self.directory / f"{case.name}.log", DEADLINE_S)

    def forget(self, case: Case) -> None:
        """Delete what a case has left."""
        shutil.rmtree(self.directory / "local", ignore_errors=True)
        self.hdfs.delete_tree(0, f"/checkpoints/{case.name}", deadline_s=60)

    def walk(self, case: Case) -> Iterator[tuple[str, int]]:
        """Yield the files of a checkpoint, by their paths below its root, and their sizes."""
        storage, left = self.storage, [case.name]
        while left:
            for each in storage.list(left.pop()):
                if each.is_directory:
                    left.append(each.path)
                else:
                    yield each.path.removeprefix(f"{case.name}/"), each.size

    def count_calls(self, command: str, case: Case, since_ms: int) -> int:
        """Return how often the NameNode was asked for something below a checkpoint."""
        below = f"/checkpoints/{case.name}/"
        return sum(
            entry.command == command and (entry.source or "").startswith(below)
            for entry in self.hdfs.audit_entries(since_ms)
        )


def now() -> When:
    """Return when something begins."""
    began = time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime())
    return When(began, describe_commit(), round(os.getloadavg()[0], 2))


def measure_steady(site: Site, case: Case, csv_path: Path | None) -> Steady:
    """Run a case at its rate, kill it, and see it come back."""
    when, lengths = now(), site.lengths
    with site.job(case) as child:
        fill(child, case)
        start(child, case)
        take(child, lengths.warm_s)
        settings = start(child, case)  # which follow from the batches until here
        take(child, case.interval_s)
        since_ms = time.time_ns() // 1_000_000
        with Sampler(child.session, site.datanode) as sampler:
            batches = take(child, plan_window_s(lengths, case, settings))
        passed_min = (time.time_ns() // 1_000_000 - since_ms) / 60_000
        created = site.count_calls("create", case, since_ms)
        deleted = site.count_calls("delete", case, since_ms)
        killed_s = time.monotonic()
        child.kill()
        stored = list(site.walk(case))
        replay = find_replay(stored)
    returns: list[Return] = []
    for left in reversed(range(lengths.kills)):
        returns.append(come_back(site, case, killed_s, is_killed_again=left > 0))
        killed_s = returns[-1].killed_s
    if csv_path is not None:
        save_csv(sampler.samples, csv_path)
    return Steady(
        case=case,
        when=when,
        batches=len(batches),
        cpu_s=spread_of([each.cpu_s for each in sampler.samples]),
        disk_bytes=spread_of([each.disk_bytes for each in sampler.samples]),
        datanode_bytes=spread_of([each.datanode_bytes for each in sampler.samples]),
        trigger_ms=spread(batches, "trigger_ms"),
        commit_ms=spread(batches, "commit_ms"),
        files_per_min=created / passed_min,
        deleted_per_min=deleted / passed_min,
        bytes_per_min=60 * spread_of([each.datanode_bytes for each in sampler.samples]).mean,
        stored_files=len(stored),
        stored_bytes=sum(size for _, size in stored),
        caught_up_s=tuple(each.caught_up_s for each in returns),
        first_batch_ms=tuple(each.first_batch_ms for each in returns),
        replay_files=len(replay),
        replay_bytes=sum(replay),
    )


def plan_window_s(lengths: Lengths, case: Case, settings: Mapping[str, str]) -> float:
    """Return how long to look, in seconds: until each store has made a snapshot and uploaded it."""
    rhythm_s = int(settings[SNAPSHOT_BATCHES]) * case.interval_s + MAINTENANCE_S
    return max(lengths.steady_s, min(rhythm_s, lengths.rhythm_s))


@dataclass(frozen=True, slots=True)
class Return:
    """How a job came back."""

    caught_up_s: float
    first_batch_ms: float
    killed_s: float  # when it was killed again


def come_back(site: Site, case: Case, killed_s: float, *, is_killed_again: bool) -> Return:
    """Start a job again until a batch is in time, and kill it; after a while, if it comes again.

    The source has no limit: each batch takes all that is there. So the first batch that is done
    within the interval has left no backlog behind it.
    """
    with site.job(case) as child:
        start(child, case)
        passed_ms: list[float] = []
        for batch in islice(take_batches(child), CATCH_UP_BATCHES_MAX):
            passed_ms.append(number(batch, "trigger_ms"))
            if number(batch, "trigger_ms") <= case.interval_s * 1000:
                break
        else:
            raise ChildFailed(f"{case.name}: not caught up after {CATCH_UP_BATCHES_MAX} batches")
        caught_up_s = time.monotonic() - killed_s
        if is_killed_again:
            take(child, 4.5 * case.interval_s)
        killed_again_s = time.monotonic()
        child.kill()
    return Return(round(caught_up_s, 1), passed_ms[0], killed_again_s)


def find_replay(files: Iterable[tuple[str, int]]) -> list[int]:
    """Return the sizes of the changelogs that a start reads: those after the newest snapshots.

    `files`: of one checkpoint, with their paths below its root.
    They are counted here, as Spark's own count is of the last load of a batch, which for an
    aggregation is one that has nothing left to read.
    """
    snapshots: dict[Store, int] = {}
    changelogs: list[tuple[StatePath, int]] = []
    for path, size in files:
        match parse_path(path):
            case StatePath(store, version, StateKind.ROCKSDB_SNAPSHOT):
                snapshots[store] = max(snapshots.get(store, 0), version)
            case StatePath(kind=StateKind.CHANGELOG) as changelog:
                changelogs.append((changelog, size))
    return [size for each, size in changelogs if each.version > snapshots.get(each.store, 0)]


def find_shortest(site: Site, case: Case) -> Shortest:
    """Return the shortest interval within which all of so many batches are done."""
    when, holds = now(), dict[str, bool]()
    lengths = site.lengths
    with site.job(case) as child:
        fill(child, case)

        def is_stable(interval_s: float) -> bool:
            start(child, replace(case, interval_s=interval_s))
            skip(child, lengths.stable_batches)
            # Again, with settings that follow from batches at this interval.
            start(child, replace(case, interval_s=interval_s))
            skip(child, lengths.warm_batches)
            wanted = islice(take_batches(child), lengths.stable_batches)
            found = all(number(each, "trigger_ms") <= interval_s * 1000 for each in wanted)
            holds[f"{interval_s:g}"] = found
            return found

        shortest = bisect(INTERVALS_S, is_stable)
        child.kill()
    return Shortest(replace(case, interval_s=shortest or INTERVALS_S[-1]), when, holds)


def bisect(intervals: Sequence[float], is_stable: Callable[[float], bool]) -> float | None:
    """Return the first of ascending intervals that is stable; those after it are taken to be."""
    low, high = 0, len(intervals)
    while low < high:
        middle = (low + high) // 2
        if is_stable(intervals[middle]):
            high = middle
        else:
            low = middle + 1
    return intervals[low] if low < len(intervals) else None


def measure_cut(site: Site, case: Case) -> Cut:
    """Return what batches cost with so many partitions."""
    when, lengths = now(), site.lengths
    with site.job(case) as child:
        fill(child, case)
        start(child, case)
        skip(child, lengths.warm_batches)
        with Meter(child.session, ()) as meter:
            batches = take(child, CUT_S, lengths.stable_batches)
        child.kill()
    return Cut(
        case=case,
        when=when,
        batches=len(batches),
        trigger_ms=spread(batches, "trigger_ms"),
        commit_ms=spread(batches, "commit_ms"),
        rss_peak_bytes=meter.usage.rss_peak_bytes,
    )


# ---- what is said to a job process, and heard


def fill(child: Child, case: Case) -> None:
    """Wait until the state holds all keys."""
    child.expect("ready")
    child.answer("fill")
    for batch in take_batches(child):
        if number(batch, "total") >= case.keys:
            return


def start(child: Child, case: Case) -> dict[str, str]:
    """Begin to run at the steady rate. Batches of what ran before are let go by.

    Returns the settings of Spark that it runs with.
    """
    child.answer(f"run {case.interval_s}")
    while (said := child.receive())["event"] != "started":
        if said["event"] not in {"ready", "batch"}:
            raise ChildFailed(f"{child.name}: {said}")
    return cast("dict[str, str]", said["settings"])


def take_batches(child: Child) -> Iterator[Batch]:
    """Yield batches as they are done. Raises ChildFailed if the query has failed."""
    while True:
        said = child.receive()
        if said["event"] == "batch":
            yield said
        elif said["event"] != "started":
            raise ChildFailed(f"{child.name}: {said}")


def skip(child: Child, count: int) -> None:
    """Wait for the ends of so many batches."""
    for _ in islice(take_batches(child), count):
        pass


def take(child: Child, seconds: float, count_max: int | None = None) -> list[Batch]:
    """Return the batches of the next seconds, and the one then under way; not more than so many."""
    until_s, taken = time.monotonic() + seconds, []
    for batch in take_batches(child):
        taken.append(batch)
        if time.monotonic() >= until_s or len(taken) == count_max:
            break
    return taken


def number(batch: Batch, name: str) -> float:
    """Return a number that a batch tells."""
    return float(str(batch[name]))


def spread(batches: Sequence[Batch], name: str) -> Spread:
    """Return the spread of a number over batches."""
    return spread_of([number(each, name) for each in batches])
