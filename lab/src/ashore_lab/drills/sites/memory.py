"""A drill in memory: the real loop, log and writer on a storage that has faults.

What it is: a Site without Spark, Kafka and disks, on a clock that advances by itself.
What it promises: the same seed and faults give the same run, but for the order of parallel moves.
Beside kills and freezes its processes take any fault of `FaultyStorage`.
"""

import math
import random
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace

import pyarrow as pa

from ashore.base.unique import Entropy
from ashore.errors import AshoreError, BatchFailed, SourceUnreachable, StorageError, SyncFailed
from ashore.jobs.events import Landed
from ashore.jobs.file import Job, parse_job
from ashore.log import names
from ashore.log.plan_batch import BatchPlan, ShardOffsets
from ashore.log.positions import OffsetRange, ShardRange, StreamShard
from ashore.log.progress import BatchLanded, Quiet, Step
from ashore.storage.base import Storage
from ashore.storage.memory import MemoryStorage
from ashore.tables.catalog import Catalog, NoCatalog
from ashore.topics.loop.assembly import Environment, JobAssembly
from ashore.topics.loop.job import lake_of
from ashore.topics.loop.splits import plan_splits
from ashore.topics.open_job import OpenJob
from ashore.topics.read.source import Record, Source, StreamInfo
from ashore.topics.write.batch import BatchOrder, TaskResult
from ashore.topics.write.write_task import write_probes, write_task
from ashore_lab.drills.checkers.in_flight import judge_flight
from ashore_lab.drills.faults import (
    BrokerAway,
    ClockJump,
    Countdown,
    Freeze,
    Happens,
    JobFault,
    Kill,
    Outage,
    concerns_what_is_begun,
    flight_of,
)
from ashore_lab.drills.faults.calls import describe_fault
from ashore_lab.drills.faults.late_delete import DeleteCalls
from ashore_lab.drills.recorder import Recorder
from ashore_lab.drills.sites.log_tail import LogTail
from ashore_lab.drills.sites.memory_outages import Outages, OutageStorage
from ashore_lab.drills.sites.site import (
    KILLED,
    NAME,
    TABLE,
    TOPIC,
    End,
    SiteOptions,
    job_text,
    keep_house,
    produced_of,
    skip_gaps,
)
from ashore_lab.drills.verdict import Flight
from ashore_lab.testing import (
    Call,
    FakeClock,
    Fault,
    FaultyCatalog,
    PendingEffects,
    PowerCut,
    ProcessStopped,
    RecordedSource,
    StopProcess,
    fetched_batch,
)
from ashore_lab.testing.memory_catalog import MemoryCatalog

INTERVAL_S = 1.0
LAKE = "file:///drill"
CLEAN_TTL_S = 24 * 3_600  # what a job file says that says nothing
PARALLELISM = 2
# What a job file says of a metastore; the address is never called.
METASTORE = {"catalog": {"hive": {"uri": "thrift://127.0.0.1:9083", "strategy": "near"}}}

Wrap = Callable[[Storage], Storage]


class BrokerSource(RecordedSource):
    """A recorded source whose broker may be away."""

    def __init__(self, clock: FakeClock) -> None:
        super().__init__("kafka", clock.server())
        self.clock = clock
        self.back_s = -math.inf  # when the broker is back, by the clock

    def read_offsets(self, shards: Sequence[StreamShard]) -> dict[StreamShard, ShardOffsets]:
        """See Source."""
        self._knock()
        return super().read_offsets(shards)

    def newest_times(self, shards: Sequence[StreamShard]) -> list[int]:
        """See Source."""
        self._knock()
        return super().newest_times(shards)

    def describe_streams(self, streams: Sequence[str]) -> dict[str, StreamInfo]:
        """See Source."""
        self._knock()
        return super().describe_streams(streams)

    def read_again(self, shard: StreamShard, offsets: OffsetRange) -> Iterator[Record]:
        """See Source."""
        self._knock()
        return super().read_again(shard, offsets)

    def _knock(self) -> None:
        if self.clock.monotonic_s() < self.back_s:
            raise SourceUnreachable("no broker answers")


