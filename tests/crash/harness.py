"""One small job without Spark, on a machine that a test can stop, cut and share among processes.

What it is: the job, its processes, and the checker that looks at what is on the storage alone.
What it promises: deterministic: no clock, no entropy, moves one after another, so that a call has
the same number in every run.
"""

import hashlib
import json
import random
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, reduce

import pytest
from tests.shares import share_of

from ashore.errors import AshoreError, InvariantBroken, LogError, Stopped
from ashore.jobs.file import Job, parse_job
from ashore.log import names
from ashore.log.entries import Entry, Open, Prepare, Reland, Rollback, Skip, read_entry
from ashore.log.extend import extend
from ashore.log.files import BatchPlace, FilePlace
from ashore.log.fold import EMPTY, Fold
from ashore.log.names import SliceName
from ashore.log.plan_commit import places_of
from ashore.log.positions import OffsetRange, ShardKey, StreamShard, find_seams
from ashore.log.store import archive, reader
from ashore.log.store.archive import archive_log
from ashore.log.store.cleaner import apply_cleaning, plan_cleaning
from ashore.log.store.reader import read_history, read_log
from ashore.storage import MemoryStorage, Storage, is_temporary
from ashore.storage.open import LakeAddress
from ashore.tables.catalog import NoCatalog
from ashore.topics.loop.assembly import Environment, JobAssembly
from ashore.topics.loop.slice_loop import SliceLoop
from ashore.topics.loop.worker import Tick, ends_worker
from ashore_lab.testing import (
    Call,
    FailAfterEffect,
    FailBefore,
    FakeClock,
    Fault,
    FaultyStorage,
    LateEffect,
    PendingEffects,
    ProcessStopped,
    RecordedRow,
    RecordedRunner,
    RecordedSource,
    StopProcess,
    read_rows,
)

NAME = SliceName("shop", "main")
CLICKS, ORDERS = "clicks", "orders"
TABLES = ("ods.clicks", "ods.clicks__dead", "ods.orders", "ods.orders__dead")
BATCH_RECORDS = 7
PARALLELISM = 2
TRIES = 12
TICKS_MAX = 60
# What strikes the call of a number.
FAULTS: dict[str, Callable[[int], Fault]] = {
    "fails before": FailBefore,
    "fails after": FailAfterEffect,
    "late at the end": lambda number: LateEffect(number, after=None),
    "stops before": lambda number: StopProcess(number, when="before"),
    "stops after": lambda number: StopProcess(number, when="after"),
}

Ledger = Mapping[ShardKey, tuple[int, ...]]


def value(number: int) -> bytes:
    """A record's value; every fifth is no JSON and goes to the dead-letter table."""
    if number % 5 == 3:
        return b"not json"
    return json.dumps({"date": "ab"[number % 2], "ts": number}).encode()


def build_source(clock: FakeClock) -> RecordedSource:
    """Three batches over two tables: two shards and one shard, offset holes, dead records."""
    source = RecordedSource(clock=clock)
    source.create(CLICKS, 2)
    source.create(ORDERS, 1)
    for shard, records in ((StreamShard(CLICKS, "0"), 8), (StreamShard(CLICKS, "1"), 4)):
        source.append(shard, *map(value, range(records)))
    source.leave_hole(StreamShard(CLICKS, "0"), 2)
    source.append(StreamShard(ORDERS, "0"), *(value(0) for _ in range(5)))
    return source


@cache
def build_job(batch_records: int, *, skips_gaps: bool) -> Job:
    """The job file. Its tables have no partitions of time: nothing is ever sealed."""
    tables = [
        {
            "topic": stream,
            "table": f"ods.{stream}",
            "schema": "date STRING, ts BIGINT",
            "event_time": {"column": "ts"},
            "partition_by": ["date"] if stream == CLICKS else [],
            "late": {"policy": "keep"},
            "format": "jsonl",
            "seal": {"actions": [], "idle_after": "60s", "remember": "1000s"},
        }
        for stream in (CLICKS, ORDERS)
    ]
    source = {
        "kafka": {"bootstrap_servers": "127.0.0.1:9092"},
        "first_start": {"default": "earliest"},
        "gap": "skip" if skips_gaps else "fail",
    }
    document = {"job": NAME.job, "lake": "file:///lake", "source": source, "tables": tables}
    return parse_job(json.dumps({**document, "batch": {"max_records": batch_records}}))


