"""Entries of the landing log: one file a kind, and the frame that they have in common.

What it is: in the file of a kind, the body of such an entry, the rules that it must follow, and
what it changes in the fold. `frame` makes bytes of entries, and entries of bytes.
What it promises: a kind knows the fold before it and nothing of the kinds beside it, but where it
gives up or brings back what another one has prepared.
What it must not know: the order of entries, which is `ashore.protocol.extend`'s.
"""

from ashore.protocol.effects import Closing, DeferredAction, FailedTries
from ashore.protocol.entries.begin import Begin
from ashore.protocol.entries.commit import Commit
from ashore.protocol.entries.define import Define
from ashore.protocol.entries.frame import (
    FORMAT_VERSION,
    KINDS,
    Body,
    Draft,
    Entry,
    EntryInvalid,
    EntryNewer,
    entry_bytes,
    open_bytes,
    read_entry,
    read_seal,
    seal_bytes,
    write_entry,
)
from ashore.protocol.entries.join import Join, Joined
from ashore.protocol.entries.leave_out import LeaveOut
from ashore.protocol.entries.migrate import Migrate, MigratedOperator
from ashore.protocol.entries.open import Open
from ashore.protocol.entries.plan import Plan
from ashore.protocol.entries.prepare import Prepare, ShardRead
from ashore.protocol.entries.reland import Reland
from ashore.protocol.entries.reset_clock import ResetClock
from ashore.protocol.entries.retire import Retire, RetiredPartition
from ashore.protocol.entries.rollback import Rollback, Withdrawn
from ashore.protocol.entries.seal import Seal, SealedPartition
from ashore.protocol.entries.skip import Skip
from ashore.protocol.entries.version import Version, next_version
from ashore.protocol.query import Query

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
    "open_bytes",
    "read_entry",
    "read_seal",
    "seal_bytes",
    "write_entry",
]
