"""Drills: what a platform team would run before it trusts Ashore with its tables.

What it is: faults, workloads, checkers, and scenarios that read as an incident did; `run` plays
one and gives a verdict.
What it promises: a drill turns green only when every record that was produced can be read once; its
schedule of faults is a pure function of seed and length.
What it must not know: terminals; Spark, whose jobs are processes here.
"""

from ashore.drills.drill import Drill, Figures, Length, PlannedFault, Server, Timeline, Verdict
from ashore.drills.run import DrillOrder, run_drill
from ashore.drills.scenarios import SCENARIOS

__all__ = [
    "SCENARIOS",
    "Drill",
    "DrillOrder",
    "Figures",
    "Length",
    "PlannedFault",
    "Server",
    "Timeline",
    "Verdict",
    "run_drill",
]
