"""What a commit of many files costs on HDFS, beside one that lists.

    python -m bench.commit_scale

A real HDFS on this machine: two NameNodes, their journal, two DataNodes. Files are empty, as a
NameNode moves them no faster. Calls are those that the NameNodes' audit logs show. A listing commit
is what Hadoop's FileOutputCommitter does, version 1 or 2, through the bare client: tasks commit in
parallel, the job lists what they left, looks at every target, renames, deletes. Rounds are
interleaved. In most batches the table's partitions are there already; new ones are measured apart.
"""

import math
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from statistics import median

from hdfs_native import Client

from ashore.base.clock import SystemClock
from ashore.base.unique import unique
from ashore.log import names
from ashore.log.entries import Closing, Commit, Join, Joined, Prepare, ShardRead
from ashore.log.files import DataFile, FileSpan, Role, Target
from ashore.log.names import SliceName
from ashore.log.plan_commit import places_of
from ashore.log.positions import BatchTime, OffsetRange, ShardKey
from ashore.log.store.committer import Committer
from ashore.log.store.log import LandingLog, LogContext
from ashore.storage import Storage, open_storage
from ashore.storage.base import Staged
from ashore.storage.memory import MemoryStorage
from ashore_lab.services.hdfs import Hdfs
from ashore_lab.testing import FaultyStorage
from bench.table import Row

CLOCK = SystemClock()
NAME = SliceName("scale", "main")
TABLE = "bench.records"
KEY = ShardKey("kafka", "records", 1, "0")
TASKS = 8
FIRST_HOUR = datetime(2026, 1, 1, tzinfo=UTC)
WRITERS = 32
FILES, FEW_FILES = 1_000, 100
WARM, ROUNDS, FEW_ROUNDS = 1, 3, 15
BATCH_FILES = 1_000
HDFS_TABLES = (100, 10_000)
TABLES = (100, 10_000, 100_000)
KILLED_FILES = 200
SUCCESS = "_SUCCESS"


def partitions(files: int, first_hour: int = 0) -> list[str]:
    """Return the partitions, one an hour, of a batch in which each task has a file in each."""
    count = math.ceil(files / TASKS)
    hours = (FIRST_HOUR + timedelta(hours=first_hour + each) for each in range(count))
    return [f"{each:date=%Y-%m-%d/hour=%H}" for each in hours]


def write_empty(storage: Storage, paths: Sequence[str]) -> None:
    """Write files as tasks do, many at once."""
    with ThreadPoolExecutor(WRITERS) as pool:
        for _ in pool.map(lambda path: storage.open_write(path).close(), paths):
            pass


@dataclass
class Landing:
    """A slice that lands empty files: steps 3 to 6 as the loop does them, step 2 from here.

    Arguments:
        storage: the driver's.
        tasks: the storage of the tasks, which are other processes.

    """

    storage: Storage
    tasks: Storage
    log: LandingLog = field(init=False)
    closing: Closing | None = None

    def __post_init__(self) -> None:
        self.log = LandingLog(LogContext(self.storage, CLOCK, unique), NAME)
        if self.log.open().shards:
            self.finish()
        else:
            self.log.append(Join((Joined(KEY, "stream", 0, "earliest"),)), None)

    def write(self, files: int, first_hour: int = 0) -> Prepare:
        """Step 2: each task writes a file for each partition; return the entry."""
        fold = self.log.fold
        start = fold.shards[KEY].next
        reads = ShardRead(
            key=KEY,
            offsets=OffsetRange(start, start + files),
            table=TABLE,
            fetched=files,
            landed=files,
            dead=0,
            filtered=0,
            dropped=0,
            size_bytes=0,
            event_max_ms=None,
        )
        targets = tuple(
            Target(TABLE, Role.MAIN, each, (), "id BIGINT", "parquet")
            for each in partitions(files, first_hour)
        )
        made = tuple(
            DataFile(
                each // TASKS,
                each % TASKS,
                unique(),
                1,
                0,
                unique(),
                (FileSpan(0, start + each, start + each + 1, 1),),
                None,
                None,
            )
            for each in range(files)
        )
        staging = names.staging_directory(TABLE, NAME, fold.epoch)
        write_empty(
            self.tasks,
            [
                names.join(staging, names.pending_name(fold.next_batch, each.unique))
                for each in made
            ],
        )
        now_ms = max(CLOCK.now_ms(), fold.now_ms)
        return Prepare(fold.next_batch, BatchTime(now_ms), (reads,), targets, made, (), None)

    def prepare(self, body: Prepare) -> None:
        """Step 3."""
        self.log.append(body, self.closing)

    def finish(self) -> None:
        """Steps 4 to 6."""
        self.closing = Committer(self.log, self.storage, CLOCK).finish()

    def commit(self, body: Prepare) -> None:
        """Steps 3 to 6."""
        self.prepare(body)
        self.finish()


