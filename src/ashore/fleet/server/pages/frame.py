"""What every page has: who looks at it, its answers to errors, looks at a lake that may be slow.

What it is: `PageFrame`, which routes use; the routers that it makes answer errors with pages.
What it promises: what cannot be read is a page that says why and what to do, with a status that
programs understand. No one waits longer for a lake than `PATIENCE_S`.
"""

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, TypeVar
from urllib.parse import quote

from fastapi import APIRouter, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import HTMLResponse, RedirectResponse, Response
from fastapi.routing import APIRoute

from ashore.errors import AshoreError, RequestInvalid, StorageError
from ashore.fleet.access.guard import Admits, Forbidden, LoginNeeded, PageGuard, visitor_of
from ashore.fleet.access.tokens import UserRole
from ashore.fleet.machine.check_process import PROCESSES, WAITING_MAX, CheckProcesses
from ashore.fleet.operate.commands import BY_NAME, Value
from ashore.fleet.operate.operations import OperationView
from ashore.fleet.server.condition import SeenJob
from ashore.fleet.server.pages.render import HEADERS, render
from ashore.fleet.server.pages.supervision import SupervisedJobs
from ashore.fleet.server.problems import NOT_DONE, disk_failed, status_of
from ashore.topics.open_job import OpenJob

T = TypeVar("T")
PATIENCE_S = 4.0
LOOKS_AT_ONCE = 8
OPERATIONS_SHOWN = 100


class NoSuchJob(Exception):
    """No job has this name."""


class PageRoute(APIRoute):
    """A route of a page."""

    admits: ClassVar[Admits]


