"""State rewritten for other SQL, or into another number of partitions, and compared.

What it is: the part of a migration that needs Spark: what its planner says of the new operators,
and stores that are written; and that of a rescale.
What it promises: the source is only read. Stores that are kept are linked or copied as files, and
none of their rows is read. What Spark plans is compared with the rewrite, operator by operator and
type by type, before anything is written. A rescale moves keys and values as they are. Each store of
its target is read again, and has the same rows as that of the source: as many, with the same
digest.
"""

import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Self

from pyspark import StorageLevel
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention

from ashore.errors import CheckpointUnfit, fail
from ashore.jobs.events import (
    DroppedStores,
    Event,
    MovedStores,
    Rescaled,
    StateMigrated,
    StateStep,
    StoreRows,
)
from ashore.log import names
from ashore.log.progress import StateWork
from ashore.plans.change.backfill import is_filled
from ashore.plans.change.rewriting import OperatorRewrite, RewriteKind, StateRewrite
from ashore.queries.spark.internals.planning import write_state_schemas
from ashore.queries.spark.internals.state import (
    FAMILY,
    KEY,
    VALUE,
    StateStores,
    StoreIds,
    find_aggregates,
    list_state,
    read_state,
    reported_progress,
    rewrite_state,
)
from ashore.queries.spark.state.forms import ONLY, Forms, deal_out, store_of_schema
from ashore.queries.spark.state.new_rows import Maker, replay
from ashore.queries.spark.state.verifying import (
    Rewritten,
    count_placed,
    require_loads,
    require_sample,
)
from ashore.queries.state.checkpoint import Checkpoint, copy_renamed
from ashore.queries.state.files import CheckpointFile
from ashore.queries.state.layout import (
    BatchLog,
    BatchPath,
    ChecksumPath,
    OperatorFile,
    OperatorPath,
    SchemaPath,
    Settings,
    StatePath,
    Store,
    StoreSchemaPath,
    TablePath,
    with_nulls,
)
from ashore.queries.state.migration import require_rewritable
from ashore.queries.state.required_files import Required
from ashore.queries.state.rescaling import commit, finish
from ashore.queries.state.survey import take_survey
from ashore.storage import LocalStorage

Send = Callable[[Event], None]
Ids = tuple[tuple[str, ...], ...]  # of an operator's stores: by partition, then by store
StoreFile = StatePath | ChecksumPath | TablePath
_AS_IT_IS = {RewriteKind.KEEP, RewriteKind.MOVE}  # keys and values have the same bytes


@dataclass(frozen=True, slots=True)
class Migration:
    """A state that is rewritten."""

    source: Checkpoint
    target: Checkpoint  # the one that is written; see `MigrateRequest`
    batch: int  # whose state it is, in both; it is done in the source
    rewrite: StateRewrite  # what the state is made of


@dataclass(frozen=True, slots=True)
class NewQuery:
    """The query that continues with a state: its frame, and the output mode that it runs in."""

    frame: DataFrame
    mode: str


def migrate(
    spark: SparkSession, migration: Migration, query: NewQuery, send: Send
) -> StateMigrated:
    """Write the state of a checkpoint to another one, for other SQL.

    Requires: the settings of `spark` have the format of the state. `finish` is left to do.
    If interrupted: a part of the target is there, and Spark starts no query in it.
    Raises CheckpointUnfit where checkpoint, rewrite and Spark's plan do not fit each other, or what
    was written is not what was promised; SparkUnknown, StorageError.
    """
    with tempfile.TemporaryDirectory(prefix="ashore-migrate-") as directory:
        planned = Checkpoint(LocalStorage(directory), "planned", f"file://{directory}/planned")
        settings = _settings_of(migration)
        required = take_survey(migration.source, migration.batch).required
        # Of a join Spark looks for what an earlier batch said, and refuses where there is no batch.
        planned.plan(migration.batch, migration.target.read_offsets(migration.batch))
        plan = write_state_schemas(query.frame, query.mode, planned.uri, settings)
        maker = Maker(
            spark,
            migration.source,
            planned,
            migration.batch,
            settings.partitions or fail("the settings name partitions"),
            find_aggregates(plan),
        )
        layout = _Layout.of(planned)
        migrator = _Migrator(spark, migration, query, planned, layout, maker, required, send)
        if is_filled(migration.rewrite.operators):
            migrator.replay(query, directory)
        return migrator.run()


