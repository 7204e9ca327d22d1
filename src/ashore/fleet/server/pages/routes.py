"""The addresses of the pages.

What it is: `pages_router`: log in, all jobs, events, and the routers of the other pages.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from fastapi import APIRouter, Request
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import (
    FileResponse,
    HTMLResponse,
    RedirectResponse,
    Response,
    StreamingResponse,
)

from ashore.errors import NotAllowed
from ashore.fleet.access.guard import (
    COOKIE,
    LOGIN_BYTES_MAX,
    Admits,
    LoginNeeded,
    PageGuard,
    RequestAccess,
    read_form,
    visitor_of,
)
from ashore.fleet.access.permissions import JobAccess
from ashore.fleet.access.tokens import Grant, UserRole
from ashore.fleet.machine.check_process import CheckProcesses
from ashore.fleet.server.pages.command_routes import command_routes
from ashore.fleet.server.pages.fleet_page import FleetPage, ListedRows
from ashore.fleet.server.pages.frame import PageFrame
from ashore.fleet.server.pages.job_routes import job_routes
from ashore.fleet.server.pages.migration_routes import migration_routes
from ashore.fleet.server.pages.render import HEADERS, STATIC, render
from ashore.fleet.server.pages.supervision import SupervisedJobs
from ashore.fleet.server.pages.versions_svg import STYLE
from ashore.fleet.server.pages.write_routes import write_routes

STAMP_S = 1.0
STATIC_FILES = {path.name: path for path in STATIC.iterdir()}


def pages_router(plane: SupervisedJobs, access: RequestAccess, checks: CheckProcesses) -> APIRouter:
    """Return all pages."""
    guard = PageGuard(access, JobAccess(plane), plane.now_ms)
    frame = PageFrame(plane, guard, checks)

    @asynccontextmanager
    async def living(_app: object) -> AsyncIterator[None]:
        yield
        frame.close()

    router = APIRouter(include_in_schema=False, lifespan=living)
    parts = (
        *(_login_routes, _logout_routes, _fleet_routes, job_routes, write_routes),
        *(command_routes, migration_routes),
    )
    for each in (part(frame) for part in parts):
        router.include_router(each)
    return router


def _login_routes(frame: PageFrame) -> APIRouter:
    """Return the routes without a token: the way in."""
    router, guard = frame.router(Admits.ANYBODY), frame.guard

    @router.get("/")
    async def root() -> Response:
        return RedirectResponse("/ui/jobs", 303)

    @router.get("/ui/login")
    async def login(
        request: Request,
        next: str = "/ui/jobs",  # noqa: A002 - what the address calls it
    ) -> Response:
        return _login_page(next, 200, guard.unknown_user(request))

    @router.post("/ui/login")
    async def take_token(request: Request) -> Response:
        fields = await read_form(request, LOGIN_BYTES_MAX)
        target = fields.get("next", "")
        cookie = guard.log_in(request, fields.get("token", "").strip())
        if cookie is None:
            return _login_page(target, 401)
        is_here = target.startswith("/ui/") and "\\" not in target
        answer = RedirectResponse(target if is_here else "/ui/jobs", 303, HEADERS)
        is_tls = request.url.scheme == "https"
        answer.set_cookie(**cookie, secure=is_tls)  # type: ignore[arg-type]
        return answer

    @router.get("/ui/static/versions.css")
    async def versions_style() -> Response:
        text = f".versions-picture {{ {STYLE} }}"
        return Response(text, headers=HEADERS, media_type="text/css")

    @router.get("/ui/static/{name}")
    async def static(name: str) -> Response:
        path = STATIC_FILES.get(name)
        if path is None:
            return Response("there is no such file", 404)
        return FileResponse(path, headers={**HEADERS, "cache-control": "no-cache"})

    return router


def _logout_routes(frame: PageFrame) -> APIRouter:
    router = frame.router(Admits.READERS)

    @router.post("/ui/logout")
    async def logout(request: Request) -> Response:  # noqa: ARG001 - its guard has read it
        answer = RedirectResponse("/ui/login", 303, HEADERS)
        answer.delete_cookie(COOKIE, path="/")
        return answer

    return router


def _login_page(target: str, status: int, user: str = "") -> HTMLResponse:
    shown = {"visitor": None, "events": "", "stamp": "", "at": "", "next": target}
    text = render("login.html", **shown, refused=status != 200, user=user)
    return HTMLResponse(text, status, HEADERS)


def _fleet_routes(frame: PageFrame) -> APIRouter:
    router, plane = frame.router(), frame.plane
    page = FleetPage(plane)

    @router.get("/ui/jobs")
    async def jobs(request: Request, sort: str = "need", q: str = "") -> Response:
        return await show(request, ListedRows(sort, q, scope_of(request)), "Jobs")

    @router.get("/ui/wall")
    async def wall(request: Request, q: str = "") -> Response:
        return await show(request, ListedRows("need", q, scope_of(request), is_wall=True), "Wall")

    def scope_of(request: Request) -> tuple[Grant, ...]:
        return frame.guard.jobs.scope(visitor_of(request).caller)

    async def show(request: Request, which: ListedRows, at: str) -> Response:
        made = page.known(which)
        if made is None:
            made = await run_in_threadpool(page.make, which)
        live = {**frame.live(None), "stamp": made.stamp}
        return frame.show(request, "jobs.html", main=made.html, at=at, **live)

    @router.get("/ui/events")
    async def events(request: Request, job: str = "", command: str = "") -> Response:
        def find_stamp() -> str:
            if command:
                return frame.stamp_of(request, command)
            if job:
                frame.guard.jobs.require(visitor_of(request).caller, job, UserRole.READ)
            return plane.stamp(job or None)

        find_stamp()  # a caller who may not read it is refused at once
        stamps = _stamps(find_stamp, request, frame.guard)
        return StreamingResponse(stamps, media_type="text/event-stream", headers=HEADERS)

    return router


async def _stamps(
    find_stamp: Callable[[], str], request: Request, guard: PageGuard
) -> AsyncIterator[str]:
    """Yield an event whenever the page would show something else, while the login is good."""
    last = None
    while not await request.is_disconnected():
        try:
            request.state.visitor = guard.visitor(request)  # with the rules as they are now
            stamp = find_stamp()
        except (LoginNeeded, NotAllowed):
            return
        if stamp != last:
            last = stamp
            yield f"event: stamp\ndata: {stamp}\n\n"
        else:
            yield ": still here\n\n"
        await asyncio.sleep(STAMP_S)