def read_entries_once(patch: pytest.MonkeyPatch) -> None:
    """Read the same bytes as an entry once: the cases of a test have the same logs, mostly.

    Reading is pure, and it takes a fifth to a half of a case. (To fork before the call that is
    struck, instead of playing what comes before it again, costs twice what it saves.)
    """
    once = cache(read_entry)
    for module in (reader, archive):
        patch.setattr(module, "read_entry", once)


class Broken(AssertionError):
    """What is on the storage is not what should be there."""


@dataclass
class World:
    """What outlives a process: the storage, the source, time, and calls still on their way."""

    machine: Storage
    source: RecordedSource
    clock: FakeClock
    batch_records: int = BATCH_RECORDS
    skips_gaps: bool = False
    pending: PendingEffects = field(default_factory=PendingEffects)
    seed: random.Random = field(default_factory=lambda: random.Random(7))

    def entropy(self) -> str:
        return f"{self.seed.getrandbits(64):016x}"

    def start(
        self,
        faults: Sequence[Fault] = (),
        *,
        wrap: Callable[[FaultyStorage], Storage] = lambda storage: storage,
    ) -> "Process":
        """Return a new process: nothing of it is known to any other."""
        return self.start_on(FaultyStorage(self.machine, faults, pending=self.pending), wrap=wrap)

    def start_on(
        self,
        faulty: FaultyStorage,
        *,
        wrap: Callable[[FaultyStorage], Storage] = lambda storage: storage,
        source: RecordedSource | None = None,
    ) -> "Process":
        storage, source = wrap(faulty), source or self.source
        # The lake's address is for tasks elsewhere; this runner has a storage of its own.
        environment = Environment(
            LakeAddress("memory:"),
            storage,
            source,
            NoCatalog(),
            self.clock,
            entropy=self.entropy,
        )
        job = build_job(self.batch_records, skips_gaps=self.skips_gaps)
        runner = RecordedRunner(source, storage, self.entropy)
        return Process(JobAssembly(job, environment).slice(runner, PARALLELISM), faulty, storage)

    def release_when_opened(self) -> None:
        """Let the calls on their way arrive right after the next `open` entry is there."""
        self.pending.release_after(lambda call: len(self.pending) > 0 and self._is_open(call))

    def _is_open(self, call: Call) -> bool:
        if call.kind != "create":
            return False
        newest = [entry for entry in history(self.machine) if isinstance(entry.body, Open)]
        return bool(newest) and names.entry_path(NAME, newest[-1].number) == call.path


@dataclass
class Process:
    """One process of the job."""

    loop: SliceLoop
    faulty: FaultyStorage
    storage: Storage

    def run(self) -> AshoreError | ProcessStopped | None:
        """Land until nothing is left, as a job does; return what ended it before."""
        tries = 0
        for _ in range(TICKS_MAX):
            try:
                if self.loop.tick() is Tick.IDLE:
                    self.loop.close("drained")
                    return None
            except ProcessStopped as stopped:
                return stopped
            except AshoreError as error:
                tries += 1
                if ends_worker(error) or tries == TRIES:
                    return error
                self.loop.parts.clock.sleep(1.0)
        raise Broken("the job never comes to an end")


def keep_house(world: World, storage: Storage) -> None:
    """Archive what can be archived, and clean without any patience."""
    archive_log(storage, NAME)
    clean(world, storage)


def clean(world: World, storage: Storage) -> None:
    now_and_ttl = (world.clock.now_ms(), 0)
    fold = read_log(storage, NAME)
    apply_cleaning(storage, plan_cleaning(storage, NAME, fold, TABLES, now_and_ttl))


def memory_world() -> World:
    clock = FakeClock(monotonic_start_s=0.0)
    return World(MemoryStorage(clock), build_source(clock), clock)


# ---- the checker: it knows what the source held, and reads the storage


def require(condition: bool, message: str) -> None:
    if not condition:
        raise Broken(message)


def history(storage: Storage, name: SliceName = NAME) -> list[Entry]:
    return list(read_history(storage, name))


