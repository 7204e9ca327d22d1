"""`verify`: log against files against Kafka.

What it is: the order of things: list the tables, then read the logs to their end, then look at
the files, then compare a sample of rows if requested, then ask the source about what is missing.
What it promises: a running job raises no false alarm: a file that was listed before the log was
read stands in the log. Reads only.
"""

import contextlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from datetime import UTC, datetime

from ashore.base.units import parse_duration_ms
from ashore.errors import AshoreError, JobFileInvalid, SourceError
from ashore.jobs.file import Job, ResolvedTable, match_topics, select_topics
from ashore.log import names
from ashore.log.effects import Action
from ashore.log.files import PartitionKey
from ashore.log.names import plain_source
from ashore.log.positions import ShardKey, StreamShard
from ashore.proof.evidence.adopted_files import read_adopted
from ashore.proof.evidence.files import FileLook, Visible, list_visible, look_at_files
from ashore.proof.evidence.ledger import Ledger, LoggedFile, PartKey
from ashore.proof.evidence.log_reading import LogReading
from ashore.proof.evidence.lost_logs import count_waiting
from ashore.proof.evidence.record_shares import find_warnings
from ashore.proof.evidence.result import (
    CheckedBy,
    Findings,
    NotChecked,
    Problem,
    ProblemKind,
    Progress,
    SliceRead,
    TableVerdict,
    ValuesVerdict,
    VerifyResult,
)
from ashore.proof.evidence.second_reading import Answers, read_again
from ashore.proof.verify.observation import Evidence
from ashore.proof.verify.sample import SampleRate
from ashore.proof.verify.values import Access, compare_values
from ashore.proof.verify.verdict import (
    Judge,
    count_orphans,
    find_orphans,
    plan_again,
    table_of_path,
    total,
)
from ashore.topics.open_job import OpenJob
from ashore.topics.read.base import Source


@dataclass(frozen=True, slots=True)
class Gone:
    """What is missing, as few things as it is."""

    problems: tuple[Problem, ...]  # one a partition that is gone
    files: frozenset[LoggedFile]  # of these partitions
    rows: Counter[PartKey]  # that were in them: what else is lost of a part is reported separately


def find_gone(ledger: Ledger, missing: Iterable[LoggedFile], job_file: str) -> Gone:
    """Return the partitions that are gone as a whole: they were dropped past the log.

    Pure. A partition is gone if each of its files that the log asks for is; while an entry that
    fills it is not closed, it does not count as gone. `job_file`: for the line to type.
    """
    asked = Counter(file.target.key for file in ledger.files)
    by_key: dict[PartitionKey, list[LoggedFile]] = {}
    for file in missing:
        if file.target.partition and not ledger.is_in_flight(file):
            by_key.setdefault(file.target.key, []).append(file)
    gone = {key: files for key, files in by_key.items() if len(files) == asked[key]}
    rows: Counter[PartKey] = Counter()
    for files in gone.values():
        for file in files:
            for span in file.file.spans:
                rows[PartKey(file.slice, file.entry, file.shards[span.shard])] += span.rows
    problems = tuple(_problem(key, gone[key], job_file) for key in sorted(gone))
    return Gone(problems, frozenset(file for files in gone.values() for file in files), rows)


def _problem(key: PartitionKey, files: list[LoggedFile], job_file: str) -> Problem:
    table, partition = key
    rows = sum(file.file.rows for file in files)
    text = f"the partition is gone, with {len(files):,} files and {rows:,} rows; if it was dropped "
    text += f"on purpose: ashore retire {job_file} {table} {partition}"
    place = names.join(names.table_path(table), partition)
    return Problem(ProblemKind.PARTITION_GONE, files[0].table, place, text)


