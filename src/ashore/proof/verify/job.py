"""`verify`: log against files against Kafka.

What it is: list the tables, read the logs to their end, look at the files, compare a sample of rows
if requested, ask the source about what is missing.
What it promises: reads only. A running job raises no false alarm: the log is read after listings.
"""

import contextlib
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from itertools import chain

from ashore.base.units import parse_duration_ms
from ashore.errors import AshoreError, JobFileInvalid, SourceError
from ashore.jobs.file import Job, ResolvedTable, match_topics, select_topics
from ashore.log import names
from ashore.log.files import PartitionKey
from ashore.log.fold import Action
from ashore.log.names import plain_source
from ashore.log.positions import ShardKey, StreamShard
from ashore.proof.evidence.adopted_files import read_adopted
from ashore.proof.evidence.ledger import Ledger, LoggedFile, PartKey
from ashore.proof.evidence.log_reading import LogReading
from ashore.proof.evidence.lost_logs import count_waiting, read_current
from ashore.proof.evidence.record_shares import find_warnings
from ashore.proof.evidence.result import (
    CheckedBy,
    Findings,
    NotChecked,
    Problem,
    ProblemKind,
    Progress,
    TableVerdict,
    VerifyResult,
    quiet,
)
from ashore.proof.evidence.second_reading import read_again
from ashore.proof.evidence.stored_files import FileLook, Visible, list_visible, look_at_files
from ashore.proof.verify.offset_evidence import Evidence
from ashore.proof.verify.sample import SampleRate
from ashore.proof.verify.value_check import Access, compare_values
from ashore.proof.verify.verdict import (
    Judge,
    count_orphans,
    find_orphans,
    is_of_other_writer,
    plan_again,
    table_of_path,
    total,
)
from ashore.topics.open_job import OpenJob
from ashore.topics.read.source import Source


def parse_since(text: str, now_ms: int) -> int:
    """Return the time that `2h` (ago), ISO 8601 (without a zone: UTC) or milliseconds mean.

    Raises JobFileInvalid.
    """
    if text.isdigit():
        return int(text)
    with contextlib.suppress(ValueError):
        return now_ms - parse_duration_ms(text)
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        raise JobFileInvalid(
            f"--since {text!r} is not a time",
            hint="write 2h, 3d, 2026-11-21T08:00:00Z or milliseconds",
        ) from None
    if time.tzinfo is None:
        time = time.replace(tzinfo=UTC)
    return int(time.timestamp() * 1000)


def verify_job(
    opened: OpenJob,
    *,
    since: str | None = None,
    sample: SampleRate | None = None,
    progress: Progress = quiet,
) -> VerifyResult:
    """Prove that each record of the job's topics is in its tables exactly once.

    Arguments:
        opened: the job, its lake and its source. A source that does not answer is no error, nor
            is a part of the lake that cannot be read: they are in `not_checked` then.
        since: see `parse_since`. Contents (checksums, rows, offsets) of entries before are not
            read; counts, existence and sizes are checked for all.
        sample: which rows are compared with their records, column by column; None: none.
        progress: called with what is being done.

    Raises LogDamaged, StorageError, JobFileInvalid.

    """
    job, storage, source = opened.job, opened.storage, opened.source
    since_ms = None if since is None else parse_since(since, opened.clock.now_ms())
    resolved, notes = _resolve(job, source)
    reading = LogReading(storage, job.job, progress)
    table_of, visible, ledger = _list_tables(opened, resolved, reading, progress)
    findings, evidence = Findings(), Evidence(ledger)
    adopted = read_adopted(storage, job.job).keys() & visible.files.keys()
    orphans = list(find_orphans(ledger, visible.files.keys(), adopted, table_of))
    findings.add_all((*ledger.problems, *_find_wrong(orphans, visible)))
    looks = look_at_files(storage, ledger, visible, since_ms, progress)
    gone_rows = _take_looks(looks, evidence, findings, job.path or "JOB.yaml")
    not_checked = tuple(name_unread(visible.failed, evidence.failed, table_of))
    not_checked += _look_at_topics(opened, ledger, resolved, reading)
    access = Access(storage, source, resolved, since_ms)
    values = compare_values(access, ledger, sample, findings, progress) if sample else None
    unproven = plan_again(ledger, evidence, since_ms)
    answers = read_again(source, unproven, ledger.generations, progress)
    slices = reading.slices(ledger)
    waiting = 0 if any(each.entries for each in slices) else count_waiting(opened)
    judge = Judge(ledger, since_ms, findings, gone_rows, not_checked)
    unlisted = {each.place: visible.files[each.place] for each in orphans}
    uncounted = judge.take_orphans(count_orphans(storage, unlisted, evidence))
    tables = judge.judge(evidence, answers, sorted(set(table_of.values())))
    notes += [*_note_never_ran(opened, waiting), *answers.notes, *_note_records(opened)]
    notes += _note_limits(job, ledger, tables, since_ms, len(adopted))
    notes += [*_note_catalog(opened), *_note_other_writers(orphans, visible)]
    return VerifyResult(
        job=job.job,
        slices=slices,
        since_ms=since_ms,
        tables=tables,
        totals=total(tables),
        problems=findings.named(),
        problem_counts=findings.counts,
        notes=(*notes, *(values.notes if values else ())),
        has_run=waiting == 0,
        uncounted_files=uncounted,
        values=values,
        not_checked=not_checked,
    )


