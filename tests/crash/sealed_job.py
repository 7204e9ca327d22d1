"""A whole job of two slices, with a catalog, seals and calls by HTTP, driven by `JobLoop`.

What it is: three processes of the job, one after the other, and the checker of what they leave.
The first is killed when the catalog has been told and the log has not; the second takes over and
lands what is there; a day later the third lands a late record, which seals its partition again.
What it promises: deterministic: the second slice begins when the first has ended, so that storage,
catalog and HTTP calls have the same numbers in every run.
"""

import json
import random
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, reduce

from tests.crash.harness import (
    check_end,
    check_files,
    check_ranges,
    history,
    named_places,
    recorded_rows,
    require,
    visible_files,
    walk,
)
from tests.crash.storage_calls import Case

from ashore.base.http_post import post_json
from ashore.errors import AshoreError, StorageError
from ashore.jobs.file import Job, parse_job
from ashore.log import names
from ashore.log.entries import Entry, Prepare, Seal
from ashore.log.extend import extend
from ashore.log.files import FilePlace, PartitionKey
from ashore.log.fold import EMPTY, Fold
from ashore.log.names import SliceName
from ashore.log.positions import StreamShard
from ashore.log.progress import Quiet
from ashore.storage import MemoryStorage, Storage
from ashore.storage.open import LakeAddress
from ashore.topics.loop.assembly import Environment, JobAssembly
from ashore_lab.testing import (
    Call,
    FailBefore,
    FakeClock,
    Fault,
    FaultyCatalog,
    FaultyStorage,
    PendingEffects,
    ProcessStopped,
    RecordedRunner,
    RecordedSource,
    StopProcess,
    read_rows,
)
from ashore_lab.testing.memory_catalog import MemoryCatalog

JOB, CLICKS, ORDERS = "shop", "clicks", "orders"
SLICES = {CLICKS: SliceName(JOB, "main"), ORDERS: SliceName(JOB, "orders")}
TABLE = f"ods.{CLICKS}"  # the one that is sealed
ACTIONS = ("success_file", "register", "catalog", "http")
END_MS = 1_795_305_600_000  # of date=2026-11-21 in UTC
FIRST, SECOND = "2026-11-21", "2026-11-22"
DELAY_MS, IDLE_MS = 600_000, 1_800_000
LIVES = 3
READS = {"stat", "list", "read", "check_table"}

Document = Mapping[str, object]
SealKey = tuple[str, str, int]  # table, partition, version


@cache
def build_job(stream: str, address: str, *, waits: bool) -> Job:
    """The part of the job file that one slice goes by. Only the clicks are sealed.

    Arguments:
        stream: that the slice lands.
        address: where seals are told by HTTP.
        waits: whether the catalog gets partitions of sealed tables with their seals.

    """
    actions = {"actions": ["success_file", "catalog"], "http": address}
    seal = {"delay": f"{DELAY_MS}ms", "idle_after": f"{IDLE_MS}ms", "remember": "10d"}
    table = {
        "topic": stream,
        "table": f"ods.{stream}",
        "schema": "date STRING, ts BIGINT",
        "event_time": {"column": "ts"},
        "partition_by": ["date"],
        "late": {"policy": "keep"},
        "format": "jsonl",
        "on_invalid": "drop",
        "provenance": False,
        "seal": {**seal, **(actions if stream == CLICKS else {"actions": []})},
    }
    strategy = "seal" if waits else "near"
    document = {
        "job": JOB,
        "lake": "file:///lake",
        "source": {
            "kafka": {"bootstrap_servers": "127.0.0.1:9092"},
            "first_start": {"default": "earliest"},
        },
        "tables": [table],
        "catalog": {"hive": {"uri": "thrift://127.0.0.1:9083", "strategy": strategy}},
        "batch": {"interval": "1ms", "max_records": 2},
        "grace": "2s",
    }
    return parse_job(json.dumps(document))


