"""The landing loop under anything that may happen, in any order (I1 to I6 after each step).

Writers are threads that stand before their next call until a rule lets them go on, one at a time:
so every example is deterministic, and a writer can be frozen, killed or overtaken at any call.
"""

import threading
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from typing import TypeVar

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)
from tests.crash.harness import (
    CLICKS,
    NAME,
    ORDERS,
    TABLES,
    Broken,
    Process,
    World,
    check_readers,
    check_recoverable,
    history,
    named_places,
    read_entries_once,
    read_named_rows,
    require,
    value,
)
from tests.crash.test_mutations import MUTATIONS
from tests.examples import examples

from ashore.base.clock import AHEAD_MS_MAX
from ashore.errors import (
    AnswerUnknown,
    AshoreError,
    ClockAhead,
    Fenced,
    LogAhead,
    OffsetsGone,
    OffsetsWentBack,
    SourceError,
    StorageError,
    StreamReplaced,
)
from ashore.log import names
from ashore.log.entries import Prepare, Skip
from ashore.log.fold import Fold, ShardState
from ashore.log.positions import BatchTime, OffsetRange, ShardKey, StreamShard, find_seams
from ashore.log.store import committer, log
from ashore.log.store.archive import archive_log
from ashore.log.store.cleaner import apply_cleaning, plan_cleaning
from ashore.log.store.clock_guard import ClockGuard
from ashore.log.store.committer import Committer
from ashore.log.store.dead_job import help_dead, plan_help
from ashore.log.store.log import LandingLog, LogContext
from ashore.log.store.reader import list_log, read_log
from ashore.storage import LocalStorage, Storage
from ashore.topics.loop.recovery import rejoin
from ashore.topics.loop.worker import Tick, ends_worker
from ashore.topics.use.reset_clock import reset_clock
from ashore_lab.testing import (
    FakeClock,
    FaultyStorage,
    LateEffect,
    PendingEffects,
    PowerCutPolicy,
    ProcessStopped,
    RecordedRow,
    RecordedSource,
    SimulatedDisk,
)

T = TypeVar("T")
ROOT = "/data/lake"
WRITERS_MAX = 3
FAULTS = ("fails before", "fails after", "late")
MAY_END_WITH = (ClockAhead, Fenced, StreamReplaced, OffsetsGone, OffsetsWentBack, SourceError)
ERRORS_MAX = 40
CALLS_OF_A_BATCH = 120


