"""Retiring table partitions: dropping old data on purpose, so that it does not count as lost.

What it promises: the entry comes first, then the catalog forgets the partitions, then the files are
deleted. (One without data is forgotten before the entry: no file would show that this is left to
do.) Only listed files and success files are deleted; others stay and are counted. Repeatable.
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial

from ashore.base.operator import operator
from ashore.base.suggest import suggest
from ashore.base.units import parse_duration_ms
from ashore.errors import JobFileInvalid
from ashore.log import names
from ashore.log.entries import Commit
from ashore.log.files import PartitionKey
from ashore.log.names import SliceName
from ashore.log.plan_commit import drop_deferred
from ashore.log.plan_seal import partition_end_ms
from ashore.log.store.clock_guard import require_right_clock
from ashore.proof.evidence.log_reading import read_ledger
from ashore.topics.loop.job import lake_of
from ashore.topics.loop.retention import (
    RetirePartition,
    delete_files,
    files_of,
    forget_partitions,
    retire_entry,
)
from ashore.topics.open_job import OpenJob
from ashore.topics.use.requirements import require_stopped


def parse_age(text: str) -> int:
    """Return the milliseconds of `90d`. Raises JobFileInvalid."""
    try:
        return parse_duration_ms(text)
    except ValueError:
        raise JobFileInvalid(f"--older-than {text!r} is not a duration", hint="write 90d") from None


def plan_retire(
    opened: OpenJob, table: str, partitions: Sequence[str], older_than_ms: int | None = None
) -> tuple[RetirePartition, ...]:
    """Return what `apply_retire` would do.

    Arguments:
        opened: the job.
        table: of the job; its late and dead tables go by their own names.
        partitions: to be dropped, as `date=2026-11-21`.
        older_than_ms: drop also those of time that ended so long ago, by the job's clock.

    Raises JobFileInvalid for a table or partition that no log of the job knows, LogDamaged,
    StorageError.

    """
    opened.refuse_snapshots("ashore retire")
    listed = _read_listed(opened, table)
    if not listed:
        raise JobFileInvalid(
            f"no log of {opened.job.job} has a file of table {table}",
            hint="name a table of the job as database.table",
        )
    for each in partitions:
        if each not in listed:
            hint = suggest(each, listed, "write it as its directory below the table")
            raise JobFileInvalid(f"{table} has never had a partition {each!r}", hint=hint)
    chosen = set(partitions)
    if older_than_ms is not None:
        zone = _zone_of(opened, table)
        before_ms = opened.clock.now_ms() - older_than_ms
        chosen |= {each for each in listed if _has_ended(each, zone, before_ms)}
    planned = [_plan(opened, (table, each), listed[each]) for each in sorted(chosen)]
    # What was retired long ago and is gone needs nothing.
    return tuple(each for each in planned if each.slices or each.files)


def apply_retire(
    opened: OpenJob, plan: Sequence[RetirePartition], why: str, *, takes_over: bool
) -> int:
    """Retire planned partitions and return how many files were deleted.

    Raises LogGrows where the job runs, unless it `takes_over`; FilesLost where files of the
    unclosed entry are gone; ClockAhead, CatalogError, StorageError.
    If interrupted: the log may say that they are retired while files are still there, which
    that no log needs; the same command continues.
    """
    if not plan:
        return 0
    require_stopped(opened, takes_over=takes_over)
    with opened.catalog() as catalog:
        forget = partial(forget_partitions, catalog, opened.job.job, lake_of(opened.job).uri)
        forget([each for each in plan if not each.has_data])
        for name in dict.fromkeys(name for each in plan for name in each.slices):
            _append(opened, name, [each for each in plan if name in each.slices], why)
        forget([each for each in plan if each.has_data])
    return delete_files(opened.storage, [path for each in plan for path in each.files])


@dataclass(slots=True)
class _ListedFiles:
    finals: set[str] = field(default_factory=set)
    in_flight: set[str] = field(default_factory=set)  # of these, to be moved there yet, perhaps
    rows: dict[SliceName, int] = field(default_factory=lambda: defaultdict(int))  # not retired


def _read_listed(opened: OpenJob, table: str) -> dict[str, _ListedFiles]:
    ledger = read_ledger(opened.storage, opened.job.job)
    listed: dict[str, _ListedFiles] = defaultdict(_ListedFiles)
    for file in (*ledger.files, *ledger.excused_files):
        if file.target.table == table and file.target.partition:
            listed[file.target.partition].finals.add(file.final)
    for file in ledger.files:
        if file.target.table == table and file.target.partition:
            of_partition = listed[file.target.partition]
            of_partition.rows[SliceName(opened.job.job, file.slice)] += file.file.rows
            if ledger.is_in_flight(file):
                of_partition.in_flight.add(file.final)
    return listed


def _plan(opened: OpenJob, key: PartitionKey, listed: _ListedFiles) -> RetirePartition:
    directory = names.join(names.table_path(key[0]), key[1])
    own, others = files_of(opened.storage.list(directory), listed.finals.__contains__)
    return RetirePartition(
        *key,
        files=(*own, *sorted(listed.in_flight - set(own))),
        rows=sum(listed.rows.values()),
        kept=len(others),
        slices=tuple(sorted(listed.rows)),
    )


def _has_ended(partition: str, zone: str, before_ms: int) -> bool:
    end_ms = partition_end_ms(partition, zone)
    return end_ms is not None and end_ms <= before_ms


def _zone_of(opened: OpenJob, table: str) -> str:
    for each in opened.known_topics().values():
        sides = [side.table for side in (each.dead, each.late) if side]
        if table in {str(each.table), *map(str, sides)}:
            return str(each.spec.timezone)
    fed = (item for item in opened.job.tables if item.topic is None)
    return next((str(item.timezone) for item in fed if table in item.sink_tables), "UTC")


def _append(opened: OpenJob, name: SliceName, mine: Sequence[RetirePartition], why: str) -> None:
    committer = opened.committer(name)
    committer.log.open()
    require_right_clock(committer, opened.source)  # it may have decided which partitions are old
    closing = committer.finish()
    if closing is not None:
        committer.log.append(Commit("retire"), closing)
    # Deferred actions of a partition that is gone are dropped.
    closing = drop_deferred(committer.log.fold.deferred, None, {each.key for each in mine})
    committer.log.append(retire_entry(mine, operator(), why), closing)
