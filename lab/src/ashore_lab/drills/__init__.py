"""Drills: what a platform team would run before it trusts Ashore with its tables.

What it is: faults, workloads, checkers, and scenarios that read as an incident did; `run` plays
one and gives a verdict.
What it promises: a drill turns green only when every record that was produced can be read once; its
schedule of faults is a pure function of seed and length.
"""

from ashore_lab.drills.drill import Drill
from ashore_lab.drills.plan import Length, PlannedFault, Server
from ashore_lab.drills.run import DrillOrder, run_drill
from ashore_lab.drills.scenarios import SCENARIOS
from ashore_lab.drills.verdict import Figures, Timeline, Verdict

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
