"""What the log of the query that a savepoint is of says of the batch that it ends with.

What it is: `read_former`: the plan that its state means something to, its lineage, its topics'
identities.
What it promises: reads only. A savepoint whose batch the log has taken back is refused: no table
has what it has read. Of a batch that the query was migrated after there are two states: the mark
of a savepoint shows which one it has.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from ashore.errors import CheckpointUnfit
from ashore.log.entries import Begin, Migrate, Plan, Prepare, Query, Rollback
from ashore.log.names import SliceName
from ashore.log.query import PlanState
from ashore.log.store.reader import read_history, read_log
from ashore.queries.state.layout import find_migration
from ashore.queries.state.resume import Place, read_places
from ashore.queries.state.savepoints.manifest import Manifest
from ashore.queries.state.savepoints.store import Savepoint
from ashore.storage.base import Storage


@dataclass(frozen=True, slots=True)
class FormerLog:
    """What the log of a savepoint says of its batch.

    Arguments:
        name: of its slice.
        last: the last batch that it has landed.
        lineage: of the batch of the savepoint.
        plan: that its state is of: it ran by it, or was migrated to it.
        stream_ids: the identity of each topic, as the batch read it.

    """

    name: SliceName
    last: int
    lineage: str
    plan: PlanState
    stream_ids: Mapping[str, str]


@dataclass(slots=True)
class _Found:
    """What entries say so far.

    Arguments:
        batch: of the savepoint.
        migration: that has rewritten its state; see `find_migration`.

    """

    batch: int
    migration: int
    plan: PlanState | None = None  # as of the last entry, as are the migrations in force
    migrations: tuple[int, ...] = ()
    lineage: str = ""  # of the batch; empty: it is not in the table
    ends: Mapping[Place, int] | None = None  # of the batch
    has_state: bool = False  # the query was at that batch with a state of that migration
    is_rewritten: bool = False  # that state was written by the migration, not by the batch
    ran_by: PlanState | None = None  # what its state meant then

    def take(self, body: object) -> None:
        """Take the next entry in."""
        match body:
            case Plan():
                self.plan = PlanState(body.digest, body.document)
            case Begin():
                self.plan = PlanState(body.digest, body.document) if body.digest else None
                self._reach(body.query, None)
            case Prepare(query=Query() as query):
                shards = ((each.key, each.offsets.end) for each in body.shards)
                ends = {(key.source, key.stream, key.shard): end for key, end in shards}
                self._reach(query, ends)
            case Migrate():
                self._migrate(body)
            case Rollback():
                if body.query.batch_id < self.batch:
                    self._forget()
                if body.undo is not None:
                    self._migrate(body.undo)

    def is_as_read(self, places: Mapping[Place, int]) -> bool:
        """Return whether the batch has ended at some places, as far as its query reads them."""
        return all(
            places.get(place, end if self.is_rewritten else None) == end
            for place, end in (self.ends or {}).items()
        )

    def _forget(self) -> None:
        self.lineage, self.ends, self.ran_by = "", None, None
        self.has_state = self.is_rewritten = False

    def _reach(self, query: Query, ends: Mapping[Place, int] | None) -> None:
        if query.batch_id == self.batch:
            self._forget()
            self.lineage, self.ends = query.lineage, ends
            self._look()

    def _migrate(self, body: Migrate) -> None:
        self.plan = PlanState(body.digest, body.document)
        if body.undoes is None:
            self.migrations = (*self.migrations, body.attempt)
        else:
            self.migrations = self.migrations[:-1]
        if body.batch == self.batch:
            self._look()
            self.is_rewritten |= body.undoes is None and body.attempt == self.migration

    def _look(self) -> None:
        """Note the plan of the batch, where its state is that of the savepoint."""
        if (self.migrations or (0,))[-1] == self.migration:
            self.has_state, self.ran_by = True, self.plan


def read_former(
    storage: Storage, name: SliceName, savepoint: Savepoint, manifest: Manifest
) -> FormerLog | None:
    """Return what the log of a savepoint says; None: it is not here, or has no plan.

    Raises CheckpointUnfit where the log has taken the batch back, or has it with the state of
    another migration; LogDamaged, StorageError.
    """
    fold, batch = read_log(storage, name), manifest.batch
    if fold.query is None or fold.query.query_id != manifest.query_id:
        return None
    found = _Found(batch, find_migration(each.path for each in manifest.files))
    for entry in read_history(storage, name):
        found.take(entry.body)
    places = read_places(name, savepoint.checkpoint.read_ends(batch))
    if fold.query.batch_id < batch or not found.is_as_read(places):
        raise CheckpointUnfit(
            f"the savepoint {savepoint.place} is from before a rollback: the table of {name} no "
            f"longer has its batch {batch}; nothing was changed",
            hint="name a later savepoint, or start the table from the start",
            why="other_lineage",
        )
    if found.lineage and not found.has_state:
        raise CheckpointUnfit(
            f"the savepoint {savepoint.place} does not have the state that {name} had after batch "
            f"{batch}: a migration has rewritten one of the two, and was undone, or is not in the "
            "log; nothing was changed",
            hint="name a later savepoint, or start the table from the start",
            why="other_migration",
        )
    if not found.lineage or found.ran_by is None:
        return None
    ids = {key.stream: state.stream_id for key, state in sorted(fold.current().items())}
    return FormerLog(name, fold.query.batch_id, found.lineage, found.ran_by, ids)
