"""A drill in memory: the real loop, log and writer on a storage that has faults.

What it is: a Site without Spark, Kafka and disks, on a clock that nobody waits for.
What it promises: the same seed and faults give the same run, but for the order of parallel moves.
Beside kills and freezes its processes take any fault of `FaultyStorage`.
What it must not know: scenarios.
"""

import math
import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from ashore.config import Job, parse_job
from ashore.control.jobs import OpenJob
from ashore.drills.faults import (
    BrokerAway,
    ClockJump,
    Countdown,
    Freeze,
    Happens,
    JobFault,
    Kill,
    Outage,
)
from ashore.drills.faults.calls import describe_fault
from ashore.drills.recorder import Recorder
from ashore.drills.sites.log_tail import LogTail
from ashore.drills.sites.memory_outages import Outages, OutageStorage
from ashore.drills.sites.site import (
    JOB,
    KILLED,
    NAME,
    TOPIC,
    End,
    SiteOptions,
    job_text,
    keep_house,
)
from ashore.drills.sites.tasks import TaskRunner
from ashore.drills.workloads.numbered import Numbered, Produced
from ashore.errors import AshoreError, SourceUnreachable
from ashore.landing.committer import Quiet
from ashore.landing.job import JobStreams, lake_of, slice_plan
from ashore.landing.log import LandingLog, LogContext
from ashore.landing.owner import claim_tables
from ashore.landing.slice_loop import SliceLoop, SliceParts, Tick, stops_slice
from ashore.protocol.plan_batch import ShardOffsets
from ashore.protocol.positions import OffsetRange
from ashore.sources.base import Record, StreamInfo, StreamShard
from ashore.storage.base import Storage
from ashore.storage.memory import MemoryStorage
from ashore.testing import (
    FakeClock,
    Fault,
    PendingEffects,
    ProcessStopped,
    RecordedSource,
)

TRIES = 12  # failures in a row after which a process gives up
INTERVAL_S = 1.0
CLEAN_TTL_S = 24 * 3_600  # what a job file says that says nothing
PARALLELISM = 2

Wrap = Callable[[Storage], Storage]


class BrokerSource(RecordedSource):
    """A recorded source whose broker may be away."""

    def __init__(self, clock: FakeClock) -> None:
        super().__init__("kafka", clock)
        self.clock = clock
        self.back_s = -math.inf  # when the broker is back, by the clock

    def read_offsets(self, shards: Sequence[StreamShard]) -> dict[StreamShard, ShardOffsets]:
        """See Source."""
        self._knock()
        return super().read_offsets(shards)

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
    """One topic, one lake and one job in memory."""

    def __init__(
        self, seed: int, options: SiteOptions, clock: FakeClock, recorder: Recorder
    ) -> None:
        self.clock = clock
        self.machine: Storage = MemoryStorage(clock)
        self.pending = PendingEffects()
        self.outages = Outages(clock)
        workload = Numbered(TOPIC, seed, options.partitions, options.poison_every)
        self.produced = Produced(workload)
        self.calls: list[int] = []  # storage calls of each life that has ended
        self._source = BrokerSource(clock)
        self._source.create(TOPIC, options.partitions)
        self._job = parse_job(job_text("file:///drill", "127.0.0.1:9092", TOPIC, options))
        self._dice = random.Random(f"names {seed}")  # noqa: S311 - the same names each time
        self.recorder = recorder
        self._tail = LogTail(self.machine, NAME)
        self._lives = 0

    # ---- what every site does

    def produce(self, records: int) -> None:
        """See Site."""
        for partition, value in self.produced.deal(records):
            self._source.append(StreamShard(TOPIC, str(partition)), value)
        self.sample()

    def live(self, *faults: JobFault | Fault, wrap: Wrap = lambda storage: storage) -> End:
        """See Site. `wrap` puts a storage of the scenario's own above the faults of calls."""
        self.recorder.start(self._lives)
        self._lives += 1
        struck = [each for each in faults if isinstance(each, JobFault)]
        calls = [each for each in faults if not isinstance(each, JobFault)]
        faulty = OutageStorage(self.machine, calls, self.pending, self.outages)
        process = _Process(self, wrap(faulty), _Striking(self, struck))
        try:
            end = process.run()
        except ProcessStopped as stopped:
            end = End(KILLED, str(stopped))
        for fault in faulty.fired:
            self.recorder.fault(*describe_fault(fault))
        self.calls.append(len(faulty.calls))
        self.sample()
        return end

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

    def sample(self) -> None:
        """Take down how far landing is."""
        self.recorder.sample(self.produced.total, self.landed())


class _Striking(Quiet):
    """The Progress of a process: lets kills and freezes strike when their moment has come."""

    def __init__(self, site: MemorySite, faults: Sequence[JobFault]) -> None:
        self._site = site
        self._faults = [(fault, Countdown(fault.at)) for fault in faults]
        self._recorder = site.recorder

    def step(self, slice_name: str, step: str) -> None:
        """See Progress."""
        super().step(slice_name, step)
        for fault, countdown in self._faults:
            if countdown.has_come(step):
                self._recorder.fault(fault.kind, str(fault))
                self._strike(fault)

    def _strike(self, fault: JobFault) -> None:
        match fault:
            case Kill():
                raise ProcessStopped(str(fault))
            case Freeze():
                fault.meanwhile()
                self._recorder.note("woken", "the frozen process goes on")
            case Happens():
                fault.act()
            case Outage():
                self._site.outages.begin(fault)
            case ClockJump():
                self._site.clock.jump_wall(fault.seconds)
            case BrokerAway():
                self._site.source.back_s = self._site.clock.monotonic_s() + fault.away_s

    def landed(self, slice_name: str, rows: int, files: int, lag: int) -> None:
        """See Progress."""
        super().landed(slice_name, rows, files, lag)
        self.step(slice_name, "landed")

    def trouble(self, slice_name: str, message: str) -> None:
        """See Progress."""
        self._recorder.note("trouble", f"{slice_name}: {message}")


class _Process:
    """One process of the job: put together as `ashore.spark` does it, without Spark."""

    def __init__(self, site: MemorySite, storage: Storage, progress: _Striking) -> None:
        self._site = site
        streams = JobStreams(
            site.job,
            site.source,
            lambda tables: claim_tables(storage, tables, JOB, site.clock.now_ms()),
        )
        plan = slice_plan(site.job, lake_of(site.job), streams, PARALLELISM)
        log = LandingLog(LogContext(storage, site.clock, site.entropy), NAME)
        runner = TaskRunner(site.source, storage, site.entropy)
        parts = SliceParts(storage, site.source, runner, log, site.clock, progress)
        self._loop = SliceLoop(plan, parts)
        self._streams = streams

    def run(self) -> End:
        """Land until nothing is left, as `--available-now` does. Raises ProcessStopped."""
        tries = 0
        while True:
            try:
                self._streams()
                tick = self._loop.tick()
                if tick is Tick.IDLE:
                    self._loop.close("drained")
                    return End(0)
            except AshoreError as error:
                tries += 1
                self._loop.parts.progress.trouble(NAME.slice, error.message)
                if stops_slice(error) or tries == TRIES:
                    return End(error.exit_code, error.message)
            else:
                tries = 0
            self._site.clock.sleep(INTERVAL_S)
            self._site.sample()