def walk(storage: Storage, directory: str) -> Iterator[str]:
    for found in storage.list(directory):
        if found.is_directory:
            yield from walk(storage, found.path)
        else:
            yield found.path


def visible_files(storage: Storage) -> set[str]:
    return {path for path in walk(storage, "ods.db") if names.is_visible(path)}


def named_places(entries: Sequence[Entry], name: SliceName = NAME) -> list[FilePlace]:
    """The files that entries name and none has given up, or taken back."""
    files: dict[str, FilePlace] = {}
    for entry in entries:
        body = entry.body
        if isinstance(body, Reland | Skip):
            for gone in body.lost:
                del files[gone]
        if isinstance(body, Rollback):
            for withdrawn in body.files:
                del files[withdrawn.file.unique]
        if isinstance(body, Prepare | Reland):
            place = BatchPlace(name, entry.epoch, body.batch)
            for file in body.files:
                files[file.unique] = place.place(file, body.targets[file.target])
    return list(files.values())


def checksum_of(content: bytes) -> str:
    return hashlib.blake2b(content, digest_size=8).hexdigest()


def check_readers(storage: Storage) -> list[Entry]:
    """I3 and I6, at any moment: the log folds, and readers see no file that it does not name."""
    entries = history(storage)
    fold = reduce(extend, entries, EMPTY)
    require(fold.end == len(entries) - 1, "the history does not fold")
    named = {place.final for place in named_places(entries)}
    if fold.unclosed is not None:
        named |= {each.pending for each in places_of(NAME, fold.unclosed) if each.leaves}
    unnamed = visible_files(storage) - named
    require(not unnamed, f"visible, and no prepare names it: {sorted(unnamed)}")
    return entries


def check_recoverable(storage: Storage) -> None:
    """I5, at any moment: what readers see is named, and what is named is there, moved or not."""
    places = named_places(check_readers(storage))
    for place in places:
        ends = [storage.read(path) for path in (place.pending, place.final) if storage.stat(path)]
        sums = {checksum_of(content) for content in ends}
        require(sums == {place.file.checksum}, f"named by a prepare and not whole: {place.pending}")


def read_named_rows(storage: Storage, places: Sequence[FilePlace]) -> Counter[RecordedRow]:
    """The rows of files that the log names, moved or not yet."""
    rows: Counter[RecordedRow] = Counter()
    for place in places:
        path = place.final if storage.stat(place.final) else place.pending
        rows.update(read_rows(storage.read(path)))
    return rows


def check_table(storage: Storage, entries: Sequence[Entry], expected: Counter[RecordedRow]) -> None:
    """I1: every file that the log names is there as it was written, and each row is there once."""
    check_files(storage, named_places(entries), expected)


def check_files(
    storage: Storage, places: Sequence[FilePlace], expected: Counter[RecordedRow]
) -> None:
    rows = Counter[RecordedRow]()
    missing = {place.final for place in places} - visible_files(storage)
    require(not missing, f"named by a prepare and not there: {sorted(missing)}")
    for place in places:
        content = storage.read(place.final)
        is_whole = checksum_of(content) == place.file.checksum
        require(is_whole, f"{place.final} holds something else than was written")
        rows.update(read_rows(content))
    require(rows == expected, f"lost {expected - rows}, duplicated or made up {rows - expected}")


def contents(storage: Storage) -> dict[str, bytes]:
    """What readers and the next writer go by: the visible files and the log.

    Of an entry that an archive holds the archive counts: that its file is gone need not be durable.
    """
    log = [found.path for found in storage.list(names.log_directory(NAME))]
    archives = {names.parse_archive(names.leaf(path)) for path in log}
    paths = visible_files(storage) | {
        path for path in log if not is_temporary(path) and not _is_archived(path, archives)
    }
    return {path: storage.read(path) for path in sorted(paths)}


def _is_archived(path: str, archives: Collection[int | None]) -> bool:
    number = names.parse_entry(names.leaf(path))
    return number is not None and number // names.ARCHIVE_ENTRIES in archives


