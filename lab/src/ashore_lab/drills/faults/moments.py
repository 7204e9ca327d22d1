"""When something strikes: at a step of the job, the n-th time that it is begun.

What it promises: the steps are those that a job reports: `open`, `plan`, `write`, `prepare`,
`move`, `idle`, and `landed`, which comes after a batch is readable.
"""

from dataclasses import dataclass

BATCH_STEPS = ("plan", "write", "prepare", "move", "landed")  # of one batch, in their order
HALF_DONE_STEPS = ("write", "prepare", "move")  # what strikes in them is to find a batch half done


@dataclass(frozen=True, slots=True)
class Moment:
    """The n-th time that one process begins a step."""

    step: str
    number: int = 1


class Countdown:
    """Reports when a moment has come."""

    def __init__(self, moment: Moment) -> None:
        self._moment = moment
        self._left = moment.number

    def has_come(self, step: str) -> bool:
        """Take a step that begins. True once."""
        if step != self._moment.step:
            return False
        self._left -= 1
        return self._left == 0
