"""What commands do with a job file and no Spark: open its lake and its source, recover, clean.

What it is: the use cases behind `recover`, `rejoin` and `clean`; `verify` and `status` have
modules of their own.
What it promises: plans are values: what `--explain` shows is what is applied.
What it must not know: terminals.
"""

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from ashore.base.clock import Clock, SystemClock
from ashore.base.operator import operator
from ashore.base.unique import unique
from ashore.catalogs import Catalog, open_catalog
from ashore.config import Job, ResolvedTable, match_topics, select_topics
from ashore.control.slices import find_slices
from ashore.errors import JobFileInvalid, QueryRefused, SourceError
from ashore.landing.committer import Committer
from ashore.landing.janitor import apply_cleaning, plan_cleaning
from ashore.landing.job import MAIN, lake_of, load_job_file, seal_rules, tables_of, waiting_tables
from ashore.landing.log import LandingLog, LogContext
from ashore.landing.log_reader import read_log
from ashore.landing.mover import Moved
from ashore.landing.recovery import (
    accept_loss,
    find_gone,
    find_rejoin,
    help_dead,
    look_at_moves,
    open_and_find_lost,
    plan_help,
    rejoin,
    require_quiet,
)
from ashore.landing.sinks import sink_slice
from ashore.landing.traces import find_traces, require_whole
from ashore.protocol.files import FilePlace
from ashore.protocol.names import SliceName
from ashore.protocol.plan_clean import DeleteFile
from ashore.protocol.plan_commit import MoveOutcome, MoveStep, SyncDirectories, explain
from ashore.protocol.plan_publish import Publishing
from ashore.protocol.tables import TableDefinition
from ashore.protocol.traces import LogEnd, Trace
from ashore.sources.base import Source
from ashore.sources.later import open_later
from ashore.storage.base import Storage

SOURCE_TIMEOUT_S = 5.0  # a person waits
CATALOG_TIMEOUT_S = 30.0
DEADLINE_S_MAX = 30.0
WATCH_S_MAX = 15.0


@dataclass(frozen=True, slots=True)
class OpenJob:
    """A job with its lake and its source."""

    job: Job
    storage: Storage
    source: Source
    clock: Clock

    @property
    def name(self) -> SliceName:
        """The job's slice."""
        return SliceName(self.job.job, MAIN)

    @property
    def slices(self) -> list[SliceName]:
        """The slices of the job that have ever been opened: of its topics, and of its queries."""
        return find_slices(self.storage, self.job.job)

    def log(self, name: SliceName, *, is_rebuilt: bool = False) -> LandingLog:
        """Return a writer of a slice's log, not opened yet. `is_rebuilt`: its end is lost."""
        context = LogContext(
            self.storage,
            self.clock,
            unique,
            look_around=lambda: [] if is_rebuilt else self.find_traces(name),
        )
        return LandingLog(context, name)

    def tables(self, name: SliceName) -> list[str]:
        """Return the tables that a slice fills, as far as the job file tells."""
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
        """Return what a slice has left in its tables; see `landing.traces` for how much it is."""
        return find_traces(self.storage, name, self.tables(name))

    def known_topics(self) -> dict[str, ResolvedTable]:
        """Return the topics of the job with their tables: those that exist or that its log has."""
        streams = {key.stream for key in read_log(self.storage, self.name).shards}
        with contextlib.suppress(SourceError):  # the topics that the log knows have to do then
            streams |= set(self.source.list_streams())
        return match_topics(self.job, select_topics(self.job, streams))

    def known_tables(self) -> Mapping[str, TableDefinition]:
        """Return the tables that the log of its topics knows, by name. Raises LogDamaged."""
        return read_log(self.storage, self.name).tables

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

    def committer(self, name: SliceName, *, is_rebuilt: bool = False) -> Committer:
        """Return what finishes the unclosed entry of a slice's log, as the job itself would.

        `is_rebuilt`: the log has lost its end, and gets it back.
        """
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
        )


