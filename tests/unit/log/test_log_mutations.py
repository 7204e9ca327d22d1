"""The shortcuts of the model (model/landing_log.py), played in the code.

Each test plays one interleaving twice: with the rule nothing is wrong; without it an invariant
breaks, the one that the model names or one that comes before it here.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace

import pytest
from tests.strategies import TABLE, Chain, key_of
from tests.unit.topics.log_lake import (
    NAME,
    NOTHING,
    Frozen,
    Lake,
    entry_name,
    fill,
    finish,
    join,
    land,
    write_batch,
)

from ashore.errors import (
    AnswerUnknown,
    Fenced,
    FilesLost,
    InvariantBroken,
    LogDamaged,
    PathMissing,
)
from ashore.log import names, plan_clean
from ashore.log.entries import Commit, Draft, Join, Open, Reland, Skip, write_entry
from ashore.log.extend import extend
from ashore.log.files import BatchPlace, DataFile
from ashore.log.fold import EMPTY, Fold, Unclosed
from ashore.log.plan_commit import judge_move, places_of, plan_publish_batch
from ashore.log.positions import OffsetRange, ShardRange, StreamShard
from ashore.log.store import archive, committer
from ashore.log.store import reader as log_reader
from ashore.log.store.archive import archive_log
from ashore.log.store.cleaner import apply_cleaning, find_staged
from ashore.log.store.committer import Committer
from ashore.log.store.log import LandingLog
from ashore.log.store.reader import read_history, read_log, read_number
from ashore.topics.loop.joins import plan_join
from ashore.topics.loop.recovery import open_and_find_lost
from ashore.topics.read.source import FirstOffset
from ashore_lab.testing import (
    FailBefore,
    FakeClock,
    LateEffect,
    ProcessStopped,
    RecordedSource,
    StopProcess,
)

both = pytest.mark.parametrize("is_mutated", [False, True], ids=["the rule", "the shortcut"])


@pytest.fixture
def lake(monkeypatch) -> Lake:
    monkeypatch.setattr(names, "ARCHIVE_ENTRIES", 4)
    return Lake()


@contextmanager
def frozen_before(lake: Lake, kind: str, path: str, act: Callable[[], object]) -> Iterator[Frozen]:
    frozen = Frozen(lake.storage)
    frozen.before(kind, path, act)
    yield frozen
    assert frozen.is_done


def pack(lake: Lake, log: LandingLog, end: int) -> None:
    """Go on to number `end`, write a snapshot there, archive what is below."""
    fill(log, end, snapshot=True)
    assert archive_log(lake.storage, NAME) > 0


def unanswered_open(lake: Lake) -> None:
    """Try to take over; the `open` is on its way until the lake's pending effects are released."""
    faults = [LateEffect(each, "create", None) for each in range(1, 9)]
    with pytest.raises(AnswerUnknown):
        lake.writer(lake.faulty(*faults)).open()


def start_again_and_again(lake: Lake) -> None:
    """Take the slice over in a crash loop, go on, pack: the first of its opens is removed."""
    for _ in range(4):
        log = lake.opened()
    log.append(Commit("test"), finish(log, lake.storage))
    pack(lake, log, 16)


@both
def test_append_without_a_look(lake: Lake, monkeypatch, is_mutated: bool):
    """A writer frozen before its append wakes up when the `open` that fenced it was removed."""
    monkeypatch.setattr(names, "ARCHIVE_ENTRIES", 8)
    if is_mutated:
        monkeypatch.setattr(LandingLog, "_is_archived", lambda *_: False)
    zombie = lake.opened()
    join(zombie)
    closing = land(lake, zombie)
    body = write_batch(lake, zombie)
    others = lambda: start_again_and_again(lake)  # noqa: E731 - as short as it gets
    with frozen_before(lake, "create", entry_name(3), others) as storage:
        zombie._context = replace(zombie._context, storage=storage)
        if is_mutated:
            zombie.append(body, closing)
            finish(zombie, lake.storage)
            assert (lake.wrong() or "").endswith("no prepare names it")
        else:
            with pytest.raises(Fenced):
                zombie.append(body, closing)
            assert lake.wrong() is None
    assert isinstance(read_number(lake.storage, NAME, 3).body, type(body))  # nobody sees it


