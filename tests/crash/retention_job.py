"""A job that drops an old partition by itself, and a person who drops one by the command.

What it is: a world with lake, catalog and source, the two ways to retire, and the checker of what
they leave: nothing is gone that no entry retired, nothing is listed that is gone, and `verify` and
the catalog agree with the log.
"""

import json
import random
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field

import pytest
from tests.crash.harness import (
    check_end,
    history,
    named_places,
    require,
    visible_files,
    walk,
)
from tests.crash.storage_calls import Case

from ashore.errors import AshoreError
from ashore.jobs.file import parse_job
from ashore.log import names
from ashore.log.entries import Retire
from ashore.log.names import SliceName
from ashore.log.positions import StreamShard
from ashore.log.store.reader import read_log
from ashore.proof import retire as command
from ashore.proof.verify.job import verify_job
from ashore.storage import MemoryStorage
from ashore.storage.open import LakeAddress
from ashore.tables.catalog import Catalog
from ashore.topics.loop import retention
from ashore.topics.loop.assembly import Environment, JobAssembly
from ashore.topics.loop.worker import Tick
from ashore.topics.open_job import OpenJob
from ashore_lab.drills.sites.memory import TaskRunner
from ashore_lab.testing import (
    Call,
    FailBefore,
    FakeClock,
    Fault,
    FaultyCatalog,
    FaultyStorage,
    PendingEffects,
    ProcessStopped,
    RecordedSource,
    StopProcess,
)
from ashore_lab.testing.memory_catalog import MemoryCatalog

NAME, TABLE = SliceName("shop", "main"), "ods.clicks"
CLICKS = StreamShard("clicks", "0")
END_MS = 1_795_305_600_000  # of date=2026-11-21 in UTC
DAY_MS = 86_400_000
OLD, NEW = "date=2026-11-21", "date=2026-11-24"
TURNS = 12
JOB = parse_job(
    json.dumps(
        {
            "job": NAME.job,
            "lake": "file:///lake",
            "source": {
                "kafka": {"bootstrap_servers": "127.0.0.1:9092"},
                "first_start": {"default": "earliest"},
            },
            "tables": [
                {
                    "topic": "clicks",
                    "table": TABLE,
                    "schema": "ts BIGINT",
                    "event_time": {"column": "ts"},
                    "partition_by": ["date"],
                    "format": "jsonl",
                    "on_invalid": "drop",
                    "seal": {"actions": ["success_file"]},
                    "retention": "1d",
                }
            ],
            "catalog": {"hive": {"uri": "thrift://127.0.0.1:9083"}},
            "batch": {"max_records": 2},
        }
    )
)
READS = {"stat", "list", "read", "check_table"}


@dataclass
class World:
    """What outlives a process."""

    clock: FakeClock = field(default_factory=lambda: FakeClock(END_MS - 60_000, 0.0))
    catalog: MemoryCatalog = field(default_factory=MemoryCatalog)
    pending: PendingEffects = field(default_factory=PendingEffects)
    by_hand: bool = False  # whether somebody has deleted the files of the old day
    seed: random.Random = field(default_factory=lambda: random.Random(7))

    def __post_init__(self) -> None:
        self.machine = MemoryStorage(self.clock)
        self.source = RecordedSource(clock=self.clock)
        self.source.create("clicks")
        self.produce(END_MS - 5, END_MS - 4, END_MS - 3)

    def produce(self, *times_ms: int) -> None:
        values = [json.dumps({"ts": each}).encode() for each in times_ms]
        self.source.append(CLICKS, *values)

    def let_it_become_old(self) -> None:
        self.clock.advance(3 * DAY_MS / 1000)
        now_ms = END_MS + 3 * DAY_MS - 60_000
        self.produce(*(now_ms + each for each in range(4)))

    def entropy(self) -> str:
        return f"{self.seed.getrandbits(64):016x}"


class Process:
    """One process: a job, or a person's command. Its calls are numbered, and faults strike."""

    def __init__(self, world: World, faults: Sequence[Fault] = ()) -> None:
        self.world = world
        self.faulty = FaultyStorage(world.machine, faults, pending=world.pending)
        self.catalog: Catalog = FaultyCatalog(world.catalog, self.faulty)

    def run(self) -> AshoreError | ProcessStopped | None:
        """Land until nothing is left; return what ended it before. An error is ridden out."""
        world = self.world
        around = Environment(
            *(LakeAddress("file:///lake"), self.faulty, world.source, self.catalog, world.clock),
            entropy=world.entropy,
        )
        runner = TaskRunner(world.source, self.faulty, world.entropy)
        loop = JobAssembly(JOB, around).slice(runner, 1)
        idle = 0
        for _ in range(TURNS):
            try:
                idle += loop.tick() is Tick.IDLE
                if idle == 2:
                    loop.close()
                    return None
            except AshoreError as error:
                ended = error
            except ProcessStopped as stopped:
                return stopped
        return ended

    def retire(self) -> AshoreError | ProcessStopped | None:
        """Type `ashore retire` once. What it raises, the person sees."""
        opened = OpenJob(JOB, self.faulty, self.world.source, self.world.clock)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(OpenJob, "catalog", lambda _: nullcontext(self.catalog))
            try:
                plan = command.plan_retire(opened, TABLE, [OLD])
                command.apply_retire(opened, plan, "old", takes_over=True)
            except (AshoreError, ProcessStopped) as ended:
                return ended
        return None


# ---- the checker