@contextmanager
def open_job(path: str | Path) -> Iterator[OpenJob]:
    """Read a job file and open what it names; nothing is connected yet. Raises JobFileInvalid."""
    job = load_job_file(path)
    clock = SystemClock()
    kafka = job.source.kafka
    source = open_later(kafka.bootstrap_servers, dict(kafka.options), SOURCE_TIMEOUT_S)
    try:
        yield OpenJob(job, lake_of(job, DEADLINE_S_MAX).open(clock), source, clock)
    finally:
        source.close()


def plan_recover(opened: OpenJob) -> tuple[MoveStep, ...]:
    """Return what `recover_dead` would do: for the slice of the topics, and for each query's."""
    return tuple(step for name in opened.slices for step in plan_help(opened.storage, name))


@dataclass(frozen=True, slots=True)
class Explained:
    """What `recover` would do, with what is there now: lines for people."""

    lines: tuple[str, ...]
    is_possible: bool  # every file is at one of its places, and no other in its way


def explain_recover(opened: OpenJob, steps: Sequence[MoveStep]) -> Explained:
    """Look at both places of each file that `plan_recover` would move. Moves nothing."""
    seen = look_at_moves(opened.storage, steps)
    reported = [_explain_move(place, outcome) for place, outcome in seen]
    is_left = any(outcome is MoveOutcome.AGAIN for _, outcome in seen)
    syncs = [step for step in steps if isinstance(step, SyncDirectories)]
    lines = [*reported, *(line for step in syncs for line in explain(step))] if seen else []
    if seen and not is_left:
        lines.append("nothing is left to move: the next start closes the entry")
    wrong = {MoveOutcome.LOST, MoveOutcome.CONFLICT}
    return Explained(tuple(lines), not any(outcome in wrong for _, outcome in seen))


def _explain_move(place: FilePlace, outcome: MoveOutcome) -> str:
    match outcome:
        case MoveOutcome.LOST:
            return f"lost: neither {place.pending} nor {place.final} exists and is complete"
        case MoveOutcome.CONFLICT:
            return f"conflict: {place.final} has another size than the log says"
        case MoveOutcome.AGAIN:
            return f"move {place.pending} to {place.final}"
        case _:
            return f"already moved to {place.final}"


def recover_dead(opened: OpenJob, steps: tuple[MoveStep, ...]) -> Moved:
    """Finish a dead job's moves. Appends nothing."""
    wanted, moved = set(steps), Moved(0, 0)
    for name in opened.slices:
        own = [step for step in plan_help(opened.storage, name) if step in wanted]
        done = help_dead(opened.storage, name, opened.clock, own)
        moved = Moved(moved.moved + done.moved, moved.already_moved + done.already_moved)
    return moved


def require_stopped(opened: OpenJob, *, takes_over: bool) -> None:
    """Raise LogGrows where a log of the job grows within two intervals, at most 15 s.

    Every use case that takes slices over checks first, unless `takes_over`.
    """
    if takes_over:
        return
    watch_s = min(2 * opened.job.batch.interval_ms / 1000, WATCH_S_MAX)
    require_quiet(opened.storage, opened.slices, opened.clock, watch_s)


def find_losses(opened: OpenJob) -> dict[SliceName, int]:
    """Return how many files of which slices are lost. Looks only, beside whatever runs."""
    gone = {
        name: find_gone(opened.storage, plan_help(opened.storage, name)) for name in opened.slices
    }
    return {name: count for name, count in gone.items() if count}


