"""`audit`: follows a running job and raises what is wrong while it is young.

What it is: `auditor` looks, `judge` says what a look means, `proof` has the verifier prove one
entry, `rounds` says whose turn it is, `activity` whether the log tells of a job.
What it promises: decides in pure functions, reads in others, writes nothing.
What it must not know: terminals, Spark.
"""

from ashore.control.audit.auditor import ONE_PASS, Auditor, Pace
from ashore.control.audit.follow import audit_once, follow
from ashore.control.audit.result import Activity, AuditFinding, AuditReport, Away, Gauge, Round

__all__ = [
    "ONE_PASS",
    "Activity",
    "AuditFinding",
    "AuditReport",
    "Auditor",
    "Away",
    "Gauge",
    "Pace",
    "Round",
    "audit_once",
    "follow",
]
