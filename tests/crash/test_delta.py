"""Each storage call of a job with a Delta table, under every fault.

A version of the table is a file that a storage call creates: there is no other service to strike.
"""

import io
from collections import Counter
from collections.abc import Callable, Sequence

import pyarrow.parquet as pq
import pytest
from tests.crash.harness import FAULTS, NAME, Process, World, check_readers, named_places
from tests.crash.iceberg_job import TABLE, build_clicks, build_job
from tests.shares import share_of

from ashore.errors import FilesLost, PathExists, Stopped
from ashore.log.names import is_visible, parent
from ashore.log.plan_clean import Leftover, ListedTable
from ashore.log.plan_commit import places_of
from ashore.log.store.reader import read_log
from ashore.log.tables import DELTA
from ashore.storage import MemoryStorage
from ashore.storage.open import LakeAddress
from ashore.tables.catalog import NoCatalog
from ashore.tables.delta import delta_tables, table_log
from ashore.tables.delta.delta_tables import DeltaTables
from ashore.tables.table_format import TableFormats
from ashore.topics.loop.assembly import Environment, JobAssembly
from ashore.topics.loop.recovery import open_and_find_lost, reland
from ashore_lab.drills.sites.memory import TaskRunner
from ashore_lab.testing import FakeClock, Fault, FaultyStorage

LOG = "/_delta_log"
DAY_MS = 86_400_000


class DeltaWorld(World):
    """What outlives a process."""

    def start(self, faults: Sequence[Fault] = (), **_: object) -> Process:
        storage = FaultyStorage(self.machine, faults, pending=self.pending)
        environment = Environment(
            LakeAddress(self.machine.describe()),
            storage,
            self.source,
            NoCatalog(),
            self.clock,
            entropy=self.entropy,
            formats=DeltaTables(storage, self.clock),
        )
        runner = TaskRunner(self.source, storage, self.entropy)
        loop = JobAssembly(build_job("delta"), environment).slice(runner, 1)
        return Process(loop, storage, storage)


def delta_world() -> DeltaWorld:
    clock = FakeClock(monotonic_start_s=0.0)
    return DeltaWorld(MemoryStorage(clock), build_clicks(clock), clock)


def read_offsets(world: DeltaWorld) -> Counter[int]:
    """Return the offsets of the rows that readers of the table see."""
    offsets = Counter[int]()
    for path in DeltaTables(world.machine, world.clock).readable(TABLE).files:
        data = world.machine.read(path)
        offsets.update(pq.read_table(io.BytesIO(data)).column("kafka_offset").to_pylist())
    return offsets


def check_end(world: DeltaWorld) -> None:
    """Check that each record is read once, by files that the log names, in versions of its own."""
    entries = check_readers(world.machine)
    assert read_offsets(world) == Counter(range(5))
    files = DeltaTables(world.machine, world.clock).readable(TABLE).files
    assert {*files} == {place.final for place in named_places(entries)}
    log = table_log.TableLog(world.machine, TABLE)
    state = log.read()
    made = [log.version(number).transactions for number in range(1, state.version + 1)]
    ordered = [entry.number for entry in entries if getattr(entry.body, "commits", ())]
    assert [number for each in made for number in each.values()] == ordered


def calls_of(world: DeltaWorld) -> list[tuple[str, str]]:
    process = world.start()
    assert process.run() is None
    check_end(world)
    return [(call.kind, str(call)) for call in process.faulty.calls]


def play(fault: Fault) -> None:
    """Strike one process; let a second finish; then let come what is late."""
    world = delta_world()
    world.start([fault]).run()
    world.clock.sleep(60)
    ended = world.start().run()
    assert ended is None, ended
    world.pending.release()
    assert world.start().run() is None
    check_end(world)


@pytest.fixture(autouse=True)
def many_checkpoints(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table_log, "CHECKPOINT_EVERY", 1)


@pytest.mark.parametrize("fault", FAULTS)
def test_every_call_of_the_log_of_the_table(fault: str) -> None:
    struck = [number for number, (_, text) in enumerate(calls_of(delta_world()), 1) if LOG in text]
    assert len(struck) > 8
    for number in struck:
        play(FAULTS[fault](number))


