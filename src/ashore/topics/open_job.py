"""A job file with the lake and the source that it names, opened for commands. No Spark.

What it promises: a caller that only looks loads nothing that writes, and connects to Kafka when it
asks.
"""

import contextlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ashore.base.clock import Clock, SystemClock
from ashore.base.unique import unique
from ashore.errors import JobFileInvalid, SourceError
from ashore.jobs.file import Job, ResolvedTable, match_topics, select_topics
from ashore.log.fold import Fold
from ashore.log.lost_end import Trace
from ashore.log.names import SliceName
from ashore.log.store.fold_cache import EntryNote, KnownFolds, read_note
from ashore.log.store.reader import read_log
from ashore.log.store.traces import find_traces
from ashore.log.tables import SNAPSHOTS
from ashore.storage.base import Storage
from ashore.tables.catalog import Catalog, open_catalog
from ashore.topics.loop.job import (
    MAIN,
    iceberg_catalog,
    lake_of,
    load_job_file,
    seal_rules,
    tables_of,
    uses_delta,
    waiting_tables,
)
from ashore.topics.loop.sinks import find_slices, sink_slice
from ashore.topics.read.lazy import open_later
from ashore.topics.read.source import Source

if TYPE_CHECKING:  # see `OpenJob.log`
    from ashore.log.store.committer import Committer
    from ashore.log.store.log import LandingLog
    from ashore.tables.table_format import TableFormat

SOURCE_TIMEOUT_S = 5.0  # a person waits
CATALOG_TIMEOUT_S = 30.0
DEADLINE_S_MAX = 30.0


@dataclass(frozen=True, slots=True)
class OpenJob:
    """A job with its lake and its source."""

    job: Job
    storage: Storage
    source: Source
    clock: Clock
    folds: KnownFolds | None = None  # of who looks again and again

    @property
    def name(self) -> SliceName:
        """The job's slice."""
        return SliceName(self.job.job, MAIN)

    @property
    def slices(self) -> list[SliceName]:
        """The slices of the job that have ever been opened: of its topics, and of its queries."""
        return find_slices(self.storage, self.job.job)

    def fold(self, name: SliceName) -> Fold:
        """Return the fold of a slice's log as it is now. Raises as `read_log`."""
        if self.folds is not None:
            return self.folds.read(self.storage, name)
        return read_log(self.storage, name)

    def entry_note(self, name: SliceName, number: int) -> EntryNote | None:
        """Return an entry of a log that was read, in short; None: it is not there, or archived."""
        if self.folds is not None:
            return self.folds.note(self.storage, name, number)
        return read_note(self.storage, name, number)

    def log(self, name: SliceName, *, is_rebuilt: bool = False) -> "LandingLog":
        """Return a writer of a slice's log, not opened yet. `is_rebuilt`: its end is lost."""
        # Most commands only look, and each of them waits for what is loaded.
        from ashore.log.store.log import LandingLog, LogContext  # noqa: PLC0415

        context = LogContext(
            self.storage,
            self.clock,
            unique,
            look_around=lambda: [] if is_rebuilt else self.find_traces(name),
        )
        return LandingLog(context, name)

    def tables(self, name: SliceName) -> list[str]:
        """Return the tables that a slice fills, as far as the job file says."""
        if name == self.name:
            return tables_of(self.known_topics().values())
        sinks = [item for item in self.job.tables if item.topic is None]
        return [
            table
            for item in sinks
            if sink_slice(self.job.job, item) == name
            for table in item.sink_tables
        ]

    def find_traces(self, name: SliceName) -> list[Trace]:
        """Return what a slice has left in its tables; see `log.store.traces` for how much it is."""
        return find_traces(self.storage, name, self.tables(name))

    def refuse_snapshots(self, command: str) -> None:
        """Raise JobFileInvalid where tables have a table format: a command knows directories only.

        `command`: as a person writes it.
        """
        tables = sorted(
            f"{item.table} ({item.format})" for item in self.job.tables if item.format in SNAPSHOTS
        )
        if tables:
            raise JobFileInvalid(
                f"{command} does not apply to tables in a table format in this release: "
                f"{', '.join(tables)}",
                hint="nothing was changed; ashore verify compares them with the log and with Kafka",
            )

    def known_topics(self, existing: Iterable[str] | None = None) -> dict[str, ResolvedTable]:
        """Return the topics of the job with their tables: those that exist or that its log has.

        `existing`: the topics of the source; None: it is asked.
        """
        streams = {key.stream for key in self.fold(self.name).shards} | {*(existing or ())}
        if existing is None:
            with contextlib.suppress(SourceError):  # the topics that the log knows have to do then
                streams |= set(self.source.list_streams())
        return match_topics(self.job, select_topics(self.job, streams))

    @contextmanager
    def catalog(self) -> Iterator[Catalog]:
        """Open the catalog that the job file names, if any, and close it. Raises NotInstalled."""
        hive = self.job.catalog.hive
        uri = hive.uri.reveal() if hive else None
        catalog = open_catalog(uri, timeout_s=CATALOG_TIMEOUT_S)
        try:
            yield catalog
        finally:
            catalog.close()

    @contextmanager
    def formats(self) -> Iterator["TableFormat"]:
        """Open the table formats of the job's tables, if they have any, and close them.

        Raises NotInstalled.
        """
        with contextlib.closing(self._open_formats()) as formats:
            yield formats

    def _open_formats(self) -> "TableFormat":
        from ashore.tables.open_format import open_formats  # noqa: PLC0415 - as in `log`

        catalog, delta = iceberg_catalog(self.job), uses_delta(self.job)
        return open_formats(self.storage, self.clock, catalog, delta=delta)

    def committer(self, name: SliceName, *, is_rebuilt: bool = False) -> "Committer":
        """Return what finishes the unclosed entry of a slice's log, as the job itself would.

        `is_rebuilt`: the log has lost its end, and gets it back.
        """
        from ashore.log.plan_commit import Publishing  # noqa: PLC0415
        from ashore.log.store.committer import Committer  # noqa: PLC0415 - as in `log`

        hive = self.job.catalog.hive
        # Only then is there a reason to ask Kafka, which may be away. A query's table has no seals.
        has_seals = hive is not None and hive.strategy == "seal" and name == self.name
        topics = self.known_topics() if has_seals else {}
        waiting = waiting_tables(self.job, seal_rules(self.job, topics))
        return Committer(
            self.log(name, is_rebuilt=is_rebuilt),
            self.storage,
            self.clock,
            publishing=Publishing(hive is not None, waiting.__contains__),
            commit_table=self._open_formats().commit,
        )


@contextmanager
def open_job(path: str | Path, load: Callable[[Path], Job] = load_job_file) -> Iterator[OpenJob]:
    """Read a job file and open what it names; nothing is connected yet. Raises JobFileInvalid.

    `load`: reads the file.
    """
    job = load(Path(path))
    clock = SystemClock()
    kafka = job.source.kafka
    source = open_later(kafka.bootstrap_servers, dict(kafka.options), SOURCE_TIMEOUT_S)
    try:
        yield OpenJob(job, lake_of(job, DEADLINE_S_MAX).open(clock), source, clock)
    finally:
        source.close()
