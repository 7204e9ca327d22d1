"""The fold: what a landing log says when it is read from its start or from a snapshot.

What it is: the value `Fold`, which `ashore.log.extend` makes longer by one entry at a time; the
effects of an entry, and how a later one reports them; the rules that several kinds of entries
follow, of which one that does not hold raises Refused, with what was found.
What it promises: the invariants below. The spellings of actions stand in the log, so none of them
ever changes. The fold keeps no closed file; its size grows with shards
and unsealed partitions, not with the log.

Invariants of the protocol. `extend` checks on every reading what an entry alone can break, and
refuses it with LogDamaged; the rest is ensured where it says.

- I1 Every offset of a shard, from its `join` on, is in one batch or skipped, in order: a `prepare`
  and a `skip` begin at the shard's `next` and move it on; a rollback returns it to the end of a
  batch, and with it the files that came after (`check_next`; prepare, skip, rollback). No offset is
  in two final files (names that are used once, `judge_move`).
- I2 No storage call on the commit path deletes or overwrites, and none needs its answer: each may
  have been applied, once, twice, or later (`log.store.committer`, `log.store.log`).
- I3 A reader sees only files that a `prepare` or a `reland` names (`PublishBatch` has no other).
- I4 Of two writers at most one appends: numbers are created exclusively, and what is created at a
  number that was archived is no entry (`log.store.log`, `log.store.reader`). Numbers
  go up by one, each entry names the checksum of the one before, epochs go up by one with each
  `open`, and all other entries are of the epoch of the last `open` (`extend`, open).
- I5 What a recovery needs is in the fold: at most one entry is `unclosed`, its effects may be done
  again by anybody, and those of all before it are done or `deferred` (`extend`, closing).
- I6 Folding is pure and total: any prefix of a log folds, any other entry is named (`extend`).

And of the fold itself, each with the kind of entry that upholds it:

- Records add up: fetched = landed + dead + filtered + dropped, of each shard and in all; files hold
  as many rows as landed, or are dead (prepare). Rows that are given up are counted (skip); rows
  that are landed again are as many as were lost, partition by partition (reland).
- A shard joins once; the generations of a stream are 1, 2, 3 ... with an identity each; only the
  current one is read (join, begin, prepare).
- Batches are numbered without a hole from 0; `now_ms` and watermarks never go back (prepare), but
  by an entry that says so (reset_clock).
- The slice of a query lands nothing else, and its batches come one after the other from 0, or from
  the one after a savepoint's, which an empty log begins with (begin); a rollback returns to an
  earlier one (prepare, rollback). Only such a slice has a plan (plan), and versions, numbered from
  1 (version).
- Plan and state of a query change together, by an entry that names an attempt of its own writer; a
  rollback does not go beyond one, but by the entry that undoes it (migrate, rollback).
- What a query leaves out stands in the log before the batch that would have it, and is dead in that
  batch (leave_out, prepare); a rollback keeps it (rollback), another plan does not (plan).
- Lost files are files of the entry that is closed (reland, skip).
- Rows neither come nor go where files are replaced, partition by partition; the files are replaced
  once that entry is closed, and not at all if it is abandoned (compact).
- Versions of a sealed partition go up, and nothing is withdrawn from it (seal, rollback).
- A table is as the last entry that names it says, whatever files were listed before (define); a
  rollback and an undo name it as it was (rollback, migrate).
- Only what is deferred is done, and only of what is deferred can a try fail (closing).
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from types import MappingProxyType
from typing import ClassVar, TypedDict

from ashore.base import codec
from ashore.errors import check
from ashore.log.files import DataFile, PartitionKey, TableCommit, Target
from ashore.log.positions import OffsetRange, ShardKey
from ashore.log.query import EditsState, Letter, MigrationState, PlanState, QueryState, VersionState
from ashore.log.tables import TableDefinition


class HasEffects:
    """A body with effects after its entry, which is unclosed until a later one reports them."""

    __slots__ = ()

    kind: ClassVar[str]


class Action(StrEnum):
    """What has to be done about a table partition so that others learn of it.

    A log that a later release wrote may hold more. Such an action stays a plain string: it is
    deferred, it is named, and this release does not run it.
    """

    REGISTER = "register"  # the partition is registered in the catalog
    SUCCESS_FILE = "success_file"  # a success file is written beside its files
    CATALOG = "catalog"  # the catalog gets version and rows of a complete partition
    HTTP = "http"  # a POST with the same content


@dataclass(frozen=True, slots=True)
class DeferredAction:
    """An action that may be completed after its entry was closed."""

    id: str  # used once: `register:ods.clicks:date=2026-11-21`
    action: Action | str  # a string: of a later release
    table: str
    partition: str
    version: int = 0  # of the seal that it belongs to; 0: none
    rows: int = 0  # of the partition, as that seal says


@dataclass(frozen=True, slots=True)
class FailedTries:
    """Tries of deferred actions that failed, since the entry before. They stay deferred."""

    action: Action | str  # of these effects: they are tried together
    times: int
    last_ms: int  # the writer's clock at the last of them
    error: str


@dataclass(frozen=True, slots=True)
class Closing:
    """How the effects of the one unclosed entry ended, and which deferred ones are done by now."""

    entry: int | None  # the number that is closed; None: only `done`
    moved: int
    already_moved: int
    registered: bool  # its partitions are in the catalog, except those that are deferred
    deferred: tuple[DeferredAction, ...]
    done: tuple[str, ...]  # ids of deferred actions
    failed: tuple[FailedTries, ...] = codec.added(())
    abandoned: str = codec.added("")  # why a `compact` came to nothing; empty: it did not


REMEMBERED = 10_000  # partitions of tables that are never sealed: 1.5 MB of a snapshot


@dataclass(frozen=True, slots=True)
class ShardState:
    """The ledger's line of one shard."""

    key: ShardKey
    stream_id: str
    first: int
    next: int  # the offset that is read next
    fetched: int
    landed: int
    dead: int
    filtered: int
    dropped: int
    skipped: int  # offsets given up before they were read
    lost: int  # landed rows whose files were given up
    size_bytes: int
    event_max_ms: int | None
    active_ms: int  # `now` of the last batch that found records, or of the join
    # Of the leader that reported the end of the last range; None: not known, so nothing can be
    # asked.
    leader_epoch: int | None = codec.added(None)


