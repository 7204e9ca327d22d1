"""`verify`: proof that each record is in its table exactly once.

What it promises: decides in pure functions, reads in others, writes nothing. `job` has the order,
which lets a running job be verified. Importing this loads no Arrow: take `verify_job` from `job`.
"""

from ashore.proof.evidence.result import (
    NAMED_MAX,
    CheckedBy,
    Difference,
    NotChecked,
    NotCompared,
    Problem,
    ProblemKind,
    Progress,
    SliceRead,
    Status,
    TableVerdict,
    Tally,
    ValuesVerdict,
    VerifyResult,
)
from ashore.proof.verify.sample import SampleRate, parse_rate

__all__ = [
    "NAMED_MAX",
    "CheckedBy",
    "Difference",
    "NotChecked",
    "NotCompared",
    "Problem",
    "ProblemKind",
    "Progress",
    "SampleRate",
    "SliceRead",
    "Status",
    "TableVerdict",
    "Tally",
    "ValuesVerdict",
    "VerifyResult",
    "parse_rate",
]