class MemorySite:
    """One topic, one lake and one job in memory; of all that the lake alone may be elsewhere."""

    def __init__(
        self,
        seed: int,
        options: SiteOptions,
        clock: FakeClock,
        recorder: Recorder,
        machine: Storage | None = None,
    ) -> None:
        self.clock = clock
        # The lake's servers have a clock of their own: it does not jump with the driver's.
        self.machine: Storage = machine or MemoryStorage(clock.server())
        self.pending = PendingEffects()
        self.outages = Outages(clock, recorder.require_going)
        twin = options.twin_of
        self.produced = twin.produced if twin else produced_of(TOPIC, seed, options)
        self.table = TABLE
        self.catalog = MemoryCatalog() if options.has_metastore else None
        self.calls: list[int] = []  # storage calls of each life that has ended
        self._source = twin.source if isinstance(twin, MemorySite) else BrokerSource(clock)
        if twin is None:
            self._source.create(TOPIC, options.partitions)
        if options.has_metastore:
            options = replace(options, sections={**METASTORE, **options.sections})
        self._text = job_text(LAKE, "127.0.0.1:9092", TOPIC, options)
        self._job = parse_job(self._text)
        self._dice = random.Random(f"names {seed}")  # noqa: S311 - the same names each time
        self.recorder = recorder
        self._tail = LogTail(self.machine, NAME)
        self._lives = 0
        self._is_twin = twin is not None

    # ---- what every site does

    def produce(self, records: int) -> None:
        """See Site."""
        for partition, value in self.produced.deal(records):
            self._source.append(StreamShard(TOPIC, str(partition)), value)
        self.sample()

    def expect(self, lives: int, at_once: int = 1) -> None:
        """See Site. A process in memory is there at once."""

    def live(self, *faults: JobFault | Fault, wrap: Wrap = lambda storage: storage) -> End:
        """See Site. `wrap` puts a storage of the scenario's own above the faults of calls."""
        return self._live(faults, wrap)

    def live_while(self, records_per_s: int, *faults: JobFault) -> End:
        """See Site."""
        return self._live(faults, lambda storage: storage, round(records_per_s * INTERVAL_S))

    def _live(self, faults: Sequence[JobFault | Fault], wrap: Wrap, coming: int = 0) -> End:
        self.recorder.start(self._lives)
        self._lives += 1
        struck = [each for each in faults if isinstance(each, JobFault)]
        calls = [each for each in faults if not isinstance(each, JobFault)]
        faulty = OutageStorage(self.machine, calls, self.pending, self.outages)
        catalog = FaultyCatalog(self.catalog, faulty) if self.catalog else NoCatalog()
        process = _Process(self, (wrap(faulty), catalog), _Striking(self, struck), coming)
        try:
            end = process.run()
        except ProcessStopped as stopped:
            end = End(KILLED, str(stopped))
        for fault in faulty.fired:
            self.recorder.fault(*describe_fault(fault), self._flight_of(fault, faulty.calls))
        self.calls.append(len(faulty.calls))
        self.sample()
        return end

    def flight(self, *, must_be_half_done: bool) -> Flight:
        """See Site."""
        lake = (self.machine, NAME, self.table)
        return judge_flight(lake, self.produced.total, must_be_half_done=must_be_half_done)

    def _flight_of(self, fault: Fault, calls: Sequence[Call]) -> Flight:
        """Return what a fault of a storage call has struck. A kill: what the dead process left."""
        if isinstance(fault, StopProcess | PowerCut):
            return self.flight(must_be_half_done=True)
        of_kind = [call for call in calls if fault.kind in (None, call.kind)]
        struck = of_kind[fault.number - 1]
        return Flight(f"the call: {struck.kind} {struck.path}", is_proof=True)

    def skip_gaps(self) -> None:
        """See Site."""
        self._job = parse_job(skip_gaps(self._text))

    def expire(self, partition: int, below: int) -> None:
        """See Site."""
        self._source.expire(StreamShard(TOPIC, str(partition)), below)

    def create_again(self) -> None:
        """See Site."""
        self._source.delete_and_recreate(TOPIC, self.produced.workload.partitions)
        self.produced.begin_again()

    def late_deletes(self, _storage: Storage) -> DeleteCalls:
        """See Site."""
        return DeleteCalls()

    def mend(self) -> None:
        """See Site."""
        self.outages.end()

    def keep_house(self) -> None:
        """See Site. So late that everything stale may go."""
        self.clock.advance(CLEAN_TTL_S + 1)
        with self.opened() as opened:
            keep_house(opened)

    @contextmanager
    def opened(self) -> Iterator[OpenJob]:
        """See Site."""
        yield OpenJob(self._job, self.machine, self._source, self.clock)

    def landed(self) -> int:
        """See Site."""
        return self._tail.count_landed()

    def registered(self) -> Mapping[str, str] | None:
        """See Site."""
        if self.catalog is None:
            return None
        known = self.catalog.tables.get(self.table)
        paths = known.partitions if known else ()
        return {path: f"{names.table_path(self.table)}/{path}" for path in paths}

    def close(self) -> None:
        """See Site."""

    # ---- for processes

    @property
    def job(self) -> Job:
        """The job file."""
        return self._job

    @property
    def source(self) -> BrokerSource:
        """The topic."""
        return self._source

    def entropy(self) -> str:
        """Return the next unique part of a name."""
        return f"{self._dice.getrandbits(64):016x}"

    def wait_between(self, least_s: float, most_s: float) -> float:
        """Return how long a process waits before it tries again."""
        return self._dice.uniform(least_s, most_s)

    def sample(self) -> None:
        """Take down how far landing is. Of twins only the first is shown."""
        if not self._is_twin:
            self.recorder.sample(self.produced.total, self.landed())