@dataclass
class SealedWorld:
    """What outlives a process: lake, catalog, who is told of seals, the source, time."""

    waits: bool  # whether partitions are registered by their seals, where a table has seals
    address: str
    reported: list[Document]
    clock: FakeClock = field(default_factory=lambda: FakeClock(END_MS + 2 * DELAY_MS, 0.0))
    catalog: MemoryCatalog = field(default_factory=MemoryCatalog)
    pending: PendingEffects = field(default_factory=PendingEffects)
    seed: random.Random = field(default_factory=lambda: random.Random(7))

    def __post_init__(self) -> None:
        self.reported.clear()
        self.machine = MemoryStorage(self.clock)
        self.source = RecordedSource(clock=self.clock)
        self.source.create(CLICKS)
        self.source.create(ORDERS)
        self.produce(CLICKS, FIRST, END_MS - 5, END_MS - 4)
        self.produce(CLICKS, SECOND, END_MS + DELAY_MS)
        self.produce(ORDERS, FIRST, END_MS - 5)

    def produce(self, stream: str, date: str, *times_ms: int) -> None:
        values = [json.dumps({"date": date, "ts": each}).encode() for each in times_ms]
        self.source.append(StreamShard(stream, "0"), *values)

    def entropy(self) -> str:
        return f"{self.seed.getrandbits(64):016x}"

    def begin(self, life: int) -> None:
        """Let time pass, and records come, before a life."""
        if life == 2:
            self.clock.advance(DELAY_MS / 1000)
            self.produce(CLICKS, FIRST, END_MS - 3)
            self.produce(ORDERS, SECOND, END_MS + 1)


class InTurn(Quiet):
    """Lets the second slice begin when the first one has ended."""

    def step(self, slice_name: str, step: str) -> None:
        if (slice_name, step) == (SLICES[ORDERS].slice, "plan"):
            wait_for(str(SLICES[CLICKS]))


class Process:
    """One process of the job."""

    def __init__(self, world: SealedWorld, faults: Sequence[Fault] = ()) -> None:
        self._world = world
        self.faulty = FaultyStorage(world.machine, faults, pending=world.pending)
        self._assemblies = {stream: self._assemble(stream) for stream in SLICES}

    def run(self) -> AshoreError | ProcessStopped | None:
        """Land until nothing is left, as `--available-now` does; return what ended it before."""
        slices = [
            assembly.slice(
                RecordedRunner(self._world.source, self.faulty, self._world.entropy),
                parallelism=1,
                name=SLICES[stream].slice,
            )
            for stream, assembly in self._assemblies.items()
        ]
        try:
            self._assemblies[CLICKS].loop(slices, until_drained=True).run()
        except (AshoreError, ProcessStopped) as ended:
            return ended
        return None

    def _assemble(self, stream: str) -> JobAssembly:
        world = self._world
        job = build_job(stream, world.address, waits=world.waits)
        environment = Environment(
            LakeAddress("file:///lake"),
            self.faulty,
            world.source,
            FaultyCatalog(world.catalog, self.faulty),
            world.clock,
            InTurn(),
            entropy=world.entropy,
            post=self._post,
        )
        return JobAssembly(job, environment)

    def _post(self, url: str, body: bytes) -> None:
        try:
            self.faulty.apply(("post", url), lambda: post_json(url, body), lambda: None)
        except StorageError as error:
            raise OSError(error.message) from None


def wait_for(thread_name: str) -> None:
    for thread in threading.enumerate():
        if thread.name == thread_name:
            thread.join()


# ---- the checker


@dataclass(frozen=True)
class Found:
    """What the lake holds: the logs of both slices, and the rows that readers of it count."""

    entries: Mapping[str, list[Entry]]
    readable: Mapping[PartitionKey, int]
    sealed: Mapping[SealKey, int]

    @property
    def places(self) -> list[FilePlace]:
        return [
            place
            for stream, entries in self.entries.items()
            for place in named_places(entries, SLICES[stream])
        ]


