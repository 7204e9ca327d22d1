"""`recover`: the moves of a dead job, from its logs alone.

What it promises: plans are values: what `--explain` shows is what is applied. Nothing is appended,
so that it may run beside anything.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from ashore.log.files import FilePlace
from ashore.log.plan_commit import HelpStep, MoveOutcome, explain_sync
from ashore.log.store.committer import Moved
from ashore.log.store.dead_job import help_dead, look_at_moves, plan_help
from ashore.topics.open_job import OpenJob


def plan_recover(opened: OpenJob) -> tuple[HelpStep, ...]:
    """Return what `recover_dead` would do: for the slice of the topics, and for each query's."""
    return tuple(step for name in opened.slices for step in plan_help(opened.storage, name))


@dataclass(frozen=True, slots=True)
class Explained:
    """What `recover` would do, with what is there now: lines for people."""

    lines: tuple[str, ...]
    is_possible: bool  # every file is at one of its places, and no other in its way


def explain_recover(opened: OpenJob, steps: Sequence[HelpStep]) -> Explained:
    """Look at both places of each file that `plan_recover` would move. Moves nothing."""
    seen = look_at_moves(opened.storage, steps)
    reported = [_explain_move(place, outcome) for place, outcome in seen]
    is_left = any(outcome is MoveOutcome.AGAIN for _, outcome in seen)
    lines = [*reported, *map(explain_sync, steps)] if seen else []
    if seen and not is_left:
        lines.append("nothing is left to move: the next start closes the entry")
    wrong = {MoveOutcome.LOST, MoveOutcome.CONFLICT}
    return Explained(tuple(lines), not any(outcome in wrong for _, outcome in seen))


def _explain_move(place: FilePlace, outcome: MoveOutcome) -> str:
    match outcome:
        case MoveOutcome.LOST:
            return f"lost: neither {place.pending} nor {place.final} exists and is complete"
        case MoveOutcome.CONFLICT:
            return f"conflict: {place.final} has another size than the log says"
        case MoveOutcome.AGAIN:
            return f"move {place.pending} to {place.final}"
        case _:
            return f"already moved to {place.final}"


def recover_dead(opened: OpenJob, steps: tuple[HelpStep, ...]) -> Moved:
    """Finish a dead job's moves. Appends nothing."""
    chosen, moved = set(steps), Moved(0, 0)
    for name in opened.slices:
        own = [step for step in plan_help(opened.storage, name) if step in chosen]
        done = help_dead(opened.storage, name, opened.clock, own)
        moved = Moved(moved.moved + done.moved, moved.already_moved + done.already_moved)
    return moved
