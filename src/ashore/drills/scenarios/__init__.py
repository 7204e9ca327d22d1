"""Scenarios, one module each, that read as the incident did. This is the one table of them."""

from ashore.drills.drill import Drill
from ashore.drills.scenarios import lost_answers

SCENARIOS: tuple[Drill, ...] = (lost_answers.DRILL,)

__all__ = ["SCENARIOS"]
