"""A query that continues from a savepoint, though its table may have newer batches.

What it is: `preview_resume`, what was landed since; `resume`, which puts a savepoint in the place
of the query's checkpoint.
What it promises: the checkpoint that was there is neither needed nor read. First an attempt is made
of the savepoint; then, where the table is to follow, the log says that later batches are taken
back; then their files go aside. Where this is cut short in between, the attempt is behind the
table, and a start catches it up. What cannot be done is refused before anything is appended.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

from ashore.errors import CheckpointUnfit
from ashore.log.entries import Commit, Rollback
from ashore.log.fold import Fold
from ashore.log.names import SliceName, query_source
from ashore.log.plan_query import CheckpointPosition, Refusal, Refuse, plan_start
from ashore.log.plan_rollback import Wish
from ashore.log.query_history import LandedBatch, read_landed_batches
from ashore.log.store.committer import Committer
from ashore.log.store.reader import read_history, read_log
from ashore.queries.state.attempts import Attempts
from ashore.queries.state.checkpoint import Checkpoint
from ashore.queries.state.later_batches import LandedSince, OutputSince
from ashore.queries.state.layout import Ends
from ashore.queries.state.rollback import plan_entry
from ashore.queries.state.versions import require_migration
from ashore.storage.base import Storage
from ashore.topics.loop.query_sink import refusal_of
from ashore.topics.loop.sinks import SENT

Place = tuple[str, str, str]  # source, topic and topic partition, as keys of shards have them


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