class Gate:
    """Lets a writer make so many calls and holds it before the next one."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._calls = 0
        self._is_waiting = False
        self._is_over = False
        self._is_killed = False

    def wait(self) -> None:
        """Stand before a call. By the writer."""
        with self._changed:
            self._is_waiting = True
            self._changed.notify_all()
            self._changed.wait_for(lambda: self._calls > 0 or self._is_killed)
            self._is_waiting = False
            if self._is_killed:
                raise ProcessStopped("killed")
            self._calls -= 1

    def let(self, calls: int) -> None:
        """Let the writer make these calls, and wait until it stands before the next one."""
        with self._changed:
            self._calls = calls
            self._changed.notify_all()
            self._changed.wait_for(lambda: self._is_over or (self._is_waiting and self._calls == 0))

    def kill(self) -> None:
        """Stop the writer for good, and wait until it has."""
        with self._changed:
            self._is_killed = True
            self._changed.notify_all()
            self._changed.wait_for(lambda: self._is_over)

    def end(self) -> None:
        """Tell that the writer has ended. By the writer."""
        with self._changed:
            self._is_over = True
            self._changed.notify_all()


class GatedStorage(FaultyStorage):
    """The storage of a writer that waits at its gate, and whose next call may fail."""

    def __init__(self, inner: Storage, gate: Gate, pending: PendingEffects) -> None:
        super().__init__(inner, pending=pending)
        self._gate = gate
        self.next_fault = ""
        self.stands_before = ""  # the kind of its next call

    def apply(
        self,
        asked: tuple[str, str] | tuple[str, str, str],
        effect: Callable[[], T],
        late: Callable[[], object] | None = None,
    ) -> T:
        self.stands_before = asked[0]
        self._gate.wait()
        self.stands_before = ""
        fault, self.next_fault = self.next_fault, ""
        if fault == "fails before":
            raise StorageError(f"injected: {asked} failed")
        if fault == "late":
            self.pending.add(LateEffect(1, after=None, times=2), late or effect)
            raise AnswerUnknown(f"injected: {asked} is applied late")
        answer = super().apply(asked, effect, late)
        if fault == "fails after":
            raise AnswerUnknown(f"injected: the answer to {asked} was lost")
        return answer


class GatedSource(RecordedSource):
    """The same source for a writer that waits at its gate before it asks what there is."""

    def __init__(self, of: RecordedSource, gate: Gate) -> None:
        self.__dict__ = of.__dict__.copy()  # the very same streams
        self._gate = gate

    def describe_streams(self, streams):  # type: ignore[no-untyped-def]
        self._gate.wait()
        return super().describe_streams(streams)

    def read_offsets(self, shards):  # type: ignore[no-untyped-def]
        self._gate.wait()
        return super().read_offsets(shards)


class Writer:
    """A process that lands for ever, as far as its gate lets it."""

    def __init__(self, world: World, gate: Gate, storage: GatedStorage) -> None:
        self.gate = gate
        self.storage = storage
        self.process: Process = world.start_on(storage, source=GatedSource(world.source, gate))
        self.ended: BaseException | None = None
        self._errors = 0
        self._thread = threading.Thread(target=self._live, daemon=True)
        self._thread.start()
        gate.let(0)

    def _live(self) -> None:
        try:
            while self.ended is None:
                self._turn()
        except ProcessStopped:
            pass
        except BaseException as error:  # noqa: BLE001 - a thread's last line: the machine looks
            self.ended = error
        finally:
            self.gate.end()

    def _turn(self) -> None:
        try:
            self.process.loop.plan.streams()
            self.process.loop.tick()
            self._errors = 0
        except AshoreError as error:
            self._errors += 1
            if ends_worker(error) or self._errors == ERRORS_MAX:
                self.ended = error
            self.process.loop.parts.clock.sleep(0.1)

    @property
    def fold(self) -> Fold | None:
        """The log as the writer knows it."""
        return self.process.loop.parts.log._fold

    def kill(self) -> None:
        self.gate.kill()
        self._thread.join()


class LandingMachine(RuleBasedStateMachine):
    """One lake on one disk, one source, writers that come and go."""

    def __init__(self) -> None:
        super().__init__()
        self.clock = FakeClock(monotonic_start_s=0.0)
        self.servers = self.clock.server()  # of the lake and of Kafka: it never jumps
        self.disk = SimulatedDisk(clock=self.servers)
        self.source = RecordedSource(clock=self.servers)
        self.world = World(LocalStorage(ROOT, self.disk), self.source, self.clock, 6, True)
        self.writers: list[Writer] = []
        # What really happened, by identity of the stream and shard.
        self.records: dict[tuple[str, str], set[int]] = defaultdict(set)
        self.expired: dict[tuple[str, str], int] = defaultdict(int)
        self.entries: list[str] = []  # checksums of the log so far
        self.checked = -1
        self.is_recreated = False
        self.is_ahead = False  # the log, of a writer that has believed its clock
        self.was_ahead = False

    # ---- the source

    @initialize(records=st.integers(0, 8))
    def create_streams(self, records: int) -> None:
        self.source.create(CLICKS, 2)
        self.source.create(ORDERS, 1)
        for number in range(3 if records else 0):
            self.produce(number, records, hole=False)

    def identity(self, shard: StreamShard) -> tuple[str, str]:
        info = self.source.describe_streams([shard.stream])[shard.stream]
        return info.stream_id, shard.shard

    def shard(self, number: int) -> StreamShard:
        infos = self.source.describe_streams([CLICKS, ORDERS])
        shards = [StreamShard(name, shard) for name in infos for shard in infos[name].shards]
        return shards[number % len(shards)]

    @rule(number=st.integers(0, 5), records=st.integers(1, 6), hole=st.booleans())
    def produce(self, number: int, records: int, hole: bool) -> None:
        shard = self.shard(number)
        end = self.source.read_offsets([shard])[shard].end
        self.source.append(shard, *(value(end + each) for each in range(records)))
        self.records[self.identity(shard)].update(range(end, end + records))
        if hole:
            self.source.leave_hole(shard)

    @rule(number=st.integers(0, 5), part=st.sampled_from([0.3, 1.0]))
    def retention_removes(self, number: int, part: float) -> None:
        shard = self.shard(number)
        there = self.source.read_offsets([shard])[shard]
        below = there.earliest + int((there.end - there.earliest) * part)
        self.source.expire(shard, below)
        self.expired[self.identity(shard)] = below

    @rule(stream=st.sampled_from([CLICKS, ORDERS]))
    def add_a_shard(self, stream: str) -> None:
        if len(self.source.describe_streams([stream])[stream].shards) < 3:
            self.source.add_shard(stream)

    @precondition(lambda self: not self.is_recreated)
    @rule(shards=st.integers(1, 2))
    def recreate_a_stream(self, shards: int) -> None:
        self.source.delete_and_recreate(CLICKS, shards)
        self.is_recreated = True  # once is enough: writers stop until somebody rejoins

    # ---- writers

    @precondition(lambda self: len(self.writers) < WRITERS_MAX)
    @rule(calls=st.integers(0, 120))
    def start_a_writer(self, calls: int) -> None:
        gate = Gate()
        disk = LocalStorage(ROOT, self.disk.restarted())
        self.writers.append(Writer(self.world, gate, GatedStorage(disk, gate, self.world.pending)))
        self.go_on(-1, calls)

    @precondition(lambda self: self.writers)
    @rule(index=st.integers(0, 2), calls=st.integers(1, 120))
    def go_on(self, index: int, calls: int) -> None:
        writer = self.writers[index % len(self.writers)]
        writer.gate.let(calls)
        self.look_after(writer)

    @precondition(lambda self: self.writers)
    @rule(index=st.integers(0, 2), kind=st.sampled_from(["create", "publish", "sync", "close"]))
    def go_on_until(self, index: int, kind: str) -> None:
        """Let a writer stand before a call that matters."""
        writer = self.writers[index % len(self.writers)]
        for _ in range(CALLS_OF_A_BATCH):
            writer.gate.let(1)
            if writer.ended is not None or writer.storage.stands_before == kind:
                break
        self.look_after(writer)

    def look_after(self, writer: Writer) -> None:
        if writer.ended is not None:
            allowed = isinstance(writer.ended, MAY_END_WITH)
            allowed |= self.was_ahead and isinstance(writer.ended, LogAhead)
            require(allowed, f"a writer ended with {writer.ended!r}")
            self.bury(writer)

    @precondition(lambda self: self.writers)
    @rule(index=st.integers(0, 2), fault=st.sampled_from(FAULTS), calls=st.integers(1, 20))
    def fail(self, index: int, fault: str, calls: int) -> None:
        self.writers[index % len(self.writers)].storage.next_fault = fault
        self.go_on(index, calls)

    @precondition(lambda self: self.writers)
    @rule(index=st.integers(0, 2))
    def kill(self, index: int) -> None:
        self.bury(self.writers[index % len(self.writers)])

    def bury(self, writer: Writer) -> None:
        writer.kill()
        deleted = [call.path for call in writer.storage.calls if call.kind == "delete"]
        destructive = [
            path for path in deleted if not (self.is_packed(path) or self.is_unnamed(path))
        ]
        require(not destructive, f"a writer deletes: {destructive}")
        self.writers.remove(writer)

    def is_unnamed(self, path: str) -> bool:
        """Tell whether a file is staged, and of a batch that failed: no entry names it."""
        staged = names.parse_pending(names.leaf(path))
        entries = history(self.world.machine)
        named = {file.unique for each in entries for file in getattr(each.body, "files", ())}
        return staged is not None and staged.unique not in named

    def is_packed(self, path: str) -> bool:
        """Tell whether a file of the log may go: an archive has it, or two newer ones replace it.

        A start packs the log. An archive is never removed, and is made of files that are there.
        """
        leaf, listing = names.leaf(path), list_log(self.world.machine, NAME)
        entry, snapshot = names.parse_entry(leaf), names.parse_snapshot(leaf)
        if path == names.join(names.log_directory(NAME), leaf) and entry is not None:
            return entry // names.ARCHIVE_ENTRIES in listing.archives
        return snapshot is not None and sum(each > snapshot for each in listing.snapshots) >= 2

    @rule(policy=st.sampled_from(PowerCutPolicy), before=st.sampled_from(["", "create", "publish"]))
    def cut_the_power(self, policy: PowerCutPolicy, before: str) -> None:
        if before and self.writers:
            self.go_on_until(0, before)
            self.holds()
        folds = [writer.fold for writer in self.writers]
        known = max((fold.end for fold in folds if fold is not None), default=-1)
        for writer in list(self.writers):
            self.bury(writer)
        self.disk = self.disk.power_cut(policy)
        self.world.machine = LocalStorage(ROOT, self.disk)
        self.world.pending = PendingEffects()
        left = [entry.checksum for entry in history(self.world.machine)]
        require(len(left) > known, f"entry {known} was known to be there, and is gone")
        require(left == self.entries[: len(left)], "another log is there after the power cut")
        self.entries, self.checked = left, -1

    @precondition(lambda self: len(self.world.pending) > 0)
    @rule()
    def late_calls_arrive(self) -> None:
        self.world.pending.release()

    # ---- the clock

    @rule(hours=st.sampled_from([0, 0.9, 30, 10 * 365 * 24, -48]))
    def set_the_clock(self, hours: float) -> None:
        """Let every writer's clock be so far from what the time is."""
        ahead_ms = self.clock.now_ms() - self.servers.now_ms()
        self.clock.jump_wall(hours * 3_600 - ahead_ms / 1000)

    @precondition(lambda self: not self.was_ahead and self.source.list_streams())
    @rule()
    def a_writer_believes_a_clock(self) -> None:
        """As a release did that held its clock against nobody's."""
        committer = self.committer()
        committer.log.open()
        closing = committer.finish()
        time = BatchTime(self.servers.now_ms() + 400 * 24 * 3_600_000)
        batch = Prepare(committer.log.fold.next_batch, time, (), (), (), (), None)
        committer.log.append(batch, closing)
        self.is_ahead = self.was_ahead = True

    @precondition(lambda self: self.is_ahead)
    @rule()
    def set_the_log_back(self) -> None:
        self.set_the_clock(0)
        found = reset_clock(self.committer(), self.source, "ana", "NTP")
        require(found is not None, "there was nothing to set back")
        self.is_ahead = False

    def committer(self) -> Committer:
        context = LogContext(self.world.machine, self.clock, self.world.entropy)
        return Committer(LandingLog(context, NAME), self.world.machine, self.clock)

    def check_times(self, machine: Storage) -> None:
        """What no clock but a wrong one would tell is in the log only if a writer believed it."""
        ahead_ms = read_log(machine, NAME).latest_ms - self.servers.now_ms()
        require(self.is_ahead or ahead_ms <= AHEAD_MS_MAX, f"the log is {ahead_ms} ms ahead")

    # ---- commands and housekeeping

    @precondition(lambda self: self.is_replaced())
    @rule()
    def rejoin_the_stream(self) -> None:
        self.set_the_clock(0)
        rejoin(self.committer(), self.source, CLICKS)

    def is_replaced(self) -> bool:
        known = read_log(self.world.machine, NAME).generation(self.source.name, CLICKS)
        return known is not None and known[1] != self.identity(StreamShard(CLICKS, "0"))[0]

    @rule()
    def archive(self) -> None:
        archive_log(self.world.machine, NAME)

    @rule(index=st.integers(-1, 2))
    def clean(self, index: int) -> None:
        """By a fold of now, or by what a writer that stands still believes."""
        known = self.writers[index].fold if 0 <= index < len(self.writers) else None
        fold = known or read_log(self.world.machine, NAME)
        now_and_ttl = (self.clock.now_ms(), 0)
        steps = plan_cleaning(self.world.machine, NAME, fold, TABLES, now_and_ttl)
        apply_cleaning(self.world.machine, steps)

    @rule()
    def help_the_dead(self) -> None:
        machine = self.world.machine
        help_dead(machine, NAME, self.clock, plan_help(machine, NAME))

    # ---- what must hold

    @invariant()
    def holds(self) -> None:
        changes = len(self.disk._machine.changes)
        if changes == self.checked:
            return
        machine = self.world.machine
        check_recoverable(machine)
        entries = check_readers(machine)
        checksums = [entry.checksum for entry in entries]
        require(checksums[: len(self.entries)] == self.entries, "the log was rewritten")
        self.entries = checksums
        self.check_rows(machine)
        self.check_times(machine)
        self.checked = len(self.disk._machine.changes)

    def check_rows(self, machine: Storage) -> None:
        """I1: of each shard's ranges every record is in exactly one file, and nothing else is."""
        entries, fold = history(machine), read_log(machine, NAME)
        prepared: dict[ShardKey, list[OffsetRange]] = defaultdict(list)
        ranges: dict[ShardKey, list[OffsetRange]] = defaultdict(list)
        for entry in entries:
            if isinstance(entry.body, Prepare):
                for read in entry.body.shards:
                    prepared[read.key].append(read.offsets)
                    ranges[read.key].append(read.offsets)
            if isinstance(entry.body, Skip):
                for skipped in entry.body.ranges:
                    ranges[skipped.key].append(skipped.offsets)
                    self.check_gone(fold.shards[skipped.key], skipped.offsets.end)
        rows = read_named_rows(machine, named_places(entries))
        expected: Counter[RecordedRow] = Counter()
        for key, state in fold.shards.items():
            require(not find_seams(key, state.first, ranges[key]), f"{key}: ranges do not meet")
            self.check_gone(state, state.first)
            for offset in self.records[state.stream_id, key.shard]:
                if any(each.start <= offset < each.end for each in prepared[key]):
                    expected[RecordedRow(key.stream, key.generation, key.shard, offset)] += 1
        require(rows == expected, f"lost {expected - rows}, duplicated {rows - expected}")

    def check_gone(self, state: ShardState, below: int) -> None:
        expired = self.expired[state.stream_id, state.key.shard]
        require(below <= expired, f"{state.key}: {below} left out, and only {expired} is gone")

    def teardown(self) -> None:
        """Whatever happened: a fresh process lands all that is left."""
        for writer in list(self.writers):
            self.bury(writer)
        if not self.source.list_streams():
            return
        self.set_the_clock(0)
        if self.is_ahead:
            self.set_the_log_back()
        if self.is_replaced():
            self.rejoin_the_stream()
        process = self.world.start()
        ended = process.run()
        require(ended is None, f"the last process ended with {ended!r}")
        for _ in range(2):
            self.world.pending.release()
        require(process.loop.tick() is Tick.IDLE, "there was something to land after the end")
        self.holds()
        for key, state in read_log(self.world.machine, NAME).current().items():
            shard = StreamShard(key.stream, key.shard)
            end = self.source.read_offsets([shard])[shard].end
            require(state.next == end, f"{key} was read up to {state.next} of {end}")


