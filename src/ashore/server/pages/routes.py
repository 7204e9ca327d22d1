"""The addresses of the pages.

What it is: `pages_router`, and `add_pages`, which mounts it with its answers to errors.
What it promises: what cannot be read is a page that says why and what to do, with a status that
programs understand. Looks at a lake run in threads: a slow one delays no other page.
What it must not know: how anything is found out.
"""

import asyncio
from collections.abc import AsyncIterator
from urllib.parse import quote, unquote

from fastapi import APIRouter, FastAPI, Request
from fastapi.responses import (
    FileResponse,
    HTMLResponse,
    RedirectResponse,
    Response,
    StreamingResponse,
)

from ashore.errors import AshoreError
from ashore.server.pages import fleet_view
from ashore.server.pages.control_plane import ControlPlane
from ashore.server.pages.guard import Forbidden, LoginNeeded, PageGuard, TokenAccess, read_form
from ashore.server.pages.render import HEADERS, STATIC, render

STAMP_S = 1.0
STATIC_FILES = {path.name: path for path in STATIC.iterdir()}


def show(template: str, request: Request, guard: PageGuard, **values: object) -> HTMLResponse:
    """Return a page for who is logged in. Raises LoginNeeded."""
    visitor = guard.visitor(request)
    values = {"events": "", "at": "", **values}
    return HTMLResponse(render(template, visitor=visitor, **values), headers=HEADERS)


def add_pages(app: FastAPI, site: ControlPlane, access: TokenAccess) -> None:
    """Add the pages to an application, and what they answer to errors."""
    guard = PageGuard(access, site.now_ms)
    for each in (_session_routes(guard), _job_routes(site, guard), _event_routes(site, guard)):
        app.include_router(each, include_in_schema=False)

    async def to_login(request: Request, _: Exception) -> Response:
        if guard.is_open:
            return _logged_in(guard, "", _here(request))
        return RedirectResponse(f"/ui/login?next={quote(_here(request))}", 303, HEADERS)

    async def forbid(request: Request, error: Exception) -> Response:
        refused = AshoreError(str(error), hint="load the page again, or log in again")
        return _message(request, guard, refused, 403)

    app.add_exception_handler(LoginNeeded, to_login)
    app.add_exception_handler(Forbidden, forbid)


def _here(request: Request) -> str:
    query = f"?{request.url.query}" if request.url.query else ""
    return request.url.path + query


def _message(request: Request, guard: PageGuard, error: AshoreError, status: int) -> HTMLResponse:
    visitor = guard.visitor(request)
    text = render(
        "message.html", visitor=visitor, events="", at="", title="This did not work", error=error
    )
    return HTMLResponse(text, status, HEADERS)


def _logged_in(guard: PageGuard, token: str, target: str) -> Response:
    cookie = guard.log_in(token)
    if cookie is None:
        text = render("login.html", visitor=None, events="", at="", refused=True, next=target)
        return HTMLResponse(text, 401, HEADERS)
    is_here = target.startswith("/ui/") and not target.startswith("/ui//")
    answer = RedirectResponse(target if is_here else "/ui/jobs", 303, HEADERS)
    answer.set_cookie(**cookie)  # type: ignore[arg-type]
    return answer


def _session_routes(guard: PageGuard) -> APIRouter:
    router = APIRouter()

    @router.get("/")
    async def root() -> Response:
        return RedirectResponse("/ui/jobs", 303)

    @router.get("/ui/login")
    async def login(next: str = "/ui/jobs") -> Response:  # noqa: A002 - what the address calls it
        values = {"visitor": None, "events": "", "at": "", "refused": False, "next": next}
        return HTMLResponse(render("login.html", **values), headers=HEADERS)

    @router.post("/ui/login")
    async def take_token(request: Request) -> Response:
        fields = await read_form(request)
        return _logged_in(guard, fields.get("token", "").strip(), fields.get("next", ""))

    @router.post("/ui/logout")
    async def logout(request: Request) -> Response:
        await guard.question(request)
        answer = RedirectResponse("/ui/login", 303, HEADERS)
        answer.delete_cookie("ashore_session", path="/")
        return answer

    @router.get("/ui/static/{name}")
    async def static(name: str) -> Response:
        path = STATIC_FILES.get(name)
        if path is None:
            return Response("there is no such file", 404)
        return FileResponse(path, headers={**HEADERS, "cache-control": "no-cache"})

    return router


def _job_routes(site: ControlPlane, guard: PageGuard) -> APIRouter:
    router = APIRouter()

    @router.get("/ui/jobs")
    async def jobs(request: Request, sort: str = "need", q: str = "") -> Response:
        live = {"events": "/ui/events", "stamp": site.stamp(None)}
        view = fleet_view.view_fleet(site.jobs(), sort, q)
        values = {"view": view, "directory": site.directory, "at": "Jobs", **live}
        return show("jobs.html", request, guard, **values)

    return router


def _event_routes(site: ControlPlane, guard: PageGuard) -> APIRouter:
    router = APIRouter()

    @router.get("/ui/events")
    async def events(request: Request, job: str = "") -> Response:
        guard.visitor(request)
        stamps = _stamps(site, request, unquote(job) or None)
        return StreamingResponse(stamps, media_type="text/event-stream", headers=HEADERS)

    return router


async def _stamps(site: ControlPlane, request: Request, job: str | None) -> AsyncIterator[str]:
    """Yield an event whenever the page would show something else."""
    last = None
    while not await request.is_disconnected():
        stamp = site.stamp(job)
        if stamp != last:
            last = stamp
            yield f"event: stamp\ndata: {stamp}\n\n"
        else:
            yield ": still here\n\n"
        await asyncio.sleep(STAMP_S)
