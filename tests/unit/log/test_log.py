"""Appending: take-over, fencing, and appends of which nobody knows whether they happened."""

from dataclasses import replace

import pytest
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
    InvariantBroken,
    LogDamaged,
    LogLost,
    StorageError,
    SyncFailed,
)
from ashore.log import names
from ashore.log.entries import Closing, Commit, Draft, Open, write_entry
from ashore.log.fold import EMPTY
from ashore.log.lost_end import Trace
from ashore.log.store import log as log_module
from ashore.log.store.archive import archive_log
from ashore.log.store.log import LandingLog, LogContext
from ashore.log.store.reader import read_history, read_log, read_number
from ashore_lab.testing import FailAfterEffect, FailBefore, LateEffect

BODY = Commit("test")


@pytest.fixture
def lake() -> Lake:
    return Lake()


# ---- take-over


def test_the_first_open_begins_the_log(lake: Lake):
    log = lake.opened()
    (entry,) = lake.history()
    assert (entry.number, entry.kind, entry.epoch, entry.previous) == (0, "open", 1, None)
    assert log.fold == lake.truth()


def test_a_log_is_opened_before_it_is_used(lake: Lake):
    log = lake.writer()
    with pytest.raises(InvariantBroken):
        log.append(BODY, NOTHING)
    with pytest.raises(InvariantBroken):
        log.look()
    assert lake.history() == []


def test_a_second_writer_takes_over_and_the_first_is_fenced_for_ever(lake: Lake):
    first = lake.opened()
    fill(first, 2)
    second = lake.opened()
    assert second.fold.epoch == 2
    with pytest.raises(Fenced) as caught:
        first.append(BODY, NOTHING)
    assert caught.value.fields == {"epoch": 1, "owner_epoch": 2}
    with pytest.raises(Fenced):
        first.open()
    with pytest.raises(InvariantBroken):
        first.append(BODY, NOTHING)
    fill(second, 5)
    assert [entry.epoch for entry in lake.history()] == [1, 1, 1, 2, 2, 2]


def test_an_idle_writer_notices_by_a_look(lake: Lake):
    first = lake.opened()
    first.look()
    lake.opened()
    with pytest.raises(Fenced):
        first.look()


def test_a_writer_frozen_longer_than_archiving_takes_is_fenced(lake: Lake, monkeypatch):
    monkeypatch.setattr(names, "ARCHIVE_ENTRIES", 4)
    first = lake.opened()
    fill(first, 2)
    second = lake.opened()
    fill(second, 13, snapshot=True)
    archive_log(lake.storage, NAME)
    for act in (lambda: first.append(BODY, NOTHING), first.look, first.open):
        with pytest.raises(Fenced):
            act()
    assert lake.wrong() is None


def test_a_losing_open_folds_again_and_takes_the_next_number(lake: Lake):
    frozen = Frozen(lake.storage)
    frozen.before("create", entry_name(0), lake.opened)
    frozen.before("create", entry_name(1), lambda: fill(lake.opened(), 2))
    log = lake.opened(frozen)
    assert frozen.is_done
    assert (log.fold.end, log.fold.epoch) == (3, 3)
    assert [entry.kind for entry in lake.history()] == ["open", "open", "commit", "open"]


def test_an_entry_of_the_same_epoch_by_another_is_damage(lake: Lake):
    log = lake.opened()
    draft = Draft(1, "f" * 32, 1, 0, log.fold.last, NOTHING, BODY)
    lake.storage.create(names.entry_path(NAME, 1), write_entry(draft)[1])
    with pytest.raises(LogDamaged, match="in the same epoch 1"):
        log.append(BODY, NOTHING)
    with pytest.raises(LogDamaged):
        log.look()


def test_what_would_not_fold_is_never_written(lake: Lake):
    log = lake.opened()
    for body, closing in ((BODY, None), (BODY, Closing(0, 0, 0, False, (), ()))):
        with pytest.raises(InvariantBroken, match="cannot be folded"):
            log.append(body, closing)
        log.open()
    assert {entry.kind for entry in lake.history()} == {"open"}


