"""The application: routes over what a server works with.

What it is: `create_app`.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from fastapi import FastAPI

from ashore import __version__
from ashore.fleet.access.requests import JobAccess
from ashore.fleet.records.job_files import KnownJobs
from ashore.fleet.server.api import jobs, operations, server
from ashore.fleet.server.context import Context
from ashore.fleet.server.job_watch import FleetWatch
from ashore.fleet.server.log_follower import LogFollower
from ashore.fleet.server.pages.routes import pages_router
from ashore.fleet.server.pages.supervision import SupervisedJobs, marks_of
from ashore.fleet.server.problems import PROBLEMS, add_handlers


def create_app(context: Context) -> FastAPI:
    """Return the application of a server."""
    follower = LogFollower(context.files, context.journal.take, context.clock)
    marks = marks_of(context.supervisor)
    watch = FleetWatch(context.files.jobs, context.clock, marks=marks, follow=follower.follow)
    watch.job_files = KnownJobs(context.checks.load_job)
    works = (context.supervisor, context.verbs, context.operations)
    plane = SupervisedJobs(context.files, *works, watch)

    @asynccontextmanager
    async def living(_app: FastAPI) -> AsyncIterator[None]:
        plane.start()
        yield
        plane.close()

    app = FastAPI(
        title="Ashore",
        version=__version__,
        openapi_url="/api/openapi.json",
        docs_url=None,
        redoc_url=None,
        lifespan=living,
    )
    app.state.context = context
    app.state.plane = plane
    app.state.job_access = JobAccess(plane)
    app.state.list_cache = jobs.ListCache()
    add_handlers(app)
    _include(app)
    app.include_router(pages_router(plane, context.access, context.checks))
    return app


def describe_api() -> dict[str, Any]:
    """Return the API as OpenAPI describes it. No server is needed."""
    app = FastAPI(title="Ashore", version=__version__)
    _include(app)
    return app.openapi()


def _include(app: FastAPI) -> None:
    for each in (jobs.router, operations.router, server.router):
        app.include_router(each, responses=PROBLEMS)