def _quiet(_step: str, _done: int, _total: int) -> None:
    """Report no progress."""


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
    progress: Progress = _quiet,
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
    notes: list[str] = []
    resolved = _resolve(job, source, notes)
    reading = LogReading(storage, job.job, progress)
    table_of, visible = _list_tables(opened, resolved, reading, progress)
    ledger = reading.builder.finish()
    findings = Findings()
    adopted = read_adopted(storage, job.job).keys() & visible.files.keys()
    orphaned = _without(visible.files, adopted)
    orphans = list(find_orphans(ledger, orphaned, table_of))
    findings.add_all((*ledger.problems, *orphans))
    evidence = Evidence(ledger)
    looks = look_at_files(storage, ledger, visible.files, since_ms, progress)
    gone = _take_looks(looks, evidence, findings, job.path or "JOB.yaml")
    not_checked = _find_unchecked(source, reading, visible, evidence, table_of)
    access = Access(storage, source, resolved, since_ms)
    values = compare_values(access, ledger, sample, findings, progress) if sample else None
    answers = _ask_again(source, evidence, since_ms, progress)
    waiting = _count_waiting(opened, reading.slices(ledger))
    judge = Judge(ledger, since_ms, findings, gone.rows, not_checked)
    unlisted = {each.place: orphaned[each.place] for each in orphans}
    uncounted = judge.take_orphans(count_orphans(storage, unlisted, evidence))
    tables = judge.judge(evidence, answers, sorted(set(table_of.values())))
    notes += [*_note_never_ran(opened, waiting), *answers.notes, *_note_records(opened)]
    notes += [*_note_tables(job, tables, since_ms), *_note_log(ledger, adopted, values)]
    return VerifyResult(
        job=job.job,
        slices=reading.slices(ledger),
        since_ms=since_ms,
        tables=tables,
        totals=total(tables),
        problems=findings.named(),
        problem_counts=findings.counts,
        notes=(*notes, *_note_catalog(opened)),
        has_run=waiting == 0,
        uncounted_files=uncounted,
        values=values,
        not_checked=not_checked,
    )


def _find_unchecked(
    source: Source,
    reading: LogReading,
    visible: Visible,
    evidence: Evidence,
    table_of: dict[str, str],
) -> tuple[NotChecked, ...]:
    return (
        *name_unread(visible.failed, evidence.failed, table_of),
        *ask_source(source, evidence.ledger, reading.builder.positions()),
    )


def _ask_again(
    source: Source, evidence: Evidence, since_ms: int | None, progress: Progress
) -> Answers:
    asked = plan_again(evidence.ledger, evidence, since_ms)
    return read_again(source, asked, evidence.ledger.generations, progress)


def _note_log(ledger: Ledger, adopted: AbstractSet[str], values: ValuesVerdict | None) -> list[str]:
    return [*_note_begun(ledger), *_note_adopted(len(adopted)), *_note_values(values)]


def _without(visible: dict[str, int], adopted: AbstractSet[str]) -> dict[str, int]:
    if not adopted:
        return visible  # there may be very many
    return {path: size for path, size in visible.items() if path not in adopted}


def _list_tables(
    opened: OpenJob, resolved: dict[str, ResolvedTable], reading: LogReading, progress: Progress
) -> tuple[dict[str, str], Visible]:
    """Return each table with its main table, and the files that readers see. Reads the log, too."""
    reading.read_on()  # only to know the tables that the log fills
    sinks = {
        table: item.table
        for item in opened.job.tables
        if item.topic is None
        for table in item.sink_tables
    }
    table_of = _table_of(resolved) | sinks | reading.builder.tables()
    # The order matters: tables first, then the log to its end, then files.
    visible = list_visible(opened.storage, table_of, progress)
    reading.read_on()
    return table_of, visible


def _count_waiting(opened: OpenJob, slices: Sequence[SliceRead]) -> int | None:
    return 0 if any(each.entries for each in slices) else count_waiting(opened)


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
) -> Gone:
    """Enter what was found of each file; of a partition that is gone, one finding."""
    missing: dict[LoggedFile, list[Problem]] = {}
    for file, look in looks:
        found = evidence.take(file, look)
        if look.path is None:
            missing[file] = list(found)
        else:
            findings.add_all(found)
    gone = find_gone(evidence.ledger, missing, job_file)
    findings.add_all(gone.problems)
    for file, problems in missing.items():
        if file not in gone.files:
            findings.add_all(problems)
    return gone