class Calls:
    """Counts what the NameNodes were asked, by their audit logs."""

    def __init__(self, cluster: Hdfs) -> None:
        self._cluster = cluster
        self._seen = 0
        self.take()

    def total(self) -> int:
        """Return how many calls there were since the start."""
        return len(self._cluster.audit_entries())

    def take(self) -> Counter[str]:
        """Return the calls since the last time."""
        entries = self._cluster.audit_entries()
        fresh = entries[self._seen :]
        self._seen = len(entries)
        return Counter(each.command for each in fresh)


@dataclass
class Measured:
    """What commits of one kind took."""

    calls: list[Counter[str]] = field(default_factory=list)
    passed_ms: list[float] = field(default_factory=list)

    def add(self, action: Callable[[], None], calls: Calls) -> None:
        calls.take()
        began_s = time.perf_counter()
        action()
        self.passed_ms.append((time.perf_counter() - began_s) * 1000)
        self.calls.append(calls.take())

    @property
    def ms(self) -> float:
        return median(self.passed_ms)

    @property
    def count(self) -> float:
        return median(each.total() for each in self.calls)

    def show(self, what: str) -> None:
        kinds = ", ".join(f"{kind} {count:,}" for kind, count in sorted(self.calls[-1].items()))
        print(f"  {what:44} {self.ms:9.1f} ms {self.count:7,.0f} calls: {kinds}", flush=True)


# ---- commits that list


class ListingCommit:
    """What FileOutputCommitter does with a job's output directory.

    Arguments:
        client: of the NameNodes.
        version: 1: a task renames its directory, the job moves what tasks left; 2: tasks move.
        table: the output directory.

    """

    def __init__(self, client: Client, version: int, table: str) -> None:
        self._client = client
        self._version = version
        self._table = table
        self._temporary = f"{table}/_temporary"

    def attempt(self, task: int) -> str:
        """Return where a task writes."""
        return f"{self._temporary}/0/_temporary/attempt_{task}"

    def commit(self) -> None:
        """Make all that the tasks wrote final."""
        with ThreadPoolExecutor(TASKS) as pool:
            list(pool.map(self._commit_task, range(TASKS)))
        if self._version == 1:
            for found in self._client.list_status(f"{self._temporary}/0"):
                if not found.path.endswith("/_temporary"):
                    self._merge(found.path, self._table, is_directory=True)
        self._client.delete(self._temporary, recursive=True)
        marker = f"{self._table}/{SUCCESS}"
        self._client.delete(marker)
        with self._client.create(marker):
            pass

    def _commit_task(self, task: int) -> None:
        source = self.attempt(task)
        self._look(source)  # is there anything to commit?
        self._look(source)
        if self._version == 1:
            target = f"{self._temporary}/0/task_{task}"
            self._look(target)
            self._client.rename(source, target)
        else:
            self._merge(source, self._table, is_directory=True)

    def _merge(self, source: str, target: str, *, is_directory: bool) -> None:
        is_there = self._look(target)
        if not is_directory or (not is_there and self._version == 1):
            self._client.rename(source, target)
            return
        if not is_there:
            self._client.mkdirs(target, create_parent=True)
        for found in self._client.list_status(source):
            name = found.path.rpartition("/")[2]
            self._merge(found.path, f"{target}/{name}", is_directory=found.isdir)

    def _look(self, path: str) -> bool:
        with suppress(FileNotFoundError):
            self._client.get_file_info(path)
            return True
        return False


# ---- what is measured


@dataclass(frozen=True, slots=True)
class Site:
    """The HDFS that all is measured on."""

    cluster: Hdfs
    calls: Calls

    def open(self, root: str) -> Storage:
        return open_storage(f"{self.cluster.uri}/{root}", options=self.cluster.client_options())

    def landing(self, root: str) -> Landing:
        return Landing(self.open(root), self.open(root))

    def client(self) -> Client:
        return Client(self.cluster.uri, self.cluster.client_options())


def ready_own(landing: Landing, first_hour: int) -> Callable[[], None]:
    """Write files, and return what makes them final."""
    return partial(landing.commit, landing.write(FILES, first_hour))


def ready_listing(site: Site, version: int, first_hour: int) -> Callable[[], None]:
    """Write files as FileOutputCommitter's tasks do, and return what makes them final."""
    root = f"listing-{version}"
    commit = ListingCommit(site.client(), version, f"/{root}")
    hours = partitions(FILES, first_hour)
    write_empty(
        site.open(root),
        [
            f"{commit.attempt(each % TASKS).removeprefix(f'/{root}/')}"
            f"/{hours[each // TASKS]}/part-{each}-{unique()}.parquet"
            for each in range(FILES)
        ],
    )
    return commit.commit