def test_times_in_the_log_never_go_back(lake: Lake):
    log = lake.opened()
    lake.clock.jump_wall(-3600)
    fill(log, 3)
    times = [entry.written_ms for entry in lake.history()]
    assert times == sorted(times)


def test_the_time_of_an_entry_is_not_that_of_a_clock_that_was_ahead(lake: Lake):
    log = lake.opened()
    lake.clock.jump_wall(10 * 365 * 86_400)
    fill(log, 3)
    lake.clock.jump_wall(-10 * 365 * 86_400)
    fill(log, 6)
    times = [entry.written_ms for entry in lake.history()]
    last = times[-1]
    assert max(times) - last > 9 * 365 * 86_400_000
    assert last <= lake.clock.now_ms()


# ---- appends whose answer did not come

UNCLEAR = [
    (FailBefore(1, "create"),),
    (FailAfterEffect(1, "create"),),
    (FailBefore(1, "create"), FailBefore(2, "create")),
    (FailAfterEffect(1, "create"), FailBefore(1, "read")),
    (FailBefore(1, "create"), FailBefore(1, "read")),
    (FailBefore(1, "stat"), FailBefore(2, "stat")),  # the look for an archive, after the append
    *((LateEffect(1, "create", after, times),) for after in (1, 2, 3) for times in (1, 2)),
    (LateEffect(1, "create", 1), FailBefore(1, "read")),
    (LateEffect(1, "create", 2), LateEffect(2, "create", 1)),
]


@pytest.mark.parametrize(
    "faults", [each for each in UNCLEAR if all(fault.kind == "create" for fault in each)], ids=str
)
@pytest.mark.parametrize("end", [-1, 3])
def test_an_unclear_open_is_settled(lake: Lake, faults, end: int):
    if end >= 0:
        fill(lake.opened(), end)
    storage = lake.faulty(*faults)
    log = lake.opened(storage)
    assert storage.fired
    fill(log, end + 3)
    lake.pending.release()
    assert log.fold == read_log(lake.storage, NAME) == lake.truth()
    assert [entry.kind for entry in lake.history()][-3:] == ["open", "commit", "commit"]


@pytest.mark.parametrize("faults", UNCLEAR, ids=str)
def test_an_unclear_append_is_settled(lake: Lake, faults):
    writer = lake.opened()
    storage = lake.faulty(*faults)
    writer._context = replace(writer._context, storage=storage)
    writer.append(Commit("unclear"), NOTHING)
    assert storage.fired
    fill(writer, 4)
    lake.pending.release()
    assert writer.fold == read_log(lake.storage, NAME) == lake.truth()
    assert [entry.kind for entry in lake.history()] == ["open", *["commit"] * 4]


def test_an_unclear_append_is_tried_again_with_the_same_bytes(lake: Lake):
    log = lake.opened()
    tries = []

    class Recording:
        def __getattr__(self, name):
            return getattr(lake.storage, name)

        def create(self, path: str, data: bytes) -> None:
            tries.append((path, data))
            if len(tries) < 4:
                raise AnswerUnknown("no answer")
            lake.storage.create(path, data)

    log._context = replace(log._context, storage=Recording())
    log.append(BODY, NOTHING)
    assert len(tries) == 4
    assert len(set(tries)) == 1


def test_an_unclear_append_that_lost_is_fenced(lake: Lake):
    frozen = Frozen(lake.faulty(FailBefore(2, "create")))
    log = lake.opened(frozen)
    frozen.before("read", entry_name(1), lake.opened)
    with pytest.raises(Fenced):
        log.append(BODY, NOTHING)
    assert [entry.kind for entry in lake.history()] == ["open", "open"]


def test_an_unclear_append_that_landed_before_the_take_over_counts(lake: Lake):
    frozen = Frozen(lake.faulty(FailAfterEffect(2, "create")))
    log = lake.opened(frozen)
    frozen.before("read", entry_name(1), lake.opened)
    log.append(BODY, NOTHING)
    assert [entry.kind for entry in lake.history()] == ["open", "commit", "open"]
    with pytest.raises(Fenced):
        log.append(BODY, NOTHING)