def is_relandable(opened: OpenJob, *, takes_over: bool) -> bool:
    """Tell whether a job process is to take the job over and read lost files again.

    False where no file is lost: nothing is to be done, and a job that runs is left alone. Raises
    LogGrows; QueryRefused where files of a query are lost: their rows were read from no topic.
    """
    losses = find_losses(opened)
    if not losses:
        return False
    require_stopped(opened, takes_over=takes_over)
    for name, gone in losses.items():
        if name != opened.name:
            raise QueryRefused(
                f"{gone} files of {name} are lost, and rows of a query cannot be read again: they "
                "come from its state",
                hint="restore them, give them up with --accept-loss, or write to another table",
            )
    if not any(item.is_landed for item in opened.job.tables):
        raise QueryRefused(
            f"{opened.job.path} lands no topic, so there is nothing to read again",
            hint="ashore recover without --reland finishes the moves of its queries",
        )
    return True


@dataclass(frozen=True, slots=True)
class GivenUp:
    """What `accept_losses` gave up for ever."""

    files: int
    rows: int


def accept_losses(opened: OpenJob, why: str, *, takes_over: bool) -> GivenUp:
    """Take slices over that have lost files and give these up: a `skip` says who and why.

    A slice that has lost none is left alone. Raises LogGrows where the job runs, unless it
    `takes_over`.
    """
    losses = find_losses(opened)
    if losses:
        require_stopped(opened, takes_over=takes_over)
    files = rows = 0
    for name in losses:
        committer = opened.committer(name)
        lost = open_and_find_lost(committer)
        if lost is not None:
            files += len(lost.files)
            rows += accept_loss(committer.log, lost, operator(), why)
    return GivenUp(files, rows)


def rejoin_topic(opened: OpenJob, topic: str, *, takes_over: bool) -> int:
    """Go on with a topic that was created again; return the number of partitions that joined.

    None where the log knows the topic as it is: a job that runs is left alone then. Raises
    LogLost, StreamMissing; LogGrows where the job runs, unless it `takes_over`.
    """
    require_landed_topic(
        opened.job,
        topic,
        "the state of the query belongs to the deleted topic",
        hint="write to another table from the new topic: a new table starts with new state",
    )
    require_whole_log(opened)
    if find_rejoin(opened.storage, opened.name, opened.source, topic) is None:
        return 0
    require_stopped(opened, takes_over=takes_over)
    return rejoin(opened.committer(opened.name), opened.source, topic)


def require_landed_topic(job: Job, topic: str, why_not_sql: str, *, hint: str) -> None:
    """Raise where no table lands a topic: JobFileInvalid, or QueryRefused where SQL reads it.

    Arguments:
        job: that has the tables.
        topic: its name.
        why_not_sql: why a topic that only SQL reads is no subject of the command.
        hint: what would do for such a topic.

    """
    found = [item for item in job.tables if item.matches(topic)]
    if not found:
        raise JobFileInvalid(
            f"no table of {job.path} reads topic {topic}", hint="name a topic of the job file"
        )
    if not any(item.is_landed for item in found):
        raise QueryRefused(f"topic {topic} is read by SQL only, and {why_not_sql}", hint=hint)


def require_whole_log(opened: OpenJob) -> None:
    """Raise LogLost where the tables tell of entries that the job's log does not have."""
    traces = opened.find_traces(opened.name)
    require_whole(opened.name, LogEnd.of(read_log(opened.storage, opened.name)), traces)


def plan_clean_job(opened: OpenJob) -> tuple[DeleteFile, ...]:
    """Return the files that may be deleted now, of topics' tables and of those that SQL writes."""
    job, storage = opened.job, opened.storage
    sinks = [item for item in job.tables if item.topic is None]
    slices = {opened.name: tables_of(opened.known_topics().values())}
    slices |= {sink_slice(job.job, item): list(item.sink_tables) for item in sinks}
    now_and_ttl = (opened.clock.now_ms(), job.clean.ttl_ms)
    return tuple(
        step
        for name, tables in slices.items()
        for step in plan_cleaning(storage, name, read_log(storage, name), tables, now_and_ttl)
    )


def clean_job(opened: OpenJob, steps: tuple[DeleteFile, ...]) -> int:
    """Delete planned files and return the bytes."""
    return apply_cleaning(opened.storage, steps)
