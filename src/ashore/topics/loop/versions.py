"""The versions of a job, as the log of one of its queries has them.

What it is: `read_versions`, from the newest to the first, each from its own entry.
What it promises: reads only, and only the entries of versions: each names the one before.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NoReturn

from ashore.base.codec import Malformed
from ashore.errors import LogDamaged
from ashore.log.entries import Version
from ashore.log.names import SliceName, entry_path
from ashore.log.store.reader import read_history, read_log
from ashore.plans.version import JobVersion, read_version
from ashore.storage.base import Storage


@dataclass(frozen=True, slots=True)
class RecordedVersion:
    """A version, with when it was written down and which batch came next."""

    version: int
    entry: int
    batch: int
    written_ms: int
    digest: str
    content: JobVersion


def read_versions(storage: Storage, name: SliceName) -> Iterator[RecordedVersion]:
    """Yield the versions of a query, newest first. Raises LogDamaged, StorageError."""
    known = read_log(storage, name).version
    entry = known.entry if known else None
    while entry is not None:
        found = next(read_history(storage, name, entry))
        if not isinstance(found.body, Version):
            _damaged(name, entry, f"it is a `{found.kind}`, and is named as a version")
        body = found.body
        try:
            content = read_version(body.document)
        except Malformed as error:
            _damaged(name, entry, f"its version cannot be read: {error}")
        yield RecordedVersion(
            body.version, entry, body.batch, found.written_ms, body.digest, content
        )
        entry = body.before


def _damaged(name: SliceName, entry: int, reason: str) -> NoReturn:
    raise LogDamaged(
        f"{entry_path(name, entry)}: {reason}",
        hint="did a later release write the log? read it with that one",
        entry=entry,
    )