def _list_tables(
    opened: OpenJob, resolved: dict[str, ResolvedTable], reading: LogReading, progress: Progress
) -> tuple[dict[str, str], Visible, Ledger]:
    """Return each table with its main table, the files that readers see, and the ledger."""
    reading.read_on()  # only to know the tables that the log fills
    sinks = {
        table: item.table
        for item in opened.job.tables
        if item.topic is None
        for table in item.sink_tables
    }
    table_of = _table_of(resolved) | sinks | reading.builder.tables()
    # The order matters: tables first, then the log to its end, then files.
    with opened.formats() as formats:
        visible = list_visible(opened.storage, table_of, progress, formats.readable)
        reading.read_on()
        visible.read_later(formats.readable)
    reading.builder.decide_compactions(visible.files.keys())
    return table_of, visible, reading.builder.finish()


def _note_never_ran(opened: OpenJob, waiting: int | None) -> list[str]:
    if waiting == 0:
        return []
    answer = "does not answer what it has" if waiting is None else f"holds {waiting:,} offsets"
    place = f"{opened.job.job} in {opened.storage.describe()}"
    text = f"there is no log of job {place}, and Kafka {answer} of its topics: "
    return [text + "is `lake` the right one, or was the log lost?"]


def _take_looks(
    looks: Iterable[tuple[LoggedFile, FileLook]],
    evidence: Evidence,
    findings: Findings,
    job_file: str,
) -> Counter[PartKey]:
    """Enter what was found of each file; of a partition that is gone, one finding.

    Each file of such a partition that the log asks for is missing: it was dropped past the log.
    While an entry that fills it is not closed, it does not count as gone. Returns the rows that
    were in them: what else is lost of a part is reported separately.
    """
    ledger, rows = evidence.ledger, Counter[PartKey]()
    missing: dict[PartitionKey, dict[LoggedFile, list[Problem]]] = defaultdict(dict)
    for file, look in looks:
        problems = list(evidence.take(file, look))
        if look.path is None and file.target.partition and not ledger.is_in_flight(file):
            missing[file.target.key][file] = problems
        else:
            findings.add_all(problems)
    expected = Counter(file.target.key for file in ledger.files)
    for key, files in sorted(missing.items()):
        if len(files) < expected[key]:
            findings.add_all(chain.from_iterable(files.values()))
            continue
        findings.add(_name_gone(key, list(files), job_file))
        for file in files:
            for span in file.file.spans:
                rows[file.parts[span.shard]] += span.rows
    return rows


def _name_gone(key: PartitionKey, files: Sequence[LoggedFile], job_file: str) -> Problem:
    table, partition = key
    rows = sum(file.file.rows for file in files)
    text = f"the partition is gone, with {len(files):,} files and {rows:,} rows; if it was dropped "
    text += f"on purpose: ashore retire {job_file} {table} {partition}"
    place = names.join(names.table_path(table), partition)
    return Problem(ProblemKind.PARTITION_GONE, files[0].table, place, text)


def _resolve(job: Job, source: Source) -> tuple[dict[str, ResolvedTable], list[str]]:
    """Return the table of each topic, and what was not found out."""
    existing: list[str] = []
    notes: list[str] = []
    if any(item.is_pattern for item in job.tables):
        try:
            existing = source.list_streams()
        except SourceError as error:
            notes.append(f"the topics could not be listed: {error.message}")
    return match_topics(job, select_topics(job, existing)), notes


def _table_of(resolved: dict[str, ResolvedTable]) -> dict[str, str]:
    found = {}
    for each in resolved.values():
        for table in (each.table, *(side.table for side in (each.dead, each.late) if side)):
            found[str(table)] = str(each.table)
    return found