class _Striking(Quiet):
    """The Progress of a process: lets kills and freezes strike when their moment has come."""

    def __init__(self, site: MemorySite, faults: Sequence[JobFault]) -> None:
        self._site = site
        self._faults = [(fault, Countdown(fault.at)) for fault in faults]
        self._recorder = site.recorder

    def step(self, slice_name: str, step: Step) -> None:
        """See Progress."""
        super().step(slice_name, step)
        self._pass(step)

    def _pass(self, step: str) -> None:
        self._recorder.require_going()
        for fault, countdown in self._faults:
            if countdown.has_come(step):
                flight = self._site.flight(must_be_half_done=concerns_what_is_begun(fault))
                if isinstance(fault, Happens):
                    flight = flight_of(fault.act(), flight)
                self._recorder.fault(fault.kind, str(fault), flight)
                self._strike(fault)

    def _strike(self, fault: JobFault) -> None:
        match fault:
            case Kill():
                raise ProcessStopped(str(fault))
            case Freeze():
                fault.meanwhile()
                self._recorder.note("woken", "the frozen process continues")
            case Happens():
                pass  # it has happened
            case Outage():
                self._site.outages.begin(fault)
            case ClockJump():
                self._site.clock.jump_wall(fault.seconds)
            case BrokerAway():
                self._site.source.back_s = self._site.clock.monotonic_s() + fault.away_s

    def landed(self, slice_name: str, batch: BatchLanded) -> None:
        """See Progress."""
        super().landed(slice_name, batch)
        self._pass(Landed.kind)

    def warn(self, slice_name: str, message: str) -> None:
        """See Progress."""
        self._recorder.note("warning", f"{slice_name}: {message}")

    def note(self, slice_name: str, message: str) -> None:
        """See Progress."""
        self._recorder.note("note", f"{slice_name}: {message}")


class _Flow:
    """The clock of a process while records come: some more with each pause of its loop."""

    def __init__(self, site: MemorySite, records: int) -> None:
        self._site = site
        self._records = records

    def now_ms(self) -> int:
        """See Clock."""
        return self._site.clock.now_ms()

    def monotonic_s(self) -> float:
        """See Clock."""
        return self._site.clock.monotonic_s()

    def sleep(self, seconds: float) -> None:
        """See Clock."""
        self._site.clock.sleep(seconds)

    def wait(self, event: threading.Event, seconds: float) -> None:
        """See Clock."""
        self._site.clock.wait(event, seconds)
        self._site.produce(self._records)


class _Process:
    """One process of the job: what a job process runs, but for Spark.

    Arguments:
        site: where it runs.
        lake: the lake and the metastore, with the faults that it meets.
        progress: gets what it does.
        coming: how many records come with each interval; where some do, it never ends.

    """

    def __init__(
        self, site: MemorySite, lake: tuple[Storage, Catalog], progress: _Striking, coming: int
    ) -> None:
        storage, catalog = lake
        runner = TaskRunner(site.source, storage, site.entropy)
        environment = Environment(
            lake_of(site.job),
            storage,
            site.source,
            catalog,
            _Flow(site, coming) if coming else site.clock,
            progress,
            site.entropy,
            jitter=site.wait_between,
        )
        assembly = JobAssembly(site.job, environment)
        slices = [assembly.slice(runner, PARALLELISM)]
        self._loop = assembly.loop(slices, until_drained=not coming)

    def run(self) -> End:
        """Run the job to its end, as its process does. Raises ProcessStopped.

        It needs no probe: its tasks see the very same lake.
        """
        try:
            self._loop.run()
        except AshoreError as error:
            return End(error.exit_code, error.message)
        return End(0)


class TaskRunner:
    """The BatchRunner of one slice."""

    def __init__(self, source: Source, storage: Storage, entropy: Entropy) -> None:
        self._source = source
        self._storage = storage
        self._entropy = entropy

    def run(self, order: BatchOrder, plan: BatchPlan) -> list[TaskResult]:
        """See BatchRunner. Task after task, so that calls have the same number in every run."""
        try:
            return [
                write_task(
                    order, self._storage, number, self._fetch(ranges), self._entropy
                ).having_read(ranges)
                for number, ranges in enumerate(plan_splits(plan, dict(order.tables)))
            ]
        except SyncFailed:
            raise
        except StorageError as error:
            raise BatchFailed(f"batch {order.batch} failed: {error.message}") from error

    def probe(self, files: Mapping[str, bytes]) -> None:
        """See BatchRunner."""
        write_probes(self._storage, files)

    def cancel(self) -> None:
        """See BatchRunner. A batch in memory is over soon."""

    def _fetch(self, ranges: Iterable[ShardRange]) -> Iterator[pa.RecordBatch]:
        for asked in ranges:
            shard = StreamShard(asked.key.stream, asked.key.shard)
            found = list(self._source.read_again(shard, asked.offsets))
            if found:
                yield fetched_batch(shard, found)
