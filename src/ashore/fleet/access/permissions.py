"""What a caller may do: the one place where REST and pages decide it.

What it is: `JobAccess`, which finds the role of a caller on a job, and checks routes, paths and job
files that are deployed by it; `require_operator`; `Reach`, what a route is about.
What it promises: a route whose address has a job, or an operation, is answered to who has a role on
that job alone, and changes it for who may operate it alone. Every other route is for who has a role
on all jobs, unless it is listed here: those show only what the caller may read. No one without a
role on all jobs takes a job out of a team or into one, reads what an earlier job of that name has
left, or writes a file that another team's job names.
"""

from collections.abc import Callable, Collection, Mapping
from enum import Enum
from pathlib import Path
from typing import Protocol

from starlette.requests import Request
from starlette.types import Scope

from ashore.base.labels import label_texts
from ashore.errors import NotAllowed, ServerRefused
from ashore.fleet.access.tokens import Caller, Grant, UserRole
from ashore.fleet.records.job_files import JobFile, digest_job_file
from ashore.jobs.file import Job


def note_caller(
    scope: Scope, caller: Caller, *, is_change: bool, grant: Grant | None = None
) -> None:
    """Keep who asks with the request, and by which rule, for its handler and for the audit."""
    scope.setdefault("state", {}).update(caller=caller, is_change=is_change, grant=grant)


def noted_caller(scope: Scope) -> tuple[Caller | None, bool]:
    """Return who asks, if that is known by now, and whether it is a change."""
    state = scope.get("state", {})
    return state.get("caller"), bool(state.get("is_change"))


def noted_rule(scope: Scope) -> str:
    """Return the rule that has allowed a request; empty: none has."""
    found = scope.get("state", {}).get("grant")
    return "" if found is None else str(found)


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
    DEPLOY = "deploy"  # a job that may not be there yet: see `check_deploy`
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
        """Return a test of whether a caller may read a job, by its name; empty: the server."""
        return lambda job: self.role_on(caller, job) is not None

    def scope(self, caller: Caller) -> tuple[Grant, ...]:
        """Return the rules that limit what a caller may read; empty: everything."""
        return () if caller.grant_on(None) else caller.grants

    def may_operate(self, caller: Caller, job: str) -> bool:
        """Return whether a caller may change a job; empty: the server."""
        found = self.role_on(caller, job)
        return found is not None and found.role is UserRole.OPERATE

    def require(self, caller: Caller, job: str, role: UserRole) -> Grant:
        """Return the rule by which a caller has a role on a job. Raises NotAllowed.

        `job`: empty: the server, and all jobs.
        """
        found = self.role_on(caller, job)
        if found is None or (role is UserRole.OPERATE and found.role is not role):
            raise _refusal(caller, role, f"on job {job[:100]}" if job else "on all jobs")
        return found

    def admit(self, request: Request, path: str, caller: Caller, *, is_change: bool) -> str | None:
        """Check that a caller may ask a route, and note the rule. Raises NotAllowed.

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

    def check_paths(self, caller: Caller, job: str, *, writes: bool) -> None:
        """Check that a request about a job may name a path. Raises NotAllowed.

        Who may only read some jobs names none: other jobs' files are below the same roots.
        `writes`: whether a file is written there, as by a command that changes nothing else.
        """
        if self.may_operate(caller, job):
            return
        if self.scope(caller):
            raise NotAllowed(
                f"`{caller.name}` may only read job {job}, and a path may be of other jobs",
                hint="leave the path out, or ask who has the role `read` on all jobs",
            )
        if writes:
            raise NotAllowed(
                f"`{caller.name}` may only read, and this may write a file",
                hint="leave the file out: it needs the role `operate`",
            )

    def check_deploy(
        self,
        caller: Caller,
        job: Job,
        beside: Collection[str],
        directory: Path,
        files: Mapping[str, JobFile | None],
    ) -> None:
        """Check that a caller may deploy a job file. Raises NotAllowed, ServerRefused.

        Arguments:
            caller: who deploys.
            job: what the file says.
            beside: the names of the files that are sent with it.
            directory: of job files.
            files: of the jobs that are known; None: there was one, and its file is gone.

        """
        if self.may_operate(caller, ""):
            return
        check_labels(caller, job.job, job.labels)
        file = files.get(job.job)
        if file is not None:
            _check_current(file)
            self.require(caller, job.job, UserRole.OPERATE)
        elif job.job in files:
            raise NotAllowed(
                f"there was a job {job.job} before, whose labels are not known",
                hint="use another name, or ask who has the role `operate` on all jobs: "
                "the new job would have its log and its history",
            )
        for each in {*beside, *_named_files(job)}:
            if Path(each).name != each:
                raise NotAllowed(
                    f"{each[:200]!r} is not a file beside the job file",
                    hint="name a plain file: other places are for who has a role on all jobs",
                )
            users = [name for name, one in files.items() if one and each in _named_files(one.job)]
            is_theirs = bool(users) and all(self.may_operate(caller, name) for name in users)
            if (directory / each).exists() and not is_theirs:
                raise NotAllowed(
                    f"{each[:200]!r} is there, and is not of a job that `{caller.name}` may "
                    "operate",
                    hint="choose another name for the file",
                )


def require_operator(caller: Caller) -> None:
    """Check that a caller may change something, whichever job it is. Raises NotAllowed."""
    if not caller.may_operate:
        raise NotAllowed(f"`{caller.name}` may only read", hint="this needs the role `operate`")


def check_labels(caller: Caller, name: str, labels: Mapping[str, str]) -> None:
    """Check that a caller may operate a job with the labels of a new file. Raises NotAllowed."""
    grant = caller.grant_on(labels)
    if grant is None or grant.role is not UserRole.OPERATE:
        shown = ", ".join(sorted(label_texts(labels)))
        where = f"on job {name} with the labels of the new file ({shown[:300] or 'none'})"
        raise _refusal(caller, UserRole.OPERATE, where)


def _check_current(file: JobFile) -> None:
    """Check that the labels that are known are those of the file that is there."""
    if not file.is_checked or digest_job_file(file.path, file.job) != file.digest:
        raise ServerRefused(
            f"the file of job {file.name} changed a moment ago",
            hint="deploy again in a few seconds",
        )


def _named_files(job: Job | None) -> set[str]:
    if job is None or job.sql is None:
        return set()
    return {each for each in (job.sql.file, job.sql.functions) if each is not None}


def _root_of(path: str) -> str:
    """Return the first three parts of an address: `/api/jobs/{job}`."""
    return "/".join(path.split("/")[:4])


def _refusal(caller: Caller, role: UserRole, where: str) -> NotAllowed:
    """Return the error for a caller who lacks a role. `where`: as `on job clicks`."""
    return NotAllowed(
        f"`{caller.name}` does not have the role `{role}` {where}",
        hint="roles are given by `ashore token allow`, for all jobs or with --jobs by their labels",
    )
