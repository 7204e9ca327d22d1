"""The steps of a batch, put together from the events of a job process.

What it is: `BatchSteps`, of one slice.
What it promises: a batch is given out once, when its last step has ended.
"""

from dataclasses import dataclass, field

from ashore.jobs.events import Landed, StepBegun
from ashore.log.progress import Step

_BETWEEN = (Step.IDLE, Step.PLAN)


@dataclass(frozen=True, slots=True)
class EndedBatch:
    """A batch that became readable, and how long each of its steps took, in milliseconds."""

    landed: Landed
    steps: tuple[tuple[Step, int], ...]


@dataclass
class BatchSteps:
    """The steps of the batch that a slice is at."""

    steps: list[tuple[Step, int]] = field(default_factory=list)
    _landed: Landed | None = None

    @property
    def took_ms(self) -> int:
        """How long the batch has taken until its last step ended."""
        return sum(took_ms for _, took_ms in self.steps)

    def land(self, event: Landed) -> None:
        """Take in that the batch is readable; steps of it may follow."""
        self._landed = event

    def begin(self, event: StepBegun) -> EndedBatch | None:
        """Take in that a step begins; return the batch that ended with the step before."""
        ended = None
        if event.before is not None and event.took_ms is not None and event.before != Step.IDLE:
            self.steps.append((event.before, event.took_ms))
        if event.step in _BETWEEN and event.before not in _BETWEEN:
            if self._landed is not None:
                ended = EndedBatch(self._landed, tuple(self.steps))
            self._landed = None
            self.steps.clear()
        if event.step is Step.PLAN and event.before in _BETWEEN:
            self.steps.clear()  # nothing came of the plan before
        return ended
