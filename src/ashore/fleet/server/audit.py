"""What is written down of requests: changes, and those who were refused.

What it is: `AuditLog`.
What it promises: a change is in `audit.jsonl`, a refusal in `refused.jsonl`: so nobody who is
refused often enough can have the lines of changes rotated away. No body and no token is written.
Lines are not chained: who may write the state directory may change them.
What it must not know: who may do what.
"""

from contextlib import suppress

from starlette.types import Scope

from ashore.base.clock import Clock
from ashore.base.units import format_time
from ashore.fleet.access.requests import noted_rule
from ashore.fleet.records.layout import ServerFiles
from ashore.fleet.records.store import append_line, rotate

AUDIT_BYTES, AUDITS_KEPT = 50_000_000, 10
REFUSED_BYTES, REFUSED_KEPT = 10_000_000, 3
PATH_MAX = 1_000
NOT_KNOWN = ""  # who asked, where no token told it


class AuditLog:
    """Writes lines. May be used by many threads."""

    def __init__(self, files: ServerFiles, clock: Clock) -> None:
        self._files = files
        self._clock = clock

    def change(self, scope: Scope, by: str, status: int) -> None:
        """Write down a change, done or not. Raises OSError."""
        rotate(self._files.audit, AUDIT_BYTES, AUDITS_KEPT)
        append_line(self._files.audit, self._line(scope, by, status))

    def refusal(self, scope: Scope, by: str, status: int) -> None:
        """Write down that somebody was refused. A disk that is full changes no answer."""
        with suppress(OSError):
            rotate(self._files.refused, REFUSED_BYTES, REFUSED_KEPT)
            append_line(self._files.refused, self._line(scope, by, status))

    def _line(self, scope: Scope, by: str, status: int) -> dict[str, object]:
        client, rule = scope.get("client") or ("", 0), noted_rule(scope)
        return {
            "at": format_time(self._clock.now_ms()),
            "by": by,
            **({"rule": rule} if rule else {}),
            "from": client[0],
            "method": scope["method"],
            "path": str(scope["path"])[:PATH_MAX],
            "status": status,
        }
