"""A migration and its undo: the old job starts or the new one, whatever call is struck.

Spark's part, the state itself, is written here by copying: it goes to files that nobody looks for
until the attempt is complete.
"""

import itertools
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest
from tests.checkpoint_files import opened, unpack
from tests.crash.harness import walk
from tests.crash.test_checkpoint_attempts import STRIKES
from tests.marks import but
from tests.shares import numbers_of_calls
from tests.strategies import TABLE, key_of

from ashore.base.unique import unique
from ashore.errors import CheckpointUnfit, QueryRefused, StorageError
from ashore.log.entries import Begin, Commit, Define, Joined, MigratedOperator, Prepare, Query
from ashore.log.entries.batch import ShardRead
from ashore.log.fold import Fold
from ashore.log.names import SliceName, checkpoint_directory, query_source
from ashore.log.plan_query import (
    CheckpointPosition,
    QueryBatch,
    Refuse,
    Start,
    WriteRows,
    plan_query_batch,
    plan_start,
)
from ashore.log.plan_rollback import Wish
from ashore.log.positions import BatchTime, OffsetRange, ShardRange
from ashore.log.query import PlanState
from ashore.log.store.committer import Committer
from ashore.log.store.log import LandingLog, LogContext
from ashore.log.store.reader import read_log
from ashore.log.tables import TableColumn, TableDefinition
from ashore.queries.state import rescaling
from ashore.queries.state.attempts import Attempts
from ashore.queries.state.checkpoint import Checkpoint
from ashore.queries.state.layout import SchemaPath, StatePath, TablePath, find_migration, parse_path
from ashore.queries.state.migration import (
    MigrationWish,
    finish,
    lay_out,
    plan_target,
    preview_undo,
    require_restored,
    start_migration,
    start_undo,
    switch_back,
    switch_plan,
    write_released,
)
from ashore.queries.state.resume import Beginning, Resume, begin, resume
from ashore.queries.state.savepoints.restore import restore
from ashore.queries.state.savepoints.save import Shelf, save
from ashore.queries.state.savepoints.store import Savepoint
from ashore.queries.state.survey import take_survey
from ashore.queries.state.versions import require_migration
from ashore.storage import MemoryStorage, Storage
from ashore.topics.loop.definitions import plan_define, require_readable
from ashore_lab.testing import FakeClock, FaultyStorage, ProcessStopped

BATCH, QUERY = 11, "8f28567c-6f23-4014-ad25-42a4336bdc5a"
NAME, KEY = SliceName("shop", "ods__per_minute"), key_of(0)
MOVED = SliceName("shop", "ods__minutes")
DIRECTORY = checkpoint_directory(NAME)
OLD, NEW = PlanState("old", "{}"), PlanState("new", '{"n":1}')
WISH = MigrationWish("old", NEW, (MigratedOperator("n3", "n2", "digest"),), "ana", "wrong country")
CLOCK = FakeClock()
TOPS = (".ashore", "saved")  # of what is on the storage


