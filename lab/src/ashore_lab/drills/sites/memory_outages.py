"""Outages of a drill in memory: what a lake and a metastore that are out of order answer.

What it is: `Outages`, which knows by the drill's clock what is out, and `OutageStorage`, which one
process of the job calls meanwhile.
What it promises: nothing is written without DataNodes, or beyond a quota. A call that no NameNode
answers is on its way, and applied once there is one again, but where that was killed. Of a switch
one answer is lost.
"""

from collections.abc import Callable, Sequence
from typing import TypeVar

from ashore.base.clock import Clock
from ashore.errors import AnswerUnknown, NotApplied, StorageError
from ashore.storage.base import Storage
from ashore_lab.drills.faults.outage import Out, Outage
from ashore_lab.testing import Fault, FaultyStorage, LateEffect, PendingEffects
from ashore_lab.testing.faults import CATALOG_CALLS

T = TypeVar("T")

WRITING = frozenset({"create", "write", "close"})  # a NameNode alone can begin a file
READING = frozenset({"stat", "list", "read"})
NO_PLACE = frozenset({Out.STORAGE_NODES, Out.QUOTA})
NO_NAMENODE = frozenset(
    {Out.NAMENODES, Out.NAMENODE_KILLED, Out.NAMENODE_FROZEN, Out.NAMENODE_CUT_OFF}
)
DEAD = frozenset({Out.NAMENODE_KILLED})  # what was on its way there is gone
CALLS_LATER = 4  # what was on its way arrives this many calls after the outage


class Outages:
    """What is out of order. One for all processes of a site.

    `require_going` raises where nothing may continue at all: the drill is over.
    """

    def __init__(self, clock: Clock, require_going: Callable[[], None]) -> None:
        self._clock = clock
        self.require_going = require_going
        self._until_s: dict[Out, float] = {}
        self._answers_to_lose = 0

    def begin(self, outage: Outage) -> None:
        """Let it strike."""
        if outage.out in {Out.SWITCH, Out.STORAGE_NODE}:
            self._answers_to_lose += 1
        else:
            self._until_s[outage.out] = self._clock.monotonic_s() + outage.seconds

    def end(self) -> None:
        """Mend everything now."""
        self._until_s.clear()
        self._answers_to_lose = 0

    def has(self, which: frozenset[Out]) -> bool:
        """Return whether one of these is out of order now."""
        now_s = self._clock.monotonic_s()
        return any(now_s < self._until_s.get(each, now_s) for each in which)

    def loses_answer(self) -> bool:
        """Report, once a switch, that an answer is lost."""
        self._answers_to_lose -= int(was := self._answers_to_lose > 0)
        return was


class OutageStorage(FaultyStorage):
    """One process's view of a lake, and by `apply` of its metastore."""

    def __init__(
        self, inner: Storage, faults: Sequence[Fault], pending: PendingEffects, outages: Outages
    ) -> None:
        super().__init__(inner, faults, pending=pending)
        self._outages = outages

    def apply(
        self,
        asked: tuple[str, str] | tuple[str, str, str],
        effect: Callable[[], T],
        late: Callable[[], object] | None = None,
    ) -> T:
        """Make one call, which may find that something is out of order."""
        self._outages.require_going()
        kind, what = asked[0], " ".join(asked)
        if kind in CATALOG_CALLS:
            if self._outages.has(frozenset({Out.METASTORE})):
                raise StorageError(f"{what}: no answer")
            return super().apply(asked, effect, late)
        if kind in WRITING and self._outages.has(NO_PLACE):
            raise StorageError(f"{what}: there is no place to write to")
        if kind == "read" and self._outages.has(frozenset({Out.STORAGE_NODES})):
            raise NotApplied(f"{what}: no DataNode has it")
        if self._outages.has(NO_NAMENODE):
            if kind in READING:
                raise NotApplied(f"{what}: no NameNode answers")
            if not self._outages.has(DEAD):
                self.pending.add(LateEffect(1, after=CALLS_LATER), late or effect)
            raise AnswerUnknown(f"{what}: no NameNode answers")
        answer = super().apply(asked, effect, late)
        if kind not in READING and self._outages.loses_answer():
            raise AnswerUnknown(f"{what}: done, and the answer was lost")
        return answer
