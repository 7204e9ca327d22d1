"""`diagnose` and `treat`, the use cases of the doctor: observe, plan, apply.

What it promises: `treat` does what `diagnose` shows; nothing is overwritten or deleted. Steps are
done in their order; after an error the rest is not, and a new diagnosis continues from there.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from shlex import quote
from typing import assert_never

from ashore.errors import LogGrows, PathMissing, Stopped, StorageError
from ashore.log import names
from ashore.log.entries import Commit
from ashore.log.fold import forget_sealed
from ashore.log.snapshot import write_snapshot
from ashore.log.store.clock_guard import require_right_clock
from ashore.log.store.owner import claim_tables
from ashore.proof.doctor.adopt import adopt_files
from ashore.proof.doctor.observe import FormerAt, look_at_log, observe, open_beside
from ashore.proof.doctor.repair_plan import Diagnosis, plan_doctor
from ashore.proof.doctor.steps import (
    AdoptFiles,
    JoinAdopted,
    ListAdopted,
    MoveAside,
    RegisterTable,
    Step,
    WriteSnapshot,
)
from ashore.proof.evidence.adopted_files import write_adopted
from ashore.queries.state.layout import BatchLog
from ashore.storage.base import Staged
from ashore.topics.loop.job import lake_of, landing_spec
from ashore.topics.loop.registrar import Registrar
from ashore.topics.open_job import OpenJob
from ashore.topics.use.requirements import WATCH_S_MAX


@dataclass(frozen=True, slots=True)
class Done:
    """A step that was done, and how a person undoes it. Empty: it needs no undoing."""

    step: Step
    undo: str = ""


def watch_all_quiet(opened: OpenJob, at: FormerAt) -> None:
    """Raise LogGrows where the job, or a former writer, writes within two intervals."""
    before = _traces(opened, at)
    opened.clock.sleep(min(2 * opened.job.batch.interval_ms / 1000, WATCH_S_MAX))
    for what, found in _traces(opened, at).items():
        if found != before[what]:
            raise LogGrows(
                f"{what} is growing: its writer is still running",
                hint="stop it first, or repeat the command with --take-over",
            )


def _traces(opened: OpenJob, at: FormerAt) -> dict[str, frozenset[str]]:
    """Return names in the directories that grow while a writer is active."""
    listed = {f"the log of {opened.name}": (opened.storage, names.log_directory(opened.name))}
    if at.spark_checkpoint is not None:
        checkpoint = open_beside(opened, at.spark_checkpoint)
        for log in BatchLog:
            listed[f"{at.spark_checkpoint}/{log}"] = (checkpoint, log)
    return {
        what: frozenset(each.path for each in storage.list(directory))
        for what, (storage, directory) in listed.items()
    }


def apply_steps(opened: OpenJob, steps: Sequence[Step], report: Callable[[Done], None]) -> None:
    """Do steps in their order. `report` is called for each that was done.

    Raises StorageError, CatalogError, TableOwned, FilesLost; Stopped where a step does not fit
    any more.
    If interrupted: the reported steps are done; diagnose again for the rest.
    """
    for step in steps:
        report(Done(step, _apply(opened, step)))


def _apply(opened: OpenJob, step: Step) -> str:
    """Do one step and return how it is undone."""
    storage = opened.storage
    match step:
        case AdoptFiles():
            adopt_files(opened, step)
        case MoveAside():
            return _move_aside(opened, step)
        case ListAdopted():
            storage.create(step.path, write_adopted(step.table, step.by, step.files))
        case JoinAdopted():
            _join(opened, step)
        case RegisterTable():
            _register(opened, step)
        case WriteSnapshot():
            _write_snapshot(opened, step)
        case _:
            assert_never(step)
    return ""


def _move_aside(opened: OpenJob, step: MoveAside) -> str:
    storage = opened.storage
    try:
        storage.publish(Staged(step.source), step.target)
    except PathMissing:
        if storage.stat(step.target) is None:
            raise
    except StorageError:
        # Unclear: the names show it. Nothing else ever has this target.
        if storage.stat(step.source) is not None or storage.stat(step.target) is None:
            raise
    storage.sync([names.parent(step.target), names.parent(step.source)])
    root = storage.describe().removeprefix("file://")
    verb = "hdfs dfs -mv" if "://" in root else "mv -n"
    return f"{verb} {quote(f'{root}/{step.target}')} {quote(f'{root}/{step.source}')}"


def _join(opened: OpenJob, step: JoinAdopted) -> None:
    """Take the slice over and append the join, closing what was unclosed.

    Requires: what the former writer left was looked at, and it writes no more.
    If interrupted: tables may be claimed, and the slice be opened; the join stands or does not.
    """
    claim_tables(opened.storage, step.tables, opened.job.job, opened.clock.now_ms())
    committer = opened.committer(opened.name)
    committer.log.open()
    require_right_clock(committer, opened.source)
    closing = committer.finish()
    known = committer.log.fold
    keys = [each.key for each in step.join.shards]
    again = [key for key in keys if known.generation(key.source, key.stream) is not None]
    streams = opened.source.describe_streams(sorted({each.key.stream for each in step.join.shards}))
    other = [
        each.key.stream
        for each in step.join.shards
        if each.key.stream not in streams or streams[each.key.stream].stream_id != each.stream_id
    ]
    if again or other:
        if closing is not None:
            committer.log.append(Commit("recovery"), closing)
        raise Stopped(
            f"{(again or other)[0]} changed since it was checked; nothing was adopted",
            hint="run ashore doctor again",
        )
    committer.log.append(step.join, closing)


def _register(opened: OpenJob, step: RegisterTable) -> None:
    with opened.catalog() as catalog:
        lake, job = lake_of(opened.job).uri, opened.job.job
        # `register` raises what it cannot do.
        registrar = Registrar(catalog, lake, job, lambda _message: None)
        resolved = opened.known_topics().values()
        fold = opened.fold(opened.name)
        registrar.ensure(landing_spec(each, fold) for each in resolved if not each.spec.select)
        registrar.register(step.table, step.partitions)


def _write_snapshot(opened: OpenJob, step: WriteSnapshot) -> None:
    """Write the snapshot that the job itself would write. Requires: damaged ones are aside."""
    seen, _ = look_at_log(opened.storage, opened.name)
    fold = seen.fold
    if fold is None or fold.end != step.end or fold.unclosed is not None:
        raise Stopped(
            f"the log of {opened.name} changed since it was checked; no snapshot was written",
            hint="a running job writes its own snapshots; otherwise run ashore doctor again",
        )
    remember_ms = max(item.seal.remember_ms for item in opened.job.tables)
    kept = forget_sealed(fold, fold.now_ms - remember_ms)
    opened.storage.create(names.snapshot_path(opened.name, kept.end), write_snapshot(kept))


def diagnose(opened: OpenJob, at: FormerAt) -> Diagnosis:
    """Return what would be done. Changes nothing."""
    return plan_doctor(observe(opened, at))


def treat(
    opened: OpenJob, at: FormerAt, report: Callable[[Done], None], *, takes_over: bool
) -> Diagnosis:
    """Do what can be done and return what is left. `report` is called for each step that was done.

    Raises LogGrows where another process appends, unless `takes_over`; else as `apply_steps`.
    """
    if not takes_over:
        watch_all_quiet(opened, at)
    seen = observe(opened, at)
    found = plan_doctor(seen)
    apply_steps(opened, found.steps, report)
    if seen.log.foreign:  # only now can the log be read
        found = diagnose(opened, at)
        apply_steps(opened, found.steps, report)
    return replace(found, steps=())