@dataclass(frozen=True, slots=True)
class PartitionState:
    """What a slice has put into a partition of a table."""

    table: str
    partition: str
    rows: int
    files: int
    entry: int  # the last one that put a file there
    registered: bool
    sealed_version: int  # 0: never
    sealed_rows: int
    sealed_ms: int


def new_partition(key: PartitionKey, number: int) -> PartitionState:
    """Return the state of a partition that entry `number` is the first to name."""
    return PartitionState(
        *key, 0, 0, number, registered=False, sealed_version=0, sealed_rows=0, sealed_ms=0
    )


@dataclass(frozen=True, slots=True)
class Failing:
    """A kind of deferred actions that has been tried in vain so far."""

    action: Action | str
    since_ms: int
    times: int
    last_ms: int
    error: str  # of the last try


@dataclass(frozen=True, slots=True)
class Unclosed:
    """The one entry whose effects may not have happened yet."""

    number: int
    epoch: int
    written_ms: int
    body: HasEffects


@dataclass(frozen=True, slots=True)
class Fold:
    """A landing log up to and with entry `end`."""

    end: int = -1
    epoch: int = 0
    last: str | None = None  # checksum of entry `end`
    written_ms: int = 0
    now_ms: int = 0  # the highest `now` of a batch
    next_batch: int = 0
    shards: Mapping[ShardKey, ShardState] = field(default_factory=lambda: MappingProxyType({}))
    watermarks: Mapping[str, int] = field(default_factory=lambda: MappingProxyType({}))
    partitions: Mapping[PartitionKey, PartitionState] = field(
        default_factory=lambda: MappingProxyType({})
    )
    deferred: Mapping[str, DeferredAction] = field(default_factory=lambda: MappingProxyType({}))
    failing: Mapping[str, Failing] = field(default_factory=lambda: MappingProxyType({}))
    counters: Mapping[str, int] = field(default_factory=lambda: MappingProxyType({}))
    unclosed: Unclosed | None = None
    query: QueryState | None = None  # that the slice belongs to
    plan: PlanState | None = None  # that the query runs by
    left_out: tuple[Letter, ...] = ()  # of the query's last batch, and of those to come
    tables: Mapping[str, TableDefinition] = field(default_factory=lambda: MappingProxyType({}))
    version: VersionState | None = None  # of the job that the query is of
    migrations: tuple[MigrationState, ...] = ()  # of the query; the newest is the last
    attempt: int = 0  # the epoch of the one that the last migration, or undo, names; 0: of none
    edits: EditsState | None = None  # what a person has said last of which operator is which
    # The last commit to each table in a table format, also of the unclosed entry.
    commits: Mapping[str, TableCommit] = field(default_factory=lambda: MappingProxyType({}))
    base: int = -1  # number of the snapshot that the fold began with

    @property
    def migration(self) -> int:
        """The epoch of the migration that has rewritten the query's state; 0: of none."""
        return self.migrations[-1].attempt if self.migrations else 0

    @property
    def latest_ms(self) -> int:
        """The highest time that a writer's clock has shown: of batches, joins and seals."""
        active = (state.active_ms for state in self.shards.values())
        sealed = (state.sealed_ms for state in self.partitions.values())
        return max(self.now_ms, max(active, default=0), max(sealed, default=0))

    def generations(self) -> dict[tuple[str, str], tuple[int, str]]:
        """Return the current generation of each source and stream, and its identity."""
        newest: dict[tuple[str, str], tuple[int, str]] = {}
        for key, state in self.shards.items():
            known = newest.get((key.source, key.stream))
            if known is None or known[0] < key.generation:
                newest[key.source, key.stream] = (key.generation, state.stream_id)
        return newest

    def generation(self, source: str, stream: str) -> tuple[int, str] | None:
        """Return the current generation of a stream and its identity, or None."""
        return self.generations().get((source, stream))

    def current(self) -> dict[ShardKey, ShardState]:
        """Return the shards of each stream's current generation."""
        newest = self.generations()
        return {
            key: state
            for key, state in self.shards.items()
            if newest[key.source, key.stream][0] == key.generation
        }


