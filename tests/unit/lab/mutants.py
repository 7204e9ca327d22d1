"""Breaks of the protocol, for drills in memory: each must turn every drill red."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import count

import pytest

from ashore.base.clock import Clock
from ashore.errors import AnswerUnknown, BatchFailed, CatalogError, PathMissing, StorageError
from ashore.log import extend, names, plan_seal
from ashore.log.entries import Body, Closing, Prepare, ResetClock, frame
from ashore.log.files import FilePlace
from ashore.log.fold import Changes, Fold
from ashore.log.plan_batch import BatchPlan, Gaps, ShardOffsets
from ashore.log.positions import ShardKey
from ashore.log.store import committer
from ashore.log.store.clock_guard import ClockGuard
from ashore.log.store.committer import Moved, move_files
from ashore.log.store.log import LandingLog
from ashore.storage.base import FileWriter, Staged, Storage
from ashore.storage.memory import MemoryStorage
from ashore.topics.loop import slice_loop
from ashore.topics.loop.registrar import Registrar
from ashore.topics.loop.slice_loop import SliceLoop
from ashore.topics.write.batch import BatchOrder, TaskResult
from ashore_lab.drills.faults.full import _FullWriter
from ashore_lab.drills.faults.late_delete import LateDeletes
from ashore_lab.drills.sites import site
from ashore_lab.drills.sites.memory import TaskRunner
from ashore_lab.drills.sites.site import NAME
from ashore_lab.testing.faults import _FaultyWriter

Patch = pytest.MonkeyPatch


def skip_a_move(patch: Patch) -> None:
    def lazy(
        storage: Storage, places: Sequence[FilePlace], clock: Clock, *others: Callable[..., None]
    ) -> Moved:
        return move_files(storage, places[1:], clock, *others)

    patch.setattr(committer, "move_files", lazy)


def move_twice_under_two_names(patch: Patch) -> None:
    def eager(
        storage: Storage, places: Sequence[FilePlace], clock: Clock, *others: Callable[..., None]
    ) -> Moved:
        moved = move_files(storage, places, clock, *others)
        final = places[0].final
        again = final.replace(places[0].file.unique, "f" * 16)
        if storage.stat(again) is None:
            storage.create(again, storage.read(final))
        return moved

    patch.setattr(committer, "move_files", eager)


def drop_an_entry(patch: Patch) -> None:
    """From the second on, a `prepare` is taken for appended, and is not."""
    try_append, prepared = LandingLog._try_append, []

    def careless(
        self: LandingLog, fold: Fold, epoch: int, closing: Closing | None, body: Body
    ) -> Fold | None:
        if isinstance(body, Prepare):
            prepared.append(body)
        extended = try_append(self, fold, epoch, closing, body)
        if len(prepared) >= 2 and extended is not None and isinstance(body, Prepare):
            storage = self._context.storage
            storage.delete(
                max(found.path for found in storage.list(names.log_directory(self.name)))
            )
        return extended

    patch.setattr(LandingLog, "_try_append", careless)


def prepare_twice(patch: Patch) -> None:
    """The first batch of each process is planned again, as if its `prepare` had not counted."""
    append = LandingLog.append
    known: list[LandingLog] = []

    def forgetting(self: LandingLog, body: Body, closing: Closing | None) -> Fold:
        before = self.fold
        after = append(self, body, closing)
        if isinstance(body, Prepare) and self not in known:
            known.append(self)
            self._fold = after = replace(after, shards=before.shards)
        return after

    patch.setattr(LandingLog, "append", forgetting)


def overwrite_entries(patch: Patch) -> None:
    create = MemoryStorage.create

    def overwriting(self: MemoryStorage, path: str, data: bytes) -> None:
        if path.startswith(names.log_directory(NAME)) and self.stat(path):
            self.delete(path)
        create(self, path, data)

    patch.setattr(MemoryStorage, "create", overwriting)


def use_file_names_again(patch: Patch) -> None:
    """Files are named as the try before did, whose files the storage has not deleted."""
    run = TaskRunner.run

    def counting(self: TaskRunner, order: BatchOrder, plan: BatchPlan) -> list[TaskResult]:
        numbers = count()
        patch.setattr(self, "_entropy", lambda: f"{order.batch:08x}{next(numbers):08x}")
        return run(self, order, plan)

    patch.setattr(TaskRunner, "run", counting)
    patch.setattr(slice_loop, "delete_staged", lambda *_arguments: None)


def seal_what_may_still_come(patch: Patch) -> None:
    """A day is sealed when it is over, whether its records have been read or not."""
    patch.setattr(plan_seal, "_obstacle", lambda *_: "")


def delete_before_write(patch: Patch) -> None:
    """A file's name is made free before it is written, whether anything stands there or not."""
    open_write = LateDeletes.open_write

    def clearing(self: LateDeletes, path: str) -> FileWriter:
        with suppress(PathMissing):
            self.delete(path)
        return open_write(self, path)

    patch.setattr(LateDeletes, "open_write", clearing)


def forget_a_task_that_failed(patch: Patch) -> None:
    """What failed tasks were to read counts as read, and empty."""
    run = TaskRunner.run

    def forgetful(self: TaskRunner, order: BatchOrder, plan: BatchPlan) -> list[TaskResult]:
        try:
            return run(self, order, plan)
        except BatchFailed:
            return [TaskResult(0, (), (), (), ()).having_read(order.ranges)]

    patch.setattr(TaskRunner, "run", forgetful)


