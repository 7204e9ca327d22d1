"""`audit`: follows a running job and reports what is wrong while it is young.

What it promises: decides in pure functions (`judge`, `publication`), reads in others, writes
nothing. Importing this loads no Arrow: take `audit_once` and `follow` from `auditor`.
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

__all__ = ["ONE_PASS", "Activity", "AuditFinding", "AuditReport", "Away", "Gauge", "Pace", "Round"]
