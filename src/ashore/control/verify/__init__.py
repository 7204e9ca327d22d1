"""`verify`: proof that each record is in its table exactly once.

What it is: claims (`ledger`), evidence (`files`, `offsets`, `evidence`, `again`), `verdict`.
What it promises: decides in pure functions, reads in others, writes nothing. See `job` for the
order, which lets a running job be verified.
What it must not know: terminals, Spark.
"""

from ashore.control.verify.job import parse_since, verify_job
from ashore.control.verify.result import (
    CheckedBy,
    Problem,
    ProblemKind,
    Progress,
    SliceRead,
    Status,
    TableVerdict,
    Tally,
    VerifyResult,
)

__all__ = [
    "CheckedBy",
    "Problem",
    "ProblemKind",
    "Progress",
    "SliceRead",
    "Status",
    "TableVerdict",
    "Tally",
    "VerifyResult",
    "parse_since",
    "verify_job",
]
