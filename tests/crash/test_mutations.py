"""A drill that cannot turn red proves nothing: each break of the protocol is found."""

import contextlib
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import count

import pytest
from tests.crash import second_writer, storage_calls, system_calls
from tests.crash.harness import NAME, TABLES, Broken, find_failures
from tests.crash.storage_calls import Case, Strike

from ashore.base.clock import Clock
from ashore.errors import PathExists, StorageError
from ashore.log import names, plan_clean
from ashore.log.entries import Body, Closing, Draft, Prepare, write_entry
from ashore.log.extend import extend
from ashore.log.files import BatchPlace, FilePlace, TableCommit
from ashore.log.fold import Fold
from ashore.log.plan_batch import BatchPlan
from ashore.log.plan_commit import PublishBatch
from ashore.log.positions import OffsetRange
from ashore.log.store import committer, entry_writer, log
from ashore.log.store.cleaner import find_staged
from ashore.log.store.committer import Moved, move_files
from ashore.log.store.log import LandingLog
from ashore.log.store.reader import read_log
from ashore.storage import LocalStorage, MemoryStorage, Storage
from ashore.storage.base import Staged
from ashore.topics.loop import slice_loop
from ashore.topics.write.batch import BatchOrder, TaskResult, Written, prepare_of
from ashore_lab.testing import PowerCutPolicy, RecordedRunner

Patch = pytest.MonkeyPatch


@dataclass(frozen=True)
class Mutation:
    """A break of the protocol, where it is looked for, and what is found."""

    apply: Callable[[Patch], None]
    cases: Callable[[], Iterator[Case]]
    finds: str


def strike(name: str) -> Iterator[Case]:
    by_name: Mapping[str, Strike] = {each.name: each for each in storage_calls.strikes()}
    return storage_calls.cases(by_name[name])


def power_cuts() -> Iterator[Case]:
    return system_calls.stops(PowerCutPolicy.NOTHING_UNSYNCED, can_rename=True)


def first_failure(cases: Callable[[], Iterator[Case]]) -> str:
    """Return what the drill finds first; empty: nothing."""
    try:
        return next(find_failures(cases()), "")
    except Broken as error:  # even the run without a fault shows it
        return str(error)


def move_first(patch: Patch) -> None:
    append = LandingLog.append

    def moving(self: LandingLog, body: Body, closing: Closing | None) -> Fold:
        if isinstance(body, Prepare):
            place = BatchPlace(NAME, self.fold.epoch, body.batch)
            for file in body.files:
                each = place.place(file, body.targets[file.target])
                self._context.storage.publish(Staged(each.pending), each.final)
        return append(self, body, closing)

    patch.setattr(LandingLog, "append", moving)


def skip_a_move(patch: Patch) -> None:
    def lazy(
        storage: Storage, places: Sequence[FilePlace], clock: Clock, *others: Callable[..., None]
    ) -> Moved:
        kept = [each for each in places if "orders" not in each.final]
        return move_files(storage, kept, clock, *others)

    patch.setattr(committer, "move_files", lazy)


def sync_no_moves(patch: Patch) -> None:
    """The two ends of a rename are durable together, so both are left out."""

    patch.setattr(PublishBatch, "directories", ())


def sync_all_but(patch: Patch, left_out: str) -> None:
    sync = LocalStorage.sync

    def careless(self: LocalStorage, directories: Sequence[str]) -> None:
        sync(self, [each for each in directories if not re.search(left_out, each)])

    patch.setattr(LocalStorage, "sync", careless)


def sync_no_staging(patch: Patch) -> None:
    sync_all_but(patch, r"\.ashore/shop/main/\d+$")


def build_on_what_is_seen(patch: Patch) -> None:
    sync_all_but(patch, r"/log$")


def overwrite_entries(patch: Patch) -> None:
    create = MemoryStorage.create

    def overwriting(self: MemoryStorage, path: str, data: bytes) -> None:
        if path.startswith(names.log_directory(NAME)) and self.stat(path):
            self.delete(path)
        create(self, path, data)

    patch.setattr(MemoryStorage, "create", overwriting)


def never_open_again(patch: Patch) -> None:
    open_log = LandingLog.open

    def lazy(self: LandingLog, require: Callable[[Fold], None] = lambda _fold: None) -> Fold:
        fold = read_log(self._context.storage, self.name)
        if fold.end < 0:
            return open_log(self, require)
        self._fold, self._is_settled = fold, True
        return fold

    patch.setattr(LandingLog, "open", lazy)


def delete_before_writing(patch: Patch) -> None:
    run = RecordedRunner.run

    def deleting(self: RecordedRunner, order: BatchOrder, plan: BatchPlan) -> list[TaskResult]:
        for staged in find_staged(self._storage, order.name, TABLES):
            self._storage.delete(staged.path)
        return run(self, order, plan)

    patch.setattr(RecordedRunner, "run", deleting)


