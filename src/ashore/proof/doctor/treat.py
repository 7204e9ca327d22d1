"""The doctor's order of things: look, plan, do.

What it is: the two use cases behind the command.
What it promises: what is done is what `diagnose` shows.
"""

from collections.abc import Callable
from dataclasses import replace

from ashore.proof.doctor.apply import Done, apply_steps, watch_all_quiet
from ashore.proof.doctor.observe import FormerAt, observe
from ashore.proof.doctor.plan import Diagnosis, plan_doctor
from ashore.topics.open_job import OpenJob


def diagnose(opened: OpenJob, at: FormerAt) -> Diagnosis:
    """Return what would be done. Changes nothing."""
    return plan_doctor(observe(opened, at))


def treat(
    opened: OpenJob, at: FormerAt, report: Callable[[Done], None], *, takes_over: bool
) -> Diagnosis:
    """Do what can be done and return what is left. `report` is called for each step that was done.

    Raises LogGrows where another process appends, unless `takes_over`; else as `apply_steps`.
    """
    if not takes_over:
        watch_all_quiet(opened, at)
    seen = observe(opened, at)
    found = plan_doctor(seen)
    apply_steps(opened, found.steps, report)
    if seen.log.foreign:  # only now can the log be read
        found = diagnose(opened, at)
        apply_steps(opened, found.steps, report)
    return replace(found, steps=())
