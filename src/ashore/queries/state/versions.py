"""Copies of a job's versions beside its state: a copy of the checkpoint says whose it is.

What it is: `copy_version`, from the log to an attempt; `read_owner`, whose query an attempt is of;
`read_kept`, what its newest copy says.
What it promises: the truth is the log's: a copy has the bytes of its entry, and is asked
whose it is, and what its state means to people. An attempt of an older release has none.
"""

import json
from dataclasses import dataclass

from ashore.base.codec import Malformed
from ashore.errors import CheckpointUnfit
from ashore.log.entries import EntryInvalid, Version, entry_bytes, read_entry
from ashore.log.fold import Fold
from ashore.log.names import SliceName
from ashore.log.store.reader import read_history
from ashore.plans.version import JobVersion, read_version
from ashore.queries.state.checkpoint import Checkpoint
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


def read_checkpoint_owner(checkpoint: Checkpoint) -> SliceName | None:
    """Return the slice whose query a checkpoint is of; None: it does not say.

    Raises as `read_kept`.
    """
    kept = read_kept(checkpoint)
    return kept.owner if kept else None


@dataclass(frozen=True, slots=True)
class KeptVersion:
    """The newest version of a job that a checkpoint has a copy of.

    Arguments:
        number: of the version.
        owner: the slice whose query it is.
        content: None where another release wrote it, in a form that this one does not know.

    """

    number: int
    owner: SliceName
    content: JobVersion | None


def read_kept(checkpoint: Checkpoint) -> KeptVersion | None:
    """Return the newest version that a checkpoint has a copy of; None: it has none.

    Raises StorageError; CheckpointUnfit where its copy is damaged.
    """
    numbers = checkpoint.list_versions()
    if not numbers:
        return None
    try:
        body = read_entry(checkpoint.read_version(numbers[-1])).body
        written = body.document if isinstance(body, Version) else "{}"
        document = json.loads(written)
        owner = SliceName(document["job"], document["slice"])
    except (EntryInvalid, ValueError, KeyError, TypeError):
        raise CheckpointUnfit(
            f"{checkpoint.path}: its copy of version {numbers[-1]} of the job is damaged",
            hint="delete that file: the log has the version, and the next start copies it",
            why="damaged_version",
        ) from None
    try:
        content = read_version(written)
    except Malformed:
        content = None
    return KeptVersion(numbers[-1], owner, content)


def require_migration(name: SliceName, fold: Fold, migration: int) -> None:
    """Raise CheckpointUnfit where a state is not that of the plan that a log has.

    Arguments:
        name: of the slice.
        fold: of its log.
        migration: that has rewritten the state; see `Checkpoint.read_migration`.

    """
    if migration == fold.migration:
        return
    if fold.migrations:
        last = fold.migrations[-1]
        text = f"its state is not that of the migration after batch {last.batch}"
        hint = "`ashore migrate undo JOB.yaml` returns to the previous SQL and state"
    else:
        text = "its state was rewritten by a migration that the log does not have, or has undone"
        hint = "restore the checkpoint of this query, or a savepoint of the current SQL"
    raise CheckpointUnfit(
        f"{name}: the checkpoint does not belong to the log: {text}",
        hint=hint,
        why="other_migration",
    )


def require_own(name: SliceName, checkpoint: Checkpoint) -> None:
    """Raise CheckpointUnfit where a checkpoint is that of another job or query."""
    owner = read_checkpoint_owner(checkpoint)
    if owner is not None and owner != name:
        raise CheckpointUnfit(
            f"{name}: the checkpoint at {checkpoint.path} is that of {owner}",
            hint="restore the checkpoint of this query, or fill another table or topic",
            why="other_job",
        )
