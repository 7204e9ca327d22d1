"""`clean`: files in progress, and orphans of tables in a table format, that nothing refers to.

What it promises: plans are values: what `--explain` shows is what is applied. A table that is not
as the log has it is left as it is, with the reason, and the others are cleaned.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from ashore.errors import Stopped, StorageError
from ashore.log.plan_clean import DeleteFile, Leftover, ListedTable
from ashore.log.store.cleaner import apply_cleaning, plan_cleaning
from ashore.log.store.owner import require_free
from ashore.log.store.reader import read_log
from ashore.log.tables import SNAPSHOTS
from ashore.storage.base import Storage
from ashore.tables.readable import walk_readable
from ashore.tables.table_format import Orphans, TableFormat
from ashore.topics.loop.job import tables_of
from ashore.topics.loop.sinks import sink_slice
from ashore.topics.open_job import OpenJob


@dataclass(frozen=True, slots=True)
class CleanPlan:
    """What may be deleted, and the tables that were looked at for it."""

    steps: tuple[DeleteFile, ...]
    tables: tuple[str, ...]  # whose in-progress files were listed
    orphans: tuple[Orphans, ...]  # of tables in a table format

    @property
    def size_bytes(self) -> int:
        """The bytes of all files that may be deleted."""
        return sum(step.file.size_bytes for step in self.steps)


def plan_clean_job(opened: OpenJob) -> CleanPlan:
    """Return the files that may be deleted now, of topics' tables and of those that SQL writes."""
    job = opened.job
    topics = opened.known_topics().values()
    sinks = [item for item in job.tables if item.topic is None]
    slices = {opened.name: tables_of(topics)}
    slices |= {sink_slice(job.job, item): list(item.sink_tables) for item in sinks}
    formatted = {*tables_of(each for each in topics if each.spec.format in SNAPSHOTS)}
    formatted |= {name for item in sinks if item.format in SNAPSHOTS for name in item.sink_tables}
    now_and_ttl = (opened.clock.now_ms(), job.clean.ttl_ms)
    steps: list[DeleteFile] = []
    orphans: list[Orphans] = []
    for name, tables in slices.items():
        # First the files, then the log, then the tables: see ListedTable.
        below = {each: _list_below(opened.storage, each) for each in tables if each in formatted}
        fold = read_log(opened.storage, name)
        steps += plan_cleaning(opened.storage, name, fold, tables, now_and_ttl)
        listed = [ListedTable(*each, name, fold, *now_and_ttl) for each in below.items()]
        orphans += _find_orphans(opened, listed)
    steps += [step for each in orphans for step in each.steps]
    cleaned = sorted(table for tables in slices.values() for table in tables)
    return CleanPlan(tuple(steps), tuple(cleaned), tuple(orphans))


def clean_job(opened: OpenJob, plan: CleanPlan) -> int:
    """Delete planned files and return the bytes."""
    return apply_cleaning(opened.storage, plan.steps)


def _list_below(storage: Storage, table: str) -> tuple[Leftover, ...]:
    """Return the files below a table, but for hidden ones. Raises StorageError."""
    found: list[Leftover] = []
    for _, listed in walk_readable(storage, [table]):
        if isinstance(listed, StorageError):
            raise listed
        found += [Leftover(each.path, each.size, each.modified_ms) for each in listed]
    return tuple(found)


def _find_orphans(opened: OpenJob, tables: Sequence[ListedTable]) -> list[Orphans]:
    if not tables:
        return []
    with opened.formats() as formats:
        return [_look(opened, formats, each) for each in tables]


def _look(opened: OpenJob, formats: TableFormat, listed: ListedTable) -> Orphans:
    try:
        require_free(opened.storage, [listed.table], opened.job.job)
        return formats.find_orphans(listed)
    except Stopped as stopped:
        return Orphans(listed.table, skipped=stopped.message)