def _note_limits(
    job: Job,
    ledger: Ledger,
    tables: Sequence[TableVerdict],
    since_ms: int | None,
    adopted: int,
) -> Iterator[str]:
    """Yield what of tables and topics was not checked."""
    sinks = sorted(item.table for item in job.tables if item.topic is None)
    for each in tables:
        if each.checked_by is CheckedBy.COUNTS and each.table not in sinks:
            yield f"{each.table} carries no offsets: only counts were checked"
    if since_ms is not None:
        text = "files of entries before `since` were not read: "
        yield text + "of these only counts, existence and size were checked"
    for table in sinks:
        text = f"{table} is written by SQL: its files were compared with the log; whether its rows "
        yield text + "are what the query should give was not checked"
    for item in job.sql.topics if job.sql else ():
        yield f"topic {item.topic} is written by SQL, at least once: its records were not checked"
    for name, begin in ledger.begun:
        owner = begin.owner or "a checkpoint without an owner"
        text = f"the log of {name} begins after batch {begin.query.batch_id}, with the savepoint "
        text += f"{begin.savepoint} of {owner}: earlier batches were not checked; they are in "
        yield text + "another table"
    if adopted:
        yield f"{adopted} files were adopted from another writer: no log lists them"


def _note_records(opened: OpenJob) -> list[str]:
    """Return what is wrong with records that landed exactly once all the same.

    The verdict does not depend on it: nothing is said where a log or the lake cannot be read.
    """
    notes: list[str] = []
    for name in opened.slices:
        with contextlib.suppress(AshoreError):
            notes.extend(each.text for each in find_warnings(opened, name, opened.fold(name)))
    return notes


def _find_wrong(orphans: Iterable[Problem], visible: Visible) -> Iterator[Problem]:
    return (each for each in orphans if not is_of_other_writer(each, visible.snapshots))


def _note_other_writers(orphans: Iterable[Problem], visible: Visible) -> Iterator[str]:
    found = [each for each in orphans if is_of_other_writer(each, visible.snapshots)]
    for table, count in sorted(Counter(table_of_path(each.place, {}) for each in found).items()):
        yield f"{table} has {count:,} files of other writers: no log lists them"


def _note_catalog(opened: OpenJob) -> list[str]:
    """Return what readers through a metastore have to know: the verdict is about files."""
    if opened.job.catalog.hive is None:
        return []
    kinds: Counter[str] = Counter()
    for name in opened.slices:
        with contextlib.suppress(AshoreError):
            kinds.update(each.action for each in opened.fold(name).deferred.values())
    partitions = kinds[Action.REGISTER]
    waiting = f"; {partitions:,} partitions are not registered in it yet" if partitions else ""
    where = f"`ashore audit {opened.job.path or 'JOB.yaml'}` does that"
    return [f"the Hive metastore was not compared with the log: {where}{waiting}"]


def _look_at_topics(
    opened: OpenJob,
    ledger: Ledger,
    resolved: Mapping[str, ResolvedTable],
    reading: LogReading,
) -> tuple[NotChecked, ...]:
    positions = reading.builder.positions()
    missing = find_missing_topics(opened, resolved, {key.stream for key in positions})
    return (*ask_source(opened.source, ledger, positions), *missing)


def ask_source(source: Source, ledger: Ledger, keys: Iterable[ShardKey]) -> tuple[NotChecked, ...]:
    """Ask the source for the offsets of the shards that the log has from it.

    Returns what could not be compared since the source does not answer.
    """
    current = []
    for key in keys:
        generation, stream_id = ledger.generations.get((key.source, key.stream), (0, ""))
        if plain_source(key.source) == source.name and generation == key.generation:
            current.append((StreamShard(key.stream, key.shard), stream_id))
    try:
        if current:
            read_current(source, current)
    except SourceError as error:
        return (NotChecked("", "Kafka", error.message),)
    return ()


def find_missing_topics(
    opened: OpenJob, resolved: Mapping[str, ResolvedTable], known: Collection[str]
) -> Iterator[NotChecked]:
    """Yield the topics of which nothing was looked at: no log knows them, and Kafka has them not.

    Arguments:
        opened: the job.
        resolved: the table of each topic.
        known: the topics that a log has.

    """
    unknown = sorted(resolved.keys() - known)
    try:
        there = opened.source.describe_streams(unknown) if unknown else {}
    except SourceError:
        return  # it has no answer for any topic: that is said already
    for topic in unknown:
        if topic not in there:
            reason = "it does not exist, and nothing of it has landed"
            yield NotChecked(str(resolved[topic].table), f"topic {topic}", reason)
    for item in opened.job.tables:
        if item.is_landed and item.is_pattern and not any(map(item.matches, resolved)):
            yield NotChecked(item.table or "", f"topic {item.topic}", "it matches no topic")


def name_unread(
    directories: Mapping[str, str],
    files: Iterable[tuple[LoggedFile, str]],
    table_of: Mapping[str, str],
) -> Iterator[NotChecked]:
    """Yield what of the lake could not be listed or read, each with the reason."""
    for path, reason in sorted(directories.items()):
        yield NotChecked(table_of_path(path, table_of), path, reason)
    for file, reason in files:
        yield NotChecked(file.table, file.final, reason)
