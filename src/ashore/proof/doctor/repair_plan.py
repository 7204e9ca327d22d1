"""What the doctor would do, and what it will not do.

What it promises: pure. Nothing is guessed: a step is planned only where observations leave one
answer; everything else is a refusal that says why and what a person can do.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import assert_never

from ashore.log import names
from ashore.log.entries import Join
from ashore.proof.doctor.adoption import Adoption, plan_adoption
from ashore.proof.doctor.connect_sink import looks_like_connect
from ashore.proof.doctor.observation import LoggedSize, Observations, TableSeen, ends_of, path_below
from ashore.proof.doctor.own_files import OwnPlan, plan_own_files
from ashore.proof.doctor.steps import (
    AdoptFiles,
    DoctorRefusal,
    JoinAdopted,
    ListAdopted,
    MoveAside,
    RegisterTable,
    Step,
    WriteSnapshot,
)
from ashore.proof.evidence.adopted_files import adopted_path
from ashore.storage.base import FileStat

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
