"""Routes of the API that ask, before any handler runs, whether the caller may.

What it must not know: what handlers do.
"""

from collections.abc import Callable, Coroutine
from typing import Any

from fastapi import Request, Response
from fastapi.routing import APIRoute

from ashore.errors import NotAllowed
from ashore.fleet.access.requests import noted_caller
from ashore.fleet.server.context import job_access_of


class GuardedRoute(APIRoute):
    """A route of the API. The layer before the application has found out who asks."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Return what answers a request."""
        handle, path = super().get_route_handler(), self.path

        async def answer(request: Request) -> Response:
            caller, is_change = noted_caller(request.scope)
            if caller is None:
                raise NotAllowed("nobody has found out who asks", hint="use `ashore serve`")
            job_access_of(request).admit(request, path, caller, is_change=is_change)
            return await handle(request)

        return answer
