"""Spark's checkpoint of one query, as far as its text files tell.

What it is: which batches are planned and done, and the offsets of a batch, read through the lake's
own storage.
What it promises: reads only. A file that is not as Spark 4 writes it is named.
What it must not know: state.

    metadata             {"id": "<query id>"}
    offsets/<batch>      v1, settings, then for each source, in the plan's order, its offsets
    commits/<batch>      the batch is done
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass

from ashore.errors import CheckpointUnfit, PathMissing
from ashore.protocol import names
from ashore.protocol.plan_query import NO_BATCH, CheckpointPosition
from ashore.storage.base import Storage

_HINT = "restore the checkpoint; was it written by another release of Spark?"

# Of Spark's state stores (`checkpointFormatVersion`). Spark does not note it, and reads only what
# was written with the one that is set: a root says with which one it was begun.
STATE_FORMAT = 1

Ends = Mapping[int, Mapping[str, Mapping[str, int]]]  # source, topic, topic partition, offset


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A checkpoint at `path` of a storage, which Spark knows as `uri`."""

    storage: Storage
    path: str
    uri: str

    def read_position(self) -> CheckpointPosition:
        """Return how far it has come. Raises StorageError, CheckpointUnfit.

        Where its owner goes on meanwhile: what is done is never ahead of what is planned.
        """
        committed = self._newest("commits")
        return CheckpointPosition(self.read_query_id(), self._newest("offsets"), committed)

    def read_query_id(self) -> str | None:
        """Return the id of the query, or None where there is no checkpoint."""
        path = names.join(self.path, "metadata")
        try:
            found = json.loads(self.storage.read(path))["id"]
        except PathMissing:
            return None
        except (ValueError, KeyError, TypeError):
            raise CheckpointUnfit(f"{path} names no query", hint=_HINT) from None
        return str(found)

    def read_ends(self, batch_id: int) -> Ends:
        """Return where each source's offsets end in a batch; empty for the batch before the first.

        A source that stood there for the first time may be missing in the batch before.
        """
        if batch_id == NO_BATCH:
            return {}
        path = names.join(self.path, "offsets", str(batch_id))
        try:
            text = self.storage.read(path).decode()
        except PathMissing:
            raise CheckpointUnfit(f"{path} is not there", hint=_HINT) from None
        try:
            return parse_offsets(text)
        except (ValueError, AttributeError, TypeError) as error:
            raise CheckpointUnfit(f"{path}: {error}", hint=_HINT) from None

    def list_finished(self) -> list[int]:
        """Return the batches that are done and still kept, sorted. Raises StorageError."""
        return sorted(self._list("commits") & self._list("offsets"))

    def _newest(self, kind: str) -> int:
        return max(self._list(kind), default=NO_BATCH)

    def _list(self, kind: str) -> set[int]:
        listed = self.storage.list(names.join(self.path, kind))
        found = [names.leaf(each.path) for each in listed if not each.is_directory]
        return {int(each) for each in found if each.isdigit()}


def parse_offsets(text: str) -> Ends:
    """Return the offsets in a file of `offsets`. Raises ValueError, AttributeError, TypeError."""
    version, _settings, *lines = text.splitlines()
    if version != "v1":
        raise ValueError(f"version {version} is not known")
    return {
        index: {
            topic: {shard: int(offset) for shard, offset in shards.items()}
            for topic, shards in json.loads(line).items()
        }
        for index, line in enumerate(lines)
        if line != "-"
    }