def _settings_of(migration: Migration) -> Settings:
    """Return what the batch was planned with, in the target. Raises CheckpointUnfit."""
    before = require_rewritable(migration.source, migration.batch)
    after = require_rewritable(migration.target, migration.batch)
    kept = [each for each in migration.rewrite.operators if each.kind is RewriteKind.KEEP]
    if after.partitions is None or (before.partitions != after.partitions and kept):
        text = f"it has {before.partitions} partitions, expected {after.partitions}"
        raise _unfit(migration.source, "partitions", text)
    return after


@dataclass(frozen=True, slots=True)
class _Layout:
    """What operators say of themselves in a checkpoint, and the files that say it, by number."""

    files: Mapping[int, tuple[CheckpointFile, ...]]
    operators: Mapping[int, OperatorFile]

    @classmethod
    def of(cls, checkpoint: Checkpoint) -> "_Layout":
        """Return those of a checkpoint that Spark has just planned."""
        files: dict[int, list[CheckpointFile]] = {}
        operators: dict[int, OperatorFile] = {}
        for each in checkpoint.list_files():
            match each.of:
                case OperatorPath(operator) | SchemaPath(operator):
                    files.setdefault(operator, []).append(each)
                case StoreSchemaPath(store):
                    files.setdefault(store.operator, []).append(each)
                case _:
                    continue
            if isinstance(each.of, OperatorPath):
                operators[each.of.operator] = checkpoint.read_operator(each.of)
        by_operator = {operator: tuple(some) for operator, some in files.items()}
        return cls(by_operator, operators)


