"""Entries of the landing log by what they are about, and the frame that they have in common.

What it is: of each kind, the body of such an entry, the rules that it must follow, and
what it changes in the fold. `frame` makes bytes of entries, and entries of bytes.
What it promises: a kind knows the fold before it and nothing of the kinds beside it, but where it
gives up or brings back what another one has prepared.
"""

from ashore.log.entries.batch import Commit, Prepare, ShardRead
from ashore.log.entries.compaction import Compact, FilePart, ReplacedFile
from ashore.log.entries.frame import (
    FORMAT_VERSION,
    KINDS,
    Body,
    Draft,
    Entry,
    EntryInvalid,
    EntryNewer,
    entry_bytes,
    read_checksummed,
    read_entry,
    split_checksum,
    write_checksummed,
    write_entry,
)
from ashore.log.entries.losses import Reland, Skip
from ashore.log.entries.partitions import Retire, RetiredPartition, Seal, SealedPartition
from ashore.log.entries.queries import (
    Begin,
    LeaveOut,
    Migrate,
    MigratedOperator,
    Plan,
    Rollback,
    Version,
    Withdrawn,
    next_version,
)
from ashore.log.entries.slices import Define, Join, Joined, Open, ResetClock
from ashore.log.fold import Closing, DeferredAction, FailedTries
from ashore.log.query import Query

__all__ = [
    "FORMAT_VERSION",
    "KINDS",
    "Begin",
    "Body",
    "Closing",
    "Commit",
    "Compact",
    "DeferredAction",
    "Define",
    "Draft",
    "Entry",
    "EntryInvalid",
    "EntryNewer",
    "FailedTries",
    "FilePart",
    "Join",
    "Joined",
    "LeaveOut",
    "Migrate",
    "MigratedOperator",
    "Open",
    "Plan",
    "Prepare",
    "Query",
    "Reland",
    "ReplacedFile",
    "ResetClock",
    "Retire",
    "RetiredPartition",
    "Rollback",
    "Seal",
    "SealedPartition",
    "ShardRead",
    "Skip",
    "Version",
    "Withdrawn",
    "entry_bytes",
    "next_version",
    "read_checksummed",
    "read_entry",
    "split_checksum",
    "write_checksummed",
    "write_entry",
]