def check_any_time(world: World) -> set[str]:
    """Nothing is gone that no entry retired; nothing is visible that no entry lists."""
    entries = history(world.machine, NAME)
    visible = visible_files(world.machine)
    places = named_places(entries, NAME)
    require(visible <= {each.final for each in places}, "visible, and no entry lists it")
    retired = {
        each.partition for entry in entries if isinstance(entry.body, Retire)
        for each in entry.body.partitions
    }  # fmt: skip
    require(retired <= {OLD}, f"retired: {retired}")
    for place in places:
        is_there = any(world.machine.stat(path) for path in (place.final, place.pending))
        require(is_there or f"/{OLD}/" in place.final, f"gone: {place.final}")
        is_meant = OLD in retired or world.by_hand
        require(is_there or is_meant, f"gone before it was retired: {place.final}")
    listed = world.catalog.tables[TABLE].partitions if TABLE in world.catalog.tables else {}
    for partition in rows_by_partition(world):
        is_known = partition in listed or partition in retired
        is_known |= any(each.partition == partition for each in deferred(world))
        state = read_log(world.machine, NAME).partitions.get((TABLE, partition))
        require(is_known or not (state and state.registered), f"hidden: {partition}")
    return retired


def deferred(world: World):
    return read_log(world.machine, NAME).deferred.values()


def rows_by_partition(world: World) -> Counter[str]:
    rows = Counter[str]()
    for path in visible_files(world.machine):
        rows[path.split("/")[2]] += len(world.machine.read(path).splitlines())
    return rows


def check_end_of_all(world: World) -> None:
    retired = check_any_time(world)
    require(retired == {OLD}, f"retired at the end: {retired}")
    left = [*walk(world.machine, names.join(names.table_path(TABLE), OLD))]
    require(not left, f"left of what was retired: {left}")
    require(rows_by_partition(world) == {NEW: 4}, f"rows: {rows_by_partition(world)}")
    listed = set(world.catalog.tables[TABLE].partitions)
    require(listed == {NEW}, f"the catalog lists {listed}")
    require(not deferred(world), f"deferred: {deferred(world)}")
    result = verify_job(OpenJob(JOB, world.machine, world.source, world.clock))
    require(result.exit_code == 0, f"verify: {result.problems}")
    totals = result.totals
    require((totals.lost, totals.duplicated, totals.retired) == (0, 0, 3), f"verify: {totals}")


# ---- the cases

Act = Callable[[Process], AshoreError | ProcessStopped | None]


@dataclass(frozen=True)
class Scenario:
    """What comes before, what is struck, and what is done afterwards until all is well."""

    prepare: Callable[[World], None]
    struck: Act
    afterwards: tuple[Act, ...]

    def number_calls(self) -> list[Call]:
        """Return the calls of what is struck, without a fault, having checked what is left."""
        world = World()
        self.prepare(world)
        process = Process(world)
        require(self.struck(process) is None, "it did not end by itself")
        self.finish(world)
        return process.faulty.calls

    def finish(self, world: World) -> None:
        for act in self.afterwards:
            world.pending.release()
            ended = act(Process(world))
            require(ended is None, f"the last process ended with {ended!r}")
        check_end_of_all(world)

    def run_case(self, fault: Fault) -> None:
        world = World()
        self.prepare(world)
        process = Process(world, [fault])
        check_end(self.struck(process))
        require(fault in process.faulty.fired, "the fault has not struck")
        check_any_time(world)
        self.finish(world)

    def cases(self, fault_at: Callable[[int], Fault]) -> Iterator[Case]:
        """Yield a fault at every call. One that changes nothing is only struck before."""
        first = fault_at(1)
        is_before = isinstance(first, FailBefore) or first == StopProcess(1, when="before")
        for call in self.number_calls():
            if call.kind in READS and not is_before:
                continue

            def run(call: Call = call) -> None:
                self.run_case(fault_at(call.number))

            yield f"call {call.number}: {call.kind} {call.path}", run


def land_old(world: World) -> None:
    """Two batches of the old day, closed; then days go by, and records of another day come."""
    check_end(Process(world).run())
    world.let_it_become_old()


def land_and_die(world: World) -> None:
    """The job dies between the `prepare` of its second batch and the move."""
    Process(world, [StopProcess(2, kind="publish", when="before")]).run()


def lose_files(world: World) -> None:
    """Somebody deletes the files of the old day by hand."""
    land_old(world)
    world.by_hand = True
    for path in [*walk(world.machine, names.join(names.table_path(TABLE), OLD))]:
        world.machine.delete(path)


def go_on(process: Process) -> AshoreError | ProcessStopped | None:
    process.world.let_it_become_old()
    return process.run()


BY_ITSELF = Scenario(land_old, Process.run, (Process.run, Process.run))
FILES_GONE = Scenario(lose_files, Process.run, (Process.run, Process.run))
BY_COMMAND = Scenario(land_and_die, Process.retire, (Process.retire, go_on))
COMMAND_WITHOUT_FILES = Scenario(lose_files, Process.retire, (Process.retire, Process.run))
SCENARIOS = {
    "by itself": BY_ITSELF,
    "by itself, files gone": FILES_GONE,
    "by command": BY_COMMAND,
    "by command, files gone": COMMAND_WITHOUT_FILES,
}


def look_at_each_turn(patch: pytest.MonkeyPatch) -> None:
    """Look for old partitions with each turn, and after a failure too."""
    patch.setattr(retention, "EVERY_S", 0.0)
    patch.setattr(retention, "PAUSE_S", 0.0)