def check_ranges(entries: Sequence[Entry], fold: Fold) -> None:
    ranges: dict[ShardKey, list[OffsetRange]] = {key: [] for key in fold.shards}
    for entry in entries:
        if isinstance(entry.body, Prepare):
            for read in entry.body.shards:
                ranges[read.key].append(read.offsets)
        if isinstance(entry.body, Skip):
            for skipped in entry.body.ranges:
                ranges[skipped.key].append(skipped.offsets)
        if isinstance(entry.body, Rollback):
            for back in entry.body.shards:
                while ranges[back.key] and ranges[back.key][-1].start >= back.offsets.start:
                    ranges[back.key].pop()
    for key, state in fold.shards.items():
        seams = find_seams(key, state.first, ranges[key])
        require(not seams, f"ranges do not meet: {seams}")


def ledger(fold: Fold) -> Ledger:
    return {
        key: (
            *(state.first, state.next, state.fetched, state.landed, state.dead),
            *(state.filtered, state.dropped, state.skipped, state.lost, state.size_bytes),
        )
        for key, state in fold.shards.items()
    }


def partition_rows(fold: Fold) -> dict[tuple[str, str], int]:
    return {key: state.rows for key, state in fold.partitions.items()}


def recorded_rows(source: RecordedSource, generation: int = 1) -> Counter[RecordedRow]:
    """Every record that the source holds, as the row that it should have become."""
    shards = [
        StreamShard(info.stream, shard)
        for info in source.describe_streams(source.list_streams()).values()
        for shard in info.shards
    ]
    return Counter(
        RecordedRow(shard.stream, generation, shard.shard, record.offset)
        for shard, there in source.read_offsets(shards).items()
        for record in source.read_again(shard, OffsetRange(there.earliest, there.end))
    )


@dataclass(frozen=True)
class Reference:
    """What a run without faults has left."""

    rows: Counter[RecordedRow]
    ledger: Ledger
    partitions: Mapping[tuple[str, str], int]

    def check(self, storage: Storage) -> None:
        """Compare what is on the storage after the job has finished (I1, I3, I5, I6)."""
        entries, fold = check_readers(storage), read_log(storage, NAME)
        check_table(storage, entries, self.rows)
        require(fold.unclosed is None, "an entry is unclosed at the end")
        check_ranges(entries, fold)
        require(ledger(fold) == self.ledger, f"ledger {ledger(fold)} is not {self.ledger}")
        found = partition_rows(fold)
        require(found == self.partitions, f"partitions {found} are not {self.partitions}")
        require(ledger(reduce(extend, entries, EMPTY)) == self.ledger, "history and log differ")


def reference(world: World) -> Reference:
    """Run the job without a fault, and check it against what the source holds."""
    require(world.start().run() is None, "the job did not end by itself")
    fold = read_log(world.machine, NAME)
    rows = recorded_rows(world.source)
    check_table(world.machine, history(world.machine), rows)
    return Reference(rows, ledger(fold), partition_rows(fold))


def finish(world: World, expected: Reference) -> None:
    """Start a fresh process, let it land what is left, let late calls arrive, and compare."""
    last = world.start()
    ended = last.run()
    require(ended is None, f"the last process ended with {ended!r}")
    for _ in range(2):
        world.pending.release()
    require(last.loop.tick() is Tick.IDLE, "there was something to land after the end")
    expected.check(world.machine)


def check_end(ended: AshoreError | ProcessStopped | None) -> None:
    """A process with a fault may stop or give up; it must not call the lake damaged."""
    wrong = isinstance(ended, LogError | Stopped | InvariantBroken)
    require(not wrong, f"a process ended with {ended!r}")


def explain(case: str, run: Callable[[], None]) -> str | None:
    """Run one case; return what was wrong with it."""
    try:
        run()
    except (AssertionError, AshoreError, LookupError) as error:
        return f"{case}: {type(error).__name__}: {error}"
    return None


def find_failures(cases: Iterator[tuple[str, Callable[[], None]]]) -> Iterator[str]:
    """Yield what is wrong, case after case."""
    for case, run in cases:
        failure = explain(case, run)
        if failure is not None:
            yield failure


def require_none_fails(cases: Iterator[tuple[str, Callable[[], None]]]) -> None:
    """Play the share of this run, and fail with the first cases that went wrong."""
    report(find_failures(iter(share_of(cases))))


def report(failures: Iterator[str]) -> None:
    """Fail with the first cases that went wrong."""
    found = list(failures)
    assert not found, f"{len(found)} cases failed:\n" + "\n".join(found[:10])
