"""The attempts of a query's checkpoint: each writer's is its own.

What it is: `Attempts`, the directory of the attempts, named by the epochs of the writers that made
them.
What it promises: no two processes write one attempt. A process that was frozen while another took
its query over continues in its own attempt, which is no longer used. One that a migration has made
counts once an entry of the log names it, and then none before it does. An attempt is taken as it is
where its writer has released it and the log was not opened since; otherwise its successor
continues on a copy, in a new attempt. An attempt that was copied in part is never taken.
"""

import contextlib
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ashore.base.clock import Clock
from ashore.errors import (
    AshoreError,
    CheckpointUnfit,
    PathExists,
    StorageError,
    fail,
)
from ashore.log import names
from ashore.log.names import AttemptFile, SliceName
from ashore.log.plan_query import CheckpointPosition
from ashore.log.store.reader import read_log
from ashore.queries.state.checkpoint import STATE_FORMAT, Checkpoint, copy_checkpoint
from ashore.queries.state.files import CheckpointStore
from ashore.queries.state.layout import is_number
from ashore.storage.base import Storage
from ashore.storage.open import LakeAddress, lake_address

if TYPE_CHECKING:  # a checkpoint that a directory names needs no job file
    from ashore.jobs.file import Job

_FORMAT = "state_format"
_SOURCE = "source"  # what reads for the attempt; not there: Spark's own Kafka source


def _name_none() -> int:
    return 0


