"""A job put together: its slice, the sinks of its queries, and the loop that runs them.

What it is: `JobAssembly`, the one place where the parts of a job meet: lake, source, catalog, logs,
effects, rhythm. Job processes, drills and tests use it alike.
What it promises: nothing is read or written before a worker is opened.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace
from functools import partial

from ashore.base.clock import Clock
from ashore.base.http_post import post_json
from ashore.base.unique import Entropy, unique
from ashore.jobs.file import Job
from ashore.log.names import SliceName
from ashore.log.plan_commit import Publishing
from ashore.log.progress import Progress, Quiet
from ashore.log.store.effects import Effects, Post, Sealer
from ashore.log.store.log import LandingLog, LogContext
from ashore.log.store.owner import claim_tables
from ashore.log.store.reader import read_log
from ashore.log.store.traces import find_traces
from ashore.log.tables import LATE_SUFFIX, SNAPSHOTS
from ashore.storage.base import Storage
from ashore.storage.calls import Jitter, any_between
from ashore.storage.open import LakeAddress
from ashore.tables.catalog import Catalog, CatalogTable, open_catalog
from ashore.tables.open_format import open_formats
from ashore.tables.table_format import Directories, TableFormat
from ashore.topics.loop.compaction import ChunkWriter, Compactor, Rules
from ashore.topics.loop.housekeeping import CleanRule
from ashore.topics.loop.job import MAIN, compact_rules, iceberg_catalog, lake_of, uses_delta
from ashore.topics.loop.job_loop import JobLoop, Rhythm
from ashore.topics.loop.job_streams import JobStreams, slice_plan
from ashore.topics.loop.query_sink import QuerySink, QuerySlice
from ashore.topics.loop.registrar import Registrar, Spec, catalog_tables, output_of
from ashore.topics.loop.retention import Retirer, forget_partitions
from ashore.topics.loop.sinks import read_others
from ashore.topics.loop.slice_loop import SliceLoop, SliceParts
from ashore.topics.loop.worker import Worker
from ashore.topics.read.kafka import KafkaSource
from ashore.topics.read.limits import ReadLimits
from ashore.topics.read.reading import KafkaAddress
from ashore.topics.read.source import Source
from ashore.topics.write.batch import BatchRunner, LandingSpec, OutputSpec

SOURCE_TIMEOUT_S = 20.0
CATALOG_TIMEOUT_S = 10.0

Refine = Callable[[LandingSpec], LandingSpec]


def unchanged(spec: LandingSpec) -> LandingSpec:
    """Return `spec`: nothing is left to be found out about a table."""
    return spec


@dataclass(frozen=True, slots=True)
class Environment:
    """The services of a job. None is owned by the job: its caller opens and closes them."""

    lake: LakeAddress  # as its tasks reach it
    storage: Storage  # the lake, as the driver sees it
    source: Source
    catalog: Catalog
    clock: Clock
    progress: Progress = field(default_factory=Quiet)
    entropy: Entropy = unique
    post: Post = post_json
    jitter: Jitter = any_between
    accepted_by: str = ""  # who accepts risky changes of tables
    formats: TableFormat = field(default_factory=Directories)


@contextmanager
def opened_environment(
    job: Job, progress: Progress, clock: Clock, accepted_by: str = ""
) -> Iterator[Environment]:
    """Open what a job file names: its lake, its brokers, its catalog. No server is called yet.

    `accepted_by`: see Environment.

    Raises JobFileInvalid, NotInstalled, CatalogError.
    """
    lake, kafka, hive = lake_of(job), job.source.kafka, job.catalog.hive
    source = KafkaSource(kafka.bootstrap_servers, dict(kafka.options), timeout_s=SOURCE_TIMEOUT_S)
    catalog = open_catalog(hive.uri.reveal() if hive else None, timeout_s=CATALOG_TIMEOUT_S)
    try:
        storage = lake.open(clock)
        with closing(
            open_formats(storage, clock, iceberg_catalog(job), delta=uses_delta(job))
        ) as formats:
            yield Environment(
                *(lake, storage, source, catalog, clock, progress),
                accepted_by=accepted_by,
                formats=formats,
            )
    finally:
        source.close()
        catalog.close()


def kafka_address(job: Job) -> KafkaAddress:
    """Return how the tasks of a job reach its brokers, and by which reader."""
    kafka = job.source.kafka
    return KafkaAddress(
        kafka.bootstrap_servers,
        dict(kafka.options),
        reader=job.reader,
        limits=ReadLimits(job.limits.record_bytes, job.limits.batch_bytes),
    )


class JobAssembly:
    """The parts of one job in one process.

    Arguments:
        job: the job file.
        environment: of this process.
        refine: completes what the job file does not say of a table, or refuses it.

    """

    def __init__(self, job: Job, environment: Environment, refine: Refine = unchanged) -> None:
        self.job = job
        self.environment = environment
        self.refine = refine
        self.registrar = Registrar(
            environment.catalog,
            environment.lake.uri,
            job.job,
            lambda message: environment.progress.warn(MAIN, message),
        )
        self.streams = JobStreams(
            job,
            environment.source,
            self.claim,
            refine=lambda spec: self._checked(refine(spec)),
            ensure=self.ensure,
            read_log=partial(read_log, environment.storage, SliceName(job.job, MAIN)),
        )

    @property
    def has_topics(self) -> bool:
        """Whether the job lands topics, or has landed some that it no longer does.

        It may have queries only.
        """
        if any(item.is_landed for item in self.job.tables):
            return True
        known = read_log(self.environment.storage, SliceName(self.job.job, MAIN)).tables
        return any(each.topics for each in known.values())

    def claim(self, tables: Iterable[str]) -> None:
        """Make the job the owner of tables that have none. Raises TableOwned, StorageError."""
        around = self.environment
        claim_tables(around.storage, tables, self.job.job, around.clock.now_ms())

    def slice(self, runner: BatchRunner, parallelism: int, name: str = MAIN) -> SliceLoop:
        """Return the worker that lands the job's topics.

        `parallelism`: how many tasks can run side by side.
        """
        around = self.environment
        slice_name = SliceName(self.job.job, name)
        plan = replace(
            slice_plan(self.job, around.lake, slice_name, self.streams, parallelism),
            accepted_by=around.accepted_by,
            others=partial(read_others, around.storage, slice_name),
        )
        parts = SliceParts(
            around.storage,
            around.source,
            runner,
            self._log(plan.name, self.streams.tables),
            around.clock,
            around.progress,
            publishing=Publishing(self._registers, self.streams.waits_for_seal),
            effects=self._effects(plan.name, self.streams.seal_address),
            sealer=Sealer(around.storage, self.streams.seal_rules),
            retirer=self._retirer(plan.name),
            compactor=self._compactor(plan.name, self.streams.compact_rules),
            formats=around.formats,
        )
        return SliceLoop(plan, parts)

    def sink(
        self, name: SliceName, output: OutputSpec | None, remember_ms: int, topic: str = ""
    ) -> QuerySink:
        """Return the sink of a query.

        `output`: None where it fills `topic`. `remember_ms`: how long the log's snapshots keep
        partitions that were sealed.
        """
        around, health = self.environment, self.job.health
        rules = compact_rules(
            (table, item)
            for item in self.job.tables
            if output and item.topic is None and item.table == output.table
            for table in item.sink_tables
        )
        return QuerySink(
            QuerySlice(
                *(around.lake, name, output, remember_ms, around.accepted_by, topic),
                bad_of=health.records,
                bad_share=health.max_share,
                others=partial(read_others, around.storage, name),
                formats=around.formats,
                compactor=self._compactor(name, lambda: rules),
            ),
            storage=around.storage,
            log=self._log(name, lambda: output.tables if output else ()),
            clock=around.clock,
            progress=around.progress,
            publishing=Publishing(self._registers),
            effects=self._effects(name),
            source=around.source,
        )

    def loop(
        self, slices: Sequence[Worker], queries: Sequence[Worker] = (), *, until_drained: bool
    ) -> JobLoop:
        """Return what runs workers in the job file's rhythm."""
        around = self.environment
        return JobLoop(
            slices,
            queries,
            self.rhythm(until_drained=until_drained),
            storage=around.storage,
            clock=around.clock,
            progress=around.progress,
            tables=self.streams.tables,
            jitter=around.jitter,
        )

    def rhythm(self, *, until_drained: bool) -> Rhythm:
        """Return when the job does what."""
        job = self.job
        return Rhythm(
            interval_s=job.batch.interval_ms / 1000,
            clean=CleanRule(job.clean.every_ms / 1000, job.clean.ttl_ms),
            grace_s=job.grace_ms / 1000,
            until_drained=until_drained,
        )

    @property
    def _registers(self) -> bool:
        return self.job.catalog.hive is not None

    def _log(self, name: SliceName, tables: Callable[[], Sequence[str]]) -> LandingLog:
        around = self.environment

        def on_wait(why: str) -> None:
            around.progress.warn(name.slice, why)

        context = LogContext(
            around.storage,
            around.clock,
            around.entropy,
            on_wait=on_wait,
            look_around=lambda: find_traces(around.storage, name, tables()),
        )
        return LandingLog(context, name)

    def _effects(
        self, name: SliceName, address_of: Callable[[str], str | None] = lambda _table: None
    ) -> Effects:
        around = self.environment
        return Effects(
            name,
            storage=around.storage,
            clock=around.clock,
            progress=around.progress,
            register=self.registrar.register,
            mark_sealed=self.registrar.mark_sealed,
            address_of=address_of,
            post=around.post,
        )

    def _retirer(self, name: SliceName) -> Retirer | None:
        """Return what drops old partitions; None: no table has a retention."""
        around = self.environment
        if all(item.retention_ms is None for item in self.job.tables):
            return None
        return Retirer(
            name,
            storage=around.storage,
            clock=around.clock,
            progress=around.progress,
            rules=self.streams.retire_rules,
            forget=partial(forget_partitions, around.catalog, self.job.job, around.lake.uri),
        )

    def _compactor(self, name: SliceName, rules: Rules) -> Compactor | None:
        """Return what puts small files together; None: no table is compacted by the job."""
        around = self.environment
        if all(item.compact is None for item in self.job.tables):
            return None
        writer = ChunkWriter(around.lake, name, around.storage)
        return Compactor(
            writer, around.formats, rules, clock=around.clock, progress=around.progress
        )

    def _checked(self, spec: LandingSpec) -> LandingSpec:
        self.check(spec)
        return spec

    def check(self, spec: Spec) -> None:
        """Raise SchemaConflict where the catalog contradicts a table of directories.

        One in a table format is compared by `ensure`: nothing is written before.
        """
        if output_of(spec).format not in SNAPSHOTS:
            self.registrar.check(spec)

    def ensure(self, specs: Iterable[Spec]) -> None:
        """Make tables known where their readers look for them. Raises SchemaConflict.

        Raises CatalogError, StorageError for one in a table format only, which its metadata makes.
        """
        around, directories = self.environment, list[Spec]()
        for spec in specs:
            if output_of(spec).format in SNAPSHOTS:
                tables = catalog_tables(spec, around.lake.uri, self.job.job)
                around.formats.ensure(map(self._drop_columns, tables))
            else:
                directories.append(spec)
        self.registrar.ensure(directories)

    def _drop_columns(self, table: CatalogTable) -> CatalogTable:
        """Return a table with the columns that it loses, if an operator accepts that.

        Those that the log of topics has of it: one that another writer has added stays.
        """
        around = self.environment
        if not around.accepted_by:
            return table
        name = table.full_name.removesuffix(LATE_SUFFIX)
        known = read_log(around.storage, SliceName(self.job.job, MAIN)).tables.get(name)
        before = {each.name for each in known.columns} if known else set()
        now = {*table.columns.names, *table.partition_columns.names}
        return replace(table, dropped=frozenset(before - now))
