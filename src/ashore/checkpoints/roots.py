"""The roots of a query's checkpoint: each writer's is its own.

What it is: `Roots`, the directory of the roots, named by the epochs of the writers that made them.
What it promises: no two processes write one root. A process that was frozen while another took its
query over goes on in its own root, which nobody uses any more. A root is taken as it is where its
writer has left it in order and nobody has opened the log since; otherwise its successor continues
on a copy, in a new root. A root that was copied in part is never taken.
What it must not know: which batches follow the log: an older root than the newest would be caught
up with the table, or refused.
"""

import contextlib
import json
from dataclasses import dataclass

from ashore.base.clock import Clock
from ashore.checkpoints.checkpoint import STATE_FORMAT, Checkpoint
from ashore.checkpoints.copying import copy_checkpoint
from ashore.checkpoints.files import list_files
from ashore.config import Job
from ashore.errors import CheckpointUnfit, PathExists, PathMissing, check
from ashore.protocol import names
from ashore.protocol.names import SliceName
from ashore.protocol.plan_query import CheckpointPosition
from ashore.storage.base import Storage
from ashore.storage.open import LakeAddress, lake_address

_FORMAT = "state_format"


@dataclass(frozen=True, slots=True)
class Roots:
    """The roots at `path` of a storage, which Spark knows as `uri`."""

    storage: Storage
    path: str
    uri: str

    def root(self, epoch: int) -> Checkpoint:
        """Return the root that the writer of an epoch makes, or has made."""
        path = names.checkpoint_root(self.path, epoch)
        return Checkpoint(self.storage, path, f"{self.uri}/{epoch}")

    def newest(self) -> Checkpoint | None:
        """Return the newest whole root; None before the first start.

        Raises StorageError; CheckpointUnfit where its state has a format of another release.
        """
        epochs = self._list()["whole"]
        if not epochs:
            return None
        path = names.root_path(self.path, "whole", epochs[-1])
        found = json.loads(self.storage.read(path)).get(_FORMAT, STATE_FORMAT)
        if found != STATE_FORMAT:
            raise CheckpointUnfit(
                f"{path}: the state is of format {found}, this release writes {STATE_FORMAT}",
                hint="run the job with the release that began the checkpoint",
                why="other_format",
            )
        return self.root(epochs[-1])

    def take(self, epoch: int, *, is_mine: bool) -> Checkpoint:
        """Return the root that the writer of `epoch` uses.

        Requires: the log was opened with that epoch, before.
        If interrupted: a part of a root may be there, which is never taken.

        Arguments:
            epoch: of the writer.
            is_mine: whether the writer of the epoch before was this process, and has stopped.

        Raises StorageError.

        """
        newest = self.newest()
        if newest is not None and (is_mine or self._has_left(epoch - 1)):
            return newest
        return self._make(epoch, newest)

    def cut(self, epoch: int, batch: int) -> Checkpoint:
        """Make a root in which a batch of the newest root is the last one.

        The writer of `epoch` has left it: the next one may take it as it is.
        Requires: the log was opened with that epoch, before; the newest root keeps the batch.
        If interrupted: a part of a root may be there, which is never taken; or all of it, which is
        caught up with the table.
        Raises StorageError.
        """
        newest = self.newest()
        check(newest is not None, "a root is cut from another")
        upto = CheckpointPosition(newest.read_query_id() if newest else None, batch, batch)
        made = self._make(epoch, newest, upto)
        self.leave(epoch)
        return made

    def _make(
        self, epoch: int, newest: Checkpoint | None, upto: CheckpointPosition | None = None
    ) -> Checkpoint:
        """Make a root: empty, or a copy of the newest one."""
        copied = newest.path if newest else None
        told = json.dumps({"copy_of": copied, _FORMAT: STATE_FORMAT}).encode()
        self.storage.create(names.root_path(self.path, "begun", epoch), told)
        if newest is not None:
            copy_checkpoint(newest, self.root(epoch), upto)
        self.storage.create(names.root_path(self.path, "whole", epoch), told)
        return self.root(epoch)

    def leave(self, epoch: int) -> None:
        """Say that the writer of `epoch` writes no more. Raises StorageError."""
        with contextlib.suppress(PathExists):  # said before
            self.storage.create(names.root_path(self.path, "left", epoch), b"{}")

    def clean(self, epoch: int, now_ms: int, ttl_ms: int) -> None:
        """Delete the files of roots that have had a successor for `ttl_ms`. Directories stay.

        Called by the writer of `epoch`, which has a root. If interrupted: a root is not called
        whole any more before its files go, and is called begun until they are gone.
        """
        found = self._list()
        for before in (each for each in found["left"] if each < epoch):
            self._delete(names.root_path(self.path, "left", before))
        for begun in found["begun"]:
            later = [each for each in found["whole"] if each > begun]
            made = (
                self.storage.stat(names.root_path(self.path, "whole", later[0])) if later else None
            )
            if made is None or now_ms - made.modified_ms < ttl_ms:
                continue
            self._delete(names.root_path(self.path, "whole", begun))
            for each in list_files(self.root(begun)):
                self._delete(names.join(self.root(begun).path, each.path))
            self._delete(names.root_path(self.path, "begun", begun))

    def _list(self) -> dict[str, list[int]]:
        """Return the epochs that there is a file of, in their order, by the kind of file."""
        listed = [names.leaf(each.path) for each in self.storage.list(self.path)]
        return {
            kind: sorted(
                epoch for name in listed if (epoch := names.parse_root(name, kind)) is not None
            )
            for kind in ("begun", "whole", "left")
        }

    def _has_left(self, epoch: int) -> bool:
        return self.storage.stat(names.root_path(self.path, "left", epoch)) is not None

    def _delete(self, path: str) -> None:
        with contextlib.suppress(PathMissing):  # another process was faster
            self.storage.delete(path)


def open_roots(
    job: Job, name: SliceName, lake: LakeAddress, storage: Storage, clock: Clock
) -> Roots:
    """Return the roots of a query's checkpoint, where the job file wants them.

    Arguments:
        job: that the query is of.
        name: of its slice.
        lake: of the job. Where the job file names no other place, the roots are there.
        storage: the lake, open.
        clock: of a storage that is opened, if they are not in the lake.

    """
    given = job.sql.checkpoints if job.sql is not None else None
    if given is None:
        path = names.checkpoint_directory(name)
        return Roots(storage, path, f"{lake.uri.rstrip('/')}/{path}")
    path = names.checkpoint_directory_apart(name)
    uri = given.reveal().rstrip("/")
    address = lake_address(uri, lake.deadline_s, dict(lake.options))
    return Roots(address.open(clock), path, f"{uri}/{path}")
