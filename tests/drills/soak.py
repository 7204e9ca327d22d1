"""A job that runs for long: batches every 200 ms, kills, and what its processes hold meanwhile.

    python -m tests.drills.soak [--minutes 120] [--lives 4] [--engine spark|local]

The first lives end by SIGKILL and are short; the last has most of the time, and is judged: see
`growth`. At the end all records must be in the table once. Exit code 1: something grows, or is
wrong.
"""

import argparse
import json
import os
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from uuid import uuid4

import psutil
from tests.drills.growth import (
    GAUGES,
    SAMPLES_MIN,
    Course,
    Sample,
    find_growth,
    plan_looks,
    read_course,
)
from tests.drills.jvm import Heap, collect, rises

from ashore.jobs.events import Landed, WarningEvent
from ashore.jobs.failure import Failed
from ashore.jobs.launch import JobLaunch, LaunchOptions
from ashore.log import names
from ashore.proof.verify.job import verify_job
from ashore.topics.open_job import open_job
from ashore.topics.run.spark.session import DRIVER_OPTIONS, LIGHT_JVM
from ashore_lab.services.kafka import Kafka
from ashore_lab.services.producer import Producer, create_topics

PARTITIONS = 4
RECORDS_A_SECOND = 500
SHORT_LIVES_SHARE = 0.1  # of the time, for all lives but the last
SAMPLES_A_LIFE = 240  # wanted: of a short life fewer, one a second
DAY_S = 86_400
FIRST_BATCH_S = 600
# The JVM has its whole heap from the start, so that what it takes later lies beside the heap.
HEAP = "512m"
JVM = f"-Xms{HEAP} -XX:+AlwaysPreTouch -XX:NativeMemoryTracking=summary"


@dataclass(frozen=True, slots=True)
class Soak:
    """What is played."""

    minutes: float
    lives: int
    uses_spark: bool = True
    environment: Mapping[str, str] = field(default_factory=dict)  # of the job process

    @property
    def short_s(self) -> float:
        """How long each life but the last is."""
        return 60 * self.minutes * SHORT_LIVES_SHARE / max(1, self.lives - 1)

    @property
    def last_s(self) -> float:
        """How long the last life is."""
        return 60 * self.minutes - self.short_s * (self.lives - 1)


@dataclass(frozen=True, slots=True)
class Outcome:
    """What was seen."""

    courses: tuple[Course, ...]  # of the last life
    grown: tuple[Course, ...]
    problems: tuple[str, ...]
    batches: int  # of the last life
    risen: tuple[str, ...]  # what the JVM of the last life reached more of at its end
    files_a_day: Mapping[str, int]  # by kind
    warnings: tuple[str, ...]

    @property
    def is_good(self) -> bool:
        """Whether nothing grows and nothing is wrong."""
        return not self.grown and not self.problems

    def lines(self) -> Iterator[str]:
        """Yield it for people."""
        for course in self.courses:
            yield f"{'GROWS ' if course in self.grown else ''}{course}"
        yield f"{self.batches:,} batches in the last life"
        yield from self.risen
        yield from (f"{count:,} {kind} a day" for kind, count in self.files_a_day.items())
        yield from (f"trouble: {each}" for each in self.warnings)
        yield from (f"WRONG: {each}" for each in self.problems)


