"""`verify`: proof that each record is in its table exactly once.

What it is: claims (`ledger`), evidence (`files`, `offsets`, `evidence`, `again`), `verdict`; and
for `--values` a second decoder (`plain_rows`), and what compares with it (`sample`, `values`).
What it promises: decides in pure functions, reads in others, writes nothing. See `job` for the
order, which lets a running job be verified.
Importing what it answers loads no Arrow: take `verify_job` from `job`.
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
