"""What the handlers of a server share.

What it is: `Context`, made once for an app; `context_of` finds it for a handler.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, cast

from fastapi import Depends
from starlette.requests import HTTPConnection

from ashore.base.clock import Clock
from ashore.fleet.access.guard import RequestAccess
from ashore.fleet.access.permissions import JobAccess
from ashore.fleet.access.tokens import Caller, UserRole
from ashore.fleet.machine.check_process import CheckProcesses
from ashore.fleet.operate.operations import Operations
from ashore.fleet.operate.roots import Roots
from ashore.fleet.operate.verbs import Verbs
from ashore.fleet.operate.webhook import Webhook
from ashore.fleet.records.index import Index
from ashore.fleet.records.journal import Journal
from ashore.fleet.records.server_files import ServerFiles
from ashore.fleet.server.pages.supervision import SupervisedJobs
from ashore.fleet.supervise.supervisor import Supervisor


@dataclass(frozen=True, slots=True)
class Context:
    """What a server works with."""

    files: ServerFiles
    supervisor: Supervisor
    verbs: Verbs
    operations: Operations
    journal: Journal
    webhook: Webhook | None
    index: Index
    roots: Roots
    access: RequestAccess
    clock: Clock
    checks: CheckProcesses


def context_of(connection: HTTPConnection) -> Context:
    """Return what the app of a request works with."""
    return cast("Context", connection.app.state.context)


def plane_of(connection: HTTPConnection) -> SupervisedJobs:
    """Return the jobs of the server as pages see them."""
    return cast("SupervisedJobs", connection.app.state.plane)


def job_access_of(connection: HTTPConnection) -> JobAccess:
    """Return who may do what with which job."""
    return cast("JobAccess", connection.app.state.job_access)


Shared = Annotated[Context, Depends(context_of)]


def caller_of(connection: HTTPConnection) -> Caller:
    """Return who asks."""
    return cast("Caller", connection.state.caller)


def may_read_of(connection: HTTPConnection, job: str | None) -> Callable[[str], bool]:
    """Return a test of whether the caller may read a job, by its name; empty: the server.

    Raises NotAllowed where they ask for one job that they may not read.
    """
    access, caller = job_access_of(connection), caller_of(connection)
    if job:
        access.require(caller, job, UserRole.READ)
    return access.readable(caller)


Asking = Annotated[Caller, Depends(caller_of)]
