"""Cleaning checkpoints: the use case behind `ashore checkpoint clean`.

What it is: `clean`, over one checkpoint, over a directory of many, over the attempts of a job's
query, or over the pool of shared savepoints.
What it promises: with `explain` nothing is changed, and what it counts is what would go. Files are
found and deleted some at a time, so that memory does not grow with them. What a running Spark may
write stays.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from ashore.base.clock import Clock
from ashore.base.unique import unique
from ashore.base.units import format_duration, parse_duration_ms
from ashore.errors import CheckpointUnfit, JobFileInvalid, NotDone
from ashore.queries.state.attempts import Attempts
from ashore.queries.state.checkpoint import Checkpoint
from ashore.queries.state.cleaner import (
    AGE_MS,
    LeftAlone,
    delete_garbage,
    find_directories,
    find_garbage,
)
from ashore.queries.state.garbage import Garbage, Unneeded
from ashore.queries.state.layout import QueryPath
from ashore.queries.state.savepoints.manifest import PoolFile
from ashore.queries.state.savepoints.pool import Pool
from ashore.queries.state.savepoints.store import Savepoint, list_savepoints
from ashore.queries.state.savepoints.sweep import sweep
from ashore.queries.tools.addresses import find_attempts, find_checkpoint, is_job_file
from ashore.storage.base import FileStat, is_temporary

OLDER_THAN = "24h"


@dataclass(slots=True)
class GarbageTally:
    """How many files, and their bytes."""

    files: int = 0
    size_bytes: int = 0

    def add(self, garbage: Garbage) -> None:
        """Count a file."""
        self.files += 1
        self.size_bytes += garbage.size_bytes


@dataclass(slots=True)
class Cleaned:
    """What was found, or deleted.

    Arguments:
        checkpoints: that were looked through.
        amounts: by the reason why nothing refers to the files; directories count as files there.
        left: files of unknown use, which were not deleted.

    """

    checkpoints: list[str] = field(default_factory=list)
    amounts: dict[Unneeded, GarbageTally] = field(default_factory=lambda: defaultdict(GarbageTally))
    left: list[LeftAlone] = field(default_factory=list)

    @property
    def total(self) -> GarbageTally:
        """All files, without directories."""
        files = [each for why, each in self.amounts.items() if why is not Unneeded.EMPTY]
        return GarbageTally(
            sum(each.files for each in files), sum(each.size_bytes for each in files)
        )


def parse_age(text: str) -> int:
    """Return the milliseconds of `24h`. Raises JobFileInvalid."""
    try:
        return parse_duration_ms(text)
    except ValueError:
        raise JobFileInvalid(f"--older-than {text!r} is not a duration", hint="write 24h") from None


def clean(where: str, query: str | None, age_ms: int, clock: Clock, *, explain: bool) -> Cleaned:
    """Find what nothing refers to, and delete it.

    Arguments:
        where: a job file, a checkpoint, or a directory with checkpoints or shared savepoints: see
            `find_checkpoint`.
        query: of a job file with several.
        age_ms: what was modified since stays.
        clock: of the storage, and of the age.
        explain: only count.

    Raises as `find_checkpoint`; CheckpointUnfit where there is no checkpoint, or none of its
    batches is done; NotDone where the job runs on this machine, and files would go that are younger
    than a day; StorageError.
    If interrupted: what was deleted is gone, and the rest is found the next time.

    """
    named = find_checkpoint(where, query, clock)
    if is_job_file(where) and age_ms < AGE_MS and not explain:
        _require_stopped(where, clock)
    before_ms = clock.now_ms() - age_ms
    cleaned = Cleaned()
    pool = Pool.beside(named)
    has_pool = pool.is_there()
    if has_pool:
        _clean_pool(pool, before_ms, cleaned, explain=explain)
    checkpoints = _list_checkpoints(named, may_be_none=has_pool)
    for checkpoint in checkpoints:
        place = checkpoint.place
        cleaned.checkpoints.append(place)
        found = _only_garbage(find_garbage(checkpoint, before_ms), cleaned.left)
        try:
            for each in found if explain else delete_garbage(checkpoint, found):
                cleaned.amounts[each.why].add(each)
        except CheckpointUnfit as error:
            if len(checkpoints) == 1:
                raise
            cleaned.left.append(LeftAlone(place, error.message))
    if is_job_file(where):
        _, attempts = find_attempts(where, query, clock)
        for each in _clean_attempts(attempts, clock.now_ms(), age_ms, explain=explain):
            cleaned.amounts[each.why].add(each)
    return cleaned


def _require_stopped(job_file: str, clock: Clock) -> None:
    """Raise NotDone where a job runs: it may be about to name a file that looks like garbage.

    A job on another machine has left no heartbeat here: it is not found.
    """
    # What reads a job file takes longer to import than a checkpoint to be looked at.
    from ashore.jobs.ask import RunningJob  # noqa: PLC0415 - as said above
    from ashore.topics.loop.job import load_job_file  # noqa: PLC0415 - as said above

    job = load_job_file(job_file)
    beat = RunningJob(job.job, str(job.lake), clock, lambda _line: None).find_beating()
    if beat is not None:
        raise NotDone(
            f"job {job.job} is running, process {beat.pid}: beside it only files are deleted that "
            f"are older than {format_duration(AGE_MS)}; nothing was changed",
            hint="omit --older-than, or stop the job first: `ashore stop JOB.yaml`",
        )


def _only_garbage(
    found: Iterable[Garbage | LeftAlone], unclear: list[LeftAlone]
) -> Iterator[Garbage]:
    for each in found:
        match each:
            case Garbage():
                yield each
            case LeftAlone():
                unclear.append(each)


def _clean_pool(pool: Pool, before_ms: int, cleaned: Cleaned, *, explain: bool) -> None:
    cleaned.checkpoints.append(pool.place)
    cleaned.left += [
        LeftAlone(each.place, "an unfinished savepoint: what it may need stays in the pool")
        for each in find_unfinished(pool)
    ]
    found, lists = find_unneeded(pool, before_ms), find_left_lists(pool, before_ms)
    would_go = [*found.values(), *(each.size for each in lists)]
    for size in would_go if explain else delete_unneeded(pool, found, lists, unique):
        cleaned.amounts[Unneeded.POOL].add(Garbage(pool.place, size, Unneeded.POOL))


def _list_checkpoints(named: Checkpoint, *, may_be_none: bool) -> list[Checkpoint]:
    if _is_checkpoint(named):
        return [named]
    many = [
        Checkpoint(named.storage, named.full_path(name), f"{named.uri}/{name}")
        for name in named.list_directory().directories
    ]
    found = [each for each in many if _is_checkpoint(each)]
    if not found and not may_be_none:
        raise CheckpointUnfit(
            f"{named.place} is not a checkpoint of Spark, and has none in it",
            hint="name the directory that Spark's option checkpointLocation names, or its parent",
            why="no_checkpoint",
        )
    return found


def _is_checkpoint(checkpoint: Checkpoint) -> bool:
    return checkpoint.stat(QueryPath().path) is not None


def _clean_attempts(
    attempts: Attempts, now_ms: int, age_ms: int, *, explain: bool
) -> Iterator[Garbage]:
    """Yield the files of attempts that another one has followed, then their directories.

    The directories of such attempts stay when a job cleans them itself; they go here.
    """
    for epoch in attempts.list_followed(now_ms, age_ms):
        for each in attempts.attempt(epoch).list_files():
            yield Garbage(each.path, each.size_bytes, Unneeded.ATTEMPT)
    newest = attempts.newest_epoch()
    if newest is None:
        return
    if not explain:
        attempts.clean(newest, now_ms, age_ms)
    for epoch in attempts.list_emptied(newest):
        attempt = attempts.attempt(epoch)
        found = find_directories(attempt)
        yield from found if explain else delete_garbage(attempt, found)


def find_unneeded(pool: Pool, before_ms: int) -> dict[PoolFile, int]:
    """Return files that no savepoint needs, and the bytes of each. Only reads.

    The references of each savepoint and what is found are in memory. What an unfinished
    savepoint may rely on is needed, since it may still be being taken.

    `before_ms`: what was modified at this time or later is left out.
    Raises CheckpointUnfit where a savepoint does not list what it needs; StorageError.
    """
    references = pool.read_references()
    return {
        file: each.size_bytes
        for part in pool.list_parts()
        if part not in references.owners
        for each in pool.part(part).list_files()
        if each.modified_ms < before_ms
        and (file := PoolFile(part, each.path)) not in references.files
    }


def find_left_lists(pool: Pool, before_ms: int) -> list[FileStat]:
    """Return what sweeps that were interrupted have left beside the files. Raises StorageError.

    `before_ms`: as above; an active sweep needs its list.
    """
    found = [each for each in pool.list_entries() if not each.is_directory]
    temporary = [each for each in found if is_temporary(each.path)]
    return [each for each in [*pool.list_condemned(), *temporary] if each.modified_ms < before_ms]


def find_unfinished(pool: Pool) -> list[Savepoint]:
    """Return the savepoints that keep files of the pool and are not complete, or damaged."""
    return [
        each.savepoint
        for each in list_savepoints(pool.savepoints)
        if each.manifest is None and each.savepoint.has_references()
    ]


def delete_unneeded(
    pool: Pool, found: Mapping[PoolFile, int], lists: list[FileStat], make_unique: Callable[[], str]
) -> Iterator[int]:
    """Delete what was found, unless a savepoint has come to need it, and yield the bytes of each.

    Raises as `sweep`. If interrupted: the rest is found again.
    """
    for each in sweep(pool, found, make_unique):
        yield found[each]
    for file in lists:
        if pool.delete(file.path):
            yield file.size
