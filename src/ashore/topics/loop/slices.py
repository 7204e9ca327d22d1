"""The slices of a job as its lake shows them, and tables as the other slices know them.

What it is: `find_slices`, the slice of its topics and those of its INSERTs; `read_others`, for a
table that a slice does not know yet, and that another one filled; `find_removed`, the INSERTs that
the job file no longer has.
What it promises: reads only, and only the logs of slices that could have filled such a table.
"""

from collections.abc import Collection, Mapping

from ashore.base.codec import Malformed
from ashore.jobs.file import Job
from ashore.log import names
from ashore.log.fold import Fold
from ashore.log.names import SliceName, insert_into_table
from ashore.log.store.reader import read_log
from ashore.log.tables import TableDefinition
from ashore.plans.graph import is_released, read_stored
from ashore.storage.base import Storage
from ashore.topics.loop.job import MAIN
from ashore.topics.loop.sinks import sink_slice, sinks_of

REMOVED = (
    "{} was filled by an INSERT that the job file no longer has: nothing is added to it; its rows "
    "and the state of the query stay, and an INSERT into it continues where its log ends"
)


def find_slices(storage: Storage, job: str) -> list[SliceName]:
    """Return the slices of a job whose log has a directory. Raises StorageError."""
    directories = (each for each in storage.list(names.job_directory(job)) if each.is_directory)
    found = (names.leaf(each.path) for each in directories)
    return [
        SliceName(job, name)
        for name in found
        if names.SLICE.fullmatch(name) and names.is_visible(name)  # not the queries' checkpoints
    ]


def read_others(
    storage: Storage, name: SliceName, tables: Collection[str]
) -> Mapping[str, TableDefinition]:
    """Return tables that a slice does not know, as others do. Raises LogDamaged, StorageError."""
    there = {each.slice for each in find_slices(storage, name.job)}
    found = {}
    for table in tables:
        other = insert_into_table(table) if name.slice == MAIN else MAIN
        if other in there:
            definition = read_log(storage, SliceName(name.job, other)).tables.get(table)
            if definition is not None:
                found[table] = definition
    return found


def find_removed(storage: Storage, job: Job) -> tuple[str, ...]:
    """Return the INSERTs that have a log and that the job file no longer has, in words.

    What a migration has dropped is not among them. Raises LogDamaged, StorageError.
    """
    known = {sink_slice(job.job, item).slice for item in sinks_of(job).values()}
    found = []
    there = {each.slice: each for each in find_slices(storage, job.job)}
    for each in sorted(there.keys() - known - {MAIN}):
        fold = read_log(storage, there[each])
        if fold.end >= 0 and not _is_dropped(fold):
            found.append(REMOVED.format(_find_filled(each, fold)))
    return tuple(found)


def _is_dropped(fold: Fold) -> bool:
    try:
        return fold.plan is not None and is_released(read_stored(fold.plan.document))
    except Malformed:
        return False


def _find_filled(name: str, fold: Fold) -> str:
    target = names.parse_insert(name)
    tables = [each for each in target.tables if each in fold.tables]
    return tables[0] if tables else f"topic {target.topic or name}"
