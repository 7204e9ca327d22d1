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

from ashore.errors import PathExists, PathMissing
from ashore.protocol import names
from ashore.spark.sql.checkpoint import Checkpoint
from ashore.spark.sql.copying import copy_checkpoint, list_files
from ashore.storage.base import Storage


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
        """Return the newest whole root; None before the first start. Raises StorageError."""
        epochs = self._list()["whole"]
        return self.root(epochs[-1]) if epochs else None

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
        told = json.dumps({"copy_of": newest.path if newest else None}).encode()
        self.storage.create(names.root_path(self.path, "begun", epoch), told)
        if newest is not None:
            copy_checkpoint(newest, self.root(epoch))
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
