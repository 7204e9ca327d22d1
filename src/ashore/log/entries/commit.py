"""`commit`: closes the last entry on its own, or reports effects that are done since.

What it promises: it is never written for nothing.
"""

from dataclasses import dataclass
from typing import ClassVar

from ashore.log.effects import Closing
from ashore.log.fold import Changes
from ashore.log.rules import require


@dataclass(frozen=True, slots=True)
class Commit:
    """Closes the last entry on its own."""

    kind: ClassVar[str] = "commit"
    reason: str  # idle | stop | snapshot | recovery


def fold_commit(closing: Closing | None) -> Changes:
    """Return what a `commit` changes in the fold beside closing: nothing. Raises Refused."""
    require(closing is not None, "it closes nothing")
    return {}
