"""A query that continues from a savepoint, in its own table or in another one.

What it is: `resume`, which puts a savepoint in the place of the query's checkpoint, though its
table may have newer batches, and `preview_resume`, what was landed since; `begin`, for a table of
its own that gets what comes after: an attempt of the savepoint, and the entry that its log begins
with, and `preview_beginning`, which looks.
What it promises: what cannot be done is refused before anything is appended. The checkpoint that
was there is neither needed nor read. First an attempt is made of the savepoint; then, where the
table is to follow, the log says that later batches are taken back; then their files go aside. Where
this is cut short in between, the attempt is behind the table, and a start catches it up.

In another table what comes before the end of the savepoint is in the first one, which nothing here
reads or changes. First the attempt is made; then the log says where it begins. Where this is cut
short in between, a start is refused, and nothing is landed. A log that is not empty is refused.
"""

import hashlib
import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

from ashore.errors import CheckpointUnfit
from ashore.log.entries import Begin, Commit, Joined, Query, Rollback
from ashore.log.entries.batch import SENT
from ashore.log.entries.queries import is_empty
from ashore.log.fold import Fold
from ashore.log.names import SliceName, query_source
from ashore.log.plan_query import CheckpointPosition, Refusal, Refuse, plan_start
from ashore.log.plan_rollback import Wish
from ashore.log.positions import ShardKey
from ashore.log.query import PlanState
from ashore.log.query_history import LandedBatch, read_landed_batches
from ashore.log.store.committer import Committer
from ashore.log.store.reader import read_history, read_log
from ashore.queries.state.attempts import Attempts
from ashore.queries.state.checkpoint import Checkpoint
from ashore.queries.state.later_batches import LandedSince, OutputSince
from ashore.queries.state.layout import Ends, MigrationPath, VersionPath
from ashore.queries.state.rollback import plan_entry
from ashore.queries.state.versions import require_migration
from ashore.storage.base import Storage
from ashore.topics.loop.query_sink import refusal_of

Place = tuple[str, str, str]  # source, topic and topic partition, as keys of shards have them
POLICY = "savepoint"  # by which topics begin in the log of another table


@dataclass(frozen=True, slots=True)
class Resume:
    """How a query is to continue.

    Arguments:
        position: of the savepoint.
        ends: returns where its last batch has ended; see `read_places`.
        output: how what was landed since is treated; None: there must be nothing.
        by: who requests it, for the log.
        why: for what reason.

    """

    position: CheckpointPosition
    ends: Callable[[], Mapping[Place, int]]
    output: OutputSince | None
    by: str
    why: str
    migration: int = 0  # that has rewritten the savepoint's state; see `find_migration`


def read_places(name: SliceName, ends: Ends) -> dict[Place, int]:
    """Return the offset that comes next after a batch of a checkpoint, by place.

    `ends`: of the batch; see `Checkpoint.read_ends`.
    """
    readings: Counter[str] = Counter()
    found: dict[Place, int] = {}
    for _, topics in sorted(ends.items()):
        for topic, shards in topics.items():
            readings[topic] += 1
            source = query_source(name, readings[topic])
            found |= {(source, topic, shard): offset for shard, offset in shards.items()}
    return found


def preview_resume(storage: Storage, name: SliceName, plan: Resume) -> LandedSince:
    """Return what a query has landed since a savepoint. Appends nothing.

    Raises as `resume` where that would be refused; LogDamaged, StorageError.
    """
    return _plan(storage, name, read_log(storage, name), plan)[0]


@contextmanager
def resume(
    committer: Committer, attempts: Attempts, plan: Resume
) -> Iterator[tuple[Checkpoint, LandedSince]]:
    """Let the next start of a query continue from a savepoint. Takes its slice over.

    The block writes the savepoint's files to the empty attempt that it gets.
    If interrupted: call it again; or run the job, which continues from the checkpoint that it had,
    or from the savepoint, whichever is complete.

    Arguments:
        committer: of the query's slice.
        attempts: of the query; there need not be any.
        plan: how it is to continue.

    Raises CheckpointUnfit where the savepoint does not belong to the log, or where something was
    landed since and `plan` does not say how to treat it; QueryRefused where that cannot be;
    LogDamaged, FilesLost, FileConflict, Fenced, StorageError.

    """
    log, storage = committer.log, committer.storage
    preview_resume(storage, log.name, plan)
    log.open()
    closing = committer.finish()
    since, body = _plan(storage, log.name, log.fold, plan)
    with attempts.remake(log.fold.epoch) as target:
        yield target, since
    if body is not None:
        log.append(body, closing)
        closing = committer.finish()
    if closing is not None:
        log.append(Commit("recovery"), closing)