@dataclass(slots=True)
class _Migrator:
    spark: SparkSession
    migration: Migration
    query: NewQuery
    planned: Checkpoint
    layout: _Layout
    maker: Maker
    required: Required
    send: Send
    ids: StoreIds = field(default_factory=dict)

    def replay(self, query: NewQuery, directory: str) -> None:
        """Run the new query once over all records up to the batch. Requires: something is filled.

        Raises what Spark raises where a record is not there any more.
        """
        self.send(StateStep(StateWork.REPLAY, 0, ""))
        scratch = Checkpoint(LocalStorage(directory), "replay", f"file://{directory}/replay")
        finish(self.migration.source, scratch)
        offsets = self.migration.target.read_offsets(self.migration.batch)
        with reported_progress(self.spark, self.send):
            replay(query.frame, query.mode, offsets, scratch)
        self.maker.replayed = scratch

    def run(self) -> StateMigrated:
        rewrite = self.migration.rewrite
        self._require_planned()
        for each in rewrite.operators:
            self._require_no_nulls(each)
        kept = [each for each in rewrite.operators if each.kind is RewriteKind.KEEP]
        written = [each for each in rewrite.operators if each.kind is not RewriteKind.KEEP]
        forms = {
            each.operator: self._require_same_form(each)
            for each in rewrite.operators
            if each.kind in _AS_IT_IS
        }
        # Spark's writer writes each operator that the target has, so that the kept come after it.
        self._write(written, forms)
        self._keep(kept, forms)
        self._commit()
        moved = [*self._compare(written), *self._list_kept(kept)]
        moved.sort(key=lambda each: (each.operator, each.stores))
        self._verify()
        return StateMigrated(tuple(moved), tuple(self._dropped()))

    # ---- what was planned

    def _require_planned(self) -> None:
        """Raise CheckpointUnfit where Spark numbers operators in another way than the rewrite."""
        rewrite, source = self.migration.rewrite, self.migration.source
        expected, there = {each.operator for each in rewrite.operators}, set(self.layout.operators)
        if expected != there:
            text = f"the rewrite has operators {sorted(expected)}, Spark plans {sorted(there)}"
            raise _unfit(source, "operators", text)
        old = {each.old for each in rewrite.operators if each.old is not None}
        old |= {each.operator for each in rewrite.dropped}
        if old != set(self.required.operators):
            text = f"the old plan has operators {sorted(old)}, and the checkpoint has"
            raise _unfit(source, "operators", f"{text} {sorted(self.required.operators)}")
        kept = [each.old for each in rewrite.operators if each.kind in _AS_IT_IS]
        if None in kept or len(set(kept)) < len(kept):
            text = f"the rewrite keeps the stores of operators {kept}: each once is expected"
            raise _unfit(source, "operators", text)

    def _require_same_form(self, kept: OperatorRewrite) -> Forms:
        """Return the form of a kept store.

        Raises CheckpointUnfit where its bytes would mean something else.
        """
        old = self.required.operators[fail("kept of none") if kept.old is None else kept.old]
        new = self.layout.operators[kept.operator]
        files = [each for each in self.required.files if _operator_of(each) == old.operator]
        before = Forms.read(self.migration.source, files)
        after = Forms.read(self.planned, self.layout.files[kept.operator])
        if old.name != new.name or not before.has_types_of(after):
            text = f"`{kept.name}`: Spark would read the state of operator {old.operator} otherwise"
            raise _unfit(self.migration.source, "other_form", text)
        return before

    def _require_no_nulls(self, of: OperatorRewrite) -> None:
        """Raise CheckpointUnfit where a row has NULL in a column that never has it from now on."""
        if not of.never_null:
            return
        self.send(StateStep(StateWork.COUNT, of.operator, ""))
        found = self.maker.find_null(of)
        if found is not None:
            text = f"`{of.name}`: a row has NULL in {found}, which the new SQL never has"
            raise _unfit(self.migration.source, "holds_null", text)

    def _lay_out(self, operator: int, kept: Forms | None = None) -> None:
        """Write what an operator says of itself, and the schemas of its state.

        `kept`: those of the stores that it has; None: its stores are written as Spark plans them.
        """
        target = self.migration.target
        for each in self.layout.files[operator]:
            data = self.planned.read(each.path)
            if isinstance(each.of, OperatorPath):
                data = self.layout.operators[operator].move_to(target.uri).write()
            elif store_of_schema(each) is not None:
                data = (kept.data_for(each) if kept is not None else None) or data
                data = with_nulls(data, each.path)
            target.create(each.path, data)

    # ---- stores that are written

    def _write(self, written: Sequence[OperatorRewrite], forms: Mapping[int, Forms]) -> None:
        if not written:
            return
        for each in written:
            self._lay_out(each.operator, forms.get(each.operator))
        self._lay_out_batch()
        waiting = iter(
            (each, store.name)
            for each in written
            for store in self.layout.operators[each.operator].stores
        )

        def change(like: DataFrame) -> DataFrame:
            operator, store = next(waiting)
            self.send(StateStep(StateWork.WRITE, operator.operator, store))
            return self.maker.rows(operator, store, like)

        # Of the checkpoint that is read Spark takes no more than which columns its rows have.
        target, batch = self.migration.target, self.migration.batch
        with reported_progress(self.spark, self.send):
            ids = rewrite_state(self.spark, self.planned.uri, target.uri, batch, change)
        self.ids.update(ids or {})

    def _lay_out_batch(self) -> None:
        """Let what was planned look as if the batch was done there."""
        path = BatchPath(BatchLog.COMMITS, self.migration.batch).path
        data = self.required.commit.write()
        self.planned.storage.create(names.join(self.planned.path, path), data)

    def _compare(self, written: Sequence[OperatorRewrite]) -> Iterator[MovedStores]:
        """Yield what was written, read again. Raises CheckpointUnfit where it is something else."""
        for each in written:
            for store in self.layout.operators[each.operator].stores:
                self.send(StateStep(StateWork.COMPARE, each.operator, store.name))
                stores = StateStores(each.operator, store.name)
                after = count_placed(
                    self.spark, self.migration.target, self.migration.batch, stores
                )
                before = None
                if each.old is not None:
                    before = self.maker.count(each.old, store.name)
                elif self.maker.replayed is not None and is_filled([each]):
                    before = self.maker.count(each.operator, store.name, is_replayed=True)
                if not _is_promised(each.kind, before or 0, after):
                    text = f"`{each.name}` was made of {before or 0} rows, and has {after}"
                    raise _unfit(self.migration.target, "rows_differ", text)
                if each.kind is RewriteKind.MOVE:
                    self._require_same_rows(each, store.name)
                yield self._moved(each, store.name, before, after)

    def _require_same_rows(self, moved: OperatorRewrite, store: str) -> None:
        old = moved.old if moved.old is not None else fail("rows are moved of no operator")
        found = [
            measure_stores(read_state(self.spark, of.uri, self.migration.batch, stores))
            for of, stores in (
                (self.migration.source, StateStores(old, store)),
                (self.migration.target, StateStores(moved.operator, store)),
            )
        ]
        if found[0] != found[1]:
            text = f"`{moved.name}`: the rows that were written are not those that were read"
            raise _unfit(self.migration.target, "rows_differ", text)

    def _verify(self) -> None:
        """Raise CheckpointUnfit where what was written is not what was to be written."""
        target, batch = self.migration.target, self.migration.batch
        for each in self.maker.made:
            of, options = each.rewrite, each.options
            self.send(StateStep(StateWork.SAMPLE, of.operator, options.get("storeName", "")))
            old = of.old if of.old is not None else fail("rows are made of no operator's")
            before = self.maker.decoded(self.migration.source, old, options)
            after = self.maker.decoded(target, of.operator, options)
            require_sample(Rewritten(of, before, after), target)
        if not self.layout.operators:
            return
        self.send(StateStep(StateWork.LOAD, min(self.layout.operators), ""))
        without_keys = [
            operator
            for operator, files in self.layout.files.items()
            if not Forms.read(self.planned, files).has_keys
        ]
        require_loads(self.query.frame, self.query.mode, target, batch, without_keys)

    # ---- stores that are kept

    def _keep(self, kept: Sequence[OperatorRewrite], forms: Mapping[int, Forms]) -> None:
        """Give files of stores a second name below another operator, or copy them."""
        numbers = {each.old: each.operator for each in kept if each.old is not None}
        for each in kept:
            self.send(StateStep(StateWork.WRITE, each.operator, ""))
            self._lay_out(each.operator, forms[each.operator])
        files = [
            (each, _renumber(each.of, numbers).path)
            for each in self.required.files
            if isinstance(each.of, _OF_STORES) and _operator_of(each) in numbers
        ]
        copy_renamed(self.migration.source, self.migration.target, files)
        known = self.required.commit.store_ids or {}
        self.ids.update(_renumber_ids(known, numbers))
        if self.required.commit.store_ids is not None:
            self._keep_commits(numbers)

    def _keep_commits(self, numbers: Mapping[int, int]) -> None:
        """Write the commits of batches whose changes are kept: they name the ids of their files."""
        source, target = self.migration.source, self.migration.target
        for each in self.required.files:
            match each.of:
                case BatchPath(BatchLog.COMMITS, batch) if batch != self.migration.batch:
                    before = source.read_commit(batch)
                    ids = _renumber_ids(before.store_ids or {}, numbers)
                    target.commit(batch, replace(before, store_ids=ids))
                case _:
                    pass

    # ---- what was done

    def _commit(self) -> None:
        """Write that the batch is done in the target: its state can be read."""
        before = self.required.commit
        after = before if before.store_ids is None else replace(before, store_ids=self.ids)
        self.migration.target.commit(self.migration.batch, after)

    def _list_kept(self, kept: Sequence[OperatorRewrite]) -> Iterator[MovedStores]:
        for each in kept:
            for store in self.layout.operators[each.operator].stores:
                yield self._moved(each, store.name, None, None)

    def _moved(
        self, rewrite: OperatorRewrite, store: str, before: int | None, after: int | None
    ) -> MovedStores:
        files = [
            each
            for each in self.migration.target.list_files()
            if isinstance(each.of, _OF_STORES) and _store_of(each) == (rewrite.operator, store)
        ]
        size_bytes = sum(each.size_bytes for each in files)
        kind, count = str(rewrite.kind), len(files)
        return MovedStores(
            rewrite.operator, store, kind, rewrite.old, before, after, count, size_bytes
        )

    def _dropped(self) -> Iterator[DroppedStores]:
        for each in self.migration.rewrite.dropped:
            for store in self.required.operators[each.operator].stores:
                self.send(StateStep(StateWork.COUNT, each.operator, store.name))
                rows = self.maker.count(each.operator, store.name)
                yield DroppedStores(each.operator, store.name, rows)