@pytest.fixture(scope="module")
def contents(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    return read_contents(tmp_path_factory.mktemp("kept"))


def read_contents(directory: Path) -> dict[str, bytes]:
    """Return what the last batch of a checkpoint needs that Spark wrote: few files."""
    root = unpack("rocksdb-changelog", directory)
    needed = take_survey(opened(root)).required.files
    return {each.path: (root / each.path).read_bytes() for each in needed}


def attempts_of(storage: Storage, name: SliceName = NAME) -> Attempts:
    path = checkpoint_directory(name)
    return Attempts(storage, path, f"file:///lake/{path}", lambda: read_log(storage, name).attempt)


def committer_of(storage: Storage) -> Committer:
    return Committer(LandingLog(LogContext(storage, CLOCK, unique), NAME), storage, CLOCK)


def shelf_of(storage: Storage) -> Shelf:
    return Shelf(storage, "saved", "file:///saved", unique, links=False)


def land(committer: Committer, plan: str) -> None:
    """Land the next batch: it has no rows."""
    fold = committer.log.fold
    number = fold.query.batch_id + 1
    ranges = (ShardRange(KEY, OffsetRange(10 * number, 10 * number + 10)),)
    decided = plan_query_batch(fold, QueryBatch(QUERY, number, plan, ranges))
    assert isinstance(decided, WriteRows), decided
    body = Prepare(
        batch=fold.next_batch,
        time=BatchTime(max(CLOCK.now_ms(), fold.now_ms)),
        shards=(ShardRead(KEY, ranges[0].offsets, TABLE, 0, 0, 0, 0, 0, 0, None),),
        targets=(),
        files=(),
        counters=(),
        query=Query(QUERY, number, decided.lineage),
    )
    committer.log.append(body, None)
    committer.log.append(Commit("query"), committer.finish())


def begun(contents: dict[str, bytes]) -> MemoryStorage:
    """A query whose log ends with the last batch of its checkpoint."""
    storage = MemoryStorage(CLOCK)
    begin_query(storage, contents)
    return storage


def begin_query(storage: Storage, contents: dict[str, bytes]) -> None:
    committer = committer_of(storage)
    committer.log.open()
    before = Query(QUERY, BATCH - 2, "a" * 64)
    joined = Joined(KEY, "id", 10 * (BATCH - 1), "savepoint")
    body = Begin(before, (joined,), OLD.digest, OLD.document, "", "", "ana", "moved")
    committer.log.append(body, None)
    committer.log.append(Define((table_of(OLD),), (), ""), None)
    attempt = attempts_of(storage).take(1, is_mine=False)
    for path, data in contents.items():
        storage.create(f"{attempt.path}/{path}", data)
    land(committer, OLD.digest)
    land(committer, OLD.digest)


def table_of(plan: PlanState) -> TableDefinition:
    """The table as a query defines it: the new SQL has one more column."""
    names_of = ("minute", "clicks", "last")[: 3 if plan == NEW else 2]
    columns = tuple(TableColumn(each, "BIGINT", nullable=True) for each in names_of)
    return TableDefinition(TABLE, columns, (), "UTC", "parquet", False, ())


def go_on(storage: Storage) -> None:
    """What a run of the new SQL leaves: one more batch, in an attempt of its own."""
    committer = committer_of(storage)
    committer.log.open()
    committer.log.append(Define((table_of(NEW),), (), ""), None)
    taken = attempts_of(storage).take(committer.log.fold.epoch, is_mine=False)
    offsets = taken.read_offsets(BATCH)
    taken.plan(BATCH + 1, offsets)
    land(committer, NEW.digest)
    commit = storage.read(f"{taken.path}/commits/{BATCH}")
    storage.create(f"{taken.path}/commits/{BATCH + 1}", commit)
    for partition in range(2):
        path = f"{taken.path}/state/0/{partition}/{BATCH + 2}.zip"
        before = f"{DIRECTORY}/1/state/0/{partition}/{BATCH + 1}.zip"
        storage.create(path, storage.read(before))


def apply(storage: Storage, state: Storage | None = None) -> Fold:
    """Do what `migrate apply` does. `state`: the storage as Spark sees it."""
    written = state or storage

    def fill(source: Checkpoint, target: Checkpoint, epoch: int) -> None:
        lay_out(source, target, plan_target(source))
        for each in take_survey(source).required.files:
            if isinstance(each.of, StatePath | TablePath | SchemaPath) or "_metadata" in each.path:
                with suppress(FileExistsError):
                    data = written.read(f"{source.path}/{each.path}")
                    written.create(f"{target.path}/{each.path}", data)
        rescaling.commit(source, target, BATCH, {})
        finish(source, target, epoch)

    return migrate(storage, WISH, lambda source: keep(storage, source), fill)


def keep(storage: Storage, source: Checkpoint) -> str:
    return save(source, None, shelf_of(storage), CLOCK, lambda *_: None).savepoint.place


def migrate(
    storage: Storage,
    wish: MigrationWish,
    save_state: Callable[[Checkpoint], str],
    fill: Callable[[Checkpoint, Checkpoint, int], None],
) -> Fold:
    """Do the steps of a migration in the order of `migrate apply`."""
    committer, attempts = committer_of(storage), attempts_of(storage)
    source = start_migration(committer, attempts, wish)
    place, epoch = save_state(source), committer.log.fold.epoch
    with attempts.migrate(epoch) as target:
        fill(source, target, epoch)
    return switch_plan(committer, attempts, wish, place)


def undo(storage: Storage, *, rolls_back: bool = True) -> None:
    committer, attempts = committer_of(storage), attempts_of(storage)
    found = start_undo(committer, rolls_back=rolls_back)
    fold = committer.log.fold
    name = found.migration.savepoint.rpartition("/")[2]
    savepoint = Savepoint(storage, f"saved/{name}", f"file:///saved/{name}")
    with attempts.migrate(fold.epoch) as target:
        restore(savepoint, target, CLOCK, lambda *_: None, links=False)
        require_restored(NAME, fold, found.migration, target)
    switch_back(committer, attempts, Wish(0, "ana", "back"), found)


def start(storage: Storage) -> str:
    """Start the job, with whichever SQL the log wants; return that one's plan."""
    log = committer_of(storage)
    log.log.open()
    closing = log.finish()
    if closing is not None:
        log.log.append(Commit("recovery"), closing)
    fold = log.log.fold
    newest = attempts_of(storage).newest()
    assert newest is not None
    require_migration(NAME, fold, newest.read_migration())
    taken = attempts_of(storage).take(fold.epoch, is_mine=False)
    require_migration(NAME, fold, taken.read_migration())
    assert plan_start(fold.query, taken.read_position()) == Start()
    assert take_survey(taken).required.batch == fold.query.batch_id
    assert (taken.read_migration() != 0) == (fold.plan == NEW), "old SQL over new state, or so"
    assert fold.plan in {OLD, NEW}
    require_readable(plan_define(fold.tables, (table_of(fold.plan),)))
    return fold.plan.digest


def drop(storage: Storage, _state: Storage | None = None) -> None:
    """Do what `migrate apply` does of an INSERT that is gone: NEW stands for a plan of nothing."""
    migrate(storage, WISH, lambda source: keep(storage, source), write_released)


def move(storage: Storage, state: Storage | None = None) -> None:
    """Do what it does of an INSERT that fills another table: that one begins, this one goes."""
    written = state or storage

    def move_state(source: Checkpoint) -> str:
        saved = save(source, None, shelf_of(storage), CLOCK, lambda *_: None).savepoint
        wanted = Beginning(
            position=source.read_position(),
            ends={(query_source(MOVED), KEY.stream, KEY.shard): 10 * BATCH + 10},
            stream_ids={KEY.stream: "id"},
            lineage=read_log(storage, NAME).query.lineage,
            plan=OLD,
            owner=str(NAME),
            savepoint=saved.place,
            by="ana",
            why="another name",
        )

        committer = Committer(LandingLog(LogContext(storage, CLOCK, unique), MOVED), storage, CLOCK)
        with begin(committer, attempts_of(storage, MOVED), wanted) as target:
            for each in take_survey(source).required.files:
                with suppress(FileExistsError):
                    data = written.read(f"{source.path}/{each.path}")
                    written.create(f"{target.path}/{each.path}", data)
        return saved.place

    migrate(storage, WISH, move_state, write_released)


def look_at_moved(storage: Storage) -> None:
    """The other one has the state once this one is dropped, and is never started without."""
    fold, newest = read_log(storage, MOVED), attempts_of(storage, MOVED).newest()
    if read_log(storage, NAME).plan == NEW:
        assert fold.query is not None
    if fold.query is not None:
        assert (fold.query.batch_id, fold.plan) == (BATCH, OLD)
        assert plan_start(fold.query, newest.read_position()) == Start()
        assert take_survey(newest).required.chains, "it has the state"
    elif newest is not None:
        assert isinstance(plan_start(None, newest.read_position()), Refuse)


def copied(storage: MemoryStorage) -> MemoryStorage:
    """Return a storage with the same files: to copy them is less than to make them again."""
    found = MemoryStorage(CLOCK)
    for path in (path for top in TOPS for path in walk(storage, top)):
        found.create(path, storage.read(path))
    return found


def play(
    before: MemoryStorage,
    act: Callable[[Storage, Storage], None],
    strike: str,
    look: Callable[[Storage], None] = lambda _storage: None,
) -> None:
    """Strike calls of an act in turn, each time on a storage as it was before the act.

    The act is done again after each: that is what a person does whose command was killed.
    """
    was, seen = read_log(before, NAME).plan, set()
    for number in numbers_of_calls():
        whole = copied(before)
        faulty = FaultyStorage(whole, [STRIKES[strike](number)])
        with suppress(StorageError, ProcessStopped):
            act(faulty, whole)
        first = attempts_of(whole).attempt(1)
        assert take_survey(first).required.batch == BATCH, "the first one is only read"
        look(whole)
        again = copied(whole)
        if strike != "late" and read_log(again, NAME).plan == was:  # late ones take long
            act(again, again)
            look(again)
            assert start(again) != was.digest
        seen.add(start(whole))
        if strike == "late":
            faulty.pending.release()
            faulty.pending.release()
            seen.add(start(whole))
        if not faulty.fired:
            assert number > 40
            assert seen == {"old", "new"}
            return


def each_but(*everyday: str) -> list:
    """Return the ways to strike a call; those of the everyday run differ from act to act."""
    return but(pytest.mark.long, STRIKES, everyday.__contains__)


@pytest.mark.parametrize("strike", each_but("stops after", "late"))
def test_whatever_call_of_a_migration_is_struck_one_of_the_two_starts(
    strike: str, contents: dict[str, bytes]
) -> None:
    play(begun(contents), apply, strike)


@pytest.mark.parametrize("strike", each_but("fails"))
def test_whatever_call_of_a_drop_is_struck_the_query_starts_or_is_dropped(
    strike: str, contents: dict[str, bytes]
) -> None:
    play(begun(contents), drop, strike)


@pytest.mark.parametrize("strike", each_but("stops before"))
def test_whatever_call_is_struck_one_of_two_tables_has_the_state(
    strike: str, contents: dict[str, bytes]
) -> None:
    play(begun(contents), move, strike, look_at_moved)


def test_a_query_that_was_dropped_has_no_state_and_comes_back(contents: dict[str, bytes]) -> None:
    storage = begun(contents)
    drop(storage)
    dropped = attempts_of(storage).newest()
    assert dropped.read_position().committed == BATCH
    assert not take_survey(dropped).required.chains
    undo(storage)
    assert start(storage) == "old"
    assert take_survey(attempts_of(storage).newest()).required.chains


@pytest.mark.parametrize(
    ("strike", "went_on"),
    but(
        pytest.mark.long,
        itertools.product(STRIKES, (False, True)),
        lambda *each: each in {("answer lost", False), ("stops after", True)},
    ),
)
def test_whatever_call_of_an_undo_is_struck_one_of_the_two_starts(
    strike: str, contents: dict[str, bytes], *, went_on: bool
) -> None:
    storage = begun(contents)
    apply(storage)
    if went_on:
        go_on(storage)
    play(storage, lambda faulty, _: undo(faulty), strike)


def test_it_is_applied_undone_and_applied_again(contents: dict[str, bytes]) -> None:
    storage = begun(contents)
    assert start(storage) == "old"
    fold = apply(storage)
    assert start(storage) == "new"
    assert preview_undo(storage, NAME, rolls_back=False).migration == fold.migrations[-1]
    undo(storage)
    assert start(storage) == "old"
    assert read_log(storage, NAME).migration == 0
    with pytest.raises(QueryRefused, match="no migration is"):
        undo(storage)
    fold = apply(storage)
    assert start(storage) == "new"
    assert fold.migration == fold.attempt


def test_what_was_landed_since_is_taken_back_on_request_only(contents: dict[str, bytes]) -> None:
    storage = begun(contents)
    apply(storage)
    go_on(storage)
    end = read_log(storage, NAME).end
    with pytest.raises(QueryRefused, match="in 1 batches, 12 to 12, "):
        undo(storage, rolls_back=False)
    assert read_log(storage, NAME).end == end, "nothing was appended"
    undo(storage)
    assert start(storage) == "old"
    fold = read_log(storage, NAME)
    assert (fold.query.batch_id, fold.shards[KEY].next) == (BATCH, 10 * BATCH + 10)


def test_the_table_has_its_columns_again_where_nothing_was_landed(
    contents: dict[str, bytes],
) -> None:
    """A start of the new SQL has defined the table, and was stopped before its first batch."""
    storage = begun(contents)
    apply(storage)
    committer = committer_of(storage)
    committer.log.open()
    committer.log.append(Define((table_of(NEW),), (), ""), None)
    undo(storage, rolls_back=False)
    assert start(storage) == "old"
    assert read_log(storage, NAME).tables == {TABLE: table_of(OLD)}


def test_a_checkpoint_from_before_is_not_taken_for_the_new_one(contents: dict[str, bytes]) -> None:
    storage = begun(contents)
    apply(storage)
    first = attempts_of(storage).attempt(1)
    position = first.read_position()
    wanted = Resume(position, dict, None, "ana", "back", first.read_migration())
    resuming = resume(committer_of(storage), attempts_of(storage), wanted)
    with pytest.raises(CheckpointUnfit, match="the migration after batch 11"), resuming:
        pass
    undo(storage)
    with resume(committer_of(storage), attempts_of(storage), wanted):
        pass


def test_another_log_that_begins_with_the_state_has_no_mark_of_it(
    contents: dict[str, bytes],
) -> None:
    storage = begun(contents)
    apply(storage)
    migrated = attempts_of(storage).newest()
    assert migrated.read_migration() == 2
    saved = save(migrated, None, shelf_of(storage), CLOCK, lambda *_: None).savepoint
    name = SliceName("shop", "ods__elsewhere")
    path = checkpoint_directory(name)
    attempts = Attempts(
        storage, path, f"file:///lake/{path}", lambda: read_log(storage, name).attempt
    )
    wanted = Beginning(
        position=CheckpointPosition(QUERY, BATCH, BATCH),
        ends={(KEY.source, KEY.stream, KEY.shard): 10 * BATCH + 10},
        stream_ids={KEY.stream: "id"},
        lineage=None,
        plan=NEW,
        owner=str(NAME),
        savepoint=saved.place,
        by="ana",
        why="the table is moved",
    )
    committer = Committer(LandingLog(LogContext(storage, CLOCK, unique), name), storage, CLOCK)
    with begin(committer, attempts, wanted) as target:
        restore(saved, target, CLOCK, lambda *_: None, links=False)
    newest, fold = attempts.newest(), read_log(storage, name)
    require_migration(name, fold, newest.read_migration())
    assert (fold.plan, newest.read_position().committed) == (NEW, BATCH)
    assert migrated.read_migration() == 2, "the savepoint and its checkpoint keep theirs"
    assert find_migration(each.path for each in saved.read_manifest().files) == 2


def test_a_batch_that_is_planned_and_not_done_is_refused(contents: dict[str, bytes]) -> None:
    storage = begun(contents)
    first = attempts_of(storage).attempt(1)
    first.plan(BATCH + 1, first.read_offsets(BATCH))
    end = read_log(storage, NAME).end
    with pytest.raises(CheckpointUnfit, match="planned batch 12 and finished 11"):
        apply(storage)
    assert read_log(storage, NAME).end == end


def test_it_is_another_sql_by_now(contents: dict[str, bytes]) -> None:
    storage = begun(contents)
    other = replace(WISH, before="older")
    with pytest.raises(QueryRefused, match="another SQL was started"):
        migrate(storage, other, str, lambda *_: None)


def test_a_path_of_a_mark_is_known() -> None:
    assert parse_path("ashore-migration-5.json").path == "ashore-migration-5.json"
