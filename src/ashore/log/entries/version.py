"""`version`: what a job was from here on: its SQL, its settings, its releases, its plan.

What it promises: nothing is decided by it: it is there to be read. Versions of a query are numbered
from 1, each names the entry of the one before, and the batch that comes next; a rollback does not
take one back. Only a slice of a query has some. The fold holds the last one without its document.
"""

from dataclasses import dataclass
from typing import ClassVar

from ashore.log.fold import Changes, Fold
from ashore.log.query import VersionState
from ashore.log.rules import require


@dataclass(frozen=True, slots=True)
class Version:
    """What a job was from here on."""

    kind: ClassVar[str] = "version"
    version: int  # 1, 2, 3 ...
    before: int | None  # the entry of the version before
    batch: int  # of the query, which comes next
    digest: str  # of what makes one version differ from another
    document: str  # the version, as JSON


def fold_version(fold: Fold, body: Version, number: int) -> Changes:
    """Return what a `version` changes in the fold. Raises Refused."""
    is_of_query = fold.query is not None or fold.next_batch == 0
    require(is_of_query, "a version in a slice that landed topics")
    require(bool(body.digest and body.document), "the version is empty")
    expected = next_version(fold, body.digest, body.document)
    require(body.version == expected.version, f"version {body.version}, not {expected.version}")
    require(body.before == expected.before, "it names another version before")
    require(body.batch == expected.batch, f"batch {body.batch} does not come next")
    return {"version": VersionState(body.version, number, body.digest)}


def next_version(fold: Fold, digest: str, document: str) -> Version:
    """Return the version that follows those of a fold."""
    known = fold.version
    return Version(
        version=known.version + 1 if known else 1,
        before=known.entry if known else None,
        batch=fold.query.batch_id + 1 if fold.query else 0,
        digest=digest,
        document=document,
    )
