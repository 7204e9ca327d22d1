"""What can be found wrong with a job before Spark starts.

What it promises: an unreachable broker, a missing topic, a lake that cannot be written, a topic
that two items claim, a log that is damaged or ahead of the clock, a table of another job, a table
whose directory is gone, a gap, a topic that was created again: each is an error with a hint, in
seconds. Nothing is claimed and nothing appended.
"""

import contextlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from ashore.base.clock import is_ahead
from ashore.base.native import why_not_native
from ashore.base.operator import operator
from ashore.base.suggest import suggest
from ashore.base.unique import unique
from ashore.errors import AnswerUnknown, NotApplied, PathMissing, StorageError, StreamMissing
from ashore.jobs.file import Job, ResolvedTable, Table, match_topics, select_sources, select_topics
from ashore.jobs.file.section import Key, key_text
from ashore.log import names
from ashore.log.fold import EMPTY, Fold
from ashore.log.names import SliceName
from ashore.log.plan_batch import Gaps, WentBack, find_unreadable
from ashore.log.positions import StreamShard
from ashore.log.store.clock_guard import log_ahead
from ashore.log.store.owner import require_directories, require_free
from ashore.log.store.reader import read_log
from ashore.storage.base import Storage
from ashore.tables.catalog import open_catalog
from ashore.topics.loop.job import lake_of, landing_spec, slow_reasons, tables_of
from ashore.topics.loop.joins import (
    Histories,
    check_streams,
    look_again,
    refuse_gaps,
    shards_of,
    went_back,
)
from ashore.topics.loop.sinks import find_removed, sink_slice
from ashore.topics.loop.waiting_topics import naming_waiting
from ashore.topics.open_job import OpenJob
from ashore.topics.read.source import Source, not_authorized
from ashore.topics.use.table_changes import check_table_changes

REACH_S = 5.0  # what a NameNode that is being started may take, while a person waits


@dataclass(frozen=True, slots=True)
class Preflight:
    """What a job will do, as far as it is known before it starts."""

    tables: tuple[ResolvedTable, ...]
    slow: tuple[tuple[str, tuple[str, ...]], ...]  # table, why its topic decodes slowly
    unmatched: tuple[str, ...] = ()  # expressions that match no topic now
    removed: tuple[str, ...] = ()  # INSERTs that the job file no longer has, in words

    def to_dict(self) -> dict[str, object]:
        """Return what `--json` prints."""
        return {
            "tables": {each.topic: str(each.table) for each in self.tables},
            "decoded_slowly": {table: list(reasons) for table, reasons in self.slow},
            "unmatched": list(self.unmatched),
            "removed": list(self.removed),
        }


def check_job(opened: OpenJob, *, accepts_schema: bool = False) -> Preflight:
    """Try everything that a start needs.

    Raises JobFileInvalid, NotInstalled, SourceError, StorageError, LogDamaged, Stopped;
    SchemaConflict, see `check_tables`.
    """
    job, storage, source = opened.job, opened.storage, opened.source
    hive = job.catalog.hive
    open_catalog(hive.uri.reveal() if hive else None).close()  # no call is made: is it installed?
    made_ms = check_lake(job, storage)
    folds = {name: read_log(storage, name) for name in opened.slices}
    check_times(opened, folds.values(), made_ms)
    existing = source.list_streams()
    resolved = match_topics(job, select_topics(job, existing))
    tables = {topic: str(each.table) for topic, each in resolved.items()}
    sinks = [table for item in _sinks(job) for table in item.sink_tables]
    with naming_waiting(tables):
        require_topics(job, existing, source)
        require_free(storage, [*tables_of(resolved.values()), *sinks], job.job)
        _require_directories(opened, folds, tables.values())
        if opened.name in folds:
            check_positions(opened, folds[opened.name], sorted(resolved))
        known = folds.get(opened.name, EMPTY)
        check_table_changes(opened.job, resolved, known, operator() if accepts_schema else "")
    from ashore.topics.decode.json import require_native  # noqa: PLC0415 - loads Arrow
    from ashore.topics.loop.table_checks import check_table  # noqa: PLC0415 - loads Arrow

    if job.reader == "native":
        require_native()
    is_native = job.reader != "python" and not why_not_native()

    slow: dict[str, tuple[str, ...]] = {}
    for each in resolved.values():
        if not each.spec.select:  # only Spark knows what `select` makes
            check_table(job, each, landing_spec(each))
        if reasons := slow_reasons(each, is_native=is_native):
            slow[str(each.table)] = tuple(reasons)
    unmatched = find_unmatched(job, existing)
    removed = find_removed(storage, job)
    return Preflight(tuple(resolved.values()), tuple(sorted(slow.items())), unmatched, removed)


def _sinks(job: Job) -> list[Table]:
    return [item for item in job.tables if item.topic is None]