def _is_promised(kind: RewriteKind, before: int, after: int) -> bool:
    """Return whether stores have as many rows as a rewrite makes of those before."""
    match kind:
        case RewriteKind.EMPTY:
            return after == 0
        case RewriteKind.MERGE:
            return bool(before) == bool(after) and after <= before
        case RewriteKind.KEEP | RewriteKind.RECODE | RewriteKind.MOVE:
            return after == before


_OF_STORES = (StatePath, ChecksumPath, TablePath)


def _operator_of(file: CheckpointFile) -> int | None:
    """Return the operator that a file is of; None: of none."""
    match file.of:
        case StatePath(store=store) | TablePath(store=store) | StoreSchemaPath(store=store):
            return store.operator
        case ChecksumPath(of):
            return of.store.operator
        case OperatorPath(operator=operator) | SchemaPath(operator=operator):
            return operator
        case _:
            return None


def _store_of(file: CheckpointFile) -> tuple[int, str] | None:
    match file.of:
        case StatePath(store=store) | TablePath(store=store) | ChecksumPath(StatePath(store=store)):
            return store.operator, store.name or ONLY
        case _:
            return None


def _renumber(path: StoreFile, numbers: Mapping[int, int]) -> StoreFile:
    if isinstance(path, ChecksumPath):
        of = path.of
        return ChecksumPath(replace(of, store=_renumbered(of.store, numbers)))
    return replace(path, store=_renumbered(path.store, numbers))