def go_on_after_the_highest_record(patch: Patch) -> None:
    def short(plan: BatchPlan, written: Written, commits: tuple[TableCommit, ...]) -> Prepare:
        prepare = prepare_of(plan, written, commits)
        highest = {index: read.offsets.start for index, read in enumerate(prepare.shards)}
        for file in prepare.files:
            for span in file.spans:
                highest[span.shard] = max(highest[span.shard], span.end)
        reads = [
            replace(read, offsets=OffsetRange(read.offsets.start, highest[index]))
            for index, read in enumerate(prepare.shards)
        ]
        return replace(prepare, shards=tuple(reads))

    patch.setattr(slice_loop, "prepare_of", short)


def fixed_file_names(patch: Patch) -> None:
    """Name files as the try before did, whose files the storage has not deleted."""
    run = RecordedRunner.run

    def counting(self: RecordedRunner, order: BatchOrder, plan: BatchPlan) -> list[TaskResult]:
        numbers = count()
        patch.setattr(self, "_entropy", lambda: f"{order.batch:08x}{next(numbers):08x}")
        return run(self, order, plan)

    patch.setattr(RecordedRunner, "run", counting)
    patch.setattr(slice_loop, "delete_staged", lambda *_arguments: None)


def retry_with_other_content(patch: Patch) -> None:
    """Plan again after an unclear prepare, and take whatever stands there for one's own."""
    append = LandingLog._try_append

    def careless(
        self: LandingLog, fold: Fold, epoch: int, closing: Closing | None, body: Body
    ) -> Fold | None:
        if not isinstance(body, Prepare):
            return append(self, fold, epoch, closing, body)
        context, self._is_settled = self._context, True
        token, now_ms = context.entropy() + context.entropy(), context.clock.now_ms()
        draft = Draft(fold.end + 1, token, epoch, now_ms, fold.last, closing, body)
        entry, data = write_entry(draft)
        with contextlib.suppress(PathExists):
            context.storage.create(names.entry_path(self.name, draft.number), data)
        return extend(fold, entry)

    append_body = entry_writer.EntryWriter.append

    def again(self: entry_writer.EntryWriter, body: Body) -> None:
        try:
            append_body(self, body)
        except StorageError:
            self._must_open = not isinstance(body, Prepare)
            raise

    patch.setattr(LandingLog, "_try_append", careless)
    patch.setattr(entry_writer.EntryWriter, "append", again)


def clean_the_unclosed_batch(patch: Patch) -> None:
    def careless(fold: Fold) -> tuple[set[str], int]:
        return set(), fold.next_batch

    patch.setattr(plan_clean, "find_wanted", careless)


MUTATIONS = {
    "move before the prepare is appended": Mutation(
        move_first, lambda: strike("stops before"), "no prepare names it"
    ),
    "skip a move": Mutation(skip_a_move, lambda: strike("stops before"), "and not there"),
    "do not sync what was moved": Mutation(sync_no_moves, power_cuts, "not durable|and not there"),
    "do not sync staging directories": Mutation(sync_no_staging, power_cuts, "FilesLost"),
    "build on an entry that was only seen": Mutation(
        build_on_what_is_seen,
        lambda: system_calls.hangs(can_rename=True),
        "no prepare names it",
    ),
    "overwrite log entries": Mutation(
        overwrite_entries,
        lambda: second_writer.frozen_writers(second_writer.land_one_batch, "wakes"),
        "LogDamaged|no prepare names it",
    ),
    "restart without an open": Mutation(
        never_open_again,
        lambda: second_writer.frozen_writers(second_writer.land_one_batch, "wakes"),
        "LogDamaged",
    ),
    "delete in staging before writing": Mutation(
        delete_before_writing,
        lambda: second_writer.frozen_writers(second_writer.prepare_and_die, "wakes"),
        "FilesLost",
    ),
    "go on after the highest record": Mutation(
        go_on_after_the_highest_record, lambda: strike("stops before"), "never comes to an end"
    ),
    "use file names again": Mutation(
        fixed_file_names, lambda: strike("fails before"), "not got over one fault"
    ),
    "retry an append with other content": Mutation(
        retry_with_other_content, lambda: strike("fails after"), "another predecessor"
    ),
    "clean the unclosed batch": Mutation(
        clean_the_unclosed_batch,
        lambda: second_writer.frozen_writers(second_writer.prepare_and_die, "wakes"),
        "FilesLost",
    ),
}


@pytest.fixture(autouse=True)
def short_log(monkeypatch: Patch) -> None:
    monkeypatch.setattr(log, "SNAPSHOT_EVERY", 4)
    monkeypatch.setattr(names, "ARCHIVE_ENTRIES", 2)


@pytest.mark.thirds
@pytest.mark.parametrize("name", MUTATIONS)
def test_a_broken_protocol_is_found(name: str, monkeypatch: Patch) -> None:
    mutation = MUTATIONS[name]
    mutation.apply(monkeypatch)
    found = first_failure(mutation.cases)
    assert re.search(mutation.finds, found), found or "nothing was found"
