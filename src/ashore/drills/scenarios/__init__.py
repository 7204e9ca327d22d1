"""Scenarios, one module each, that read as the incident did. This is the one table of them."""

from ashore.drills.drill import Drill
from ashore.drills.scenarios import (
    broker_restart,
    clock_jump,
    disk_full,
    kill_driver,
    late_effects,
    lost_answers,
    poison_records,
    replay_budget,
    slow_storage,
    zombie_writer,
)

SCENARIOS: tuple[Drill, ...] = (
    kill_driver.DRILL,
    zombie_writer.DRILL,
    lost_answers.DRILL,
    late_effects.DRILL,
    disk_full.DRILL,
    slow_storage.DRILL,
    clock_jump.DRILL,
    broker_restart.DRILL,
    poison_records.DRILL,
    replay_budget.DRILL,
)

__all__ = ["SCENARIOS"]