def _renumber_ids(ids: Mapping[int, Ids], numbers: Mapping[int, int]) -> dict[int, Ids]:
    return {numbers[old]: each for old, each in ids.items() if old in numbers}


def _renumbered(store: Store, numbers: Mapping[int, int]) -> Store:
    return replace(store, operator=numbers[store.operator])


def _unfit(checkpoint: Checkpoint, why: str, text: str) -> CheckpointUnfit:
    place = checkpoint.place
    hint = "nothing was switched: the checkpoint is unchanged"
    return CheckpointUnfit(f"{place}: {text}; nothing was changed", hint=hint, why=why)


# ---- into another number of partitions

_BITS = 22  # of a part of a hash: three have all 64, and a sum has room for 2**41 rows
_PART = 1 << _BITS


@dataclass(frozen=True, slots=True)
class Cut:
    """Into how many partitions the state of a batch is cut."""

    batch: int
    partitions: int


@dataclass(frozen=True, slots=True)
class Content:
    """What stores hold: rows, and sums over the parts of a hash of each: no order changes them."""

    rows: int
    digest: tuple[int, ...]


def rescale(
    spark: SparkSession, source: Checkpoint, target: Checkpoint, cut: Cut, send: Send
) -> Rescaled:
    """Write the state of a checkpoint to another one, in another number of partitions.

    Requires: all of the target but its state is there; see `lay_out`. Its batch is committed, and
    `finish` is left to do.
    Raises CheckpointUnfit where what was written is not what was read; SparkUnknown, StorageError.
    """
    moved = _Moved(list_state(spark, source.uri), cut.partitions, send)
    with moved:
        ids = rewrite_state(spark, source.uri, target.uri, cut.batch, moved.move) or {}
    before = moved.found
    commit(source, target, cut.batch, ids)
    after = _measure(spark, target, cut.batch, send)
    found = tuple(
        StoreRows(stores.operator, stores.name, family, content.rows)
        for stores, families in before.items()
        for family, content in families.items()
    )
    if before != after:
        raise CheckpointUnfit(
            f"{target.uri}: the rows that were written are not those that were read",
            hint="nothing was switched: the checkpoint is unchanged; please report this",
            why="rows_differ",
        )
    return Rescaled(found)


class _Moved:
    """Rows of one store after the other: measured, then dealt out to other partitions.

    What Spark has read is kept on disk while a store is written: to read a state is to open it,
    which costs more than to write it down.
    """

    def __init__(self, stores: Sequence[StateStores], partitions: int, send: Send) -> None:
        self.found: dict[StateStores, dict[str, Content]] = {}
        self._waiting = iter(stores)
        self._partitions = partitions
        self._send = send
        self._kept: DataFrame | None = None

    def move(self, rows: DataFrame) -> DataFrame:
        """Return the rows of the next store, as Spark's exchange deals them out."""
        self._let_go()
        stores = next(self._waiting)
        self._kept = rows.persist(StorageLevel.DISK_ONLY)
        self._send(StateStep(StateWork.COUNT, stores.operator, stores.name))
        self.found[stores] = measure_stores(rows)
        self._send(StateStep(StateWork.WRITE, stores.operator, stores.name))
        return deal_out(rows, self._partitions)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._let_go()

    def _let_go(self) -> None:
        if self._kept is not None:
            self._kept.unpersist()
            self._kept = None


def _measure(
    spark: SparkSession, checkpoint: Checkpoint, batch: int, send: Send
) -> dict[StateStores, dict[str, Content]]:
    found: dict[StateStores, dict[str, Content]] = {}
    for stores in list_state(spark, checkpoint.uri):
        send(StateStep(StateWork.COMPARE, stores.operator, stores.name))
        found[stores] = measure_stores(read_state(spark, checkpoint.uri, batch, stores))
    return found


def measure_stores(rows: DataFrame) -> dict[str, Content]:
    """Return what rows of stores hold, by their column families."""
    # A sum of 64-bit numbers needs more than 64 bits; one of decimals takes longer than three sums.
    hashed = F.xxhash64(F.col(KEY), F.col(VALUE))
    parts = [F.shiftright(hashed, at).bitwiseAND(_PART - 1) for at in (0, _BITS, 2 * _BITS)]
    counted = rows.groupBy(FAMILY).agg(F.count("*"), *map(F.sum, parts)).collect()
    return {row[0]: Content(row[1], tuple(row[2:])) for row in counted}
