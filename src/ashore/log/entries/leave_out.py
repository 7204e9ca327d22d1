"""`leave_out`: records that the next batches of a query leave out, as SQL cannot compute them.

What it promises: it stands in the log before a batch is run without them, so that each run of that
batch leaves out the same, also one for the state alone. Only records that no batch of the log has
read are named, each once. They are dead letters of the batch that reads them (`prepare`). Another
plan may compute them: it takes back those that are not read yet (`plan`).
"""

from dataclasses import dataclass
from typing import ClassVar

from ashore.log.fold import Changes, Fold
from ashore.log.query import Letter
from ashore.log.rules import Refused, require


@dataclass(frozen=True, slots=True)
class LeaveOut:
    """Records that a query leaves out from here on."""

    kind: ClassVar[str] = "leave_out"
    records: tuple[Letter, ...]


def fold_leave_out(fold: Fold, body: LeaveOut) -> Changes:
    """Return what a `leave_out` changes in the fold. Raises Refused."""
    require(fold.plan is not None, "records are left out in a slice without a plan")
    require(bool(body.records), "it leaves out nothing")
    current = fold.current()
    known = {(each.key, each.offset) for each in fold.left_out}
    for each in body.records:
        state = current.get(each.key)
        if state is None or each.offset < state.next:
            raise Refused(f"{each.key} offset {each.offset} is left out, and is not to be read")
        if (each.key, each.offset) in known:
            raise Refused(f"{each.key} offset {each.offset} is left out twice")
        known.add((each.key, each.offset))
    return {"left_out": tuple(sorted((*fold.left_out, *body.records)))}