def _require_directories(
    opened: OpenJob, folds: Mapping[SliceName, Fold], landed: Iterable[str]
) -> None:
    """Raise Stopped where a table has rows by a log, and no directory: of queries, too."""
    filled = {sink_slice(opened.job.job, item): [item.table] for item in _sinks(opened.job)}
    for name, tables in {opened.name: landed, **filled}.items():
        if name in folds:
            require_directories(opened.storage, folds[name], tables)


def find_unmatched(job: Job, existing: Iterable[str]) -> tuple[str, ...]:
    """Return the expressions of `tables` that match no topic. Such a topic may come later."""
    topics = list(existing)
    patterns = [item for item in job.tables if item.is_pattern]
    found = [item for item in patterns if not any(item.matches(topic) for topic in topics)]
    return tuple(f"{job.path}:{_topic_line(job, item)}: {item.topic}" for item in found)


def _topic_line(job: Job, item: Table) -> int:
    return job.line_of("tables", job.tables.index(item), "topic")


def check_times(opened: OpenJob, folds: Iterable[Fold], made_ms: int | None) -> None:
    """Raise LogAhead where a log has times that have not come, as the first batch would.

    `made_ms`: when the storage has made a file just now.
    """
    clock_ms = opened.clock.now_ms()
    storage_ms = clock_ms if made_ms is None else made_ms
    for fold in folds:
        if is_ahead(fold.latest_ms, max(clock_ms, storage_ms)):
            raise log_ahead(fold.latest_ms, clock_ms, storage_ms)


def check_lake(job: Job, storage: Storage) -> int | None:
    """Write a file to the lake and remove it again. Raises StorageError with a hint.

    Returns when the storage has made it; None: it does not say.
    """
    refused = lake_of(job).find_unreachable(REACH_S)
    key = {"file": job.path, "line": job.line_of("lake"), "key": "lake"}
    place = f"{job.path}:{job.line_of('lake')}: lake"
    if refused:
        raise StorageError(
            f"{place}: no NameNode can be reached: {'; '.join(refused)}",
            hint="start the NameNode, or correct `lake` or `hdfs.conf_dir`",
            **key,
        )
    path = names.join(names.job_directory(job.job), names.probe_name(unique()))
    try:
        storage.create(path, b"probe")
        made = storage.stat(path)
    except (AnswerUnknown, NotApplied) as error:
        raise StorageError(
            f"{place}: {job.lake} does not answer: {error.message}",
            hint=error.hint or "check that the lake's servers are up, then try again",
            **key,
        ) from error
    except StorageError as error:
        raise StorageError(
            f"{place}: {job.lake} cannot be written: {error.message}",
            hint=error.hint or "create the directory, or correct `lake`",
            **key,
        ) from error
    with contextlib.suppress(PathMissing):
        storage.delete(path)
    return made.modified_ms if made else None


def check_positions(opened: OpenJob, fold: Fold, topics: Sequence[str]) -> None:
    """Raise Stopped where the topics are not what the log says, as the first batch would.

    What a broker that lags behind may say by mistake is looked at again for seconds.
    """

    def look() -> None:
        _check_positions(opened, fold, topics)

    look_again(opened.clock, look, report=lambda _message: None)  # the error says what it was


def _check_positions(opened: OpenJob, fold: Fold, topics: Sequence[str]) -> None:
    source = opened.source
    streams = source.describe_streams(topics)
    check_streams(source.name, fold, streams)
    keys = [key for key in fold.current() if key.source == source.name and key.stream in streams]
    found = source.read_offsets(shards_of(keys)) if keys else {}
    offsets = {key: found[StreamShard(key.stream, key.shard)] for key in keys}
    match find_unreadable(fold, offsets):
        case WentBack() as outcome:
            raise went_back(outcome)
        case Gaps() as gaps if opened.job.source.gap == "fail":
            raise refuse_gaps(gaps)
        case None:
            Histories(source).check(fold, offsets)


def require_topics(job: Job, existing: Sequence[str], source: Source) -> None:
    """Raise StreamMissing where the job names a topic that does not exist.

    SourceError where a topic has no id, or the job's user may not read it, or not see it: the list
    leaves it out, and only a question for its name says why.

    `existing`: the topics that the source lists.
    """
    read: dict[Key, str] = {
        ("tables", index, "topic"): item.topic
        for index, item in enumerate(job.tables)
        if item.topic is not None and not item.is_pattern
    }
    written: dict[Key, str] = {
        ("sql", "topics", index, "topic"): item.topic
        for index, item in enumerate(job.sql.topics if job.sql else ())
    }
    for key, topic in {**read, **written}.items():
        if topic in existing or topic in source.describe_streams([topic]):
            continue
        near = suggest(topic, existing)
        instead = f"{near} Or create the topic" if near else "create the topic first"
        line = job.line_of(*key)
        raise StreamMissing(
            f"{job.path}:{line}: {key_text(key)}: topic {topic} does not exist",
            hint=instead,
            file=job.path,
            line=line,
            key=key_text(key),
            stream=topic,
        )
    for name, info in source.describe_streams(select_sources(job, existing)).items():
        if not info.may_read:
            raise not_authorized(name, "Read")