def given_up(lake: Lake, fault: type, log_end: int = 0) -> LandingLog:
    """Return a writer that has given an append up after eight tries without an answer."""
    faults = [fault(each, "create") for each in range(2 + log_end, 10 + log_end)]
    if fault is LateEffect:
        faults = [replace(each, after=None) for each in faults]
    log = lake.opened(lake.faulty(*faults))
    join(log) if log_end else None
    with pytest.raises(AnswerUnknown, match="may or may not"):
        log.append(Commit("given up"), NOTHING)
    return log


def test_after_giving_up_a_writer_goes_on_only_through_a_new_open(lake: Lake):
    log = given_up(lake, FailBefore)
    with pytest.raises(InvariantBroken, match="be opened again"):
        log.append(BODY, NOTHING)
    log.open()
    log.append(BODY, NOTHING)
    assert [entry.kind for entry in lake.history()] == ["open", "open", "commit"]


def test_what_was_given_up_may_appear_before_the_new_open(lake: Lake):
    log = given_up(lake, LateEffect)
    lake.pending.release()
    log.open()
    log.append(BODY, NOTHING)
    assert [entry.kind for entry in lake.history()] == ["open", "commit", "open", "commit"]
    assert lake.wrong() is None


def test_what_was_given_up_cannot_appear_after_the_new_open(lake: Lake):
    log = given_up(lake, LateEffect)
    log.open()
    lake.pending.release()
    log.append(BODY, NOTHING)
    assert [entry.kind for entry in lake.history()] == ["open", "open", "commit"]
    assert lake.wrong() is None


def test_what_was_given_up_may_appear_between_the_fold_and_the_new_open(lake: Lake):
    log = given_up(lake, LateEffect)
    frozen = Frozen(lake.storage)
    frozen.before("create", entry_name(1), lake.pending.release)
    log._context = replace(log._context, storage=frozen)
    log.open()
    assert [entry.kind for entry in lake.history()] == ["open", "commit", "open"]
    assert log.fold == lake.truth()


def test_a_wait_is_reported_and_slept(lake: Lake):
    reported: list[str] = []
    storage = lake.faulty(FailBefore(1, "create"), FailBefore(2, "create"))
    log = LandingLog(LogContext(storage, lake.clock, lake.unique, on_wait=reported.append), NAME)
    before = lake.clock.monotonic_s()
    log.open()
    assert [each.split(":")[0] for each in reported] == ["append of entry 0"] * 2
    assert lake.clock.monotonic_s() - before == pytest.approx(0.15)


def test_a_failed_sync_is_never_repeated(lake: Lake):
    calls = []

    class Dying:
        def __getattr__(self, name):
            return getattr(lake.storage, name)

        def create(self, path: str, data: bytes) -> None:
            calls.append(path)
            raise SyncFailed("the disk is dying")

    with pytest.raises(SyncFailed):
        lake.writer(Dying()).open()
    assert len(calls) == 1


def test_a_storage_that_cannot_be_read_stops_the_open(lake: Lake):
    for fault in (FailBefore(1, "list"), FailBefore(1, "read"), FailBefore(2, "list")):
        lake.opened()
        with pytest.raises(StorageError):
            lake.opened(lake.faulty(fault))


# ---- numbers that were removed


@pytest.fixture
def small_archives(monkeypatch) -> None:
    monkeypatch.setattr(names, "ARCHIVE_ENTRIES", 4)


