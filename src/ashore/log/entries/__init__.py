"""Entries of the landing log: one file a kind, and the frame that they have in common.

What it is: in the file of a kind, the body of such an entry, the rules that it must follow, and
what it changes in the fold. `frame` makes bytes of entries, and entries of bytes.
What it promises: a kind knows the fold before it and nothing of the kinds beside it, but where it
gives up or brings back what another one has prepared.
"""

from ashore.log.effects import Closing, DeferredAction, FailedTries
from ashore.log.entries.begin import Begin
from ashore.log.entries.commit import Commit
from ashore.log.entries.define import Define
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
from ashore.log.entries.join import Join, Joined
from ashore.log.entries.leave_out import LeaveOut
from ashore.log.entries.migrate import Migrate, MigratedOperator
from ashore.log.entries.open import Open
from ashore.log.entries.plan import Plan
from ashore.log.entries.prepare import Prepare, ShardRead
from ashore.log.entries.reland import Reland
from ashore.log.entries.reset_clock import ResetClock
from ashore.log.entries.retire import Retire, RetiredPartition
from ashore.log.entries.rollback import Rollback, Withdrawn
from ashore.log.entries.seal import Seal, SealedPartition
from ashore.log.entries.skip import Skip
from ashore.log.entries.version import Version, next_version
from ashore.log.query import Query

__all__ = [
    "FORMAT_VERSION",
    "KINDS",
    "Begin",
    "Body",
    "Closing",
    "Commit",
    "DeferredAction",
    "Define",
    "Draft",
    "Entry",
    "EntryInvalid",
    "EntryNewer",
    "FailedTries",
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
