"""Pages of operations: checks, drills, and the list of all."""

import json
from collections.abc import Mapping
from functools import partial
from typing import Any
from urllib.parse import quote

from fastapi import APIRouter, Request
from fastapi.responses import RedirectResponse, Response

from ashore.errors import OperationUnknown, RequestInvalid
from ashore.fleet.access.guard import asker_of, form_of
from ashore.fleet.operate.operations import OperationView
from ashore.fleet.server.pages.checkpoint_view import find_directory, look_at_checkpoints
from ashore.fleet.server.pages.frame import PageFrame
from ashore.fleet.server.pages.render import HEADERS

PROBLEMS = 50
DOCUMENT_MAX = 200_000
CHECKS = ("verify", "audit")
SAVEPOINT = "checkpoint savepoint"
LIST_DRILLS, RUN_DRILL = "drill list", "drill run"


def command_routes(frame: PageFrame) -> APIRouter:
    """Return the pages of checks, drills and operations."""
    router = frame.router()
    _add_drills(frame, router)

    @router.get("/ui/operations")
    async def operations(request: Request) -> Response:
        shown = {"commands": frame.operations(request), "at": "Operations"}
        live = frame.live_command(request, "")
        return frame.show(request, "operations.html", **shown, **live)

    @router.get("/ui/operations/{id_}")
    async def operation(request: Request, id_: str) -> Response:
        live, command = frame.live_command(request, id_), find(frame, id_)
        shown = {**_answer_of(command, answer_of(frame, command)), "at": "Operations", **live}
        return frame.show(request, "operation.html", command=command, **shown)

    @router.post("/ui/operations/{id_}/cancel")
    async def cancel(id_: str) -> Response:
        frame.plane.operations.cancel(find(frame, id_).request.id)
        return RedirectResponse(f"/ui/operations/{id_}", 303, HEADERS)

    @router.get("/ui/jobs/{name}/checks")
    async def checks(request: Request, name: str) -> Response:
        frame.job(name)
        known = [each for each in frame.operations(request) if each.request.job == name]
        found = [each for each in known if each.request.command in CHECKS]
        shown = {"commands": found, "tab": "Verify and audit", "at": "Jobs"}
        live = frame.live_command(request, "")
        return frame.show(request, "checks.html", name=name, **shown, **live)

    @router.post("/ui/jobs/{name}/checks")
    async def check(request: Request, name: str) -> Response:
        fields, job = form_of(request), frame.job(name)
        kind = fields.get("do", "")
        if kind not in CHECKS:
            raise RequestInvalid(f"{kind} is not a check", hint=f"there is {', '.join(CHECKS)}")
        id_ = frame.run(kind, name, asker_of(request).by, {"job_file": str(job.path)})
        return RedirectResponse(f"/ui/operations/{id_}", 303, HEADERS)

    @router.get("/ui/jobs/{name}/checkpoints")
    async def checkpoints(request: Request, name: str) -> Response:
        view = await frame.look(name, look_at_checkpoints)
        shown = {"view": view, "tab": "Checkpoints", "at": "Jobs"}
        return frame.show(request, "checkpoints.html", name=name, **shown)

    @router.post("/ui/jobs/{name}/checkpoints")
    async def take_savepoint(request: Request, name: str) -> Response:
        query, job = form_of(request).get("query", ""), frame.job(name)
        directory = await frame.look(name, partial(find_directory, query))
        values = {"where": str(job.path), "query": query, "to": directory}
        id_ = frame.run(SAVEPOINT, name, asker_of(request).by, values)
        return RedirectResponse(f"/ui/operations/{id_}", 303, HEADERS)

    return router


def _add_drills(frame: PageFrame, router: APIRouter) -> None:
    """Add the page of drills. What there is to play, and how it ended, operations say."""

    @router.get("/ui/drills")
    async def drills(request: Request) -> Response:
        known = frame.operations(request)
        newest = next((each for each in known if each.request.command == LIST_DRILLS), None)
        answer = {} if newest is None else answer_of(frame, newest)
        runs = [each for each in known if each.request.command == RUN_DRILL]
        shown = {"listing": newest, "drills": answer.get("drills", ()), "runs": runs}
        live = frame.live_command(request, "")
        return frame.show(request, "drills.html", at="Operations", **shown, **live)

    @router.post("/ui/drills")
    async def drill(request: Request) -> Response:
        name, by = form_of(request).get("drill", ""), asker_of(request).by
        if not name:
            frame.run(LIST_DRILLS, "", by, {})
            return RedirectResponse("/ui/drills", 303, HEADERS)
        id_ = frame.run(RUN_DRILL, "", by, {"names": [name]})
        return RedirectResponse(f"/ui/operations/{id_}", 303, HEADERS)


def find(frame: PageFrame, id_: str, job: str | None = None) -> OperationView:
    """Return an operation. Raises RequestInvalid where it is not kept, or is not of the job."""
    try:
        found = frame.plane.operations.get(id_)
    except OperationUnknown:
        found = None
    if found is None or job not in {None, found.request.job}:
        raise RequestInvalid(
            f"operation {quote(id_[:40])} is not known: the server may have been started since",
            hint="ask for it again on the page of the job",
        )
    return found


def answer_of(frame: PageFrame, command: OperationView) -> Mapping[str, Any]:
    """Return the document that an operation printed; empty: none, or it has not ended."""
    answer = frame.plane.operations.result(command)
    return answer if isinstance(answer, dict) else {}


def answer_text(answer: Mapping[str, object]) -> str:
    """Return an answer as text; cut where long."""
    text = json.dumps(answer, indent=1, ensure_ascii=False) if answer else ""
    return text[:DOCUMENT_MAX]


def _answer_of(command: OperationView, answer: Mapping[str, Any]) -> dict[str, object]:
    is_verify = command.request.command == "verify" and "tables" in answer
    found = answer.get("problems") or answer.get("findings") or ()
    problems = [_words(each) for each in found if isinstance(each, Mapping)][:PROBLEMS]
    return {
        "tables": answer["tables"] if is_verify else (),
        "problems": problems,
        "failure": answer.get("error"),
        "document": answer_text(answer),
    }


def _words(problem: Mapping[str, Any]) -> str:
    parts = (problem.get("table"), problem.get("place"), problem.get("text"))
    words = ": ".join(str(each) for each in parts if each)
    hint = problem.get("hint")
    return f"{words}. {hint}" if hint else words
