"""Who may do what with which job: the one guard of REST and pages.

What it is: `JobAccess.role_on`, and `JobAccess.admit`, which each route calls before its handler;
`Reach`, what a route is about, which follows from its address.
What it promises: a route whose address has a job, or an operation, is answered to who has a role on
that job alone, and changes it for who may operate it alone. Every other route is for who has a role
on all jobs, unless it is listed here: those show only what the caller may read.
What it must not know: how somebody is recognized; what handlers do.
"""

from collections.abc import Callable, Mapping
from enum import Enum
from typing import Protocol

from starlette.requests import Request

from ashore.errors import NotAllowed
from ashore.fleet.access.requests import note_caller
from ashore.fleet.access.tokens import Caller, Grant, UserRole

JOBS = {"/api/jobs/{job}": "job", "/ui/jobs/{name}": "name"}  # and the parameter that names it
OPERATIONS = {"/api/operations/{id}": "id", "/ui/operations/{id_}": "id_"}
OWN = frozenset(
    {
        *("/api/jobs", "/api/operations", "/api/events", "/api/history", "/api/server"),
        *("/ui/jobs", "/ui/operations", "/ui/events", "/api/schema", "/ui/write", "/ui/logout"),
    }
)
DEPLOY = ("PUT", "/api/jobs/{job}")


class Reach(Enum):
    """What a route is about."""

    JOB = "job"  # the one in its address
    OPERATION = "operation"  # the job of the one in its address
    DEPLOY = "deploy"  # a job that may not be there yet: `check_deploy` is asked by its handler
    OWN = "own"  # what the caller may read
    SERVER = "server"  # all jobs

    @classmethod
    def of(cls, method: str, path: str) -> "Reach":
        """Return what a route is about, by its method and its address with parameters."""
        if (method, path) == DEPLOY:
            return cls.DEPLOY
        if _root_of(path) in JOBS:
            return cls.JOB
        if _root_of(path) in OPERATIONS:
            return cls.OPERATION
        return cls.OWN if path in OWN else cls.SERVER


class KnownLabels(Protocol):
    """What is asked about jobs."""

    def labels(self, name: str) -> Mapping[str, str] | None:
        """Return the labels of a job; None: there is no such job, or its file is not valid."""
        ...

    def job_of(self, operation: str) -> str:
        """Return the job of an operation; empty: it has none, or there is no such operation."""
        ...


class JobAccess:
    """Decides by the labels that jobs have now. May be used by many threads."""

    def __init__(self, known: KnownLabels) -> None:
        self._known = known

    def role_on(self, caller: Caller, job: str) -> Grant | None:
        """Return the rule that allows most on a job, with its role; None: no rule holds for it.

        For a job that there is not, or whose labels are not known, only rules for all jobs hold.
        """
        return caller.grant_on(self._known.labels(job) if job else None)

    def readable(self, caller: Caller) -> Callable[[str], bool]:
        """Return what tells whether somebody may read a job, by its name; empty: the server."""
        return lambda job: self.role_on(caller, job) is not None

    def scope(self, caller: Caller) -> tuple[Grant, ...]:
        """Return what decides what somebody may read; empty: everything."""
        return () if caller.grant_on(None) else caller.grants

    def may_operate(self, caller: Caller, job: str) -> bool:
        """Tell whether somebody may change a job; empty: the server."""
        found = self.role_on(caller, job)
        return found is not None and found.role is UserRole.OPERATE

    def require(self, caller: Caller, job: str, role: UserRole) -> Grant:
        """Return the rule by which somebody has a role on a job. Raises NotAllowed.

        `job`: empty: the server, and all jobs.
        """
        found = self.role_on(caller, job)
        if found is None or (role is UserRole.OPERATE and found.role is not role):
            raise refusal(caller, role, f"on job {job[:100]}" if job else "on all jobs")
        return found

    def admit(self, request: Request, path: str, caller: Caller, *, is_change: bool) -> str | None:
        """Check that somebody may ask a route, and note the rule. Raises NotAllowed.

        Return the job that the request is about; empty: the server; None: what the caller may read.

        Arguments:
            request: which has come to the route.
            path: of the route, with parameters.
            caller: who asks.
            is_change: whether the request changes something.

        """
        values, reach = request.path_params, Reach.of(request.method, path)
        role = UserRole.OPERATE if is_change else UserRole.READ
        note_caller(request.scope, caller, is_change=is_change)  # a refusal is noted, too
        if reach in {Reach.OWN, Reach.DEPLOY}:
            return None
        job = ""
        if reach is Reach.JOB:
            job = str(values[JOBS[_root_of(path)]])
        elif reach is Reach.OPERATION:
            job = self._known.job_of(str(values[OPERATIONS[_root_of(path)]]))
        grant = self.require(caller, job, role)
        note_caller(request.scope, caller, is_change=is_change, grant=grant)
        return job


def _root_of(path: str) -> str:
    """Return the first three parts of an address: `/api/jobs/{job}`."""
    return "/".join(path.split("/")[:4])


def refusal(caller: Caller, role: UserRole, where: str) -> NotAllowed:
    """Return what somebody is answered who lacks a role. `where`: as `on job clicks`."""
    return NotAllowed(
        f"`{caller.name}` does not have the role `{role}` {where}",
        hint="roles are given by `ashore token allow`, for all jobs or with --jobs by their labels",
    )