@pytest.fixture(autouse=True)
def short_logs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(committer, "PARALLEL_MOVES", 1)
    monkeypatch.setattr(log, "SNAPSHOT_EVERY", 3)
    monkeypatch.setattr(names, "ARCHIVE_ENTRIES", 2)
    read_entries_once(monkeypatch)


def run_machine(examples: int, phases: Sequence[Phase] = tuple(Phase)) -> None:
    run_state_machine_as_test(
        LandingMachine,
        settings=settings(
            max_examples=examples,
            stateful_step_count=40,
            deadline=None,
            derandomize=True,
            database=None,
            phases=phases,
            suppress_health_check=list(HealthCheck),
        ),
    )


@pytest.mark.slow
def test_the_landing_loop_holds_its_invariants() -> None:
    run_machine(examples(80))  # the crash points leave nothing out


@pytest.mark.slow
def test_the_machine_finds_a_writer_that_believes_its_clock(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(ClockGuard, "require_clock", lambda _guard, _fold: None)
    # Seen in the log, or by the last process, which refuses a log that is ahead: as is drawn.
    with pytest.raises(Broken, match=r"ms ahead|LogAhead"):
        run_machine(1_000, [Phase.generate])


@pytest.mark.slow
@pytest.mark.parametrize(
    "mutation",
    [
        "move before the prepare is appended",
        "restart without an open",
        "go on after the highest record",
        pytest.param("retry an append with other content", marks=pytest.mark.long),  # takes 30 s
    ],
)
def test_the_machine_finds_a_broken_protocol(
    mutation: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    MUTATIONS[mutation].apply(monkeypatch)
    # Hypothesis draws from constants of the modules that are imported, so which example finds it
    # depends on the tests before. The first one that does ends the run.
    with pytest.raises((Broken, AshoreError)):
        run_machine(1_000, [Phase.generate])