@both
def test_remove_what_an_earlier_release_may_try(lake: Lake, monkeypatch, is_mutated: bool):
    """As above, but the writer is of a release that does not look: that `open` stays."""
    monkeypatch.setattr(names, "ARCHIVE_ENTRIES", 8)
    if is_mutated:
        monkeypatch.setattr(archive, "find_staying", lambda _: set())
    who = replace(Open("worker-7", 4711, "0.1.0"), looks_back=False)
    lake.storage.create(
        names.entry_path(NAME, 0), write_entry(Draft(0, "e" * 32, 1, 0, None, None, who))[1]
    )
    zombie = lake.writer()
    zombie.resume()
    monkeypatch.setattr(zombie, "_is_archived", lambda _: False)
    join(zombie)
    closing = land(lake, zombie)
    body = write_batch(lake, zombie)
    others = lambda: start_again_and_again(lake)  # noqa: E731 - as short as it gets
    with frozen_before(lake, "create", entry_name(3), others) as storage:
        zombie._context = replace(zombie._context, storage=storage)
        if is_mutated:
            zombie.append(body, closing)
            finish(zombie, lake.storage)
            assert (lake.wrong() or "").endswith("no prepare names it")
        else:
            with pytest.raises(Fenced):
                zombie.append(body, closing)
            assert lake.wrong() is None


@both
def test_skip_the_look(lake: Lake, monkeypatch, is_mutated: bool):
    """A writer frozen before its `open` creates it where an entry was removed."""
    if is_mutated:
        monkeypatch.setattr(LandingLog, "was_removed", lambda *_: False)
    owner = lake.opened()
    join(owner)
    fill(owner, 4)
    with frozen_before(lake, "create", entry_name(5), lambda: pack(lake, owner, 12)) as storage:
        late = lake.opened(storage)
    body = write_batch(lake, late)
    if is_mutated:
        # I6: it believes that it owns the slice, and stops with damage where nothing is damaged.
        with pytest.raises(LogDamaged, match="in the same epoch 2"):
            late.append(body, NOTHING)
    else:
        late.append(body, NOTHING)
        finish(late, lake.storage)
        assert lake.wrong() is None
        with pytest.raises(Fenced):
            owner.append(Commit("test"), NOTHING)


def test_one_snapshot_name_is_harmless_here(lake: Lake):
    """In the model an old snapshot that lands late hides the newer one, and entries are gone.

    Here each has a name of its own; and should the newer ones be lost, archives hold the rest.
    """
    owner = lake.opened(lake.faulty(LateEffect(6, "create", None)))
    fill(owner, 4)
    with pytest.raises(AnswerUnknown):
        owner.write_snapshot(0)
    for end in (9, 13, 17):
        pack(lake, owner, end)
    lake.pending.release()
    assert "_snapshot-4.json" in lake.listed()
    assert read_log(lake.storage, NAME).base == 17
    for number in (13, 17):
        lake.storage.delete(names.snapshot_path(NAME, number))
    assert read_log(lake.storage, NAME).base == 4
    assert lake.wrong() is None


@both
def test_retry_with_other_content(lake: Lake, is_mutated: bool):
    """A batch is planned again while its first `prepare` is still on its way."""
    faults = [LateEffect(3, "create", None), *(FailBefore(n, "create") for n in range(4, 11))]
    log = lake.opened(lake.faulty(*faults))
    join(log)
    body = write_batch(lake, log)
    with pytest.raises(AnswerUnknown):
        log.append(body, None)
    other = write_batch(lake, log, rows=2)
    lake.pending.release()
    if is_mutated:
        log._is_settled = True
        with pytest.raises(LogDamaged, match="written by another process"):  # I6: it was itself
            log.append(other, None)
    else:
        with pytest.raises(InvariantBroken, match="be opened again"):
            log.append(other, None)
        log.open()
        assert log.fold.unclosed.body == body
        log.append(Commit("test"), finish(log, lake.storage))
    assert lake.wrong() is None


@both
def test_retry_with_other_content_that_is_taken_for_the_first(lake: Lake, is_mutated: bool):
    """`It exists` is the answer to the second try; it does not say which content exists."""
    log = lake.opened()
    join(log)
    body = write_batch(lake, log)
    fault = LateEffect(1, "create", 1)
    log._context = replace(log._context, storage=lake.faulty(fault), settle_attempts=2)
    log.append(body, None)
    if is_mutated:
        other = write_batch(lake, _before(log), rows=2)
        log._fold = _with_unclosed(log.fold, other)
    finish(log, lake.storage)
    expected = "is final and no prepare names it"
    assert (expected in str(lake.wrong())) == is_mutated


def _before(log: LandingLog) -> LandingLog:
    """Return the writer as it was before its last batch."""
    before = LandingLog(log._context, NAME)
    shards = {key: replace(state, next=state.first) for key, state in log.fold.shards.items()}
    before._fold = replace(log.fold, shards=shards, next_batch=0, unclosed=None)
    return before