def _plan(
    storage: Storage, name: SliceName, fold: Fold, plan: Resume
) -> tuple[LandedSince, Rollback | None]:
    """Return what was landed since, and the entry that takes it back, where `plan` does so."""
    since = _look(storage, name, fold, plan)
    if since.batches and plan.output is None:
        raise CheckpointUnfit(
            f"{name} has landed {since.rows:,} rows in {since.batches:,} batches, "
            f"{since.batch + 1} to {since.last}, since the savepoint of batch {since.batch}; "
            "nothing was changed",
            hint="choose how to treat them: `--output roll-back` moves their files aside and "
            "reads their offsets again, `--output catch-up` keeps them and runs their batches "
            "again only to rebuild the state; `--output another-table`, with a job file that fills "
            "another table, leaves them and continues there",
            why="landed_since",
            rows=since.rows,
            batches=since.batches,
        )
    if not since.batches or plan.output is not OutputSince.ROLL_BACK:
        return since, None
    return since, plan_entry(storage, name, fold, Wish(since.batch, plan.by, plan.why))


def _look(storage: Storage, name: SliceName, fold: Fold, plan: Resume) -> LandedSince:
    decision = plan_start(fold.query, plan.position)
    if isinstance(decision, Refuse):
        raise refusal_of(name, decision)
    if fold.query is not None:
        require_migration(name, fold, plan.migration)
    done = plan.position.committed
    if fold.query is None or fold.query.batch_id <= done:
        return LandedSince(done, done, 0, 0)
    batches = read_landed_batches(read_history(storage, name), done)
    needed = range(max(done, fold.query.first), fold.query.batch_id + 1)
    missing = [number for number in needed if number not in batches]
    if missing:
        text = f"the log does not have batch {missing[0]}, which the savepoint would continue from"
        raise refusal_of(name, Refuse(Refusal.FORGOTTEN, text))
    landed = [batches[number] for number in range(done + 1, fold.query.batch_id + 1)]
    _require_followed(name, plan, landed)
    files = [file for batch in landed for file in batch.files]
    sent = sum(dict(batch.body.counters).get(SENT, 0) for batch in landed)
    return LandedSince(
        done, fold.query.batch_id, sum(file.rows for file in files) + sent, len(files)
    )


def _require_followed(name: SliceName, plan: Resume, landed: Iterable[LandedBatch]) -> None:
    """Raise CheckpointUnfit where the log's batches begin elsewhere than the savepoint ends.

    Such a savepoint is from before a rollback: its numbers are those of batches that were taken
    back.
    """
    known, compared = plan.ends(), set[Place]()
    for batch in landed:
        for read in batch.body.shards:
            place = (read.key.source, read.key.stream, read.key.shard)
            ends = known.get(place, read.offsets.start)
            if place not in compared and ends != read.offsets.start:
                text = (
                    f"the savepoint ends at offset {ends} of {read.key}, but the log continues "
                    f"after batch {plan.position.committed} at offset {read.offsets.start}"
                )
                raise refusal_of(name, Refuse(Refusal.OTHER_LINEAGE, text))
            compared.add(place)


# ---- another table