@pytest.mark.usefixtures("small_archives")
def test_an_open_at_a_removed_number_is_seen_by_its_writer_alone(lake: Lake):
    owner = lake.opened()
    fill(owner, 4)
    frozen = Frozen(lake.storage)

    def move_on() -> None:
        fill(owner, 10, snapshot=True)
        archive_log(lake.storage, NAME)

    frozen.before("create", entry_name(5), move_on)
    late = lake.opened(frozen)
    assert entry_name(5) in lake.listed()  # the stray open
    assert (late.fold.end, late.fold.epoch) == (11, 2)
    assert lake.wrong() is None
    assert [entry.number for entry in read_history(lake.storage, NAME)] == list(range(12))
    assert list(read_history(lake.storage, NAME)) == lake.history()
    with pytest.raises(Fenced):
        owner.append(BODY, NOTHING)


@pytest.mark.usefixtures("small_archives")
def test_a_late_open_at_a_removed_number_changes_nothing_for_anybody(lake: Lake):
    owner = lake.opened()
    fill(owner, 4)
    faults = [LateEffect(each, "create", None) for each in range(1, 9)]
    with pytest.raises(AnswerUnknown):
        lake.writer(lake.faulty(*faults)).open()
    fill(owner, 10, snapshot=True)
    archive_log(lake.storage, NAME)
    lake.pending.release()
    assert entry_name(5) in lake.listed()
    assert read_log(lake.storage, NAME).epoch == 1
    fill(owner, 14, snapshot=True)
    archive_log(lake.storage, NAME)
    assert lake.wrong() is None
    assert lake.opened().fold.epoch == 2


@pytest.mark.usefixtures("small_archives")
def test_a_prepare_of_a_fenced_writer_that_was_archived_may_come_again_and_does_nothing(lake: Lake):
    """Its bytes are the true ones; the writer finds its number archived, and is fenced."""
    first = lake.opened(lake.faulty(LateEffect(6, "create", None), FailBefore(7, "create")))
    join(first)
    fill(first, 4)
    body = write_batch(lake, first)

    def others() -> None:
        lake.pending.release()  # the first try lands, and another takes over
        second = lake.opened()
        closing = finish(second, lake.storage)
        second.append(BODY, closing)
        fill(second, 12, snapshot=True)
        archive_log(lake.storage, NAME)

    waits: list[str] = []

    def wait(_: str) -> None:
        waits.append("")
        if len(waits) == 2:
            others()

    first._context = replace(first._context, on_wait=wait)
    with pytest.raises(Fenced):
        first.append(body, None)
    assert isinstance(read_number(lake.storage, NAME, 5).body, type(body))
    assert lake.wrong() is None


# ---- what a writer looks for, where its number may have been removed


def opened_again_and_again(lake: Lake, closing: Closing | None = None) -> None:
    """Take the slice over in a crash loop; then go on, and pack."""
    for _ in range(6):
        log = lake.opened()
    log.append(BODY, closing or NOTHING)
    fill(log, 16, snapshot=True)
    archive_log(lake.storage, NAME)


def test_who_looks_where_the_next_entry_was_removed_is_fenced(lake: Lake, monkeypatch):
    monkeypatch.setattr(names, "ARCHIVE_ENTRIES", 8)
    first = lake.opened()
    join(first)
    fill(first, 4)
    opened_again_and_again(lake)
    assert lake.storage.stat(names.entry_path(NAME, 5)) is None
    with pytest.raises(Fenced):
        first.look()
    with pytest.raises(Fenced):
        first.open()


def test_who_looks_while_the_next_entry_is_packed_and_removed_is_fenced(lake: Lake, monkeypatch):
    monkeypatch.setattr(names, "ARCHIVE_ENTRIES", 8)
    first = lake.opened()
    join(first)
    fill(first, 4)
    frozen = Frozen(lake.storage)
    first._context = replace(first._context, storage=frozen)
    frozen.before("read", entry_name(5), lambda: opened_again_and_again(lake))
    with pytest.raises(Fenced):
        first.look()
    assert frozen.is_done
    assert lake.storage.stat(names.entry_path(NAME, 5)) is None