def _with_unclosed(fold: Fold, body) -> Fold:
    return replace(fold, unclosed=replace(fold.unclosed, body=body))


@both
def test_move_before_prepare_is_settled(lake: Lake, is_mutated: bool):
    """The `prepare` never lands, and another writer takes over."""
    log = lake.opened(lake.faulty(*(FailBefore(each, "create") for each in range(3, 11))))
    join(log)
    body = write_batch(lake, log)
    with pytest.raises(AnswerUnknown):
        log.append(body, None)
    if is_mutated:
        draft = replace(lake.history()[-1], number=2, previous=log.fold.last, body=body)
        log._fold = extend(log.fold, draft)
    finish(log, lake.storage)
    lake.opened()
    assert (lake.wrong() or "").startswith("I3: ") == is_mutated


@both
def test_recover_before_open(lake: Lake, is_mutated: bool):
    """The owner lands one batch more between the recovery and the `open`."""
    owner = lake.opened()
    join(owner)
    owner.append(write_batch(lake, owner), None)
    second = lake.writer()

    def owner_goes_on() -> None:
        owner.append(write_batch(lake, owner), finish(owner, lake.storage))

    if is_mutated:
        second._fold = read_log(lake.storage, NAME)
        closing = finish(second, lake.storage)
        owner_goes_on()
        second.open()
        closing = replace(closing, entry=second.fold.unclosed.number)
    else:
        owner_goes_on()
        second.open()
        closing = finish(second, lake.storage)
    second.append(Commit("recovery"), closing)
    expected = "I5: entry 3 is closed and its file not final" if is_mutated else None
    assert lake.wrong() == expected


def clean(lake: Lake, fold: Fold) -> None:
    staged = find_staged(lake.storage, NAME, [TABLE])
    apply_cleaning(lake.storage, plan_clean.plan_clean(fold, staged, 10**15, 0))


@both
def test_epoch_from_the_highest_open(lake: Lake, is_mutated: bool):
    """A stray `open` lies at a removed number while the owner writes its next batch."""
    owner = lake.opened()
    join(owner)
    fill(owner, 4)
    unanswered_open(lake)
    pack(lake, owner, 12)
    lake.pending.release()
    body = write_batch(lake, owner)
    fold = read_log(lake.storage, NAME)
    if is_mutated:
        listed = [names.parse_entry(each) for each in lake.listed()]
        found = [read_number(lake.storage, NAME, each) for each in listed if each is not None]
        opens = [entry.epoch for entry in found if isinstance(entry.body, Open)]
        fold = replace(fold, epoch=max(opens))
    clean(lake, fold)
    owner.append(body, NOTHING)
    expected = "I5: the file of entry 13 is gone" if is_mutated else None
    assert lake.wrong() == expected


@both
def test_clean_the_unclosed_batch(lake: Lake, monkeypatch, is_mutated: bool):
    """The janitor comes between a `prepare` and its moves."""
    if is_mutated:
        monkeypatch.setattr(plan_clean, "find_wanted", lambda fold: (set(), fold.next_batch))
    log = lake.opened()
    join(log)
    log.append(write_batch(lake, log), None)
    clean(lake, read_log(lake.storage, NAME))
    expected = "I5: the file of entry 2 is gone" if is_mutated else None
    assert lake.wrong() == expected


@both
def test_read_at_or_below_the_snapshot(lake: Lake, monkeypatch, is_mutated: bool):
    """Files first, archives only for the holes: a stray `open` in a hole is taken for true."""
    owner = lake.opened()
    fill(owner, 4)
    with frozen_before(lake, "create", entry_name(5), lambda: pack(lake, owner, 12)) as storage:
        late = lake.opened(storage)
    assert isinstance(read_number(lake.storage, NAME, 5).body, Open)

    def files_first(storage, name, listing, number):
        while True:
            entry = read_number(storage, name, number)
            if entry is None:
                packed = read_history(storage, name, number) if number <= listing.horizon else ()
                entry = next(iter(packed), None)
            if entry is None:
                return
            yield entry
            number += 1

    if is_mutated:
        monkeypatch.setattr(log_reader, "newest_snapshot", lambda *_: EMPTY)
        monkeypatch.setattr(log_reader, "_entries_from", files_first)
        assert (lake.wrong() or "").startswith("I6: entry 6 (commit) ")
        assert (lake.wrong() or "").endswith("another predecessor")
    else:
        assert lake.wrong() is None
        assert replace(late.fold, base=-1) == lake.truth()