@pytest.mark.parametrize("fault", ["fails after", "late at the end", "stops before"])
def test_every_other_call_of_the_storage(fault: str) -> None:
    others = [
        number for number, (_, text) in enumerate(calls_of(delta_world()), 1) if LOG not in text
    ]
    for number in share_of(others):
        play(FAULTS[fault](number))


def test_a_file_that_another_program_deletes_before_the_commit_is_read_again() -> None:
    """As an unlucky `VACUUM` of another engine does, whose retention is too short."""
    world = delta_world()
    calls = calls_of(delta_world())
    path = f"{LOG}/{1:020}.json"
    first = [each[0] == "create" and path in each[1] for each in calls].index(True)
    world.start([FAULTS["stops before"](first + 1)]).run()
    unclosed = read_log(world.machine, NAME).unclosed
    gone, *others = places_of(NAME, unclosed)
    assert others
    world.machine.delete(gone.final)

    assert isinstance(world.start().run(), FilesLost)
    process = world.start()
    process.loop.plan.streams()
    lost = open_and_find_lost(process.loop.parts.committer())
    assert [file.unique for file in lost.files] == [gone.file.unique]
    rows = reland(process.loop.plan, process.loop.parts, lost)
    assert rows == gone.file.rows
    assert world.start().run() is None
    assert read_offsets(world) == Counter(range(5))


def clean(world: DeltaWorld) -> int:
    """Delete what `ashore clean` would after a hundred days, and return how many files that are."""
    storage, root = world.machine, parent(f"{table_log.TableLog(world.machine, TABLE).directory}")
    below = tuple(
        Leftover(each.path, each.size, 0)
        for directory in (root, *(each.path for each in storage.list(root) if each.is_directory))
        for each in storage.list(directory)
        if not each.is_directory and is_visible(each.path)
    )
    now_ms = world.clock.now_ms() + 100 * DAY_MS
    listed = ListedTable(TABLE, below, NAME, read_log(storage, NAME), now_ms, 0)
    try:
        found = TableFormats({DELTA: DeltaTables(storage, world.clock)}).find_orphans(listed)
    except Stopped:
        return 0  # not committed yet
    for step in found.steps:
        storage.delete(step.file.path)
    return len(found.steps)


def test_cleaning_deletes_nothing_that_a_job_needs() -> None:
    cleaned = 0
    for number in share_of([*range(1, len(calls_of(delta_world())) + 1)]):
        world = delta_world()
        world.start([FAULTS["stops before"](number)]).run()
        cleaned += clean(world)
        assert world.start().run() is None
        cleaned += clean(world)
        assert world.start().run() is None
        assert read_offsets(world) == Counter(range(5))
    assert cleaned


# ---- a suite that cannot turn red proves nothing


def without_a_look(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(delta_tables, "is_committed", lambda *_: False)


def without_a_fence(patch: pytest.MonkeyPatch) -> None:
    """A version is overwritten, as where a storage has no exclusive creation."""

    def create(self: MemoryStorage, path: str, data: bytes) -> None:
        if LOG in parent(path) + "/" and path.endswith(".json"):
            try:
                whole(self, path, data)
            except PathExists:
                self.delete(path)
                whole(self, path, data)
            return
        whole(self, path, data)

    whole = MemoryStorage.create
    patch.setattr(MemoryStorage, "create", create)
    patch.setattr(delta_tables, "is_committed", lambda *_: False)


def strike_versions(calls: list[tuple[str, str]]) -> None:
    for number, (_, text) in enumerate(calls, 1):
        if LOG in text:
            play(FAULTS["stops after"](number))
            play(FAULTS["fails after"](number))


@pytest.mark.parametrize("mutate", [without_a_look, without_a_fence])
def test_a_mutant_is_found(
    mutate: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = calls_of(delta_world())
    mutate(monkeypatch)
    with pytest.raises(AssertionError):
        strike_versions(calls)
