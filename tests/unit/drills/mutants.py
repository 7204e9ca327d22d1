"""Breaks of the protocol, for drills in memory: each must turn every drill red."""

from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest

from ashore.base.clock import Clock
from ashore.landing import committer
from ashore.landing.log import LandingLog
from ashore.landing.mover import Moved, move_files
from ashore.protocol import names
from ashore.protocol.entries import Body, Closing, Prepare
from ashore.protocol.files import FilePlace
from ashore.protocol.fold import Fold
from ashore.storage.base import Storage

Patch = pytest.MonkeyPatch


def skip_a_move(patch: Patch) -> None:
    def lazy(
        storage: Storage, places: Sequence[FilePlace], clock: Clock, look: Callable[[], None]
    ) -> Moved:
        return move_files(storage, places[1:], clock, look)

    patch.setattr(committer, "move_files", lazy)


def move_twice_under_two_names(patch: Patch) -> None:
    def eager(
        storage: Storage, places: Sequence[FilePlace], clock: Clock, look: Callable[[], None]
    ) -> Moved:
        moved = move_files(storage, places, clock, look)
        final = places[0].final
        again = final.replace(places[0].file.unique, "f" * 16)
        if storage.stat(again) is None:
            storage.create(again, storage.read(final))
        return moved

    patch.setattr(committer, "move_files", eager)


def drop_an_entry(patch: Patch) -> None:
    """The second `prepare` is taken for appended, and is not."""
    try_append, prepared = LandingLog._try_append, []

    def careless(
        self: LandingLog, fold: Fold, epoch: int, closing: Closing | None, body: Body
    ) -> Fold | None:
        if isinstance(body, Prepare):
            prepared.append(body)
        extended = try_append(self, fold, epoch, closing, body)
        if len(prepared) == 2 and extended is not None and isinstance(body, Prepare):
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


MUTANTS: dict[str, Callable[[Patch], None]] = {
    "skip a move": skip_a_move,
    "move twice under two names": move_twice_under_two_names,
    "drop an entry": drop_an_entry,
    "prepare twice": prepare_twice,
}
