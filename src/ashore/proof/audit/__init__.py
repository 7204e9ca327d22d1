"""`audit`: follows a running job and raises what is wrong while it is young.

What it is: `auditor` looks, `judge` says what a look means, `proof` has the verifier prove one
entry, `rounds` says whose turn it is, `activity` whether the log shows a running job.
What it promises: decides in pure functions, reads in others, writes nothing.
Importing what it answers loads no Arrow: take `audit_once` and `follow` from `auditor`.
"""

from ashore.proof.audit.result import (
    ONE_PASS,
    Activity,
    AuditFinding,
    AuditReport,
    Away,
    Gauge,
    Pace,
    Round,
)

__all__ = [
    "ONE_PASS",
    "Activity",
    "AuditFinding",
    "AuditReport",
    "Away",
    "Gauge",
    "Pace",
    "Round",
]