def look(storage: Storage) -> Found:
    entries = {stream: history(storage, name) for stream, name in SLICES.items()}
    return Found(entries, count_readable(storage), sealed_rows(entries[CLICKS]))


def check_any_time(world: SealedWorld) -> Found:
    """Whatever tells that a partition is complete tells it of rows that readers already see."""
    found = look(world.machine)
    unnamed = visible_files(world.machine) - {place.final for place in found.places}
    require(not unnamed, f"visible, and no prepare names it: {sorted(unnamed)}")
    for document in (*success_files(world.machine).values(), *world.reported):
        check_published(document, found)
    marked = world.catalog.tables[TABLE].partitions if TABLE in world.catalog.tables else {}
    for partition, seal in marked.items():
        require((TABLE, partition) in found.readable, f"registered without a file: {partition}")
        is_due = not world.waits or (TABLE, partition, 1) in found.sealed
        require(is_due, f"registered before its seal: {partition}")
        if seal is not None:
            check_published(seal_document((TABLE, partition, seal.version), seal.rows), found)
    return found


def check_published(document: Document, found: Found) -> None:
    key = seal_key(document)
    require(key in found.sealed, f"no entry seals {document}")
    rows = found.sealed[key]
    require(document == seal_document(key, rows), f"{document} is not what was sealed: {rows}")
    require(found.readable[key[:2]] >= rows, f"{document} tells of rows that nobody can read")


def check_end_of_all(world: SealedWorld) -> None:
    """Each row is there once; each seal was told everywhere; nothing is deferred."""
    found = check_any_time(world)
    check_files(world.machine, found.places, recorded_rows(world.source))
    folds = {stream: check_slice(stream, entries) for stream, entries in found.entries.items()}
    documents = {key: seal_document(key, rows) for key, rows in found.sealed.items()}
    require(success_files(world.machine) == documents, "success files are not the seals")
    require({seal_key(each) for each in world.reported} == documents.keys(), "HTTP: not every seal")
    check_complete(world, folds[CLICKS], found)
    for fold in folds.values():
        check_registered(world, fold)


def check_slice(stream: str, entries: Sequence[Entry]) -> Fold:
    fold = reduce(extend, entries, EMPTY)
    require(fold.unclosed is None, f"{stream}: an entry is unclosed at the end")
    require(not fold.deferred, f"{stream} defers {sorted(fold.deferred)}")
    check_ranges(entries, fold)
    return fold


def check_complete(world: SealedWorld, fold: Fold, found: Found) -> None:
    """At the end every partition is sealed with all of its rows, also in the catalog."""
    for key, state in fold.partitions.items():
        last = max((each[2] for each in found.sealed if each[:2] == key), default=0)
        require(last > 0, f"{key} was never sealed")
        require(state.sealed_version == last, f"{key}: the fold has another version than {last}")
        rows = found.readable[key]
        require(found.sealed[*key, last] == rows, f"{key}: {rows} rows, {found.sealed}")
        marked = world.catalog.tables[TABLE].partitions[key[1]]
        there = (marked.version, marked.rows) if marked else None
        require(there == (last, rows), f"{key}: the catalog has {there}")


def check_registered(world: SealedWorld, fold: Fold) -> None:
    for (table, partition), state in fold.partitions.items():
        there = world.catalog.tables[table].partitions
        require(partition in there, f"{table} {partition} is not registered")
        require(state.registered, f"{table} {partition}: the log does not know of it")


