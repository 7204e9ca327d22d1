"""Compaction by a running job: each call under every fault, between the batches of its slice."""

from collections.abc import Sequence
from pathlib import Path

import pytest
from tests.crash.compaction_job import check_compacted, visible
from tests.crash.harness import FAULTS, NAME, Process
from tests.crash.iceberg_job import (
    CATALOG_CALLS,
    TABLE,
    FaultyIceberg,
    IcebergWorld,
    append,
    build_job,
    iceberg_world,
    read_offsets,
)
from tests.crash.test_delta import LOG, DeltaWorld
from tests.crash.test_delta_compaction import check as check_delta
from tests.crash.test_delta_compaction import visible as visible_in_delta
from tests.shares import share_of

from ashore.errors import CatalogUnreachable
from ashore.log.entries import Compact, Prepare
from ashore.log.positions import StreamShard
from ashore.log.progress import FilesCompacted, Measure, Quiet
from ashore.log.store.reader import read_history, read_log
from ashore.storage import MemoryStorage
from ashore.storage.open import LakeAddress
from ashore.tables.catalog import NoCatalog
from ashore.tables.delta.delta_tables import DeltaTables
from ashore.topics.loop import compaction
from ashore.topics.loop.assembly import Environment, JobAssembly
from ashore.topics.loop.worker import Tick
from ashore_lab.drills.sites.memory import TaskRunner
from ashore_lab.testing import FakeClock, Fault, FaultyStorage, LateEffect, RecordedSource

COMPACT = {"target": "1MB", "min_files": 2, "every": "10s"}
EVERY_S = 10.0


class Notes(Quiet):
    """Keeps what a slice reports of its compactions."""

    def __init__(self) -> None:
        self.notes: list[str] = []
        self.warnings: list[str] = []
        self.compacted: list[FilesCompacted] = []

    def note(self, slice_name: str, message: str) -> None:
        self.notes.append(message)

    def warn(self, slice_name: str, message: str) -> None:
        self.warnings.append(message)

    def measured(self, measure: Measure) -> None:
        if isinstance(measure, FilesCompacted):
            self.compacted.append(measure)


def world_of(directory: Path, **compact: object) -> IcebergWorld:
    return iceberg_world(directory, build_job(compact=COMPACT | compact))


def run_long(world: IcebergWorld | DeltaWorld, process: Process) -> BaseException | None:
    """Land what is there, then take a turn after the time between two compactions."""
    ended = process.run()
    if ended is None:
        world.clock.sleep(EVERY_S)
        ended = process.run()
    return ended


def compactions(world: IcebergWorld | DeltaWorld) -> list[Compact]:
    entries = read_history(world.machine, NAME)
    return [each.body for each in entries if isinstance(each.body, Compact)]


def number_calls(directory: Path) -> list[str]:
    world = world_of(directory)
    process = world.start()
    assert process.run() is None
    first = len(process.faulty.calls)
    world.clock.sleep(EVERY_S)
    assert process.run() is None
    assert len(visible(world)) == 2
    check_compacted(world)
    kinds = [call.kind for call in process.faulty.calls]
    return ["" if number < first else kind for number, kind in enumerate(kinds)]


def play(directory: Path, fault: Fault) -> None:
    """Strike one process; let another finish; then let come what is late, and land more."""
    world = world_of(directory)
    run_long(world, world.start([fault]))
    world.clock.sleep(60)
    following = world.start()
    assert run_long(world, following) is None
    check_compacted(world)
    world.pending.release()
    assert following.run() is None
    check_compacted(world)
    assert len(visible(world)) == 2


@pytest.mark.parametrize("fault", tuple(FAULTS))
def test_every_call_of_the_catalog(fault: str, tmp_path: Path) -> None:
    for number, kind in enumerate(number_calls(tmp_path), 1):
        if kind in CATALOG_CALLS:
            play(tmp_path, FAULTS[fault](number))


@pytest.mark.parametrize("fault", tuple(FAULTS))
def test_every_call_of_the_storage(fault: str, tmp_path: Path) -> None:
    calls = number_calls(tmp_path)
    numbers = [number for number, kind in enumerate(calls, 1) if kind and kind not in CATALOG_CALLS]
    for number in share_of(numbers):
        play(tmp_path, FAULTS[fault](number))


def start_delta(world: DeltaWorld, faults: Sequence[Fault] = ()) -> Process:
    storage = FaultyStorage(world.machine, faults, pending=world.pending)
    environment = Environment(
        LakeAddress(world.machine.describe()),
        storage,
        world.source,
        NoCatalog(),
        world.clock,
        entropy=world.entropy,
        formats=DeltaTables(storage, world.clock),
    )
    runner = TaskRunner(world.source, storage, world.entropy)
    job = build_job("delta", compact=COMPACT)
    return Process(JobAssembly(job, environment).slice(runner, 1), storage, storage)


def delta_world() -> DeltaWorld:
    clock = FakeClock(monotonic_start_s=0.0)
    source = RecordedSource(clock=clock)
    source.create("clicks", 1)
    append(source, range(5))
    return DeltaWorld(MemoryStorage(clock), source, clock)


@pytest.mark.parametrize("fault", tuple(FAULTS))
def test_every_call_of_the_log_of_a_delta_table(fault: str) -> None:
    world = delta_world()
    process = start_delta(world)
    assert process.run() is None
    first = len(process.faulty.calls)
    world.clock.sleep(EVERY_S)
    assert process.run() is None
    check_delta(world, 2)
    calls = enumerate(process.faulty.calls, 1)
    numbers = [number for number, call in calls if number > first and LOG in str(call)]
    assert len(numbers) > 4
    for number in numbers:
        world = delta_world()
        run_long(world, start_delta(world, [FAULTS[fault](number)]))
        world.clock.sleep(60)
        assert run_long(world, start_delta(world)) is None
        world.pending.release()
        assert run_long(world, start_delta(world)) is None
        check_delta(world, len(visible_in_delta(world)))


