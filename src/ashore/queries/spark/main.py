"""The job process over Spark: `python -m ashore.queries.spark.main run JOB.yaml`.

What it is: Spark as the engine of a job process, and the commands of SQL, which only it can do.
What it promises: see `ashore.topics.loop.process`.
"""

import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path

from py4j.protocol import Py4JError
from pyspark.sql import SparkSession

from ashore.base.clock import Clock, SystemClock
from ashore.errors import CheckpointUnfit, NotDone, fail
from ashore.jobs.events import Validated
from ashore.jobs.file import Job
from ashore.jobs.file.cases import load_cases
from ashore.jobs.file.catalogs import CatalogSection
from ashore.jobs.file.lakes import HdfsSection
from ashore.jobs.file.model import Spark
from ashore.jobs.file.values import EnvText, FrozenMap
from ashore.jobs.listener import Verb
from ashore.jobs.requests import (
    TAKE_SAVEPOINT,
    CasesRequest,
    SavepointDone,
    SavepointRequest,
    SqlRequest,
    read_asked,
    read_request,
    write_request,
)
from ashore.jobs.writer import EventWriter
from ashore.queries.spark.sql.adhoc import answer_query
from ashore.queries.spark.sql.assembly import SparkJob, assembled
from ashore.queries.spark.sql.case_runner import run_cases
from ashore.queries.spark.sql.sql_query import SqlQuery
from ashore.queries.spark.sql.validate import describe_queries
from ashore.queries.state.savepoints.save import open_shelf, save
from ashore.topics.loop.job import MAIN
from ashore.topics.loop.job_loop import JobLoop
from ashore.topics.loop.process import JobProcess, run_process
from ashore.topics.run.spark.runner import start_worker
from ashore.topics.run.spark.session import (
    application_of,
    conf_of,
    start_session,
    with_java_options,
)
from ashore.topics.run.spark.stopped_workers import StoppedWorkers


class SparkEngine:
    """A Spark session of a job's own. See Engine."""

    def __init__(self, jars: list[Path], java_options: str = "") -> None:
        self._jars = jars
        self._java_options = java_options
        self._spark: SparkSession | None = None

    def start(self, job: Job) -> None:
        """See Engine."""
        conf = with_java_options(conf_of(job), self._java_options)
        self._spark = start_session(job.job, application_of(job).master, conf, self._jars)

    def warm(self) -> None:
        """See Engine."""
        start_worker(self._session())

    @contextmanager
    def assemble(
        self, job: Job, events: EventWriter, clock: Clock, accepted_by: str
    ) -> Iterator[SparkJob]:
        """See Engine."""
        with (
            StoppedWorkers(partial(events.warn, MAIN)),
            assembled(job, self._session(), events, clock, accepted_by) as found,
        ):
            yield found

    def stop(self) -> None:
        """See Engine."""
        with suppress(Py4JError, ConnectionError):  # a JVM that has ended: reported elsewhere
            self._session().stop()

    def _session(self) -> SparkSession:
        return self._spark or fail("Spark is used before it is started")


def validate(process: JobProcess[SparkJob], _request: str) -> None:
    """Plan the job's queries and send what they would be. Nothing is read or written."""
    with process.assembled() as job:
        process.events.send(Validated(describe_queries(job)))


def sql(process: JobProcess[SparkJob], request: str) -> None:
    """Run one SELECT over records that are there and send its rows. Nothing is written."""
    select = read_request(SqlRequest, request)
    with process.assembled() as job:
        process.events.send(answer_query(job, select, process.events.send))


def test(process: JobProcess[SparkJob], request: str) -> None:
    """Run test cases, all in one session, and send how each ended. Kafka and lake play no part."""
    files = read_request(CasesRequest, request).files
    cases = [case for file in files for case in load_cases(Path(file))]
    with (
        tempfile.TemporaryDirectory(prefix="ashore-test-") as directory,
        process.assembled(job_for_cases(process.job, directory)) as job,
    ):
        for ended in run_cases(job, cases, Path(directory)):
            process.events.send(ended)


def job_for_cases(job: Job, directory: str) -> Job:
    """Return a job as cases run it: on this machine, below a directory, its state in one piece."""
    conf = FrozenMap({**application_of(job).conf})
    here: dict[str, object] = {
        "lake": EnvText(f"file://{directory}/lake", {}),
        "hdfs": HdfsSection(),
        "catalog": CatalogSection(),
        "spark": Spark(master="local[2]", conf=conf),
    }
    if job.sql is not None:
        once = {"checkpoints": None, "state_partitions": 1}
        here["sql"] = job.sql.model_copy(update=once)
    return job.model_copy(update=here)


def main(arguments: list[str] | None = None) -> int:
    """Run the job process and return its exit code."""
    return run_process(
        "ashore.queries.spark.main",
        arguments,
        lambda options: SparkEngine(options.jar, options.java_options),
        {"validate": validate, "sql": sql, "test": test},
        verbs_of,
    )


def verbs_of(_job: SparkJob, loop: JobLoop) -> Mapping[str, Verb]:
    """Return what a job can be asked; see `run_process`.

    A savepoint is that of the batch under way, once it is over, or of a later one. The next batch
    waits for that batch to be committed, and for no file: files of a batch that is done do not
    change while they are copied.
    """
    queries = {each.name.slice: each for each in loop.queries if isinstance(each, SqlQuery)}

    def take_savepoint(text: str) -> str:
        request = read_asked(SavepointRequest, text)
        if request.slice not in queries:
            raise NotDone(
                f"the job process runs no query {request.slice}",
                hint="the job file was changed since it was started: start it again",
            )
        return write_request(_save(queries[request.slice], request))

    return {TAKE_SAVEPOINT: Verb(take_savepoint)}


def _save(query: SqlQuery, request: SavepointRequest) -> SavepointDone:
    """Take a savepoint. Raises JobFileInvalid, NotInstalled, CheckpointUnfit, StorageError."""
    clock = SystemClock()
    shelf = open_shelf(request.to, clock, links=request.links, is_shared=request.is_shared)
    checkpoint = query.between_batches(lambda _checkpoint: query.plan.attempts.newest())
    if checkpoint is None:
        raise CheckpointUnfit(
            f"{query.name}: there is no checkpoint yet",
            hint="ask again once it has run a batch",
            why="empty_checkpoint",
        )
    saved = save(checkpoint, None, shelf, clock, lambda _done, _total: None)
    return SavepointDone(saved.savepoint.place, saved.linked, round(1000 * saved.seconds))


if __name__ == "__main__":
    sys.exit(main())