@dataclass(frozen=True, slots=True)
class Attempts(CheckpointStore):
    """The attempts at `path` of a storage, which Spark knows as `uri`."""

    read_named: Callable[[], int] = _name_none  # the one that the log's last migration names

    def attempt(self, epoch: int) -> Checkpoint:
        """Return the attempt that the writer of an epoch makes, or has made."""
        path = names.checkpoint_attempt(self.path, epoch)
        return Checkpoint(self.storage, path, f"{self.uri}/{epoch}")

    def newest(self) -> Checkpoint | None:
        """Return the newest complete attempt; None before the first start.

        Raises StorageError; CheckpointUnfit where its state has a format of another release.
        """
        listed = self._list()
        epochs = listed[AttemptFile.COMPLETE]
        if not epochs:
            return None
        path = self._complete_file(listed, epochs[-1])
        found = self._read_complete(listed, epochs[-1]).get(_FORMAT, STATE_FORMAT)
        if found != STATE_FORMAT:
            raise CheckpointUnfit(
                f"{self.full_path(path)}: the state is of format {found}, this release writes "
                f"{STATE_FORMAT}",
                hint="run the job with the release that started the checkpoint",
                why="other_format",
            )
        return self.attempt(epochs[-1])

    def _is_of_spark(self, attempt: Checkpoint) -> bool:
        """Return whether Spark's own Kafka source has read for an attempt: of another release."""
        listed = self._list()
        epoch = int(names.leaf(attempt.path))
        return self._read_complete(listed, epoch).get(_SOURCE) is None

    def _read_complete(self, listed: dict[AttemptFile, list[int]], epoch: int) -> dict[str, object]:
        found: dict[str, object] = json.loads(self.read(self._complete_file(listed, epoch)))
        return found

    def take(self, epoch: int, *, is_mine: bool) -> Checkpoint:
        """Return the attempt that the writer of `epoch` uses.

        It is a copy also where Spark's own Kafka source has written the newest one: an earlier
        release can continue in that, which this one does not change.

        Requires: the log was opened with that epoch, before.
        If interrupted: a part of an attempt may be there, which is never taken.

        Arguments:
            epoch: of the writer.
            is_mine: whether the writer of the epoch before was this process, and has stopped.

        Raises StorageError.

        """
        newest = self.newest()
        before = names.attempt_file(AttemptFile.RELEASED, epoch - 1)
        is_free = is_mine or self.stat(before) is not None
        if newest is not None and is_free and not self._is_of_spark(newest):
            return newest
        with self._making(epoch, newest) as made:
            if newest is not None:
                copy_checkpoint(newest, made)
        return made

    def cut(self, epoch: int, batch: int) -> Checkpoint:
        """Make an attempt in which a batch of the newest attempt is the last one.

        It is released: the next one may take it as it is.
        Requires: the log was opened with that epoch, before; the newest attempt keeps the batch.
        If interrupted: a part of an attempt may be there, which is never taken; or all of it, which
        is caught up with the table.
        Raises StorageError.
        """
        newest = self.newest() or fail("an attempt is cut from another")
        upto = CheckpointPosition(newest.read_query_id(), batch, batch)
        with self.remake(epoch, newest) as made:
            copy_checkpoint(newest, made, upto)
        return made

    @contextlib.contextmanager
    def remake(self, epoch: int, newest: Checkpoint | None = None) -> Iterator[Checkpoint]:
        """Make an attempt in the place of the newest one: the block writes it. It is released.

        `newest`: that the new one is a copy of; None: it is made of something else.

        Requires: the log was opened with that epoch, before. If interrupted, or where the block
        raises: a part of an attempt may be there, which is never taken.
        Raises StorageError, and what the block raises.
        """
        with self._making(epoch, newest) as made:
            yield made
        self.release(epoch)

    @contextlib.contextmanager
    def migrate(self, epoch: int) -> Iterator[Checkpoint]:
        """Make an attempt that the block writes, and that counts once the log names it.

        It is not released: a release before the entry would be that of the attempt before it.
        Requires and raises as `remake`. If interrupted: the attempt is never taken.
        """
        with self._making(epoch, None, AttemptFile.MIGRATED) as made:
            yield made

    def before(self, attempt: Checkpoint) -> Checkpoint | None:
        """Return the newest complete attempt that is older than another. Raises StorageError."""
        older = [
            each
            for each in self._list()[AttemptFile.COMPLETE]
            if names.checkpoint_attempt(self.path, each) != attempt.path
        ]
        return self.attempt(older[-1]) if older else None

    @contextlib.contextmanager
    def _making(
        self,
        epoch: int,
        newest: Checkpoint | None,
        complete: AttemptFile = AttemptFile.COMPLETE,
    ) -> Iterator[Checkpoint]:
        """Start an attempt, and complete it once the block has written it.

        Where that fails its files are deleted: tries on a full disk must not fill it further.
        """
        copied = newest.path if newest else None
        about = {"copy_of": copied, _FORMAT: STATE_FORMAT, _SOURCE: "ashore"}
        reported = json.dumps(about).encode()
        self.create(names.attempt_file(AttemptFile.STARTED, epoch), reported)
        try:
            yield self.attempt(epoch)
        except AshoreError:
            with contextlib.suppress(StorageError):
                self._delete_files(epoch)
            raise
        self.create(names.attempt_file(complete, epoch), reported)

    def release(self, epoch: int) -> None:
        """Say that the writer of `epoch` writes no more. Raises StorageError."""
        with contextlib.suppress(PathExists):  # said before
            self.create(names.attempt_file(AttemptFile.RELEASED, epoch), b"{}")

    def clean(self, epoch: int, now_ms: int, ttl_ms: int) -> None:
        """Delete the files of attempts that have had a successor for `ttl_ms`. Directories stay.

        Called by the writer of `epoch`, which has an attempt. If interrupted: an attempt is no
        longer complete before its files go, and is started until they are gone.
        """
        found = self._list()
        for before in (each for each in found[AttemptFile.RELEASED] if each < epoch):
            self.delete(names.attempt_file(AttemptFile.RELEASED, before))
        for started in self._find_followed(found, now_ms, ttl_ms):
            self.delete(self._complete_file(found, started))
            self._delete_files(started)
            self.delete(names.attempt_file(AttemptFile.STARTED, started))

    def newest_epoch(self) -> int | None:
        """Return the epoch of the newest complete attempt. Raises StorageError."""
        return max(self._list()[AttemptFile.COMPLETE], default=None)

    def list_followed(self, now_ms: int, ttl_ms: int) -> list[int]:
        """Return the epochs of attempts that have had a successor for `ttl_ms`, ascending."""
        return list(self._find_followed(self._list(), now_ms, ttl_ms))

    def list_emptied(self, before: int) -> list[int]:
        """Return the epochs before one of which only directories are left, if anything is."""
        started = self._list()[AttemptFile.STARTED]
        listed = self.list_directory().directories
        epochs = sorted(int(name) for name in listed if is_number(name))
        return [each for each in epochs if each < before and each not in started]

    def _find_followed(
        self, found: dict[AttemptFile, list[int]], now_ms: int, ttl_ms: int
    ) -> Iterator[int]:
        for started in found[AttemptFile.STARTED]:
            later = [each for each in found[AttemptFile.COMPLETE] if each > started]
            made = self.stat(self._complete_file(found, later[0])) if later else None
            if made is not None and now_ms - made.modified_ms >= ttl_ms:
                yield started

    def _list(self) -> dict[AttemptFile, list[int]]:
        """Return the epochs that there is a file of, in their order, by the kind of file."""
        listed = self.list_names()
        found = {
            kind: sorted(
                epoch for name in listed if (epoch := names.parse_attempt(name, kind)) is not None
            )
            for kind in AttemptFile
        }
        migrated = found[AttemptFile.MIGRATED]
        if migrated:
            named = self.read_named()
            counted = [*found[AttemptFile.COMPLETE], *(each for each in migrated if each == named)]
            found[AttemptFile.COMPLETE] = sorted(each for each in counted if each >= named)
        return found

    def _complete_file(self, found: dict[AttemptFile, list[int]], epoch: int) -> str:
        is_migrated = epoch in found[AttemptFile.MIGRATED]
        kind = AttemptFile.MIGRATED if is_migrated else AttemptFile.COMPLETE
        return names.attempt_file(kind, epoch)

    def _delete_files(self, epoch: int) -> None:
        attempt = self.attempt(epoch)
        for each in attempt.list_files():
            attempt.delete(each.path)


def open_attempts(
    job: "Job", name: SliceName, lake: LakeAddress, storage: Storage, clock: Clock
) -> Attempts:
    """Return the attempts of a query's checkpoint, where the job file puts them.

    Arguments:
        job: that the query is of.
        name: of its slice.
        lake: of the job. Where the job file names no other place, the attempts are there.
        storage: the lake, open.
        clock: of a storage that is opened, if they are not in the lake.

    """

    def read_named() -> int:
        return read_log(storage, name).attempt

    directory = job.sql.checkpoints if job.sql is not None else None
    if directory is None:
        path = names.checkpoint_directory(name)
        return Attempts(storage, path, f"{lake.uri.rstrip('/')}/{path}", read_named)
    path = names.checkpoint_directory_apart(name)
    uri = directory.reveal().rstrip("/")
    address = lake_address(uri, lake.deadline_s, dict(lake.options))
    return Attempts(address.open(clock), path, f"{uri}/{path}", read_named)
