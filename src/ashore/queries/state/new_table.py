"""A query that continues from a savepoint into a table of its own, which gets what comes after.

What it is: `preview_beginning`, which looks, and `begin`, which does it: an attempt of the
savepoint, and the entry that its log begins with.
What it promises: what comes before the end of the savepoint is in another table, which nothing here
reads or changes. First the attempt is made; then the log says where it begins. Where this is cut
short in between, a start is refused, and nothing is landed. A log that is not empty is refused
before anything is appended.
"""

import hashlib
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

from ashore.errors import CheckpointUnfit
from ashore.log.entries import Begin, Joined, Query
from ashore.log.entries.queries import is_empty
from ashore.log.fold import Fold
from ashore.log.names import SliceName
from ashore.log.plan_query import CheckpointPosition
from ashore.log.positions import ShardKey
from ashore.log.query import PlanState
from ashore.log.store.committer import Committer
from ashore.log.store.reader import read_log
from ashore.queries.state.attempts import Attempts
from ashore.queries.state.checkpoint import Checkpoint
from ashore.queries.state.layout import MigrationPath, VersionPath
from ashore.queries.state.resume import Place
from ashore.storage.base import Storage

POLICY = "savepoint"


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