class Place:
    """A lake and a topic, and what can be counted there."""

    def __init__(self, directory: Path, servers: str, *, uses_spark: bool) -> None:
        self.directory = directory
        self.lake = directory / "lake"
        self.temporary = directory / "tmp"
        self.temporary.mkdir(parents=True)
        self.topic, self._servers = f"soak-{uuid4().hex[:10]}", servers
        create_topics(servers, {self.topic: PARTITIONS})
        conf = {
            "spark.driver.memory": HEAP,
            "spark.local.dir": str(self.temporary),
            DRIVER_OPTIONS: f"{LIGHT_JVM[DRIVER_OPTIONS]} {JVM} -Djava.io.tmpdir={self.temporary}",
        }
        content = {
            "job": "soak",
            "lake": f"file://{self.lake}",
            "source": {
                "kafka": {"bootstrap_servers": servers},
                "first_start": {"default": "earliest"},
            },
            "batch": {"interval": "200ms"},
            "clean": {"every": "10s", "ttl": "20s"},
            "tables": [
                {"topic": self.topic, "table": "ods.events", "schema": "id BIGINT, text STRING"}
            ],
            "spark": {"master": "local[2]", "conf": conf} if uses_spark else "none",
        }
        self.job_file = directory / "soak.yaml"
        self.job_file.write_text(json.dumps(content, indent=1), "utf-8")

    @contextmanager
    def flow(self) -> Iterator[None]:
        """Produce while inside, ten times a second."""
        ending, text = threading.Event(), "x" * 80

        def produce() -> None:
            first = 0
            with Producer(self._servers) as producer:
                while not ending.wait(0.1):
                    first += RECORDS_A_SECOND // 10
                    for number in range(first - RECORDS_A_SECOND // 10, first):
                        value = b'{"id":%d,"text":"%s"}' % (number, text.encode())
                        producer.send(self.topic, number % PARTITIONS, value)

        thread = threading.Thread(target=produce, name="flow")
        thread.start()
        try:
            yield
        finally:
            ending.set()
            thread.join()

    def count_files(self) -> tuple[int, int, int]:
        """Return staged files, strange ones in private directories, and files of the log."""
        staged = strange = log = 0
        for path in _files(self.lake):
            if ".ashore" not in path.parts:
                continue
            leaf = path.name
            if names.parse_pending(leaf) is not None:
                staged += 1
            elif path.parent.name == "log" and not leaf.startswith("."):
                log += 1
            elif names.parse_owner(leaf) is None:
                strange += 1
        return staged, strange, log

    def count_data(self) -> int:
        """Return how many files readers see."""
        return sum(not any(part[0] in "._" for part in each.parts[1:]) for each in self._data())

    def _data(self) -> Iterator[Path]:
        return (Path("/", each.relative_to(self.lake)) for each in _files(self.lake))


def _files(directory: Path) -> Iterator[Path]:
    """Yield the files below a directory in which others are at work."""
    for root, _, found in os.walk(directory):
        yield from (Path(root, each) for each in found)


class Life:
    """One process of the job, and samples of what it holds."""

    def __init__(self, soak: Soak, place: Place) -> None:
        environment = {"TMPDIR": str(place.temporary), **soak.environment}
        options = LaunchOptions(uses_spark=soak.uses_spark, environment=environment)
        self.launch = JobLaunch("run", place.job_file, options)
        self.samples: list[Sample] = []
        self.heaps: list[Heap] = []
        self.batches = 0
        self.warnings: list[str] = []
        self.failure = ""
        self._place = place
        self._landed = threading.Event()
        self._listener = threading.Thread(target=self._listen, name="listen")

    def run(self, seconds: float, *, is_killed: bool) -> int:
        """Let it live for so long after its first batch; return its exit code."""
        self.launch.start()
        self._listener.start()
        try:
            until_s = time.monotonic() + FIRST_BATCH_S
            while not self._landed.wait(0.5):
                if not self._listener.is_alive() or time.monotonic() > until_s:
                    return self._end(is_killed=True)
            self._sample_for(seconds)
            return self._end(is_killed=is_killed)
        finally:
            self._end(is_killed=True)

    def _end(self, *, is_killed: bool) -> int:
        if is_killed:
            self.launch.kill()
        else:
            self.launch.stop()
        self._listener.join(120)
        return self.launch.wait()

    def _listen(self) -> None:
        for event in self.launch.events():
            match event:
                case Landed():
                    self.batches += 1
                    self._landed.set()
                case WarningEvent():
                    self.warnings.append(event.message)
                case Failed():
                    self.failure = event.message

    def _sample_for(self, seconds: float) -> None:
        began_s = time.monotonic()
        every_s = max(0.5, seconds / SAMPLES_A_LIFE)
        looks_s = [share * seconds for share in plan_looks()]
        while self._listener.is_alive():
            at_s = time.monotonic() - began_s
            if at_s >= seconds and len(self.samples) >= SAMPLES_MIN:
                break  # a machine under load takes fewer samples in its time
            looks = bool(looks_s) and at_s >= looks_s[0]
            with suppress(psutil.NoSuchProcess):
                self.samples.append(self._sample(at_s, looks=looks))
                looks_s = looks_s[looks:]
            spent_s = time.monotonic() - began_s - at_s
            time.sleep(max(0.0, every_s - spent_s))

    def _sample(self, at_s: float, *, looks: bool) -> Sample:
        job = psutil.Process(self.launch.pid)
        jvm_mb = workers_mb = live_mb = 0.0
        jvm_threads, descriptors, processes = 0, job.num_fds(), 1
        for each in job.children(recursive=True):
            with suppress(psutil.NoSuchProcess):
                size_mb, count = each.memory_info().rss / 1e6, each.num_fds()
                if "java" in each.name():
                    jvm_mb, jvm_threads = size_mb, each.num_threads()
                    live_mb = self._look(each.pid) if looks else 0.0
                else:
                    workers_mb += size_mb
                descriptors += count
                processes += 1
        staged, strange, log = self._place.count_files()
        return Sample(
            at_s=at_s,
            job_mb=job.memory_info().rss / 1e6,
            workers_mb=workers_mb,
            jvm_mb=jvm_mb,
            live_mb=live_mb,
            threads=job.num_threads(),
            jvm_threads=jvm_threads,
            descriptors=descriptors,
            processes=processes,
            staged=staged,
            strange=strange,
            temporary=sum(1 for _ in _files(self._place.temporary)),
            log=log,
            batches=self.batches,
        )

    def _look(self, pid: int) -> float:
        self.heaps.append(collect(pid))
        return self.heaps[-1].live_mb


def play(soak: Soak, directory: Path, servers: str) -> Outcome:
    """Play a soak and judge it. What is left in `directory` is the caller's."""
    place = Place(directory, servers, uses_spark=soak.uses_spark)
    problems: list[str] = []
    with place.flow():
        for _ in range(soak.lives - 1):
            life = Life(soak, place)
            life.run(soak.short_s, is_killed=True)
            if not life.batches:
                problems.append(f"a life landed nothing: {life.failure}")
        life = Life(soak, place)
        data = place.count_data()
        code = life.run(soak.last_s, is_killed=False)
        data, lasted_s = place.count_data() - data, life.samples[-1].at_s if life.samples else 1.0
    (directory / "samples.json").write_text(json.dumps(life.samples))
    if code != 0:
        problems.append(f"the last life ended with {code}: {life.failure}")
    problems += prove(place, soak)
    if len(life.samples) < SAMPLES_MIN:
        problems.append(f"the last life was over after {len(life.samples)} samples")
        return Outcome((), (), tuple(problems), life.batches, (), {}, tuple(life.warnings[:5]))
    samples: Sequence[Sample] = life.samples
    return Outcome(
        courses=tuple(read_course(gauge, samples) for gauge in GAUGES),
        grown=tuple(find_growth(samples)),
        problems=tuple(problems),
        batches=life.batches,
        risen=tuple(rises(life.heaps[0], life.heaps[-1])) if life.heaps else (),
        files_a_day={"data files": round(data / lasted_s * DAY_S)},
        warnings=tuple(life.warnings[:5]),
    )


def prove(place: Place, soak: Soak) -> list[str]:
    """Land what is left, and return what is lost or there twice."""
    options = LaunchOptions(uses_spark=soak.uses_spark, available_now=True)
    with JobLaunch("run", place.job_file, options) as launch:
        list(launch.events())
        if (code := launch.wait()) != 0:
            return [f"the table could not be drained: {code}"]
    with open_job(place.job_file) as opened:
        verdict = verify_job(opened)
    return [] if verdict.exit_code == 0 else [verdict.summary, *map(str, verdict.problems)]


def main() -> int:
    """Play what the command line says."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--minutes", type=float, default=120)
    parser.add_argument("--lives", type=int, default=4)
    parser.add_argument("--engine", choices=["spark", "local"], default="spark")
    parser.add_argument("--servers", help="a broker that is up; else one is started")
    options = parser.parse_args()
    soak = Soak(options.minutes, options.lives, options.engine == "spark")
    directory = Path(tempfile.mkdtemp(prefix="ashore-soak-"))
    with ExitStack() as stack:
        servers = options.servers
        if servers is None:
            servers = stack.enter_context(Kafka(directory / "kafka")).bootstrap_servers
        outcome = play(soak, directory / "site", servers)
    lines = [*outcome.lines(), f"samples: {directory}/site/samples.json"]
    sys.stdout.write("\n".join(lines) + "\n")
    return 0 if outcome.is_good else 1


if __name__ == "__main__":
    sys.exit(main())
