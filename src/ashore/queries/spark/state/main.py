"""The state process: `python -m ashore.queries.spark.state.main rescale WHERE --request JSON`.

What it is: Spark for one verb of `ashore checkpoint`, without a job file, or of `ashore migrate`,
with the new job file: that plans the queries first, so that what is planned and what is rewritten
come from one reading of the file.
What it promises: events on stdout, talk on stderr, the exit codes of `ashore.errors`. It ends with
its parent, at once: what it writes counts only once the parent has said so.
"""

import argparse
import logging
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from itertools import takewhile
from pathlib import Path
from queue import SimpleQueue

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from ashore.base.clock import SystemClock
from ashore.errors import CheckpointUnfit
from ashore.jobs.events import (
    Event,
    QueriesPlanned,
    StateLoaded,
    StateMigrated,
    StateStep,
    StoreRows,
)
from ashore.jobs.requests import (
    CheckpointAddress,
    LoadRequest,
    MigrateRequest,
    PlanRequest,
    RescaleRequest,
    RowsRequest,
    read_request,
)
from ashore.jobs.writer import EventWriter, watch_parent
from ashore.log.names import SliceName
from ashore.log.progress import StateWork
from ashore.queries.spark.internals.state import FAMILY, list_state, read_state
from ashore.queries.spark.sql.assembly import SparkJob, assembled
from ashore.queries.spark.sql.settings import FORMAT
from ashore.queries.spark.sql.validate import open_query, plan_stored
from ashore.queries.spark.state.rewrite import Cut, Migration, NewQuery, migrate, rescale
from ashore.queries.spark.state.rows import READING, read_rows
from ashore.queries.state.checkpoint import Checkpoint, open_directory
from ashore.storage import count_hanging_calls
from ashore.storage.open import LakeAddress
from ashore.topics.loop.job import load_job_file
from ashore.topics.loop.process import end_at_once, ended_in_words
from ashore.topics.run.spark.causes import (
    DETAIL_LENGTH_MAX,
    JVM_ENDED,
    JVM_GONE,
    innermost_cause,
    text_of,
)
from ashore.topics.run.spark.session import (
    LIGHT_JVM,
    application_of,
    conf_of,
    hadoop_settings,
    start_session,
    with_java_options,
)

Start = Callable[[str, str, Mapping[str, str]], SparkSession]  # by name, master and settings


class _ParentLines:
    """The lines that the parent writes to stdin of a process, beside its `where`."""

    def __init__(self, where: str) -> None:
        self.where = where
        self._lines: SimpleQueue[str] = SimpleQueue()

    def add(self, line: str) -> None:
        """Take a line of the parent."""
        self._lines.put(line)

    def all(self) -> Iterator[str]:
        """Yield the lines, until the empty one that ends them."""
        return iter(self._lines.get, "")


def _rescale(text: str, events: EventWriter, start: Start, _lines: _ParentLines) -> None:
    request = read_request(RescaleRequest, text)
    conf = {**_reach(request.source), **dict(request.spark.conf), FORMAT: str(request.state_format)}
    with _started(start("checkpoint rescale", request.spark.master, conf)) as spark:
        cut = Cut(request.batch, request.partitions)
        source, target = _open(request.source), _open(request.target)
        events.send(rescale(spark, source, target, cut, events.send))


def _load(text: str, events: EventWriter, start: Start, _lines: _ParentLines) -> None:
    request = read_request(LoadRequest, text)
    conf = {**LIGHT_JVM, **_reach(request.checkpoint), **dict(request.spark.conf), **READING}
    conf[FORMAT] = str(request.state_format)
    with _started(start("checkpoint doctor", request.spark.master, conf)) as spark:
        events.send(load_stores(spark, request, events.send))


def _migrate(request: str, events: EventWriter, start: Start, lines: _ParentLines) -> None:
    """Plan the queries of a job file, then rewrite a state for each line of the parent."""
    planning = read_request(PlanRequest, request)
    job, clock = load_job_file(lines.where), SystemClock()
    outlines = {each.slice: open_directory(each.path, clock) for each in planning.outlines}
    with (
        _started(start(f"migrate {job.job}", application_of(job).master, conf_of(job))) as spark,
        assembled(job, spark, events) as parts,
    ):
        events.send(QueriesPlanned(plan_stored(parts, outlines)))
        for line in lines.all():
            events.send(_rewrite(parts, read_request(MigrateRequest, line), events))