def skip_a_record_too_many(patch: Patch) -> None:
    plan_batch = slice_loop.plan_batch

    def generous(*arguments: object) -> object:
        outcome = plan_batch(*arguments)  # type: ignore[arg-type]
        if not isinstance(outcome, Gaps):
            return outcome
        first, *others = outcome.ranges
        offsets = replace(first.offsets, end=first.offsets.end + 1)
        return Gaps((replace(first, offsets=offsets), *others))

    patch.setattr(slice_loop, "plan_batch", generous)


def go_on_over_a_gap(patch: Patch) -> None:
    skip = SliceLoop._skip

    def unasked(self: SliceLoop, gaps: Gaps, offsets: Mapping[ShardKey, ShardOffsets]) -> None:
        self.plan = replace(self.plan, skips_gaps=True)
        skip(self, gaps, offsets)

    patch.setattr(SliceLoop, "_skip", unasked)


def trust_the_name_of_a_topic(patch: Patch) -> None:
    patch.setattr(slice_loop, "check_streams", lambda *_arguments: None)
    patch.setattr(SliceLoop, "_check_identities", lambda *_arguments: None)


def take_a_failure_for_success(patch: Patch) -> None:
    """A write that found no room is taken for done."""

    def blind(self: _FullWriter, data: memoryview) -> None:
        with suppress(StorageError):
            self._storage.take(len(data), self._path, is_file=True)
            self._inner.write(bytes(data))

    patch.setattr(_FullWriter, "_append", blind)


def read_late_by_the_clock(patch: Patch) -> None:
    """`now` follows the driver's clock also where it goes back."""
    plan_batch = slice_loop.plan_batch

    def naive(*arguments: object) -> object:
        outcome = plan_batch(*arguments)  # type: ignore[arg-type]
        if not isinstance(outcome, BatchPlan):
            return outcome
        return replace(outcome, time=replace(outcome.time, now_ms=arguments[4]))

    patch.setattr(slice_loop, "plan_batch", naive)


def take_silence_for_a_move(patch: Patch) -> None:
    """A move that no NameNode answers is taken for done."""

    def trusting(
        storage: Storage, places: Sequence[FilePlace], _clock: Clock, *_others: Callable[..., None]
    ) -> Moved:
        for place in places:
            with suppress(AnswerUnknown):
                storage.publish(Staged(place.pending), place.final)
        return Moved(len(places), 0)

    patch.setattr(committer, "move_files", trusting)


def take_half_a_file_for_a_file(patch: Patch) -> None:
    """What the nodes that are gone did not take is not missed."""
    call = _FaultyWriter._call

    def blind(self: _FaultyWriter, kind: str, effect: Callable[[], object]) -> None:
        with suppress(StorageError):
            call(self, kind, effect)

    patch.setattr(_FaultyWriter, "_call", blind)


def forget_what_is_deferred(patch: Patch) -> None:
    """A registration that the metastore did not take is taken for done."""
    register = Registrar.register

    def forgetful(self: Registrar, table: str, partitions: Sequence[str]) -> None:
        with suppress(CatalogError):
            register(self, table, partitions)

    patch.setattr(Registrar, "register", forgetful)


def leave_dirty_files(patch: Patch) -> None:
    patch.setattr(site, "clean_job", lambda *_arguments: 0)


def write_a_format_that_is_new(patch: Patch) -> None:
    """This release writes entries that only it can read; it reads those of the one before too."""

    class Both(int):
        __hash__ = int.__hash__

        def __eq__(self, other: object) -> bool:
            return int(self) == other or other == 1

        def __ne__(self, other: object) -> bool:
            return not self == other

    patch.setattr(frame, "FORMAT_VERSION", Both(2))


def believe_any_clock(patch: Patch) -> None:
    patch.setattr(ClockGuard, "require_clock", lambda _guard, _fold: None)


def set_back_the_time_of_batches_only(patch: Patch) -> None:
    """Watermarks, and what shards have seen, stay as the clock that was ahead has told them."""

    def fold_time_only(fold: Fold, body: ResetClock) -> Changes:
        return {"now_ms": body.now_ms}

    patch.setattr(extend, "fold_reset_clock", fold_time_only)


# What only one drill is for.
OWN_MUTANTS: dict[str, tuple[str, Callable[[Patch], None]]] = {
    "overwrite entries": ("zombie-writer", overwrite_entries),
    "use file names again": ("lost-answers", use_file_names_again),
    "seal what may still come": ("kill-driver", seal_what_may_still_come),
    "delete before write": ("delete-before-write", delete_before_write),
    "forget a task that failed": ("kill-executor", forget_a_task_that_failed),
    "skip a record too many": ("retention", skip_a_record_too_many),
    "go on over a gap": ("retention", go_on_over_a_gap),
    "trust the name of a topic": ("topic-recreated", trust_the_name_of_a_topic),
    "take a failure for success": ("disk-full", take_a_failure_for_success),
    "let now go back": ("clock-jump", read_late_by_the_clock),
    "believe any clock": ("clock-jump", believe_any_clock),
    "set back the time of batches only": ("clock-jump", set_back_the_time_of_batches_only),
    "take silence for a move": ("namenode-failover", take_silence_for_a_move),
    "take half a file for a file": ("storage-nodes-down", take_half_a_file_for_a_file),
    "take half a file where there is no room": ("space-quota", take_half_a_file_for_a_file),
    "leave dirty files": ("upgrade", leave_dirty_files),
    "write a format that is new": ("upgrade", write_a_format_that_is_new),
    "forget what is deferred": ("metastore-outage", forget_what_is_deferred),
}

MUTANTS: dict[str, Callable[[Patch], None]] = {
    "skip a move": skip_a_move,
    "move twice under two names": move_twice_under_two_names,
    "drop an entry": drop_an_entry,
    "prepare twice": prepare_twice,
}