def test_a_writer_whose_look_for_the_archive_fails_goes_on_through_a_new_open(lake: Lake):
    # Each look of one append fails; opening has none.
    log = lake.opened(lake.faulty(*(FailBefore(number, "stat") for number in range(1, 9))))
    with pytest.raises(StorageError):
        log.append(BODY, NOTHING)
    with pytest.raises(InvariantBroken):
        log.append(BODY, NOTHING)
    assert log.open().end == 2  # the entry stands in the log
    assert lake.wrong() is None


def test_an_append_looks_once_and_an_idle_look_twice(lake: Lake):
    storage = lake.faulty()
    log = lake.opened(storage)
    before = len(storage.calls)
    log.append(BODY, NOTHING)
    assert [call.kind for call in storage.calls[before:]] == ["create", "stat"]
    log.look()
    assert [call.kind for call in storage.calls[before + 2 :]] == ["read", "stat"]


# ---- snapshots


def test_a_snapshot_is_due_after_a_tail(lake: Lake, monkeypatch):
    monkeypatch.setattr(log_module, "SNAPSHOT_EVERY", 5)
    log = lake.opened()
    assert log.fold.base == EMPTY.base
    due = []
    for end in range(1, 9):
        fill(log, end)
        due.append(log.is_snapshot_due)
        if log.is_snapshot_due:
            log.write_snapshot(0)
    assert due == [False, False, False, True, False, False, False, False]
    assert "_snapshot-4.json" in lake.listed()


def test_a_start_reads_the_snapshot_and_the_tail_only(lake: Lake):
    log = lake.opened()
    fill(log, 20, snapshot=True)
    fill(log, 23)
    storage = lake.faulty()
    fold = read_log(storage, NAME)
    read = [names.leaf(call.path) for call in storage.calls if call.kind == "read"]
    assert read == ["_snapshot-20.json", *map(entry_name, (21, 22, 23, 24))]
    assert replace(fold, base=-1) == lake.truth()


def test_a_snapshot_that_is_there_already_is_as_good(lake: Lake):
    log = lake.opened()
    fill(log, 5)
    log.write_snapshot(0)
    log.write_snapshot(0)
    lake.opened().write_snapshot(0)
    assert [each for each in lake.listed() if "snap" in each] == [
        "_snapshot-5.json",
        "_snapshot-6.json",
    ]


def test_a_snapshot_that_could_not_be_written_leaves_the_writer_where_it_was(lake: Lake):
    log = lake.opened(lake.faulty(FailBefore(4, "create")))
    fill(log, 2)
    with pytest.raises(StorageError):
        log.write_snapshot(0)
    fill(log, 4, snapshot=True)
    assert lake.wrong() is None


def test_no_snapshot_while_an_entry_is_unclosed(lake: Lake):
    log = lake.opened()
    join(log)
    closing = land(lake, log)
    with pytest.raises(InvariantBroken):
        log.write_snapshot(0)
    log.append(BODY, closing)
    log.write_snapshot(0)
    assert lake.wrong() is None
    assert isinstance(lake.history()[0].body, Open)


# --- a log that has lost its end


def test_a_writer_that_finds_its_log_shorter_than_it_was_appends_nothing(lake: Lake):
    log = lake.opened()
    fill(log, 3)
    for number in (2, 3):
        lake.storage.delete(names.entry_path(NAME, number))
    before = lake.listed()
    with pytest.raises(LogLost, match=r"at entry 1, .* entry 3"):
        log.open()
    assert lake.listed() == before


def test_a_first_open_looks_around_before_it_reads_the_log(lake: Lake):
    fill(lake.opened(), 2)

    def another_opens() -> list[Trace]:
        lake.opened()
        return [Trace("x", 2)]

    context = LogContext(lake.storage, lake.clock, lake.unique, look_around=another_opens)
    assert LandingLog(context, NAME).open().epoch == 3

    for epoch, batch in ((4, -1), (3, 0)):
        traces = [Trace("ods.db/x", epoch, batch)]
        context = LogContext(lake.storage, lake.clock, lake.unique, look_around=lambda t=traces: t)
        with pytest.raises(LogLost, match=r"ods\.db/x"):
            LandingLog(context, NAME).open()
