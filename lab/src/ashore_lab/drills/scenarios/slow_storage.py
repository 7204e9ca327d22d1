"""The storage was slow for an hour: a second a call, ten seconds, longer than anybody waits.

What takes longer than the deadline has no answer, and takes effect all the same, afterwards.
"""

import random
import threading
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TypeVar

from ashore.base.clock import Clock
from ashore.errors import AnswerUnknown
from ashore.storage.base import Storage
from ashore.storage.calls import RetryingStorage
from ashore_lab.drills.drill import Drill
from ashore_lab.drills.plan import Length, PlannedFault, Schedule
from ashore_lab.drills.sites.memory import MemorySite
from ashore_lab.drills.sites.site import SiteOptions
from ashore_lab.drills.stage import Stage
from ashore_lab.drills.verdict import Flight
from ashore_lab.testing import FaultyStorage, LateEffect, PendingEffects

T = TypeVar("T")

DEADLINE_S = 30.0  # after which a job no longer waits
CALLS_LATER = 5  # what takes longer than the deadline arrives this many calls later


@dataclass(frozen=True, slots=True)
class SlowCalls:
    """One of `of` calls is slow; the seed says which ones."""

    of: int
    seconds: float
    seed: str

    def __str__(self) -> str:
        return f"one storage call of {self.of} takes {self.seconds:g} s"


class SlowStorage(FaultyStorage):
    """One process's view of a slow storage. Give `inner` that all processes share.

    Past the deadline the answer is unknown to the caller, and the call takes effect afterwards,
    whichever process lives then. Which calls are slow has no rhythm: retries would fall into step
    with it, and meet a slow call each time.
    """

    def __init__(
        self, inner: Storage, slow: SlowCalls, clock: Clock, pending: PendingEffects
    ) -> None:
        super().__init__(inner, pending=pending)
        self._slow = slow
        self._clock = clock
        self._lock = threading.Lock()
        self._dice = random.Random(slow.seed)  # noqa: S311 - to replay
        self.struck = 0

    def apply(
        self,
        asked: tuple[str, str] | tuple[str, str, str],
        effect: Callable[[], T],
        late: Callable[[], object] | None = None,
    ) -> T:
        """Make one call, which may be a slow one."""
        with self._lock:
            is_slow = self._dice.randrange(self._slow.of) == 0
            self.struck += int(is_slow)
        if is_slow:
            self._clock.sleep(min(self._slow.seconds, DEADLINE_S))
            if self._slow.seconds > DEADLINE_S:
                self.pending.add(LateEffect(1, after=CALLS_LATER), late or effect)
                raise AnswerUnknown(f"{' '.join(asked)}: no answer in {DEADLINE_S:g} s")
        return super().apply(asked, effect, late)


BATCHES = 3
SECONDS = (1, 10, round(2 * DEADLINE_S))
RESTARTS_MAX = 3


def plan(dice: random.Random, length: Length) -> Schedule:
    """Make a share of the calls slow in each round.

    Fewer where they have no answer: a batch has no more than 20 calls that must have one.
    """
    seconds = [SECONDS[index % len(SECONDS)] for index in range(length.rounds)]
    return tuple(
        PlannedFault(
            index,
            "slow storage",
            f"{each} s",
            dice.randint(15, 40) if each > DEADLINE_S else dice.randint(5, 25),
        )
        for index, each in enumerate(seconds)
    )


def play(stage: Stage) -> None:
    """Land round after round, each with its own slowness."""
    site = stage.memory_site(SiteOptions(batch_records=max(1, stage.length.records // BATCHES)))
    for planned in stage.schedule:
        site.produce(stage.length.records)
        seed = f"{stage.seed} {planned.round}"
        slow = SlowCalls(planned.number, float(planned.place.split()[0]), seed)
        _land(stage, site, slow)
        if stage.problems:
            break  # further rounds would only take long
    site.pending.release()
    stage.drain(site)


def _land(stage: Stage, site: MemorySite, slow: SlowCalls) -> None:
    """Start processes until one has landed everything."""
    made: list[SlowStorage] = []

    def wrap(_storage: Storage) -> Storage:
        life = replace(slow, seed=f"{slow.seed} {len(made)}")
        made.append(SlowStorage(site.machine, life, site.clock, site.pending))
        # As a job opens a lake: what only asks is asked again.
        return RetryingStorage(made[-1], site.clock, jitter=lambda _low, high: high)

    for _ in range(RESTARTS_MAX):
        end = site.live(wrap=wrap)
        if end.code == 0:
            break
    stage.require(end.code == 0, f"{slow}: the job did not continue: {end.code}: {end.message}")
    struck = sum(each.struck for each in made)
    if struck:
        calls = Flight(f"{struck:,} calls that were slow", is_proof=True)
        stage.recorder.fault("slow storage", str(slow), calls)


DRILL = Drill(
    name="slow-storage",
    title="Storage calls take seconds, or longer than the deadline",
    shows="an answer that does not come in time is not taken for a failure, nor for a success",
    short=Length(rounds=6, records=300, text="1 s, 10 s and 60 s a call, on a simulated clock"),
    long=Length(
        rounds=90,
        records=3_000,
        text="1 s, 10 s and 60 s a call, 30 rounds each, on a simulated clock",
        rounds_per_minute=60,
    ),
    plan=plan,
    play=play,
)