EMPTY = Fold()


class Changes(TypedDict, total=False):
    """What an entry changes in the fold, besides its end and what it closes."""

    epoch: int
    now_ms: int
    next_batch: int
    shards: Mapping[ShardKey, ShardState]
    watermarks: Mapping[str, int]
    partitions: Mapping[PartitionKey, PartitionState]
    counters: Mapping[str, int]
    query: QueryState | None
    plan: PlanState | None
    left_out: tuple[Letter, ...]
    tables: Mapping[str, TableDefinition]
    version: VersionState | None
    migrations: tuple[MigrationState, ...]
    attempt: int
    edits: EditsState | None
    commits: Mapping[str, TableCommit]


def forget_sealed(fold: Fold, before_ms: int) -> Fold:
    """Return the fold without partitions that were sealed before `before_ms`.

    For snapshots: what nothing can ask for any more need not be carried along. A partition of
    which something is deferred, or that has more rows than were sealed, is kept.
    """
    check(fold.unclosed is None, "a snapshot ends at a closed entry")
    deferred = {(each.table, each.partition) for each in fold.deferred.values()}
    kept = {
        key: state
        for key, state in fold.partitions.items()
        if key in deferred
        or state.rows > state.sealed_rows
        or not (state.sealed_version and state.sealed_ms < before_ms)
    }
    return replace(fold, partitions=kept)


