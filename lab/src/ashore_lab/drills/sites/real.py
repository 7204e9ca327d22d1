"""A drill on real servers: Kafka, a lake on disk, and job processes as `ashore run` starts them.

What it is: a Site whose lives are processes of `python -m ashore.queries.spark.main`, with a Spark
of their own.
What it promises: what a fault does is what happens to users: SIGKILL and SIGSTOP to the process and
its JVM, a broker that is killed and comes back. Whatever happens, no process is left.
"""

import os
import signal
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from uuid import uuid4

from ashore.base.clock import CLOCK_VARIABLE, Steering, SystemClock
from ashore.errors import check, fail
from ashore.jobs.events import Started, WarningEvent, moment_of
from ashore.jobs.failure import Failed
from ashore.jobs.launch import JobLaunch, LaunchOptions
from ashore.log.positions import StreamShard
from ashore.storage.base import Storage
from ashore.topics.open_job import OpenJob, open_job
from ashore.topics.read.kafka import KafkaSource
from ashore_lab.drills.checkers.in_flight import judge_flight
from ashore_lab.drills.faults import (
    HALF_DONE_STEPS,
    BrokerAway,
    ClockJump,
    Countdown,
    Freeze,
    Happens,
    JobFault,
    Kill,
    Out,
    Outage,
    concerns_what_is_begun,
    flight_of,
)
from ashore_lab.drills.faults.late_delete import DeleteCalls
from ashore_lab.drills.recorder import Recorder
from ashore_lab.drills.sites.ahead import DRIVER_OPTIONS, JVM, Ahead
from ashore_lab.drills.sites.delayed_deletes import DelayedDeletes
from ashore_lab.drills.sites.log_tail import LogTail
from ashore_lab.drills.sites.machines import Machines
from ashore_lab.drills.sites.real_outages import (
    Break,
    RealOutages,
    metastore_breaks,
    quota_break,
    storage_breaks,
)
from ashore_lab.drills.sites.site import (
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
from ashore_lab.drills.workloads.numbers import Produced
from ashore_lab.services.hdfs import Hdfs
from ashore_lab.services.hive import Hive
from ashore_lab.services.kafka import Kafka
from ashore_lab.services.kafka_cluster import KafkaCluster
from ashore_lab.services.producer import (
    Producer,
    create_topics,
    delete_records,
    replace_topic,
    wait_for_replicas,
)

SAMPLE_EVERY_S = 0.5
A_LITTLE_S = 0.002  # less than a batch takes from its first file to its last move
GO_ON_S = 3.0  # after that there is nothing left to be half done
CLOCK = SystemClock()
Broker = Kafka | KafkaCluster


@dataclass(frozen=True, slots=True)
class SiteServers:
    """Where a real site is: a directory of its own, the broker, and the HDFS of its lake.

    `java_options`: of the JVM of the job's processes. `machines`: returns a cluster of its own
    that is up, with that number of workers.
    """

    directory: Path
    kafka: Broker
    hdfs: Hdfs | None = None
    hive: Hive | None = None
    java_options: str = ""
    machines: Callable[[int], Machines] | None = None

    def spark(self, *, has_spark: bool) -> object:
        """Return what the job file says of Spark."""
        if not has_spark:
            return "none"
        options = f"{JVM} {self.java_options}".strip()
        conf = {"spark.driver.memory": "512m", DRIVER_OPTIONS: options}
        return {"master": "local[2]", "conf": conf}

    def make_lake(self) -> tuple[str, dict[str, object]]:
        """Return the address of a new lake, and what the job file says of how to reach it."""
        if self.hdfs is not None:
            address = f"{self.hdfs.uri}/drill-{uuid4().hex[:10]}"
            return address, {"hdfs": {"conf_dir": str(self.hdfs.conf_dir)}}
        lake = self.directory / "lake"
        lake.mkdir()
        return f"file://{lake}", {}

    def catalog(self) -> dict[str, object]:
        """Return what the job file says of the metastore."""
        if self.hive is None:
            return {}
        return {"catalog": {"hive": {"uri": self.hive.uri, "strategy": "near"}}}

    def breaks(self, lake: str) -> dict[Out, Break]:
        """Return what can be done to the servers of a lake."""
        storage: dict[Out, Break] = {}
        if self.hdfs:
            directory = lake.removeprefix(self.hdfs.uri)
            storage = {**storage_breaks(self.hdfs), Out.QUOTA: quota_break(self.hdfs, directory)}
        metastore = metastore_breaks(self.hive) if self.hive else {}
        return {**storage, **metastore}


class RealSite:
    """One topic, one lake and one job on real servers."""

    def __init__(
        self, seed: int, options: SiteOptions, place: SiteServers, recorder: Recorder
    ) -> None:
        self._place = place
        self._recorder = recorder
        self._lives = 0
        own, servers = uuid4().hex[:10], place.kafka.bootstrap_servers
        self.produced = (
            options.twin_of.produced
            if options.twin_of
            else produced_of(f"{TOPIC}-{own}", seed, options)
        )
        topic = self.produced.workload.topic
        if options.twin_of is None:
            create_topics(servers, {topic: options.partitions})
        place.directory.mkdir(parents=True)
        self.table = f"drill_{own}.clicks" if place.hive else TABLE
        self._lake, how = place.make_lake()
        spark = place.spark(has_spark=options.has_spark)
        sections = {"spark": spark, **how, **place.catalog(), **options.sections}
        table = {"table": self.table, **options.table}
        complete = replace(options, sections=sections, table=table)
        text = job_text(self._lake, servers, topic, complete)
        self.job_file = self.own_job_file = place.directory / "job.yaml"
        self.job_file.write_text(text, "utf-8")
        self._clock = _JobClock(place.directory / "clock.json")
        self._has_spark = options.has_spark
        self.ahead = Ahead(self._environment(), uses_spark=options.has_spark)
        self._delayed: list[DelayedDeletes] = []
        self._outages = RealOutages(place.breaks(self._lake), recorder)
        self._stack = ExitStack()
        opened = self._stack.enter_context(open_job(self.job_file))
        self._storage = opened.storage
        self._running: JobLaunch | None = None
        self._sampling = _Sampling(LogTail(opened.storage, NAME), self.produced, recorder)
        if options.twin_of is None:  # of twins only the first is shown
            self._stack.callback(self._sampling.stop)
            self._sampling.start()

    def produce(self, records: int) -> None:
        """See Site."""
        with Producer(self._place.kafka.bootstrap_servers) as producer:
            for partition, value in self.produced.deal(records):
                producer.send(self.produced.workload.topic, partition, value)

    @property
    def directory(self) -> Path:
        """Where the job file is, and a lake on disk."""
        return self._place.directory

    def kill(self) -> None:
        """Kill the process of the job that runs, at whatever it is. One that has ended is let be.

        For what strikes at no step of the job.
        """
        if self._running is not None:
            self._running.kill()

    def restart_brokers(self, first: int) -> int:
        """Restart each broker of a cluster, one after the other, beginning with a number.

        The next one is stopped once every replica is in sync again. Returns how many topic
        partitions have another leader epoch than before. Raises ServiceError, SourceError.
        """
        cluster, topic = self._place.kafka, self.produced.workload.topic
        if not isinstance(cluster, KafkaCluster):
            fail("the site has one broker")
        before = self._leader_epochs()
        for number in sorted(cluster.brokers, key=lambda number: (number < first, number)):
            wait_for_replicas(cluster.bootstrap_servers, topic)
            cluster.brokers[number].restart()
            self._recorder.note("broker", f"broker {number} was restarted")
        wait_for_replicas(cluster.bootstrap_servers, topic)
        after = self._leader_epochs()
        return sum(after[shard] != epoch for shard, epoch in before.items())

    def _leader_epochs(self) -> dict[StreamShard, int | None]:
        workload = self.produced.workload
        shards = [StreamShard(workload.topic, str(each)) for each in range(workload.partitions)]
        with closing(KafkaSource(self._place.kafka.bootstrap_servers, {})) as source:
            return {each: at.leader_epoch for each, at in source.read_offsets(shards).items()}

    def machines(self, workers: int) -> Machines:
        """Return a cluster for this drill alone, which is up, and which it may destroy."""
        if self._place.machines is None:
            fail("there are no machines here")
        return self._place.machines(workers)

    def expect(self, lives: int, at_once: int = 1) -> None:
        """See Site."""
        self.ahead.expect(lives)
        for _ in range(at_once):
            self.ahead.start_next(self.job_file)

    def live(self, *faults: JobFault) -> End:
        """See Site."""
        return self._live(faults, self.ahead.take(self.job_file))

    def live_while(self, records_per_s: int, *faults: JobFault) -> End:
        """See Site."""
        ending = threading.Event()
        options = LaunchOptions(environment=self._environment(), uses_spark=self._has_spark)
        launch = JobLaunch("run", self.job_file, options)
        launch.start()
        with ThreadPoolExecutor(1) as pool:
            flowing = pool.submit(self._flow, records_per_s, ending)
            flowing.add_done_callback(lambda _done: launch.kill())  # nothing comes any more
            try:
                return self._live(faults, launch)
            finally:
                ending.set()
                flowing.result()

    def _flow(self, records_per_s: int, ending: threading.Event) -> None:
        began_s, times = CLOCK.monotonic_s(), 0
        while not ending.wait(began_s + times - CLOCK.monotonic_s()):
            times += 1
            self.produce(records_per_s)

    def _environment(self) -> dict[str, str]:
        return {CLOCK_VARIABLE: str(self._clock.path)}

    def _live(self, faults: Sequence[JobFault], launch: JobLaunch) -> End:
        """Follow a process that runs to its end."""
        self._recorder.start(self._lives)
        self._lives += 1
        self._running = launch
        with ExitStack() as stack:
            stack.callback(launch.wait)
            stack.callback(launch.kill)
            striking = _FaultEffects(launch, self._place.kafka, self._clock, self._outages)
            message = self._follow(launch, faults, striking)
            code = launch.wait()
        return End(code, message or ("" if code == 0 else f"see {launch.log_path}"))

    def flight(self, *, must_be_half_done: bool) -> Flight:
        """See Site."""
        lake = (self._storage, NAME, self.table)
        return judge_flight(lake, self.produced.total, must_be_half_done=must_be_half_done)

    def skip_gaps(self) -> None:
        """See Site."""
        self.job_file.write_text(skip_gaps(self.job_file.read_text("utf-8")), "utf-8")

    def expire(self, partition: int, below: int) -> None:
        """See Site."""
        topic = self.produced.workload.topic
        delete_records(self._place.kafka.bootstrap_servers, topic, partition, below)

    def create_again(self) -> None:
        """See Site."""
        workload = self.produced.workload
        replace_topic(self._place.kafka.bootstrap_servers, workload.topic, workload.partitions)
        self.produced.begin_again()

    def late_deletes(self, storage: Storage) -> DeleteCalls:
        """See Site."""
        hdfs = self._place.hdfs
        if hdfs is None:
            fail("deletes are delayed on HDFS only")
        self._delayed.append(DelayedDeletes(hdfs, self._lake.removeprefix(hdfs.uri), storage))
        return self._delayed[-1]

    def mend(self) -> None:
        """See Site."""
        for calls in self._delayed:
            calls.deliver()
        self._outages.mend()

    def keep_house(self) -> None:
        """See Site."""
        CLOCK.sleep(1.5)  # the job file of a drill that asks for it says `ttl: 1s`
        with self.opened() as opened:
            keep_house(opened)

    @contextmanager
    def opened(self) -> Iterator[OpenJob]:
        """See Site."""
        with open_job(self.job_file) as opened:
            yield opened

    def landed(self) -> int:
        """See Site."""
        return self._sampling.count_landed()

    def registered(self) -> Mapping[str, str] | None:
        """See Site."""
        if self._place.hive is None:
            return None
        from ashore_lab.services.hive_locations import load_locations  # noqa: PLC0415 - an extra

        found = load_locations(self._place.hive.uri, self.table)
        return {values: _below(self._lake, location) for values, location in found.items()}

    def close(self) -> None:
        """See Site."""
        with self._stack:
            if self._running is not None:
                self._running.kill()  # of a drill that was given up; else it has ended
            self.ahead.close()
            self.mend()
            self._outages.end()

    def _follow(
        self, launch: JobLaunch, faults: Sequence[JobFault], striking: "_FaultEffects"
    ) -> str:
        """Let faults strike when their moment comes, to the end; return the error, if any."""
        waiting = [(fault, Countdown(fault.at)) for fault in faults]
        message = ""
        for event in launch.events():
            if isinstance(event, Started):
                self.ahead.start_next(self.job_file)
            for fault, countdown in waiting:
                if countdown.has_come(moment_of(event)):
                    self._let_strike(fault, striking)
            if isinstance(event, WarningEvent):
                self._recorder.note(event.kind, event.message)
            if isinstance(event, Failed):
                message = event.message
        return message

    def _let_strike(self, fault: JobFault, striking: "_FaultEffects") -> None:
        """Let a fault strike, and take down what was in flight: the process stands still then."""
        with striking.frozen():
            flight = self._flight_at(fault, striking)
            if not isinstance(fault, Happens):
                self._recorder.fault(fault.kind, str(fault), flight)
                striking.strike(fault)
        if isinstance(fault, Happens):  # while the job continues
            self._recorder.fault(fault.kind, str(fault), flight_of(fault.act(), flight))
        if isinstance(fault, Freeze):
            self._recorder.note("woken", "the frozen process continues")

    def _flight_at(self, fault: JobFault, striking: "_FaultEffects") -> Flight:
        """Return what is in flight in a process that stands still, and is to be struck.

        A batch takes milliseconds: on a busy machine it can be over before anybody has heard that
        its moves begin. The process then continues, a little at a time, to where one is half done.
        """
        needs_begun = concerns_what_is_begun(fault)
        flight = self.flight(must_be_half_done=needs_begun)
        if not needs_begun or isinstance(fault, Happens) or fault.at.step not in HALF_DONE_STEPS:
            return flight
        given_up_s = CLOCK.monotonic_s() + GO_ON_S
        while not flight.is_proof and CLOCK.monotonic_s() < given_up_s:
            striking.go_on(A_LITTLE_S)
            flight = self.flight(must_be_half_done=True)
        return flight


def _below(lake: str, location: str) -> str:
    """Return a location as a path of the lake."""
    check(location.startswith(f"{lake}/"), f"{location} is not below {lake}")
    return location.removeprefix(f"{lake}/")


class _FaultEffects:
    """What faults do to one process and its surroundings."""

    def __init__(
        self,
        launch: JobLaunch,
        kafka: Broker,
        clock: "_JobClock",
        outages: RealOutages,
    ) -> None:
        self._launch = launch
        self._clock = clock
        self._kafka = kafka
        self._outages = outages

    def strike(self, fault: BrokerAway | ClockJump | Freeze | Kill | Outage) -> None:
        """Let a fault strike a process that stands still."""
        match fault:
            case Kill():
                self._launch.kill()
            case Freeze():
                fault.meanwhile()
            case Outage():
                self._outages.begin(fault)
            case ClockJump():
                self._clock.jump(fault.seconds)
            case BrokerAway():
                self._kafka.kill()
                self._outages.mend_later(fault.kind, fault.away_s, self._kafka.start)

    @contextmanager
    def frozen(self) -> Iterator[None]:
        """Let the process stand still while inside. One that has ended by itself is let be."""
        self._signal(signal.SIGSTOP)
        try:
            yield
        finally:
            self._signal(signal.SIGCONT)

    def go_on(self, seconds: float) -> None:
        """Let a process that stands still continue for so long."""
        self._signal(signal.SIGCONT)
        CLOCK.sleep(seconds)
        self._signal(signal.SIGSTOP)

    def _signal(self, number: signal.Signals) -> None:
        with suppress(ProcessLookupError):
            os.killpg(self._launch.pid, number)


class _JobClock:
    """The wall clock of the job's processes, steered through a file."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._ahead_ms = 0
        self.jump(0.0)

    def jump(self, seconds: float) -> None:
        """Show some seconds more from now on, or less."""
        self._ahead_ms += round(seconds * 1000)
        now_ms = CLOCK.now_ms()
        Steering(now_ms, now_ms + self._ahead_ms).write(self.path)


class _Sampling:
    """Takes down how far landing is, now and then, in a thread of its own."""

    def __init__(self, tail: LogTail, produced: Produced, recorder: Recorder) -> None:
        self._tail = tail
        self._produced = produced
        self._recorder = recorder
        self._lock = threading.Lock()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="sampling", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stopping.set()
        self._thread.join()

    def count_landed(self) -> int:
        with self._lock:
            return self._tail.count_landed()

    def _run(self) -> None:
        while not self._stopping.wait(SAMPLE_EVERY_S):
            landed = self.count_landed()
            self._recorder.sample(max(self._produced.total, landed), landed)
