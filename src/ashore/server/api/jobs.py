"""Jobs: `/api/jobs`.

What it is: what is known of jobs, and what can be wanted of them.
What it must not know: how jobs are run.
"""

from typing import Annotated

from fastapi import APIRouter, Body, Path, Request, Response

from ashore.errors import JobUnknown
from ashore.runtime.tokens import Caller
from ashore.runtime.verbs import Asker
from ashore.server.condition import judge_condition
from ashore.server.context import Asking, Context, Shared, plane_of
from ashore.server.models import DeployChange, JobChange, JobDocument, JobList, PauseChange
from ashore.server.pages.control_plane import ControlPlane

router = APIRouter(prefix="/api/jobs", tags=["jobs"])
Name = Annotated[str, Path(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,99}$")]
Why = Annotated[JobChange, Body()]
NO_REASON, NO_END = JobChange(), PauseChange()


class ListCache:
    """The list of jobs as bytes, made once for each look of the supervisor, however many ask."""

    def __init__(self) -> None:
        self._made: tuple[int, bytes] = (-1, b"")

    def get(self, context: Context, plane: ControlPlane) -> bytes:
        """Return the list, as of the last look."""
        looks = context.supervisor.looks
        if self._made[0] != looks:
            views, seen = context.supervisor.views, {each.name: each for each in plane.jobs()}
            listed = JobList(
                at=looks,
                problem=context.supervisor.problem,
                jobs=[
                    JobDocument.of(view, judge_condition(seen[name]))
                    for name, view in views.items()
                    if name in seen
                ],
            )
            self._made = looks, listed.model_dump_json().encode()
        return self._made[1]


@router.get("", response_model=JobList)
async def list_jobs(request: Request, context: Shared) -> Response:
    """Return all jobs. With `If-None-Match`, 304 where nothing was looked at since."""
    content = request.app.state.list_cache.get(context, plane_of(request))
    tag = f'"{context.supervisor.looks}"'
    if request.headers.get("if-none-match") == tag:
        return Response(status_code=304, headers={"ETag": tag})
    return Response(content, media_type="application/json", headers={"ETag": tag})


@router.get("/{job}")
async def get_job(request: Request, job: Name, context: Shared) -> JobDocument:
    """Return a job, with its newest batches and their steps."""
    return _document(context, plane_of(request), job)


@router.put("/{job}")
def deploy_job(
    request: Request, job: Name, change: DeployChange, context: Shared, caller: Asking
) -> JobDocument:
    """Write a job file. It is checked first; a process keeps the old one until it is restarted."""
    context.verbs.deploy(job, change.file, change.beside)
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


def _document(context: Context, plane: ControlPlane, job: str) -> JobDocument:
    view, seen = context.supervisor.views.get(job), plane.job(job)
    if view is None or seen is None:
        raise JobUnknown(f"there is no job {job!r} here", hint="GET /api/jobs lists them")
    return JobDocument.of(view, judge_condition(seen), with_batches=True)
