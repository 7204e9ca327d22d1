"""What the log of the query that a savepoint is of says of the batch that it ends with.

What it is: `read_former`: the plan that made its state, its lineage, its topics' identities.
What it promises: reads only. A savepoint whose batch the log has taken back is refused: no table
has what it has read.
What it must not know: who goes on from the savepoint.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from ashore.checkpoints.resume import read_places
from ashore.checkpoints.savepoints.manifest import Manifest
from ashore.checkpoints.savepoints.store import Savepoint
from ashore.errors import CheckpointUnfit
from ashore.landing.log_reader import read_history, read_log
from ashore.protocol.entries import Begin, Plan, Prepare, Query
from ashore.protocol.names import SliceName
from ashore.protocol.query import PlanState
from ashore.storage.base import Storage


@dataclass(frozen=True, slots=True)
class FormerLog:
    """What the log of a savepoint says of its batch.

    Arguments:
        name: of its slice.
        last: the last batch that it has landed.
        lineage: of the batch of the savepoint.
        plan: that it ran by.
        stream_ids: the identity of each topic, as the batch read it.

    """

    name: SliceName
    last: int
    lineage: str
    plan: PlanState
    stream_ids: Mapping[str, str]


@dataclass(slots=True)
class _Found:
    """What entries say so far."""

    plan: PlanState | None = None
    lineage: str = ""
    ran_by: PlanState | None = None
    ends: Mapping[tuple[str, str, str], int] | None = None

    def take(self, body: object, batch: int) -> None:
        """Go on by one entry."""
        match body:
            case Plan():
                self.plan = PlanState(body.digest, body.document)
            case Begin():
                self.plan = PlanState(body.digest, body.document) if body.digest else None
                if body.query.batch_id == batch:
                    self.lineage, self.ran_by = body.query.lineage, self.plan
            case Prepare(query=Query() as query) if query.batch_id == batch:
                self.lineage, self.ran_by = query.lineage, self.plan
                self.ends = {
                    (each.key.source, each.key.stream, each.key.shard): each.offsets.end
                    for each in body.shards
                }
            case _:
                pass


def read_former(
    storage: Storage, name: SliceName, savepoint: Savepoint, manifest: Manifest
) -> FormerLog | None:
    """Return what the log of a savepoint says; None: it is not here, or has no plan.

    Raises CheckpointUnfit where the log has taken the batch back, or is another query's;
    LogDamaged, StorageError.
    """
    fold, batch = read_log(storage, name), manifest.batch
    if fold.query is None or fold.query.query_id != manifest.query_id:
        return None
    found = _Found()
    for entry in read_history(storage, name):
        found.take(entry.body, batch)
    places = read_places(name, savepoint.checkpoint.read_ends(batch))
    is_as_read = all(places.get(place) == end for place, end in (found.ends or {}).items())
    if fold.query.batch_id < batch or not is_as_read:
        raise CheckpointUnfit(
            f"the savepoint {savepoint.place} is from before a rollback: the table of {name} no "
            f"longer has its batch {batch}; nothing was changed",
            hint="name a later savepoint, or start the table from the start",
            why="other_lineage",
        )
    if not found.lineage or found.ran_by is None:
        return None
    ids = {key.stream: state.stream_id for key, state in sorted(fold.current().items())}
    return FormerLog(name, fold.query.batch_id, found.lineage, found.ran_by, ids)
