"""The dialogue in which the SQL of a job is changed and its state is kept.

What it must not know: how a verdict is found, how state is rewritten: commands do both.
"""

from urllib.parse import quote

from fastapi import APIRouter, Request
from fastapi.responses import RedirectResponse, Response

from ashore.errors import RequestInvalid
from ashore.fleet.access.guard import asker_of, form_of, visitor_of
from ashore.fleet.operate.commands import Value
from ashore.fleet.server.deploy_check import check_labels
from ashore.fleet.server.pages.command_routes import document_of, find
from ashore.fleet.server.pages.commands import CommandSeen
from ashore.fleet.server.pages.drafts import JobDraft
from ashore.fleet.server.pages.frame import PageFrame
from ashore.fleet.server.pages.job_text import (
    check_size,
    diff_masked,
    read_labels,
    read_masked,
    read_text,
)
from ashore.fleet.server.pages.migration_view import CHIPS, CheckView, mapping_of, view_check
from ashore.fleet.server.pages.render import HEADERS
from ashore.jobs.file.mapping import write_mapping
from ashore.jobs.file.masking import restore_secrets

ROOT = "/ui/jobs/{name}/migrate"


def migration_routes(frame: PageFrame) -> APIRouter:
    """Return the pages of a migration."""
    router = frame.router()
    _add_undo(frame, router)  # before what takes any name for that of a draft
    _add_check(frame, router)
    _add_apply(frame, router)
    return router


def _add_check(frame: PageFrame, router: APIRouter) -> None:
    drafts = frame.plane.drafts

    @router.get(ROOT)
    async def write(request: Request, name: str, draft: str = "") -> Response:
        job = frame.job(name)
        path = drafts.find(name, draft).path if draft else job.path
        text = (await frame.check(read_masked, path)).text
        return _show(frame, request, "migrate.html", name, text=text)

    @router.post(ROOT)
    async def check(request: Request, name: str, draft: str = "") -> Response:
        fields, job = form_of(request), frame.job(name)
        paths = [drafts.find(name, draft).path, job.path] if draft else [job.path]
        kept = [(await frame.check(read_masked, each)).kept for each in paths]
        text = check_size(fields.get("text", "").replace("\r\n", "\n"), f"{name}.yaml")
        text = restore_secrets(text, *kept)
        return _begin_check(frame, request, name, drafts.write(name, text))

    @router.post(ROOT + "/{draft}/map")
    async def map_operators(request: Request, name: str, draft: str) -> Response:
        fields = form_of(request)
        found = drafts.find(name, draft)
        pins, forbids = mapping_of(fields)
        pairs = [(old, new, "chosen on a page") for old, new in pins]
        found.mapping.write_text(write_mapping(pairs, forbids), "utf-8")
        return _begin_check(frame, request, name, found)

    @router.get(ROOT + "/{draft}")
    async def verdict(request: Request, name: str, draft: str, check: str) -> Response:
        live, command = frame.live_command(request, check), find(frame, check, name)
        found = drafts.find(name, draft)
        diff = await frame.check(diff_masked, found.before, found.path)
        view, document = _view(command), document_of(command.answer)
        shown = {"draft": draft, "view": view, "diff": diff, "document": document, **live}
        return _show(frame, request, "migration.html", name, command=command, **shown)


def _add_undo(frame: PageFrame, router: APIRouter) -> None:
    @router.get(ROOT + "/undo")
    async def ask_undo(request: Request, name: str) -> Response:
        return _show(frame, request, "migrate_undo.html", name, runs=_runs(frame, name))

    @router.post(ROOT + "/undo")
    async def undo(request: Request, name: str) -> Response:
        fields, job = form_of(request), frame.job(name)
        query, asker = fields.get("query", "").strip(), asker_of(request)
        values = given(job_file=str(job.path), query=query, why=asker.why)
        id_ = frame.plane.commands.start(("migrate undo", name, asker.by), values)
        return RedirectResponse(f"/ui/operations/{id_}", 303, HEADERS)


def _add_apply(frame: PageFrame, router: APIRouter) -> None:
    drafts, commands = frame.plane.drafts, frame.plane.commands

    @router.get(ROOT + "/{draft}/apply")
    async def ask(request: Request, name: str, draft: str, check: str) -> Response:
        command = find(frame, check, name)
        shown = {"draft": draft, "view": _verdict(command), "runs": _runs(frame, name)}
        return _show(frame, request, "migrate_apply.html", name, command=command, **shown)

    @router.post(ROOT + "/{draft}/apply")
    async def apply(request: Request, name: str, draft: str) -> Response:
        fields, job = form_of(request), frame.job(name)
        asker, found = asker_of(request), drafts.find(name, draft)
        caller = visitor_of(request).caller
        labels = await frame.check(read_labels, name, read_text(found.path))
        check_labels(caller, name, labels)  # before the state is rewritten
        view = _verdict(find(frame, fields.get("check", ""), name))
        if view.losses and fields.get("agreed") != "yes":
            raise RequestInvalid(
                "this change loses state, and nobody has agreed to it",
                hint="tick `I agree that this is lost`, or choose other SQL",
            )
        values = given(
            job_file=str(job.path),
            to=str(found.path),
            accept=view.verdict if view.must_rewrite else "",
            mapping=str(found.mapping) if found.mapping.is_file() else "",
            why=asker.why,
        )
        text = read_text(found.path)

        def replace_file(ended: CommandSeen) -> None:
            """Let the next start have the new SQL: the job file is the truth."""
            if ended.exit_code == 0:
                frame.plane.deploy(name, text, caller)

        id_ = commands.start(("migrate apply", name, asker.by), values, replace_file)
        return RedirectResponse(f"/ui/operations/{id_}", 303, HEADERS)


def _begin_check(frame: PageFrame, request: Request, name: str, draft: JobDraft) -> Response:
    mapping = str(draft.mapping) if draft.mapping.is_file() else ""
    values = given(job_file=str(frame.job(name).path), to=str(draft.path), mapping=mapping)
    id_ = frame.plane.commands.start(("migrate check", name, asker_of(request).by), values)
    target = f"/ui/jobs/{quote(name)}/migrate/{draft.id}?check={id_}"
    return RedirectResponse(target, 303, HEADERS)


def given(**values: str) -> dict[str, Value]:
    """Return those of a command's values that somebody gave."""
    return {name: value for name, value in values.items() if value}


def _show(
    frame: PageFrame, request: Request, template: str, name: str, **shown: object
) -> Response:
    frame.job(name)
    values = {"tab": "Versions", "at": "Jobs", "chips": CHIPS, **shown}
    return frame.show(request, template, name=name, **values)


def _runs(frame: PageFrame, name: str) -> bool:
    supervised = frame.job(name).supervised
    return supervised is not None and supervised.pid is not None


def _view(command: CommandSeen) -> CheckView | None:
    answer = command.answer
    return view_check(answer) if answer and "verdict" in answer else None


def _verdict(command: CommandSeen) -> CheckView:
    """Return what a check has found. Raises RequestInvalid where it found nothing."""
    view = _view(command)
    if view is None:
        raise RequestInvalid("this check has no verdict", hint="check the SQL again")
    return view