def listen(process: Process) -> Notes:
    notes, compactor = Notes(), process.loop.parts.compactor
    assert compactor is not None
    compactor._progress = notes
    return notes


def test_a_turn_puts_files_of_one_entry_together(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compaction, "TURN_BYTES", 1)
    world = world_of(tmp_path)
    process = world.start()
    notes = listen(process)
    assert process.run() is None
    world.clock.sleep(EVERY_S)
    assert process.loop.tick() is Tick.IDLE
    assert [len(each.files) for each in compactions(world)] == [1]
    append(world.source, [5])
    assert process.loop.tick() is Tick.LANDED, "a batch comes between two turns"
    kinds = [type(each.body) for each in read_history(world.machine, NAME)]
    assert [each for each in kinds if each in {Prepare, Compact}][-3:] == [
        *(Compact, Prepare, Compact),
    ]
    assert process.loop.tick() is Tick.IDLE
    assert len(compactions(world)) == 2, "the next look comes later"
    assert [(each.files, each.written) for each in notes.compacted] == [(2, 1), (3, 1)]
    assert notes.notes[0].startswith(f"compacted {TABLE}: 2 files")
    assert not notes.warnings
    assert len(visible(world)) == 2
    assert sum(read_offsets(world).values()) == 6


def test_files_of_a_process_before_are_remembered(tmp_path: Path) -> None:
    world = world_of(tmp_path)
    assert world.start().run() is None
    assert len(visible(world)) == 4
    world.clock.sleep(60)
    assert run_long(world, world.start()) is None
    assert len(visible(world)) == 2
    check_compacted(world)


def test_a_file_grows_by_half_at_least(tmp_path: Path) -> None:
    """A file that is larger than those beside it waits until they are half as large."""
    world = world_of(tmp_path)
    process = world.start()
    assert run_long(world, process) is None
    for number in range(5, 13, 2):
        append(world.source, [number])
        assert run_long(world, process) is None
    replaced = [each.replaced for each in compactions(world)]
    for files in replaced:
        sizes = sorted(each.size_bytes for each in files)
        assert sizes[-1] <= 2 * sum(sizes[:-1])
    assert len(replaced) > 1
    assert sum(read_offsets(world).values()) == 9


def test_a_stop_begins_no_new_file(tmp_path: Path) -> None:
    world = world_of(tmp_path)
    process = world.start()
    assert process.run() is None
    world.clock.sleep(EVERY_S)
    process.loop.stop()
    assert process.run() is None
    assert not compactions(world)
    assert len(visible(world)) == 4


def test_a_damaged_file_is_reported_and_landing_continues(tmp_path: Path) -> None:
    world = world_of(tmp_path)
    process = world.start()
    notes = listen(process)
    assert process.run() is None
    path = min(visible(world))
    data = bytearray(world.machine.read(path))
    data[8] ^= 1
    world.machine.delete(path)
    world.machine.create(path, bytes(data))
    world.clock.sleep(EVERY_S)
    assert process.run() is None
    assert not compactions(world)
    assert ["checksum differs" in each for each in notes.warnings] == [True]
    world.source.append(StreamShard("clicks", "0"), b'{"date": "a", "ts": 5}')
    assert process.loop.tick() is Tick.LANDED
    world.clock.sleep(EVERY_S)
    assert process.run() is None
    assert len(notes.warnings) == 1, "it is not tried again"


def test_a_catalog_that_is_away_is_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = world_of(tmp_path)
    process = world.start()
    notes = listen(process)
    assert process.run() is None
    world.clock.sleep(EVERY_S)
    with monkeypatch.context() as patch:
        patch.setattr(FaultyIceberg, "load_table", away)
        assert process.loop.tick() is Tick.IDLE
    assert len(notes.warnings) == 1
    assert not compactions(world)
    world.clock.sleep(EVERY_S)
    assert process.run() is None
    assert len(visible(world)) == 2
    check_compacted(world)


def away(*_: object) -> None:
    raise CatalogUnreachable("away", hint="wait")


# ---- a suite that cannot turn red proves nothing


def test_an_entry_that_is_not_finished_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The slice forgets to commit the table, and closes the entry."""
    commit = number_calls(tmp_path).index("commit_table") + 1
    monkeypatch.setattr("ashore.log.store.committer.Committer._commit", lambda *_: "", raising=True)
    with pytest.raises(AssertionError):
        play(tmp_path, LateEffect(commit, after=None))


def test_the_log_says_what_the_fold_has(tmp_path: Path) -> None:
    world = world_of(tmp_path)
    assert run_long(world, world.start()) is None
    (body,) = compactions(world)
    assert read_log(world.machine, NAME).commits[TABLE] == body.commit


def test_late_and_dead_letter_tables_are_compacted_too(tmp_path: Path) -> None:
    job = build_job(compact=COMPACT, on_invalid="dead_letter", late={"policy": "side"})
    loop = iceberg_world(tmp_path, job).start().loop
    loop.plan.streams()
    assert loop.parts.compactor is not None
    rules = loop.parts.compactor._rules()
    assert rules.keys() == {TABLE, f"{TABLE}__dead", f"{TABLE}__late"}
    assert {(each.target_bytes, each.files_min) for each in rules.values()} == {(1_000_000, 2)}