def _resolve(job: Job, source: Source, notes: list[str]) -> dict[str, ResolvedTable]:
    existing: list[str] = []
    if any(item.is_pattern for item in job.tables):
        try:
            existing = source.list_streams()
        except SourceError as error:
            notes.append(f"the topics could not be listed: {error.message}")
    return match_topics(job, select_topics(job, existing))


def _table_of(resolved: dict[str, ResolvedTable]) -> dict[str, str]:
    found = {}
    for each in resolved.values():
        for table in (each.table, *(side.table for side in (each.dead, each.late) if side)):
            found[str(table)] = str(each.table)
    return found


def _notes(tables: Sequence[TableVerdict], since_ms: int | None) -> list[str]:
    notes = [
        f"{table.table} carries no offsets: only counts were checked"
        for table in tables
        if table.checked_by is CheckedBy.COUNTS
    ]
    if since_ms is not None:
        notes.append(
            "files of entries before `since` were not read: "
            "of these only counts, existence and size were checked"
        )
    return notes


def _note_tables(job: Job, tables: Sequence[TableVerdict], since_ms: int | None) -> list[str]:
    sinks = sorted(item.table for item in job.tables if item.topic is None)
    topics = [item.topic for item in job.sql.topics] if job.sql else []
    landed = [table for table in tables if table.table not in sinks]
    return [*_notes(landed, since_ms), *_note_sinks(sinks), *_note_topics(topics)]


def _note_sinks(sinks: Sequence[str]) -> list[str]:
    return [
        f"{table} is written by SQL: its files were compared with the log; whether its rows are "
        "what the query should give was not checked"
        for table in sinks
    ]


def _note_topics(topics: Sequence[str]) -> list[str]:
    return [
        f"topic {topic} is written by SQL, at least once: its records were not checked"
        for topic in topics
    ]


def _note_begun(ledger: Ledger) -> list[str]:
    return [
        f"the log of {name} begins after batch {each.query.batch_id}, with the savepoint "
        f"{each.savepoint} of {each.owner or 'a checkpoint without an owner'}: earlier "
        "batches were not checked; they are in another table"
        for name, each in ledger.begun
    ]


def _note_records(opened: OpenJob) -> list[str]:
    """Return what is wrong with records that landed exactly once all the same.

    The verdict does not depend on it: nothing is said where a log or the lake cannot be read.
    """
    notes: list[str] = []
    for name in opened.slices:
        with contextlib.suppress(AshoreError):
            notes.extend(each.text for each in find_warnings(opened, name, opened.fold(name)))
    return notes


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


def _note_adopted(files: int) -> list[str]:
    note = f"{files} files were adopted from another writer: no log lists them"
    return [note] if files else []


def _note_values(values: ValuesVerdict | None) -> list[str]:
    return [
        f"{each.rows:,} rows of {each.table} were chosen and could not be compared: {each.reason}"
        for each in (values.not_compared if values else ())
    ]


def ask_source(source: Source, ledger: Ledger, keys: Iterable[ShardKey]) -> list[NotChecked]:
    """Ask the source for the offsets of the shards that the log has from it.

    Returns what could not be compared since the source does not answer.
    """
    current = {
        key
        for key in keys
        if plain_source(key.source) == source.name
        and ledger.generations.get((key.source, key.stream), (0, ""))[0] == key.generation
    }
    if not current:
        return []
    try:
        streams = source.describe_streams(sorted({key.stream for key in current}))
        shards = {
            StreamShard(key.stream, key.shard)
            for key in current
            if (info := streams.get(key.stream)) is not None
            and info.stream_id == ledger.generations[key.source, key.stream][1]
            and key.shard in info.shards
        }
        if shards:
            source.read_offsets(sorted(shards))
    except SourceError as error:
        return [NotChecked("", "Kafka", error.message)]
    return []


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