def _rewrite(parts: SparkJob, request: MigrateRequest, events: EventWriter) -> StateMigrated:
    parts.spark.conf.set(FORMAT, str(request.state_format))
    log = SliceName(parts.job.job, request.log) if request.log else None
    plan, planned = open_query(parts, request.query, log)
    source, target = _open_both(request.source, request.target)
    migration = Migration(source, target, request.batch, request.rewrite)
    return migrate(parts.spark, migration, NewQuery(planned.frame, plan.mode), events.send)


def _rows(text: str, events: EventWriter, start: Start, _lines: _ParentLines) -> None:
    request = read_request(RowsRequest, text)
    conf = {**dict(request.spark.conf), **READING, FORMAT: str(request.state_format)}
    with _started(start("checkpoint rows", request.spark.master, conf)) as spark:
        read_rows(spark, request, events.send)


@contextmanager
def _started(spark: SparkSession) -> Iterator[SparkSession]:
    """Stop Spark at the end. A JVM that has ended meanwhile is not the error that is reported."""
    try:
        yield spark
    finally:
        with suppress(Py4JError, ConnectionError):
            spark.stop()


def _reach(address: CheckpointAddress) -> dict[str, str]:
    return hadoop_settings(LakeAddress(address.uri, options=address.options))


def _open(address: CheckpointAddress) -> Checkpoint:
    root, _, path = address.uri.rpartition("/")
    return Checkpoint(LakeAddress(root, options=address.options).open(), path, address.uri)


def _open_both(*addresses: CheckpointAddress) -> tuple[Checkpoint, ...]:
    """Open checkpoints on one storage, so that files of one can get a second name in another."""
    paths = [each.uri.split("/") for each in addresses]
    together = takewhile(lambda some: len(set(some)) == 1, zip(*paths, strict=False))
    shared = [some[0] for some in together]
    storage = LakeAddress("/".join(shared), options=addresses[0].options).open()
    return tuple(
        Checkpoint(storage, "/".join(path[len(shared) :]), each.uri)
        for path, each in zip(paths, addresses, strict=True)
    )


_COMMANDS = {"rescale": _rescale, "load": _load, "migrate": _migrate, "rows": _rows}


def main(arguments: list[str] | None = None) -> int:
    """Run the process and return its exit code."""
    options = parse_arguments(arguments)
    logging.basicConfig(level=logging.WARNING, stream=sys.stderr)
    writer = EventWriter(count_hanging_calls)
    lines = _ParentLines(options.where)
    watch_parent(end_at_once, lines.add)
    command = _COMMANDS[options.command]

    def start(name: str, master: str, conf: Mapping[str, str]) -> SparkSession:
        settings = with_java_options(conf, options.java_options)
        return start_session(name, master, settings, options.jar)

    return ended_in_words(
        writer, lambda: command(options.request, writer, start, lines), debug=options.debug
    )


def parse_arguments(arguments: list[str] | None) -> argparse.Namespace:
    """Return what the process is started with: see `JobLaunch`."""
    parser = argparse.ArgumentParser(prog="python -m ashore.queries.spark.state.main")
    parser.add_argument("command", choices=[*_COMMANDS])
    parser.add_argument("where", help="the job file of `migrate`, else the checkpoint")
    parser.add_argument("--jar", action="append", default=[], type=Path)
    parser.add_argument("--java-options", default="", help="of Spark's driver, beside the job's")
    parser.add_argument("--debug", action="store_true")
    parser.add_argument("--request", required=True, help="of the command, as JSON")
    return parser.parse_args(arguments)


Send = Callable[[Event], None]


def load_stores(spark: SparkSession, request: LoadRequest, send: Send) -> StateLoaded:
    """Load each store, and return how many rows it has. Raises CheckpointUnfit where Spark cannot.

    Nothing is written to the checkpoint. Each row of each store is read; no older snapshot is used
    instead of one that cannot be read.

    `send`: is sent each step.
    """
    uri, found, what = request.checkpoint.uri, [], "its operators"
    try:
        for each in list_state(spark, uri):
            what = f"operator {each.operator}, {each.name}"
            send(StateStep(StateWork.LOAD, each.operator, each.name))
            rows = read_state(spark, uri, request.batch, each).groupBy(FAMILY).count().collect()
            counted = sorted((row[0], int(row[1])) for row in rows)
            found += [StoreRows(each.operator, each.name, *row) for row in counted]
    except (PySparkException, Py4JError, ConnectionError) as error:
        text = JVM_ENDED if isinstance(error, JVM_GONE) else text_of(error)
        raise CheckpointUnfit(
            f"Spark cannot load {what}: {innermost_cause(text)}",
            hint="restore a savepoint, or an earlier batch",
            why="not_loaded",
            detail=text[:DETAIL_LENGTH_MAX],
        ) from error
    return StateLoaded(tuple(found))


if __name__ == "__main__":
    sys.exit(main())
