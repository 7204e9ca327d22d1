"""The server itself: metrics, what happened, what it is."""

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from fastapi.responses import PlainTextResponse

from ashore import __version__
from ashore.errors import JobUnknown
from ashore.fleet.access.guard import GuardedRoute
from ashore.fleet.records.index import EventQuestion
from ashore.fleet.records.store import read_lines
from ashore.fleet.server.api.jobs import Name
from ashore.fleet.server.context import Asking, Context, Shared, job_access_of, may_read_of
from ashore.fleet.server.models import EventList, LogLines, ServerDocument
from ashore.fleet.supervise.supervisor import ManagedJob
from ashore.jobs.file.json_schema import job_schema
from ashore.jobs.metrics import families
from ashore.jobs.metrics.exposition import merge_expositions, write_families
from ashore.jobs.metrics.families import Family

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
    request: Request, context: Shared, caller: Asking, question: Annotated[EventQuestion, Query()]
) -> EventList:
    """Return what happened, however long ago, from the index: the newest first."""
    may_read, jobs = may_read_of(request, question.job), None
    if job_access_of(request).scope(caller):
        jobs = [each for each in context.supervisor.views if may_read(each)]
    return EventList(events=context.index.find(question, jobs))


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


_Samples = Mapping[tuple[str, ...], float]


def render_metrics(context: Context) -> str:
    """Return all metrics as Prometheus reads them. Reads files: not on the event loop.

    As many series as jobs, phases and slices ask for, and no more than a fixed number of each job's
    own. Nothing is asked of a lake or of Kafka.
    """
    views = context.supervisor.views
    texts = {}
    for name, view in views.items():
        if view.process is None:
            continue  # what it has written is of a run that has ended
        try:
            texts[name] = context.files.run_of(name).metrics.read_text("utf-8")
        except (OSError, UnicodeDecodeError):
            continue
    of_jobs, left_out = merge_expositions(texts)
    own = _own(context, views, {(name,): count for name, count in left_out.items()})
    return write_families(own) + of_jobs


def _own(
    context: Context, views: Mapping[str, ManagedJob], left_out: _Samples
) -> Iterator[tuple[Family, _Samples]]:
    now_ms, jobs = context.clock.now_ms(), views.values()
    yield families.JOBS, _count(str(each.phase) for each in jobs)
    yield families.PHASE, {(each.name, str(each.phase)): 1 for each in jobs}
    starts, phase_ms = context.journal.tally()
    lasted = Counter(phase_ms)
    for each in jobs:
        lasted[each.name, str(each.phase)] += max(0, now_ms - each.since_ms)
    yield families.PHASE_SECONDS, {key: value / 1000 for key, value in lasted.items()}
    yield families.STARTS, {key: float(value) for key, value in starts.items()}
    yield families.FAILURES, {(each.name,): float(each.failures) for each in jobs}
    memory = {(each.name,): each.memory_bytes for each in jobs}
    yield families.MEMORY, {key: value for key, value in memory.items() if value is not None}
    yield families.CHECKPOINT_AGE, dict(_checkpoint_ages(jobs, now_ms))
    yield families.OPERATIONS, _count(str(each.state) for each in context.operations.all())
    webhook = context.webhook
    yield families.DELIVERIES, {(): webhook.pending()} if webhook is not None else {}
    yield families.LOOK_AGE, {(): context.supervisor.look_age_s()}
    yield families.LEFT_OUT, left_out


def _count(values: Iterable[str]) -> _Samples:
    return {(value,): float(count) for value, count in Counter(values).items()}


def _checkpoint_ages(
    jobs: Iterable[ManagedJob], now_ms: int
) -> Iterator[tuple[tuple[str, ...], float]]:
    for view in jobs:
        for each in view.seen.slices if view.seen and view.process else ():
            if each.slice != "main" and each.last_commit_ms is not None:
                yield (view.name, each.slice), max(0, now_ms - each.last_commit_ms) / 1000