def compare(site: Site) -> Iterator[Row]:
    """Commit in turns, into partitions that are there and into new ones."""
    kinds = {
        "append and moves": partial(ready_own, site.landing("many")),
        **{f"listing commit {each}": partial(ready_listing, site, each) for each in (1, 2)},
    }
    for _ in range(WARM):
        for ready in kinds.values():
            ready(0)()
    for where, step in (("old", 0), ("new", len(partitions(FILES)))):
        measured = {kind: Measured() for kind in kinds}
        for number in range(ROUNDS):
            for kind, ready in kinds.items():
                measured[kind].add(ready((number + 1) * step), site.calls)
        print(f"  {FILES:,} files of {TASKS} tasks in {len(partitions(FILES))} {where} partitions")
        for kind, found in measured.items():
            found.show(kind)
        own, *listing = measured.values()
        for version, found in enumerate(listing, start=1):
            what = f"{FILES:,} files, {where} partitions, v. listing commit {version}"
            yield Row(f"{what}: calls", own.count / found.count, at_most=0.5)
            yield Row(f"{what}: time", own.ms / found.ms, at_most=0.5)


def measure_few(site: Site) -> Iterator[Row]:
    append, moves = Measured(), Measured()
    landing = site.landing("few")
    for number in range(WARM + FEW_ROUNDS):
        body = landing.write(FEW_FILES)
        if number < WARM:
            landing.commit(body)
            continue
        append.add(partial(landing.prepare, body), site.calls)
        moves.add(landing.finish, site.calls)
    print(f"  {FEW_FILES} files")
    append.show("append of the prepare")
    moves.show("moves, until all files are final")
    yield Row(f"{FEW_FILES} files: append", append.ms, "ms")
    yield Row(f"{FEW_FILES} files: prepare appended to all final, p50", moves.ms, "ms", 150)


# ---- a commit that was killed


def kill_half_way(landing: Landing, table_files: int) -> None:
    """Fill the table, prepare one batch more and move half of its files."""
    for start in range(0, table_files, BATCH_FILES):
        landing.prepare(landing.write(min(BATCH_FILES, table_files - start)))
        landing.finish()
    # A snapshot, so that the log to be read is as long for every table.
    landing.log.append(Commit("snapshot"), landing.closing)
    landing.log.write_snapshot(0)
    landing.closing = None
    landing.prepare(landing.write(KILLED_FILES))
    unclosed = landing.log.fold.unclosed
    if unclosed is None:
        raise RuntimeError("a prepare is unclosed until the next entry")
    for place in places_of(NAME, unclosed)[: KILLED_FILES // 2]:
        landing.storage.publish(Staged(place.pending), place.final)


def recover_on_hdfs(site: Site, table_files: int) -> int:
    """Return the calls with which a new process finishes the batch."""
    root = f"killed-{table_files}"
    kill_half_way(site.landing(root), table_files)
    found = Measured()
    found.add(lambda: finish_anew(site.open(root)), site.calls)
    found.show(f"finish {KILLED_FILES} files, table of {table_files:,}")
    return found.calls[0].total()


def recover_in_memory(table_files: int) -> int:
    memory = MemoryStorage()
    kill_half_way(Landing(memory, memory), table_files)
    counted = FaultyStorage(memory)
    finish_anew(counted)
    kinds = Counter(each.kind for each in counted.calls)
    print(f"  {f'finish, table of {table_files:,}, in memory':44} {dict(sorted(kinds.items()))}")
    return kinds.total()


def finish_anew(storage: Storage) -> None:
    """Open the slice and finish what is unclosed, as a job that starts."""
    landing = Landing(storage, storage)
    if landing.closing is None:
        raise RuntimeError("there was nothing to finish")


def measure_killed(site: Site) -> Iterator[Row]:
    for where, sizes, recover in (
        ("HDFS", HDFS_TABLES, partial(recover_on_hdfs, site)),
        ("memory", TABLES, recover_in_memory),
    ):
        calls = [recover(each) for each in sizes]
        what = f"calls to finish a killed commit in {where}, table of {sizes[-1]:,} files"
        yield Row(f"{what} v. {sizes[0]:,}", calls[-1] / calls[0], "", 1, 1)


def main() -> list[Row]:
    rows: list[Row] = []
    with tempfile.TemporaryDirectory() as folder:
        print("starting an HDFS ...", file=sys.stderr)
        with Hdfs(Path(folder) / "hdfs") as cluster:
            site = Site(cluster, Calls(cluster))
            rows += compare(site)
            rows += measure_few(site)
            rows += measure_killed(site)
    return rows


if __name__ == "__main__":
    for row in main():
        print(row)
