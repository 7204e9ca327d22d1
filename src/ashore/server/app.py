"""The application: routes over what a server works with.

What it is: `create_app`.
What it must not know: sockets; how it is served.
"""

from fastapi import FastAPI

from ashore import __version__
from ashore.server.api import jobs
from ashore.server.context import Context
from ashore.server.problems import add_handlers


def create_app(context: Context) -> FastAPI:
    """Return the application of a server."""
    app = FastAPI(
        title="Ashore",
        version=__version__,
        openapi_url="/api/openapi.json",
        docs_url=None,
        redoc_url=None,
    )
    app.state.context = context
    app.state.list_cache = jobs.ListCache()
    add_handlers(app)
    app.include_router(jobs.router)
    return app