def forget_untouched(fold: Fold, sealing: Collection[str], count: int = REMEMBERED) -> Fold:
    """Return the fold with `count` of the partitions that no seal will ever ask for.

    For snapshots, as `forget_sealed`: a table whose partitions are not of time fills new ones for
    ever, and each batch copies what the fold holds. Those that were filled last are kept. One that
    is forgotten and filled again is new: a catalog hears of it once more, which is harmless.

    Arguments:
        fold: of a log.
        sealing: tables whose partitions are sealed once they are complete.
        count: how many partitions of all other tables are kept.

    """
    check(fold.unclosed is None, "a snapshot ends at a closed entry")
    deferred = {(each.table, each.partition) for each in fold.deferred.values()}
    idle = [
        key
        for key, state in fold.partitions.items()
        if key[0] not in sealing and key not in deferred and not state.sealed_version
    ]
    if len(idle) <= count:
        return fold
    idle.sort(key=lambda key: fold.partitions[key].entry)
    dropped = set(idle[: len(idle) - count])
    kept = {key: state for key, state in fold.partitions.items() if key not in dropped}
    return replace(fold, partitions=kept)


class Refused(Exception):
    """A rule of the protocol does not hold."""


def require(condition: bool, reason: str) -> None:
    """Raise Refused unless a condition holds."""
    if not condition:
        raise Refused(reason)


def check_next(state: ShardState | None, key: ShardKey, offsets: OffsetRange) -> ShardState:
    """Return the shard's state, having checked that `offsets` begin where it ends (I1)."""
    if state is None:
        raise Refused(f"{key} was never joined")
    if offsets.start != state.next:
        raise Refused(f"{key}: range {offsets} while {state.next} is the next offset")
    return state


def keep_read(
    letters: Iterable[Letter], shards: Mapping[ShardKey, ShardState]
) -> tuple[Letter, ...]:
    """Return the letters whose records were read: another plan may compute those to come."""
    return tuple(each for each in letters if each.offset < shards[each.key].next)


def check_entry_files(
    files: tuple[DataFile, ...],
    targets: tuple[Target, ...],
    shard_count: int,
    *,
    has_spans: bool,
) -> None:
    """Check that files are named once, and that their indices and sums fit.

    `has_spans`: whether every row came from a known offset; those of a query did not.
    """
    require(len({file.unique for file in files}) == len(files), "a file is in it twice")
    for file in files:
        if not 0 <= file.target < len(targets):
            raise Refused(f"file {file.unique} has no target")
        if file.rows < 0 or file.size_bytes < 0:
            raise Refused(f"file {file.unique}: a count below zero")
        rows = 0
        for span in file.spans:
            if not 0 <= span.shard < shard_count:
                raise Refused(f"file {file.unique}: a span has no shard")
            if not 0 <= span.rows <= span.end - span.start:
                raise Refused(f"file {file.unique}: {span.rows} rows in a span of fewer offsets")
            rows += span.rows
        if rows != file.rows and (has_spans or file.spans):
            raise Refused(f"file {file.unique}: {file.rows} rows, {rows} in its spans")


def check_commits(commits: tuple[TableCommit, ...], targets: tuple[Target, ...]) -> None:
    """Check that each commit of a table format is of another table, and has files."""
    tables = [each.table for each in commits]
    require(len(set(tables)) == len(tables), "a table is committed twice")
    empty = set(tables) - {target.table for target in targets}
    require(not empty, f"commits of tables without files: {sorted(empty)}")


def rows_by_partition(
    files: Iterable[DataFile], targets: tuple[Target, ...]
) -> dict[PartitionKey, tuple[int, int]]:
    """Return rows and number of files of each partition."""
    sums: dict[PartitionKey, tuple[int, int]] = {}
    keys = [target.key for target in targets]
    for file in files:
        rows, count = sums.get(keys[file.target], (0, 0))
        sums[keys[file.target]] = (rows + file.rows, count + 1)
    return sums
