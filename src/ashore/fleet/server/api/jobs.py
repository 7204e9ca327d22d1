"""Jobs: `/api/jobs`.

What it is: what is known of jobs, and what can be wanted of them.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated

from fastapi import APIRouter, Body, Path, Query, Request, Response

from ashore.base.labels import HINT, SELECTOR_MAX, Selector
from ashore.base.recent import Recent
from ashore.errors import JobUnknown, RequestInvalid
from ashore.fleet.access.guard import GuardedRoute
from ashore.fleet.access.permissions import note_caller
from ashore.fleet.access.tokens import Caller, Grant, is_in_scope
from ashore.fleet.records.server_files import Asker
from ashore.fleet.server.condition import judge_condition
from ashore.fleet.server.context import Asking, Context, Shared, job_access_of, plane_of
from ashore.fleet.server.models import DeployChange, JobChange, JobDocument, JobList, PauseChange
from ashore.fleet.server.pages.supervision import SupervisedJobs

router = APIRouter(route_class=GuardedRoute, prefix="/api/jobs", tags=["jobs"])
Name = Annotated[str, Path(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,99}$")]
Why = Annotated[JobChange, Body()]
NO_REASON, NO_END = JobChange(), PauseChange()
LISTS_MAX = 64  # callers and selectors


@dataclass(frozen=True, slots=True)
class ListedJobs:
    """Which jobs a list shows. `scope`: what its caller may read; empty: everything."""

    scope: tuple[Grant, ...]
    selector: Selector

    def shows(self, labels: Mapping[str, str] | None) -> bool:
        """Return whether a job with these labels is shown; None: they are not known."""
        if not is_in_scope(self.scope, labels):
            return False
        return not self.selector.terms or (labels is not None and self.selector.matches(labels))

    def tag(self, looks: int) -> str:
        """Return the tag of a list, as of a look of the supervisor."""
        if self == ListedJobs((), Selector()):
            return f'"{looks}"'
        which = hashlib.sha256(repr(self).encode()).hexdigest()[:12]
        return f'"{looks}-{which}"'


class ListCache:
    """Lists of jobs as bytes, made once for each look of the supervisor, however many ask."""

    def __init__(self) -> None:
        self._made = Recent[ListedJobs, tuple[int, bytes]](LISTS_MAX)

    def get(self, context: Context, plane: SupervisedJobs, listed: ListedJobs) -> bytes:
        """Return a list, as of the last look."""
        looks, made = context.supervisor.looks, self._made.get(listed)
        if made is None or made[0] != looks:
            views, seen = context.supervisor.views, {each.name: each for each in plane.jobs()}
            document = JobList(
                at=looks,
                problem=context.supervisor.problem,
                jobs=[
                    JobDocument.of(view, judge_condition(seen[name]))
                    for name, view in views.items()
                    if name in seen and listed.shows(plane.labels(name))
                ],
            )
            made = self._made.put(listed, (looks, document.model_dump_json().encode()))
        return made[1]


@router.get("", response_model=JobList)
async def list_jobs(
    request: Request,
    context: Shared,
    caller: Asking,
    selector: Annotated[
        str | None,
        Query(max_length=SELECTOR_MAX, description="of labels: `team=payments,tier!=test`"),
    ] = None,
) -> Response:
    """Return the jobs that the caller may read; with `If-None-Match` 304 where nothing changed."""
    listed = ListedJobs(job_access_of(request).scope(caller), _selector_of(selector))
    content = request.app.state.list_cache.get(context, plane_of(request), listed)
    tag = listed.tag(context.supervisor.looks)
    if request.headers.get("if-none-match") == tag:
        return Response(status_code=304, headers={"ETag": tag})
    return Response(content, media_type="application/json", headers={"ETag": tag})


def _selector_of(text: str | None) -> Selector:
    """Return the selector of a request. Raises RequestInvalid."""
    try:
        return Selector() if text is None else Selector.parse(text)
    except ValueError as error:
        raise RequestInvalid(f"selector: {error}", hint=HINT) from None


@router.get("/{job}")
async def get_job(request: Request, job: Name, context: Shared) -> JobDocument:
    """Return a job, with its newest batches and their steps."""
    return _document(context, plane_of(request), job)


@router.put("/{job}")
def deploy_job(
    request: Request, job: Name, change: DeployChange, context: Shared, caller: Asking
) -> JobDocument:
    """Write a job file. It is checked first; a process keeps the old one until it is restarted."""
    plane_of(request).deploy(job, change.file, caller, change.beside)
    grant = job_access_of(request).role_on(caller, job)
    note_caller(request.scope, caller, is_change=True, grant=grant)
    if change.start:
        context.verbs.restart(job, _asker(change, caller))
    return _changed(request, context, job)


@router.delete("/{job}", status_code=204)
def remove_job(job: Name, context: Shared) -> Response:
    """Remove the file of a job that is stopped. Its lake stays as it is."""
    context.verbs.remove(job)
    context.supervisor.wait_looked()
    return Response(status_code=204)


@router.post("/{job}/start")
def start_job(
    request: Request, job: Name, context: Shared, caller: Asking, change: Why = NO_REASON
) -> JobDocument:
    """Let a job run, whatever it ended with before."""
    context.verbs.start(job, _asker(change, caller))
    return _changed(request, context, job)


@router.post("/{job}/stop")
def stop_job(
    request: Request, job: Name, context: Shared, caller: Asking, change: Why = NO_REASON
) -> JobDocument:
    """Stop a job in order, until it is started."""
    context.verbs.stop(job, _asker(change, caller))
    return _changed(request, context, job)


@router.post("/{job}/restart")
def restart_job(
    request: Request, job: Name, context: Shared, caller: Asking, change: Why = NO_REASON
) -> JobDocument:
    """Stop a job in order, if it runs, and start it with the file as it is now."""
    context.verbs.restart(job, _asker(change, caller))
    return _changed(request, context, job)


@router.post("/{job}/pause")
def pause_job(
    request: Request,
    job: Name,
    context: Shared,
    caller: Asking,
    change: Annotated[PauseChange, Body()] = NO_END,
) -> JobDocument:
    """Stop a job for a while, or until it is started."""
    context.verbs.pause(job, _asker(change, caller), change.for_ms)
    return _changed(request, context, job)


def _asker(change: JobChange, caller: Caller) -> Asker:
    return Asker(caller.name, change.why)


def _changed(request: Request, context: Context, job: str) -> JobDocument:
    """Return a job once the supervisor has seen what was changed."""
    context.supervisor.wait_looked()
    return _document(context, plane_of(request), job)


def _document(context: Context, plane: SupervisedJobs, job: str) -> JobDocument:
    view, seen = context.supervisor.views.get(job), plane.job(job)
    if view is None or seen is None:
        raise JobUnknown(f"there is no job {job!r} here", hint="GET /api/jobs lists them")
    return JobDocument.of(view, judge_condition(seen), with_batches=True)
