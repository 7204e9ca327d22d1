"""`doctor`: repairs what can be repaired without guessing, and says what it will not do.

What it promises: `observe` reads only, `plan_doctor` is pure, `apply_steps` does what was shown.
"""

from ashore.proof.doctor.apply import Done, diagnose, treat
from ashore.proof.doctor.observation import Observations
from ashore.proof.doctor.observe import FormerAt, observe
from ashore.proof.doctor.plan import Diagnosis, explain, plan_doctor
from ashore.proof.doctor.steps import DoctorRefusal, Step

__all__ = [
    "Diagnosis",
    "DoctorRefusal",
    "Done",
    "FormerAt",
    "Observations",
    "Step",
    "diagnose",
    "explain",
    "observe",
    "plan_doctor",
    "treat",
]
