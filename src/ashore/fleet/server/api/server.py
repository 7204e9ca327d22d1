"""The server itself: metrics, what happened, what it is.

What it must not know: how jobs are run.
"""

import json
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from fastapi.responses import PlainTextResponse

from ashore import __version__
from ashore.errors import JobUnknown
from ashore.fleet.files import read_lines
from ashore.fleet.index import EventQuestion
from ashore.fleet.server.api.guarded import GuardedRoute
from ashore.fleet.server.api.jobs import Name
from ashore.fleet.server.context import Asking, Shared, job_access_of, may_read_of
from ashore.fleet.server.metrics import render_metrics
from ashore.fleet.server.models import EventList, HistoryQuestion, LogLines, ServerDocument
from ashore.jobs.file.json_schema import job_schema

router = APIRouter(route_class=GuardedRoute, tags=["server"])
LOG_BYTES = 1 << 20


@router.get("/api/server")
async def get_server(request: Request, context: Shared, caller: Asking) -> ServerDocument:
    """Return what the server is: its release, its directory, and how it is doing."""
    return ServerDocument(
        version=__version__,
        directory=str(context.files.jobs),
        problem=context.supervisor.problem,
        look_age_s=context.supervisor.look_age_s(),
        jobs=sum(map(job_access_of(request).readable(caller), context.supervisor.views)),
    )


@router.get("/api/events")
async def list_events(
    request: Request,
    context: Shared,
    job: Annotated[str | None, Query(max_length=100)] = None,
    limit: Annotated[int, Query(ge=1, le=1000)] = 100,
) -> EventList:
    """Return what happened to the jobs that the caller may read, the newest first."""
    may_read = may_read_of(request, job)
    return EventList(events=context.journal.newest(job, limit, may_read))


@router.get("/api/history")
def find_events(
    request: Request,
    context: Shared,
    caller: Asking,
    asked: Annotated[HistoryQuestion, Query()],
) -> EventList:
    """Return what happened, however long ago, from the index: the newest first."""
    may_read, jobs = may_read_of(request, asked.job), None
    if job_access_of(request).scope(caller):
        jobs = tuple(each for each in context.supervisor.views if may_read(each))
    question = EventQuestion(**asked.model_dump(), jobs=jobs)
    return EventList(events=context.index.find(question))


@router.get("/api/jobs/{job}/log")
def get_log(
    job: Name, context: Shared, limit: Annotated[int, Query(ge=1, le=5000)] = 200
) -> LogLines:
    """Return the newest lines of a job's log, with job, slice, epoch and batch in each."""
    if job not in context.supervisor.views:
        raise JobUnknown(f"there is no job {job!r} here", hint="GET /api/jobs lists them")
    lines = list(read_lines(context.files.run_of(job).log, LOG_BYTES))
    return LogLines(lines=lines[-limit:])


@router.get("/api/schema")
async def get_schema() -> dict[str, Any]:
    """Return the JSON Schema of job files, for editors."""
    found: dict[str, Any] = json.loads(json.dumps(job_schema()))
    return found


@router.get("/metrics", response_class=PlainTextResponse)
def get_metrics(context: Shared) -> PlainTextResponse:
    """Return the metrics of the server and of its jobs, as Prometheus reads them."""
    text = render_metrics(context)
    return PlainTextResponse(text, media_type="text/plain; version=0.0.4; charset=utf-8")
