"""A job `shop`, its tables and topics, and a lake that outlives its runs."""

import json
from dataclasses import dataclass, field, replace
from typing import Any

from ashore.jobs.file import Job, parse_job
from ashore.log.entries import Define
from ashore.log.names import SliceName
from ashore.log.positions import StreamShard
from ashore.log.progress import Quiet
from ashore.log.store.reader import read_history
from ashore.storage import MemoryStorage
from ashore.storage.open import LakeAddress
from ashore.tables.catalog import NoCatalog
from ashore.topics.loop.assembly import Environment, JobAssembly
from ashore.topics.loop.definitions import define, plan_define
from ashore.topics.loop.worker import Tick
from ashore.topics.write.batch import OutputSpec
from ashore_lab.testing import FakeClock, RecordedRunner, RecordedSource

NAME = SliceName("shop", "main")
TABLE: dict[str, Any] = {
    "topic": "clicks",
    "table": "ods.clicks",
    "schema": "id INT, s STRING NOT NULL, ts BIGINT",
    "event_time": {"column": "ts"},
    "partition_by": [],
    "format": "jsonl",
    "seal": {"actions": []},
}


def job_of(**changes: object) -> Job:
    return parse_job(json.dumps(document_of(**changes)))


def jobs_of(*items: dict[str, Any]) -> Job:
    document = document_of()
    document["tables"] = [{**TABLE, **each} for each in items]
    return parse_job(json.dumps(document))


def document_of(**changes: object) -> dict[str, Any]:
    source = {
        "kafka": {"bootstrap_servers": "127.0.0.1:9092"},
        "first_start": {"default": "earliest"},
    }
    tables = [{**TABLE, **changes}]
    return {"job": "shop", "lake": "file:///lake", "source": source, "tables": tables}


class Notes(Quiet):
    def __init__(self) -> None:
        self.notes: list[str] = []

    def note(self, slice_name: str, message: str) -> None:
        self.notes.append(message)


@dataclass
class World:
    """A lake and topics that outlive the runs of a job."""

    storage: MemoryStorage = field(default_factory=MemoryStorage)
    clock: FakeClock = field(default_factory=FakeClock)
    source: RecordedSource = field(default_factory=RecordedSource)
    numbers: int = 0

    def send(self, topic: str = "clicks") -> None:
        record = {"id": self.numbers, "s": "x", "ts": 1}
        self.source.append(StreamShard(topic, "0"), json.dumps(record).encode())

    def environment(self, progress: Quiet, accepted_by: str) -> Environment:
        return Environment(
            LakeAddress("memory:"),
            self.storage,
            self.source,
            NoCatalog(),
            self.clock,
            progress,
            entropy=self.unique,
            accepted_by=accepted_by,
        )

    def unique(self) -> str:
        self.numbers += 1
        return f"{self.numbers:016x}"

    def run(self, job: Job, accepted_by: str = "") -> list[str]:
        """Land what there is and return what was told."""
        progress = Notes()
        runner = RecordedRunner(self.source, self.storage, self.unique)
        environment = self.environment(progress, accepted_by)
        loop = JobAssembly(job, environment).slice(runner, 1)
        while loop.tick() is not Tick.IDLE:
            pass
        loop.close("drained")
        return progress.notes

    def defined(self) -> list[Define]:
        history = read_history(self.storage, NAME)
        return [entry.body for entry in history if isinstance(entry.body, Define)]


def landed_world() -> World:
    """Return a world in which a record of `clicks` has landed, and another one is there."""
    world = World()
    world.source.create("clicks")
    world.source.create("orders")
    world.send()
    world.run(job_of())
    world.send()
    return world


def define_job(job: Job) -> Define:
    plan = plan_define({}, job_tables(job, {}))
    made = define(plan, lambda _text: None)
    assert made is not None
    return made


def job_tables(job: Job, known: dict[str, Any]) -> list[Any]:
    source = RecordedSource()
    for topic in ("clicks", "orders"):
        source.create(topic)
    environment = replace(World().environment(Quiet(), ""), source=source)
    streams = JobAssembly(job, environment).streams
    streams()
    return streams.definitions(known)


RESULT = OutputSpec("ods.result", "n BIGINT", ("parity",), "UTC", None, "ms", "jsonl", 1 << 20)
QUERY = SliceName("shop", "ods__result")


def open_sink(
    world: World, output: OutputSpec, accepted_by: str = "", name: str = QUERY.slice
) -> list[str]:
    progress = Notes()
    assembly = JobAssembly(job_of(), world.environment(progress, accepted_by))
    sink = assembly.sink(SliceName("shop", name), output, 1_000)
    sink.open()
    sink.idle()
    return progress.notes


LEFT = "topic {} was landed in {} and is no longer landed by this job; earlier rows stay in {}"