def sealed_rows(entries: Sequence[Entry]) -> dict[SealKey, int]:
    """Return the rows of each sealed version, having counted them again from the entries.

    Versions follow each other, and no entry seals one twice.
    """
    rows, sealed = Counter[PartitionKey](), dict[SealKey, int]()
    last: dict[PartitionKey, tuple[int, int]] = {}
    for entry in entries:
        if isinstance(entry.body, Prepare):
            for file in entry.body.files:
                target = entry.body.targets[file.target]
                rows[target.table, target.partition] += file.rows
        if isinstance(entry.body, Seal):
            for each in entry.body.partitions:
                key = (each.table, each.partition)
                version, before = last.get(key, (0, 0))
                require(each.version == version + 1, f"{key}: {each.version} after {version}")
                require(each.rows == rows[key], f"{key}: sealed {each.rows} of {rows[key]} rows")
                require(each.added == each.rows - before, f"{key}: {each.added} rows added")
                require(each.rows > before, f"{key}: sealed again for nothing")
                last[key] = (each.version, each.rows)
                sealed[*key, each.version] = each.rows
    return sealed


def count_readable(storage: Storage) -> Counter[PartitionKey]:
    """Return the rows of each partition as a reader of the table counts them."""
    rows = Counter[PartitionKey]()
    for path in visible_files(storage):
        database, table, partition = path.split("/")[:3]
        name = f"{database.removesuffix('.db')}.{table}"
        rows[name, partition] += len(read_rows(storage.read(path)))
    return rows


def success_files(storage: Storage) -> dict[SealKey, Document]:
    """Return the content of each success file by what its name and place say."""
    found: dict[SealKey, Document] = {}
    for path in walk(storage, names.table_path(TABLE)):
        leaf = names.leaf(path)
        if leaf.startswith("_SUCCESS"):
            version = int(leaf.partition(".")[2] or 1)
            found[TABLE, path.split("/")[2], version] = json.loads(storage.read(path))
    return found


def seal_document(key: SealKey, rows: int) -> Document:
    table, partition, version = key
    return {
        "job": JOB, "table": table, "partition": partition, "version": version, "rows": rows,
    }  # fmt: skip


def seal_key(document: Document) -> SealKey:
    return str(document["table"]), str(document["partition"]), int(str(document["version"]))


# ---- the cases

NewWorld = Callable[[], SealedWorld]


def life_ends(world: SealedWorld, life: int) -> list[Fault]:
    """The first process is killed when the catalog knows what the log does not say yet."""
    kind = "mark_sealed" if world.waits else "add_partitions"
    return [StopProcess(1, kind=kind, when="after")] if life == 0 else []


def number_calls(new_world: NewWorld) -> list[list[Call]]:
    """Return the calls of each life without a fault, having checked what they leave."""
    world, calls = new_world(), []
    for life in range(LIVES):
        world.begin(life)
        process = Process(world, life_ends(world, life))
        process.run()
        calls.append(process.faulty.calls)
        check_any_time(world)
    finish(world)
    return calls


def finish(world: SealedWorld) -> None:
    """Let a process do what is left, and days later another one seal what has gone by."""
    for later_s in (0, 2 * 86_400):
        world.clock.advance(later_s)
        world.pending.release()
        ended = Process(world).run()
        require(ended is None, f"the last process ended with {ended!r}")
    check_end_of_all(world)


def cases(new_world: NewWorld, fault_at: Callable[[int], Fault]) -> Iterator[Case]:
    """Yield a fault at every storage, catalog and HTTP call of the job. No call is left out.

    A call that changes nothing is only struck before: afterwards all is as it was.
    """
    is_before = isinstance(fault_at(1), FailBefore) or fault_at(1) == StopProcess(1, when="before")
    for life, calls in enumerate(number_calls(new_world)):
        for call in calls:
            if call.kind in READS and not is_before:
                continue

            def run(life: int = life, call: Call = call) -> None:
                run_case(new_world(), life, fault_at(call.number))

            yield f"life {life}, call {call.number}: {call.kind} {call.path}", run


def run_case(world: SealedWorld, struck: int, fault: Fault) -> None:
    for life in range(LIVES):
        world.begin(life)
        faults = [fault] if life == struck else []
        process = Process(world, [*faults, *life_ends(world, life)])
        check_end(process.run())
        require(life != struck or fault in process.faulty.fired, "the fault has not struck")
        check_any_time(world)
    finish(world)
