"""What the doctor would do, and what it will not do; also where it continues after a former writer.

What it promises: pure. Nothing is guessed: a step is planned only where observations leave one
answer; everything else is a refusal that says why and what a person can do. Every partition of an
adopted topic joins in one entry, at the offset where the former writer durably stopped; a partition
that it never wrote begins at its beginning. One doubt about any of them refuses the whole.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import assert_never

from ashore.log import names
from ashore.log.entries import Join, Joined
from ashore.log.fold import Fold
from ashore.log.plan_batch import ShardOffsets
from ashore.log.positions import ShardKey, StreamShard
from ashore.log.tables import DELTA, SNAPSHOTS
from ashore.proof.doctor.connect_sink import judge_connect, looks_like_connect
from ashore.proof.doctor.lakehouse_sink import judge_delta_sink, judge_iceberg_sink
from ashore.proof.doctor.observation import (
    ConnectSeen,
    FormerSeen,
    LakehouseSinkSeen,
    LoggedSize,
    Observations,
    SparkSeen,
    TableSeen,
    TopicSeen,
    ends_of,
    path_below,
)
from ashore.proof.doctor.own_files import OwnPlan, plan_own_files
from ashore.proof.doctor.spark_sink import judge_spark
from ashore.proof.doctor.steps import (
    AdoptFiles,
    DoctorRefusal,
    Former,
    JoinAdopted,
    ListAdopted,
    MoveAside,
    RegisterTable,
    Step,
    Unclear,
    WriteSnapshot,
    refuse_repair,
)
from ashore.proof.evidence.adopted_files import adopted_path
from ashore.storage.base import FileStat
from ashore.topics.read.source import StreamInfo

ADOPTED = "adopted"
_EXTENSIONS = {"parquet": ("parquet",), "orc": ("orc",), "jsonl": ("json", "jsonl")}


@dataclass(frozen=True, slots=True)
class Adoption:
    """What comes of a former writer."""

    former: Former | None = None
    table: str | None = None  # whose orphaned files the former writer accounts for
    tables: tuple[str, ...] = ()  # to claim
    joined: tuple[Joined, ...] = ()  # empty: the log has them already
    refusals: tuple[DoctorRefusal, ...] = ()
    notes: tuple[str, ...] = ()


def plan_adoption(seen: Observations) -> Adoption:
    """Return where landing begins, or why it cannot be said."""
    if seen.former is None:
        return Adoption()
    try:
        former = _judge(seen.former, seen.tables)
    except Unclear as unclear:
        refusal = refuse_repair(unclear.reason, unclear.hint)
        return Adoption(table=seen.former.table, refusals=(refusal,))
    fold = seen.log.fold
    if fold is None:
        refusal = refuse_repair("the job's log cannot be read", "repair the log first")
        return Adoption(former, former.table, refusals=(refusal,))
    streams = sorted({shard.stream for shard in former.next_of})
    topics = {stream: seen.topics[stream] for stream in streams if stream in seen.topics}
    refusals = [*_refuse_topics(former, seen, streams)]
    for stream in streams if not refusals else ():
        refusals += _refuse_stream(former, seen, fold, seen.source.streams[stream])
    if refusals:
        return Adoption(former, former.table, refusals=tuple(refusals))
    joined = tuple(
        joined
        for stream in streams
        if fold.generation(seen.source.name, stream) is None
        for joined in _join(former, seen, seen.source.streams[stream])
    )
    tables = {former.table} | {side for topic in topics.values() for side in topic.side_tables}
    return Adoption(
        former,
        former.table,
        tuple(sorted(tables)),
        joined,
        notes=(*former.notes, *_note_others(seen, fold, streams)),
    )


def _judge(seen: FormerSeen, tables: tuple[TableSeen, ...]) -> Former:
    match seen:
        case SparkSeen():
            return judge_spark(seen, tables)
        case ConnectSeen():
            table = next((each for each in tables if each.table == seen.table), None)
            if table is None:
                raise Unclear(f"the job has no table {seen.table}", "name one of the job file")
            return judge_connect(seen, table)
        case LakehouseSinkSeen():
            judge = judge_delta_sink if seen.format == DELTA else judge_iceberg_sink
            return judge(seen)
        case _:
            assert_never(seen)


def _refuse_topics(
    former: Former, seen: Observations, streams: list[str]
) -> Iterator[DoctorRefusal]:
    """Refuse what does not fit the job file, or cannot be asked of the source."""
    topics = [seen.topics[stream] for stream in streams if stream in seen.topics]
    claimed = {former.table, *(side for topic in topics for side in topic.side_tables)}
    for table in seen.tables:
        if table.table in claimed and table.owner not in {None, seen.job}:
            text = f"table {table.table} belongs to job {table.owner}"
            yield refuse_repair(text, f"give this job another table, or run {table.owner}")
    if seen.source.error:
        text = f"Kafka does not answer: {seen.source.error}"
        yield refuse_repair(text, "check `bootstrap_servers` and the brokers")
        return
    for stream in streams:
        topic = seen.topics.get(stream)
        if topic is None or topic.table != former.table:
            into = f"lands it in {topic.table}" if topic else "does not land it"
            text = f"the {former.kind} wrote topic {stream} into {former.table}, the job {into}"
            yield refuse_repair(text, "correct `tables` in the job file")
        elif stream not in seen.source.streams:
            yield refuse_repair(f"topic {stream} does not exist", "was it renamed?")
        else:
            yield from _refuse_layout(former, seen, topic)


def _refuse_layout(former: Former, seen: Observations, topic: TopicSeen) -> Iterator[DoctorRefusal]:
    """Refuse files that one table cannot have beside those that Ashore will land.

    A start compares a table in a table format with the job itself.
    """
    if topic.format in SNAPSHOTS:
        return
    path = next(each.path for each in seen.tables if each.table == former.table)
    expected = list(topic.partition_by)
    for file in former.files:
        below = path_below(file, path)
        columns = [part.partition("=")[0] for part in below.split("/")[:-1]]
        if columns != expected:
            text = f"{file} lies in partitions of {columns}, the job writes {expected}"
            hint = "correct `partition_by`, or give the job a table of its own"
            yield refuse_repair(text, hint)
            return
        if names.leaf(file).rpartition(".")[2] not in _EXTENSIONS.get(topic.format, ()):
            text = f"{file} is not in {topic.format}, the format that the job writes"
            yield refuse_repair(text, "correct `format`, or give the job a table of its own")
            return


def _refuse_stream(
    former: Former, seen: Observations, fold: Fold, info: StreamInfo
) -> Iterator[DoctorRefusal]:
    known = fold.generation(seen.source.name, info.stream)
    if known is not None:
        yield from _refuse_known(former, seen, fold, info, known)
        return
    for shard, offset in sorted(former.next_of.items()):
        if shard.stream != info.stream:
            continue
        place, there = f"{shard.stream}/{shard.shard}", seen.source.offsets.get(shard)
        if shard.shard not in info.shards or there is None:
            text = f"the {former.kind} wrote {place}, which the topic does not have"
            hint = "was the topic created again? If so, its offsets belong to other records"
            yield refuse_repair(text, hint)
        else:
            yield from _refuse_offset(former, place, offset, there, seen.skips_gaps)


def _refuse_offset(
    former: Former, place: str, offset: int, there: ShardOffsets, skips_gaps: bool
) -> Iterator[DoctorRefusal]:
    if offset > there.end:
        text = f"the {former.kind} reached offset {offset} in {place}, which ends at {there.end}"
        hint = "was the topic created again or restored, or is a transaction still open?"
        yield refuse_repair(text, hint)
    elif offset < there.earliest and not skips_gaps:
        text = (
            f"the {former.kind} reached offset {offset} in {place}, but Kafka starts at "
            f"{there.earliest}"
        )
        hint = "to continue without the gap, write `gap: skip` under `source`: it is recorded"
        yield refuse_repair(text, hint)


def _refuse_known(
    former: Former, seen: Observations, fold: Fold, info: StreamInfo, known: tuple[int, str]
) -> Iterator[DoctorRefusal]:
    """Refuse a topic that the log has joined elsewhere. Joined here: an adoption was cut short."""
    for shard, reached in sorted(former.next_of.items()):
        if shard.stream != info.stream:
            continue
        state = fold.shards.get(ShardKey(seen.source.name, info.stream, known[0], shard.shard))
        if known != (1, info.stream_id) or state is None or state.first != reached:
            place = f"{shard.stream}/{shard.shard}"
            begins = f"begins {place} at {state.first}" if state else f"knows {shard.stream}"
            text = f"the job's log {begins} already; the {former.kind} reached offset {reached}"
            hint = (
                "landing started without it: ashore verify cannot show what is duplicated or "
                "missing"
            )
            yield refuse_repair(text, hint)
            return


def _join(former: Former, seen: Observations, info: StreamInfo) -> Iterator[Joined]:
    for shard in info.shards:
        key = ShardKey(seen.source.name, info.stream, 1, shard)
        offset = _first(former, seen, StreamShard(info.stream, shard))
        yield Joined(key, info.stream_id, offset, ADOPTED)


def _first(former: Former, seen: Observations, shard: StreamShard) -> int:
    """Return where a partition begins: one that the former writer never wrote, at its beginning."""
    if shard in former.next_of:
        return former.next_of[shard]
    there = seen.source.offsets.get(shard)
    return there.earliest if there else 0


def _note_others(seen: Observations, fold: Fold, streams: list[str]) -> Iterator[str]:
    others = sorted(seen.topics.keys() - set(streams) - {key.stream for key in fold.shards})
    if others:
        yield (
            f"nothing was adopted of {', '.join(others)}: topics that `tables` names start as "
            "`first_start` says, topics that an expression matches start at `earliest`"
        )


_SHOWN = 5  # files that a refusal names


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """Steps in their order, what will not be done, and what is worth knowing."""

    steps: tuple[Step, ...]
    refusals: tuple[DoctorRefusal, ...]
    notes: tuple[str, ...]


def plan_doctor(seen: Observations) -> Diagnosis:
    """Return what can be repaired without guessing, and what cannot."""
    adoption, own = plan_adoption(seen), plan_own_files(seen)
    steps: list[Step] = [
        *_log_steps(seen),
        *_adoption_steps(seen, adoption),
        *_own_steps(seen, own),
    ]
    refusals = [*adoption.refusals, *own.refusals]
    if seen.log.damage:
        hint = seen.log.hint or "restore the log directory from a backup"
        refusals.insert(0, DoctorRefusal("log", seen.log.damage, hint))
    for table in seen.tables:
        if seen.log.fold is None:
            break  # only its log knows which files are the job's own
        refusals += _file_refusals(table)
        if adoption.table != table.table:
            if table.owner not in {None, seen.job}:
                hint = f"give this job another table, or run {table.owner}"
                text = f"the table belongs to job {table.owner}"
                refusals.append(DoctorRefusal(table.table, text, hint))
            moved, refused = _plan_orphans(seen, table)
            steps += moved
            refusals += refused
    if seen.has_catalog and seen.log.fold is not None:
        steps += _registrations(seen, adoption)
    notes = (*adoption.notes, *own.notes, *_log_notes(seen), *_catalog_notes(seen, adoption))
    return Diagnosis(tuple(steps), tuple(refusals), notes)


# ---- the log


def _log_steps(seen: Observations) -> Iterator[Step]:
    directory = names.log_directory(seen.name)
    aside = names.aside_directory(names.parent(directory), seen.token)
    for path in seen.log.foreign:
        target = names.join(aside, names.leaf(path))
        yield MoveAside(path, target, "no writer of the log creates such a name")
    if seen.log.foreign and seen.log.fold is None:
        return
    for number, reason in seen.log.bad_snapshots:
        path = names.snapshot_path(seen.name, number)
        if seen.log.fold is not None:
            target = names.join(aside, names.leaf(path))
            yield MoveAside(path, target, f"the snapshot is damaged: {reason}")
    fold = seen.log.fold
    if seen.log.is_newest_bad and fold is not None and fold.unclosed is None:
        yield WriteSnapshot(fold.end)


def _log_notes(seen: Observations) -> Iterator[str]:
    fold = seen.log.fold
    if fold is None or fold.unclosed is None:
        return
    unclosed = fold.unclosed
    yield (
        f"entry {unclosed.number} ({unclosed.body.kind}) is unclosed: start the job, or run "
        "ashore recover JOB.yaml"
    )
    if seen.log.is_newest_bad:
        yield "no snapshot is written while an entry is unclosed: the job writes the next one"


# ---- a former writer


def _adoption_steps(seen: Observations, adoption: Adoption) -> Iterator[Step]:
    former = adoption.former
    if former is None or adoption.refusals:
        return
    table = next(each for each in seen.tables if each.table == former.table)
    aside = names.aside_directory(table.path, seen.token)
    for path in former.strays:
        target = names.join(aside, path_below(path, table.path))
        yield MoveAside(path, target, f"a failed attempt of the {former.kind} left it")
    if not table.adopted.issuperset(former.files):
        path = adopted_path(seen.job, seen.token)
        yield ListAdopted(path, former.table, former.kind, former.files)
    if adoption.joined:
        yield JoinAdopted(adoption.tables, Join(adoption.joined))
    if former.hides is not None:
        # Last: until the join stands in the log, what the former writer did must stay readable.
        target = names.join(aside, names.leaf(former.hides))
        yield MoveAside(former.hides, target, "with it, Spark does not see files that Ashore lands")


def _own_steps(seen: Observations, own: OwnPlan) -> Iterator[Step]:
    path_of = (
        {file.path: names.table_path(file.table) for file in seen.own.files} if seen.own else {}
    )
    for path, why in own.aside:
        table = path_of[path]
        aside = names.aside_directory(table, seen.token)
        yield MoveAside(path, names.join(aside, path_below(path, table)), why)
    if own.step is not None:
        yield own.step


# ---- files


def _file_refusals(table: TableSeen) -> Iterator[DoctorRefusal]:
    here = {each.path: each.size for each in table.visible}
    absent = [file for file in table.logged if file.path not in here and not file.is_there]
    lost = [file for file in absent if file.is_unclosed]
    if lost:
        text = f"{len(lost)} files of the unclosed entry are lost: {_some(lost)}"
        hint = "ashore recover JOB.yaml --reland reads them again, --accept-loss gives them up"
        yield DoctorRefusal(table.table, text, hint)
    missing = [file for file in absent if not file.is_unclosed]
    if missing:
        text = f"{len(missing)} files that the log lists are gone: {_some(missing)}"
        hint = "restore them from a backup, or drop the partition on purpose; ashore verify names "
        yield DoctorRefusal(table.table, text, hint + "the records")
    other = [
        file for file in table.logged if file.path in here and here[file.path] != file.size_bytes
    ]
    if other:
        text = f"{len(other)} files have other sizes than the log says: "
        hint = "nothing is moved onto them; compare them with a backup to find out which is right"
        yield DoctorRefusal(table.table, text + _some(other), hint)


def _plan_orphans(seen: Observations, table: TableSeen) -> tuple[list[Step], list[DoctorRefusal]]:
    orphans = table.orphans
    judged = {file.path for file in seen.own.files} if seen.own else set()
    if not orphans:
        return [], []
    if table.has_spark_metadata:
        hint = "to continue from there: ashore doctor JOB.yaml --from-spark CHECKPOINT_DIR"
        text = f"a query of Spark's wrote {len(orphans)} files into the table"
        return [], [DoctorRefusal(table.table, text, hint)]
    if any(looks_like_connect(names.leaf(each.path)) for each in orphans):
        hint = f"to continue from there: ashore doctor JOB.yaml --from-connect {table.table}"
        text = f"a sink of Kafka Connect wrote {len(orphans)} files into the table"
        return [], [DoctorRefusal(table.table, text, hint)]
    steps: list[Step] = []
    ours: list[FileStat] = []
    old: list[FileStat] = []
    aside = names.aside_directory(table.path, seen.token)
    for each in orphans:
        if names.parse_final(names.leaf(each.path)) is not None:
            if each.path not in judged:
                ours.append(each)
        elif table.owner != seen.job or each.modified_ms < table.claimed_ms:
            old.append(each)
        else:
            target = names.join(aside, path_below(each.path, table.path))
            why = "Ashore did not write it, and the job already owned the table"
            steps.append(MoveAside(each.path, target, why))
    refusals = []
    if ours:
        text = f"{len(ours)} files have names of Ashore, but no entry lists them: {_some(ours)}"
        hint = "was the log lost, or restored from an older backup? restore the newer one, or "
        hint += "adopt what is there: ashore doctor JOB.yaml --from-files"
        refusals.append(DoctorRefusal(table.table, text, hint))
    if old:
        text = f"{len(old)} files were there before the job took the table: {_some(old)}"
        hint = "they may be data: move them by hand, or give the job a table of its own"
        refusals.append(DoctorRefusal(table.table, text, hint))
    return steps, refusals


# ---- the catalog


def _registrations(seen: Observations, adoption: Adoption) -> Iterator[RegisterTable]:
    for table in seen.tables:
        partitions = _partitions(seen, table, adoption)
        if partitions and table.owner in {None, seen.job} and not table.is_made_by_spark:
            yield RegisterTable(table.table, tuple(sorted(partitions)))


def _partitions(seen: Observations, table: TableSeen, adoption: Adoption) -> set[str]:
    former = adoption.former if adoption.former and not adoption.refusals else None
    own = former.files if former and former.table == table.table else ()
    partitions = {file.partition for file in table.logged if not file.is_unclosed}
    partitions |= {names.parent(path_below(path, table.path)) for path in (*table.adopted, *own)}
    if table.waits_for_seal and seen.log.fold is not None:
        states = seen.log.fold.partitions.values()
        partitions -= {
            each.partition for each in states if each.table == table.table and not each.registered
        }
    return partitions - {""}


def _catalog_notes(seen: Observations, adoption: Adoption) -> Iterator[str]:
    for table in seen.tables:
        if table.is_made_by_spark and seen.has_catalog and _partitions(seen, table, adoption):
            yield (
                f"partitions of {table.table} are not registered again: its columns are computed "
                "by `select`, and known only to a running job"
            )


def _some(files: Iterable[FileStat | LoggedSize]) -> str:
    found = sorted(each.path for each in files)
    more = f" and {len(found) - _SHOWN} more" if len(found) > _SHOWN else ""
    return ", ".join(found[:_SHOWN]) + more


def explain_repair(step: Step) -> str:
    """Return what a step does, in words."""
    match step:
        case AdoptFiles():
            return _explain_adoption(step)
        case MoveAside():
            return f"move {step.source} aside to {step.target}: {step.why}"
        case ListAdopted():
            return f"keep the names of {len(step.files)} files of {step.table}, of the {step.by}"
        case JoinAdopted():
            begins = ", ".join(f"{each.key} at {each.first_offset}" for each in step.join.shards)
            return f"record in the log where landing begins: {begins}"
        case RegisterTable():
            count = len(step.partitions)
            return f"register {count} partitions of {step.table}, those that are not in the catalog"
        case WriteSnapshot():
            return f"write a snapshot of the log up to entry {step.end}"
        case _:
            assert_never(step)


def _explain_adoption(step: AdoptFiles) -> str:
    rows, ends = sum(file.rows for file in step.files), sorted(ends_of(step.files).items())
    shown = ", ".join(f"{stream}/{shard} at {end}" for (stream, shard), end in ends) or "as before"
    return (
        f"list {len(step.files)} files with {rows} rows in entries of their batches, and end the "
        f"log of {step.name} with epoch {step.epoch}; landing continues: {shown}"
    )