@both
def test_look_only_at_the_end(lake: Lake, monkeypatch, is_mutated: bool):
    """A reader stands still before a number; it is removed, and a zombie opens there.

    With the entry at the snapshot's own number kept, as here, this is also the model's second
    wording. The third, where a stray lies at that very number, cannot be played: see below.
    """
    if is_mutated:
        monkeypatch.setattr(log_reader, "_try", lambda read, listing: read(listing))
    owner = lake.opened()
    fill(owner, 4)
    unanswered_open(lake)
    fill(owner, 8)
    reader = Frozen(lake.storage)

    def overtake() -> None:
        fill(owner, 12, snapshot=True)
        with pytest.raises(ProcessStopped):  # entries up to 5 are removed, 6 is still there
            archive_log(lake.faulty(StopProcess(6, "delete")), NAME)
        lake.pending.release()
        assert isinstance(read_number(lake.storage, NAME, 5).body, Open)

    reader.before("read", entry_name(5), overtake)
    if is_mutated:
        with pytest.raises(LogDamaged, match="has another predecessor"):
            read_log(reader, NAME)
    else:
        assert read_log(reader, NAME).end == 12
    assert reader.is_done
    assert lake.wrong() is None


def test_the_entry_at_a_snapshots_own_number_is_never_removed(lake: Lake):
    """So nothing stray can lie there: the model's "go past stops" has no counterpart."""
    log = lake.opened()
    for end in (4, 8, 12, 16):
        pack(lake, log, end)
        assert entry_name(end) in lake.listed()


# ---- shards taken up, gaps, lost files


def latest(log: LandingLog, source: RecordedSource) -> Join | None:
    streams = source.describe_streams(["clicks"])
    return plan_join(source, log.fold, streams, lambda *_: FirstOffset("latest"))


@both
def test_resolve_again_at_each_start(lake: Lake, is_mutated: bool):
    """A writer asks for the end of the topic, reads what comes then, and dies before it lands."""
    source = RecordedSource()
    source.create("clicks", 1)
    first = lake.opened()
    join_body = latest(first, source)
    if not is_mutated:
        first.append(join_body, None)
    source.append(StreamShard("clicks", "0"), b"1", b"2")
    second = lake.opened()
    again = latest(second, source)
    if again is not None:
        second.append(again, None)
    (state,) = second.fold.shards.values()
    assert state.next == (2 if is_mutated else 0)


@both
def test_go_on_over_a_gap(lake: Lake, is_mutated: bool):
    """The source drops offsets that come next."""
    log = lake.opened()
    join(log)
    gap = ShardRange(key_of(), OffsetRange(0, 5))
    if is_mutated:
        with pytest.raises(InvariantBroken, match="0 is the next offset"):
            log.append(write_batch(lake, _after(log, gap)), None)
    else:
        log.append(Skip((gap,), None, (), (), "job", "gap: skip"), None)
        closing = land(lake, log)
        log.append(Commit("test"), closing)
        assert log.fold.shards[key_of()].next == 8
        assert lake.wrong() is None


def _after(log: LandingLog, gap: ShardRange) -> LandingLog:
    """Return the writer as one that does without these offsets and says nothing."""
    after = LandingLog(log._context, NAME)
    state = replace(log.fold.shards[gap.key], next=gap.offsets.end)
    after._fold = replace(log.fold, shards={gap.key: state})
    return after


@both
def test_skip_before_the_moves(lake: Lake, is_mutated: bool):
    """A gap is found at a start, while the last writer's batch is not moved yet."""
    owner = lake.opened()
    join(owner)
    owner.append(write_batch(lake, owner), None)
    second = lake.opened()
    closing = None if is_mutated else finish(second, lake.storage)
    gap = ShardRange(key_of(), OffsetRange(3, 5))
    second.append(
        Skip((gap,), None, (), (), "job", "gap: skip"),
        closing or replace(NOTHING, entry=second.fold.unclosed.number),
    )
    expected = "I5: entry 2 is closed and its file not final" if is_mutated else None
    assert lake.wrong() == expected


@both
def test_look_at_the_target_first(lake: Lake, monkeypatch, is_mutated: bool):
    """A move is not answered, and a helper makes it between the two looks."""
    if is_mutated:
        monkeypatch.setattr(committer, "look_at_move", _look_at_the_target_first)
    log = lake.opened()
    join(log)
    log.append(write_batch(lake, log), None)
    (place,) = places_of(NAME, log.fold.unclosed)
    second_look = place.pending if is_mutated else place.final
    storage = lake.faulty(FailBefore(1, "publish"))
    with frozen_before(
        lake, "stat", names.leaf(second_look), lambda: finish(log, lake.storage)
    ) as frozen:
        frozen._inner, storage._inner = storage, lake.storage
        if is_mutated:
            with pytest.raises(FilesLost):
                committer.move_files(frozen, [place], FakeClock(), log.look)
        else:
            moved = committer.move_files(frozen, [place], FakeClock(), log.look)
            assert moved == committer.Moved(0, 1)
    assert lake.wrong() is None