@dataclass(frozen=True, slots=True)
class Beginning:
    """How the log of a query is to begin.

    Arguments:
        position: of the savepoint. Requires: a batch is done in it.
        ends: where its last batch has ended; see `read_places`.
        stream_ids: the identity of each topic in them, as Kafka reports it now.
        lineage: of that batch, as the savepoint's own log has it; None: it is not known.
        plan: that made the state; None: it is not known.
        owner: the job and slice that the savepoint is of; empty: it does not say.
        savepoint: where it is.
        by: who requests it, for the log.
        why: for what reason.

    """

    position: CheckpointPosition
    ends: Mapping[Place, int]
    stream_ids: Mapping[str, str]
    lineage: str | None
    plan: PlanState | None
    owner: str
    savepoint: str
    by: str
    why: str


def preview_beginning(storage: Storage, name: SliceName, beginning: Beginning) -> bool:
    """Return whether a log has begun like this before, and landed nothing since. Appends nothing.

    Raises CheckpointUnfit where it cannot; LogDamaged, StorageError.
    """
    return _has_begun(name, read_log(storage, name), plan_begin(beginning))


@contextmanager
def begin(committer: Committer, attempts: Attempts, beginning: Beginning) -> Iterator[Checkpoint]:
    """Let the log of a query begin with a savepoint. Takes its slice over.

    The caller writes the savepoint's files to the empty attempt that it gets; after that the log
    begins.
    If interrupted: call it again. A start before that is refused: the log has no batch, and the
    checkpoint may have some.

    Arguments:
        committer: of the query's slice.
        attempts: of the query; there need not be any.
        beginning: how its log is to begin.

    Raises CheckpointUnfit where the log is not empty; LogDamaged, Fenced, StorageError.

    """
    log = committer.log
    preview_beginning(committer.storage, log.name, beginning)
    log.open()
    body = plan_begin(beginning)
    has_begun = _has_begun(log.name, log.fold, body)
    with attempts.remake(log.fold.epoch) as target:
        yield target
        forget_origin(target)
    if not has_begun:
        log.append(body, committer.finish())


def plan_begin(beginning: Beginning) -> Begin:
    """Return the entry that a log begins with."""
    shards = tuple(
        Joined(ShardKey(source, topic, 1, shard), beginning.stream_ids[topic], offset, POLICY)
        for (source, topic, shard), offset in sorted(beginning.ends.items())
    )
    query_id, batch = beginning.position.query_id or "", beginning.position.committed
    return Begin(
        query=Query(query_id, batch, beginning.lineage or _hash(query_id, batch, shards)),
        shards=shards,
        digest=beginning.plan.digest if beginning.plan else "",
        document=beginning.plan.document if beginning.plan else "",
        owner=beginning.owner,
        savepoint=beginning.savepoint,
        by=beginning.by,
        why=beginning.why,
    )


def forget_origin(checkpoint: Checkpoint) -> None:
    """Delete what a checkpoint says of the log that it was of: it is another one's now.

    These are the copies of versions of its job, and the mark of a migration: the new log has the
    plan that made the state, and no migration.
    If interrupted: some are left. Raises StorageError.
    """
    for version in checkpoint.list_versions():
        checkpoint.delete(VersionPath(version).path)
    while migration := checkpoint.read_migration():
        checkpoint.delete(MigrationPath(migration).path)


def _has_begun(name: SliceName, fold: Fold, body: Begin) -> bool:
    """Return whether a log has begun with an entry. Raises CheckpointUnfit where it has more."""
    known, query = fold.query, body.query
    if known is not None:
        here = (known.query_id, known.first, known.since, known.batch_id)
        if here == (query.query_id, query.batch_id + 1, query.lineage, query.batch_id):
            return True
    if not is_empty(fold):
        what = f"it ends with batch {known.batch_id} of its query" if known else "it was read into"
        raise CheckpointUnfit(
            f"the log of {name} is not empty: {what}; nothing was changed",
            hint="name a job file that fills another table or topic, which no query has filled; "
            "if this one already continued from the savepoint, run the job without --from",
            why="not_empty",
        )
    return False


def _hash(query_id: str, batch: int, shards: tuple[Joined, ...]) -> str:
    """Return a lineage for a batch whose own is not known: of what it has read up to."""
    keys = [(each.key, each.first_offset) for each in shards]
    read = [[key.source, key.stream, key.generation, key.shard, end] for key, end in keys]
    text = json.dumps([POLICY, query_id, batch, read], separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()
