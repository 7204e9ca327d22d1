"""Copies of a job's versions beside its state: a copy of the checkpoint says whose it is.

What it is: `copy_version`, from the log to an attempt; `read_owner`, whose query an attempt is of.
What it promises: the truth is the log's: a copy has the bytes of its entry, and is only asked whose
it is. An attempt of an older release has none.
What it must not know: what a version says besides.
"""

import json

from ashore.checkpoints.checkpoint import Checkpoint
from ashore.errors import CheckpointUnfit
from ashore.landing.log_reader import read_history
from ashore.protocol.entries import EntryInvalid, Version, entry_bytes, read_entry
from ashore.protocol.fold import Fold
from ashore.protocol.names import SliceName
from ashore.storage.base import Storage


def copy_version(storage: Storage, name: SliceName, fold: Fold, checkpoint: Checkpoint) -> None:
    """Copy the version of a log's fold to an attempt, unless it is there.

    Arguments:
        storage: of the log.
        name: of the slice.
        fold: of its log.
        checkpoint: the attempt. Requires: Spark has begun it.

    If interrupted: the next start does it. Raises StorageError, LogDamaged.

    """
    known = fold.version
    if known is None or known.version in checkpoint.list_versions():
        return
    entry = next(read_history(storage, name, known.entry))
    checkpoint.keep_version(known.version, entry_bytes(entry))


def read_owner(checkpoint: Checkpoint) -> SliceName | None:
    """Return the slice whose query a checkpoint is of; None: it does not say.

    Raises StorageError; CheckpointUnfit where its copy is damaged.
    """
    versions = checkpoint.list_versions()
    if not versions:
        return None
    try:
        body = read_entry(checkpoint.read_version(versions[-1])).body
        document = json.loads(body.document) if isinstance(body, Version) else {}
        return SliceName(document["job"], document["slice"])
    except (EntryInvalid, ValueError, KeyError, TypeError):
        raise CheckpointUnfit(
            f"{checkpoint.path}: its copy of version {versions[-1]} of the job is damaged",
            hint="delete that file: the log has the version, and the next start copies it",
            why="damaged_version",
        ) from None


def require_own(name: SliceName, checkpoint: Checkpoint) -> None:
    """Raise CheckpointUnfit where a checkpoint is that of another job or query."""
    owner = read_owner(checkpoint)
    if owner is not None and owner != name:
        raise CheckpointUnfit(
            f"{name}: the checkpoint at {checkpoint.path} is that of {owner}",
            hint="bring the checkpoint of this query back, or fill another table or topic",
            why="other_job",
        )