class PageFrame:
    """What routes use. One for all routes of a server."""

    def __init__(self, plane: SupervisedJobs, guard: PageGuard, checks: CheckProcesses) -> None:
        self.plane = plane
        self.guard = guard
        self._pool = ThreadPoolExecutor(LOOKS_AT_ONCE, "ashore-page")
        self._checks = checks
        # As many as may wait and one more, which is refused: none of them computes.
        self._checking = ThreadPoolExecutor(PROCESSES + WAITING_MAX + 1, "ashore-check")

    def close(self) -> None:
        """End what pages have others do."""
        for each in (self._pool, self._checking):
            each.shutdown(wait=False, cancel_futures=True)

    def router(self, admits_: Admits = Admits.OPERATORS) -> APIRouter:
        """Return a router whose errors are pages, and that asks who comes before any handler."""
        frame = self

        class GuardedRoute(PageRoute):
            """A route that answers errors with pages."""

            admits = admits_

            def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
                handle, path = super().get_route_handler(), self.path

                async def answer(request: Request) -> Response:
                    try:
                        await frame.guard.admit(request, path, admits_)
                        return await handle(request)
                    except RequestValidationError:
                        unknown = RequestInvalid(
                            "this address is not that of a page", hint="was a part of it left out?"
                        )
                        return frame.answer_error(request, unknown)
                    except (LoginNeeded, Forbidden, NoSuchJob, AshoreError) as error:
                        return frame.answer_error(request, error)
                    except OSError as error:
                        failed = disk_failed(error, Path(frame.plane.directory), NOT_DONE)
                        if failed is None:
                            raise
                        return frame.answer_error(request, failed)

                return answer

        return APIRouter(route_class=GuardedRoute, include_in_schema=False)

    def show(self, request: Request, template: str, /, **values: object) -> HTMLResponse:
        """Return a page for who is logged in. Raises LoginNeeded."""
        visitor = getattr(request.state, "visitor", None) or self.guard.visitor(request)
        shown = {"events": "", "stamp": "", "at": "", "visitor": visitor, **values}
        return HTMLResponse(render(template, **shown), headers=HEADERS)

    def job(self, name: str) -> SeenJob:
        """Return a job as it was last seen. Raises NoSuchJob."""
        found = self.plane.job(name)
        if found is None:
            raise NoSuchJob(name)
        return found

    def live(self, name: str | None) -> dict[str, object]:
        """Return what makes a page live: that of a job, or of all."""
        query = "" if name is None else f"?job={quote(name)}"
        return {"events": f"/ui/events{query}", "stamp": self.plane.stamp(name)}

    def operations(self, request: Request) -> list[OperationView]:
        """Return the newest operations that who is logged in may read."""
        may_read = self.guard.jobs.readable(visitor_of(request).caller)
        found = [each for each in self.plane.operations.all() if may_read(each.request.job)]
        return found[:OPERATIONS_SHOWN]

    def run(self, command: str, job: str, by: str, values: Mapping[str, Value]) -> str:
        """Ask for an operation, and return its id. Raises RequestInvalid, ServerBusy."""
        return self.plane.operations.run(BY_NAME[command], (job, by), values)

    def live_command(self, request: Request, id_: str) -> dict[str, object]:
        """Return what makes the page of a command live, or that of all."""
        stamp = self.stamp_of(request, id_)
        return {"events": f"/ui/events?command={quote(id_) or '*'}", "stamp": stamp}

    def stamp_of(self, request: Request, id_: str) -> str:
        """Return a text that changes with a command, or with all. Raises NotAllowed."""
        caller = visitor_of(request).caller
        if id_ in {"", "*"}:
            found = self.operations(request)
        else:
            self.guard.jobs.require(caller, self.plane.job_of(id_), UserRole.READ)
            found = [each for each in self.plane.operations.all() if each.request.id == id_]
        return "-".join(f"{each.request.id}:{each.outcome}:{each.progress}" for each in found)

    async def look(self, name: str, look: Callable[[OpenJob], T]) -> T:
        """Return what a look at a job's lake gives. Raises AshoreError; NoSuchJob."""
        self.job(name)

        def open_and_look() -> T:
            with self.plane.open_job(name) as opened:
                return look(opened)

        return await self.wait(open_and_look)

    async def check(self, function: Callable[..., T], *values: object) -> T:
        """Return what a function of a module makes of a text, in a process with limits.

        Raises RequestInvalid, ServerBusy, and what the function raises of Ashore's errors.
        """
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(
            self._checking, partial(self._checks.call, function, *values)
        )

    async def wait(self, task: Callable[[], T], patience_s: float = PATIENCE_S) -> T:
        """Return what a task returns, which may wait for a lake or a broker."""
        running = asyncio.get_running_loop().run_in_executor(self._pool, task)
        try:
            return await asyncio.wait_for(asyncio.shield(running), patience_s)
        except TimeoutError:
            raise StorageError(
                f"the lake, or Kafka, has not answered for {patience_s:.0f} s",
                hint="check the network, the NameNodes or the mount, and the brokers; then load "
                "this page again. Jobs wait for as long as it takes",
            ) from None

    def answer_error(self, request: Request, error: Exception) -> Response:
        """Return the page that an error is answered with."""
        try:
            self.guard.visitor(request)
        except LoginNeeded:
            return self._to_login(request)
        match error:
            case Forbidden():
                hint = "load the page again, or log in again"
                return self._message(request, AshoreError(str(error), hint=hint), 403)
            case NoSuchJob():
                missing = AshoreError(
                    f"there is no job file {error}.yaml in {self.plane.directory}",
                    hint="was it renamed or removed? the page of all jobs lists what is there",
                )
                return self._message(request, missing, 404)
            case AshoreError():
                return self._message(request, error, status_of(error))
            case _:
                return self._to_login(request)

    def _to_login(self, request: Request) -> Response:
        query = f"?{request.url.query}" if request.url.query else ""
        here = request.url.path + query
        return RedirectResponse(f"/ui/login?next={quote(here)}", 303, HEADERS)

    def _message(self, request: Request, error: AshoreError, status: int) -> HTMLResponse:
        page = self.show(request, "message.html", title="This did not work", error=error)
        page.status_code = status
        return page