def _look_at_the_target_first(storage, place):
    target = storage.stat(place.final)
    source = storage.stat(place.pending)
    sizes = [found.size if found else None for found in (source, target)]
    return judge_move(place, *sizes)


def lose_the_file(lake: Lake, log: LandingLog) -> DataFile:
    """Prepare a batch, and delete its pending file behind the log's back; return the file."""
    log.append(write_batch(lake, log), None)
    (place,) = places_of(NAME, log.fold.unclosed)
    lake.storage.delete(place.pending)
    return place.file


def land_again(lake: Lake, log: LandingLog, lost: DataFile) -> Reland:
    """Write the rows of a lost file again; return the body that names the new one."""
    chain = Chain()
    chain.fold = log.fold
    body = chain.reland(lost)
    (file,) = (replace(each, unique=lake.unique()) for each in body.files)
    place = BatchPlace(NAME, log.fold.epoch, body.batch).place(file, body.targets[file.target])
    lake.storage.create(place.pending, bytes(file.size_bytes))
    return replace(body, files=(file,))


@both
def test_give_up_without_a_look(lake: Lake, is_mutated: bool):
    """Somebody accepts a loss, while the files are there and only not moved yet."""
    owner = lake.opened()
    join(owner)
    owner.append(write_batch(lake, owner), None)
    second = lake.writer()
    committer = Committer(second, lake.storage, FakeClock())
    if is_mutated:
        second.open()
        chain = Chain()
        chain.fold = second.fold
        second.append(
            chain.accept_loss(*second.fold.unclosed.body.files),
            replace(NOTHING, entry=second.fold.unclosed.number),
        )
        assert second.fold.shards[key_of()].lost == 3
        assert (lake.wrong() or "").startswith("I5: entry 2 is closed")
    else:
        assert open_and_find_lost(committer) is None
        assert second.fold.shards[key_of()].lost == 0
        assert lake.wrong() is None


@both
def test_land_again_without_an_open(lake: Lake, is_mutated: bool):
    """Files are landed again, while the job that lost them is at work on its log."""
    owner = lake.opened()
    join(owner)
    lost = lose_the_file(lake, owner)
    second = lake.writer()
    if is_mutated:
        second._fold, second._is_settled = read_log(lake.storage, NAME), True
    else:
        second.open()
    closing = replace(NOTHING, entry=second.fold.unclosed.number)
    second.append(land_again(lake, second, lost), closing)
    stopped = LogDamaged if is_mutated else Fenced  # I6: nothing is damaged
    with pytest.raises(stopped):
        owner.append(Commit("test"), closing)
    finish(second, lake.storage)


@both
def test_land_again_as_a_new_batch(lake: Lake, is_mutated: bool):
    log = lake.opened()
    join(log)
    lost = lose_the_file(lake, log)
    batch, closing = log.fold.unclosed.body, replace(NOTHING, entry=2)
    again = land_again(lake, log, lost)
    if is_mutated:
        body = replace(batch, batch=batch.batch + 1, files=again.files)
        with pytest.raises(InvariantBroken, match="3 is the next offset"):
            log.append(body, closing)
    else:
        log.append(again, closing)
        log.append(Commit("test"), finish(log, lake.storage))
        assert log.fold.shards[key_of()].next == 3


@both
def test_clean_what_is_landed_again(lake: Lake, monkeypatch, is_mutated: bool):
    """The janitor comes after a lost file was written again, and before the log names it."""
    if is_mutated:
        monkeypatch.setattr(plan_clean, "find_wanted", lambda fold: (set(), fold.next_batch))
    log = lake.opened()
    join(log)
    lost = lose_the_file(lake, log)
    body = land_again(lake, log, lost)
    clean(lake, read_log(lake.storage, NAME))
    log.append(body, replace(NOTHING, entry=2))
    if is_mutated:
        with pytest.raises(PathMissing):
            finish(log, lake.storage)
    else:
        log.append(Commit("test"), finish(log, lake.storage))
        (place,) = plan_publish_batch(NAME, Unclosed(3, 1, 0, body)).places
        assert lake.storage.stat(place.final) is not None
