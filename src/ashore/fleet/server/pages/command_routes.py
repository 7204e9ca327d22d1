"""Pages of what takes long: checks, drills, and the list of all that was asked for."""

import json
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

from fastapi import APIRouter, Request
from fastapi.responses import RedirectResponse, Response

from ashore.errors import RequestInvalid
from ashore.fleet.access.guard import asker_of, form_of
from ashore.fleet.server.pages.checkpoint_view import look_at_checkpoints
from ashore.fleet.server.pages.commands import CommandSeen
from ashore.fleet.server.pages.frame import PageFrame
from ashore.fleet.server.pages.render import HEADERS

PROBLEMS = 50
DOCUMENT_MAX = 200_000
CHECKS = ("verify", "audit")
LIST_DRILLS, RUN_DRILL = "drill list", "drill run"


def command_routes(frame: PageFrame) -> APIRouter:
    """Return the pages of checks, drills and operations."""
    router, commands = frame.router(), frame.plane.commands
    _add_drills(frame, router)

    @router.get("/ui/operations")
    async def operations(request: Request) -> Response:
        shown = {"commands": frame.commands(request), "at": "Operations"}
        live = frame.live_command(request, "")
        return frame.show(request, "operations.html", **shown, **live)

    @router.get("/ui/operations/{id_}")
    async def operation(request: Request, id_: str) -> Response:
        live, command = frame.live_command(request, id_), find(frame, id_)
        shown = {**_answer_of(command), "at": "Operations", **live}
        return frame.show(request, "operation.html", command=command, **shown)

    @router.post("/ui/operations/{id_}/cancel")
    async def cancel(id_: str) -> Response:
        commands.cancel(find(frame, id_).id)
        return RedirectResponse(f"/ui/operations/{id_}", 303, HEADERS)

    @router.get("/ui/jobs/{name}/checks")
    async def checks(request: Request, name: str) -> Response:
        frame.job(name)
        found = [each for each in commands.all() if each.job == name and each.kind in CHECKS]
        shown = {"commands": found, "tab": "Verify and audit", "at": "Jobs"}
        live = frame.live_command(request, "")
        return frame.show(request, "checks.html", name=name, **shown, **live)

    @router.post("/ui/jobs/{name}/checks")
    async def check(request: Request, name: str) -> Response:
        fields, job = form_of(request), frame.job(name)
        kind = fields.get("do", "")
        if kind not in CHECKS:
            raise RequestInvalid(f"{kind} is not a check", hint=f"there is {', '.join(CHECKS)}")
        id_ = commands.start((kind, name, asker_of(request).by), {"job_file": str(job.path)})
        return RedirectResponse(f"/ui/operations/{id_}", 303, HEADERS)

    @router.get("/ui/jobs/{name}/checkpoints")
    async def checkpoints(request: Request, name: str) -> Response:
        view = await frame.look(name, look_at_checkpoints)
        shown = {"view": view, "tab": "Checkpoints", "at": "Jobs"}
        return frame.show(request, "checkpoints.html", name=name, **shown)

    return router


def _add_drills(frame: PageFrame, router: APIRouter) -> None:
    """Add the page of drills. What there is to play, and what came of it, commands say."""
    commands = frame.plane.commands

    @router.get("/ui/drills")
    async def drills(request: Request) -> Response:
        known = commands.all()
        listings = [each for each in known if each.kind == LIST_DRILLS]
        newest = commands.find(listings[0].id) if listings else None
        answer: Mapping[str, Any] = (newest.answer if newest else None) or {}
        runs = [each for each in known if each.kind == RUN_DRILL]
        shown = {"listing": newest, "drills": answer.get("drills", ()), "runs": runs}
        live = frame.live_command(request, "")
        return frame.show(request, "drills.html", at="Drills", **shown, **live)

    @router.post("/ui/drills")
    async def drill(request: Request) -> Response:
        name, by = form_of(request).get("drill", ""), asker_of(request).by
        if not name:
            commands.start((LIST_DRILLS, "", by), {})
            return RedirectResponse("/ui/drills", 303, HEADERS)
        id_ = commands.start((RUN_DRILL, "", by), {"names": [name]})
        return RedirectResponse(f"/ui/operations/{id_}", 303, HEADERS)


def find(frame: PageFrame, id_: str, job: str | None = None) -> CommandSeen:
    """Return a command. Raises RequestInvalid where it is not kept, or is not of the job."""
    found = frame.plane.commands.find(id_)
    if found is None or job not in {None, found.job}:
        raise RequestInvalid(
            f"operation {quote(id_[:40])} is not known: the server may have been started since",
            hint="ask for it again on the page of the job",
        )
    return found


def document_of(answer: Mapping[str, object] | None) -> str:
    """Return an answer as text; cut where long."""
    text = "" if answer is None else json.dumps(answer, indent=1, ensure_ascii=False)
    return text[:DOCUMENT_MAX]


def _answer_of(command: CommandSeen) -> dict[str, object]:
    answer: Mapping[str, Any] = command.answer or {}
    is_verify = command.kind == "verify" and "tables" in answer
    found = answer.get("problems") or answer.get("findings") or ()
    problems = [_words(each) for each in found if isinstance(each, Mapping)][:PROBLEMS]
    return {
        "tables": answer["tables"] if is_verify else (),
        "problems": problems,
        "document": document_of(command.answer),
    }


def _words(problem: Mapping[str, Any]) -> str:
    parts = (problem.get("table"), problem.get("place"), problem.get("text"))
    words = ": ".join(str(each) for each in parts if each)
    hint = problem.get("hint")
    return f"{words}. {hint}" if hint else words
