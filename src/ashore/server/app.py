"""The application: routes over what a server works with.

What it is: `create_app`.
What it must not know: sockets; how it is served.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import FastAPI

from ashore import __version__
from ashore.server.api import jobs
from ashore.server.context import Context
from ashore.server.pages.guard import TokenAccess
from ashore.server.pages.routes import pages_router
from ashore.server.pages.supervised import SupervisedJobs
from ashore.server.problems import add_handlers

OPEN = TokenAccess(lambda _token: None, b"", is_open=True)


def create_app(context: Context) -> FastAPI:
    """Return the application of a server."""
    plane = SupervisedJobs(context.layout, context.supervisor, context.verbs, context.clock)

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
    app.state.list_cache = jobs.ListCache()
    add_handlers(app)
    app.include_router(jobs.router)
    app.include_router(pages_router(plane, OPEN))
    return app
