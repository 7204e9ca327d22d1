"""The dialogue in which the SQL of a job is changed and its state is kept.

What it is: its routes, and `view_check`, the verdicts and the pairs of operators on a page, from
the document that `ashore migrate check --json` prints.
What it promises: every verdict has its reasons; what would be lost is a list of its own.
"""

import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from fastapi import APIRouter, Request
from fastapi.responses import RedirectResponse, Response

from ashore.base.clock import SystemClock
from ashore.base.units import format_size
from ashore.errors import AshoreError, OperationUnknown, RequestInvalid
from ashore.fleet.access.guard import asker_of, form_of, visitor_of
from ashore.fleet.access.permissions import check_labels
from ashore.fleet.operate.commands import Value
from ashore.fleet.operate.operations import OperationView
from ashore.fleet.server.pages.command_routes import answer_of, answer_text, find
from ashore.fleet.server.pages.frame import PageFrame
from ashore.fleet.server.pages.job_text import (
    JobDraft,
    check_size,
    diff_masked,
    read_job_text,
    read_labels,
    read_masked,
)
from ashore.fleet.server.pages.render import HEADERS
from ashore.jobs.file.mapping import write_mapping
from ashore.jobs.file.masking import restore_secrets
from ashore.queries.change.undo import list_migrated

CHIPS = {"full": "good", "convert": "good", "partial": "warn", "lost": "bad", "refused": "bad"}
MEANS = {
    "full": "A start with the new SQL uses the state as it is.",
    "convert": "The state has to be rewritten, and nothing of it is lost.",
    "partial": "The state has to be rewritten, and parts of it start empty.",
    "lost": "The state has to be rewritten, and parts of it are dropped.",
    "refused": "The state cannot be kept: change the SQL, or the mapping, or start a new table.",
}
AUTOMATIC, NEW = "", "-"
LOOK_S = 1.0  # between two looks at an operation
LOSING = frozenset({"partial", "lost"})


@dataclass(frozen=True, slots=True)
class CheckView:
    """A change that was checked.

    Arguments:
        verdict: of the whole.
        queries: the document of each, with its operators.
        choices: id and name of each operator of the new SQL, and the id of the old one that is
            it; empty: none was found.
        olds: stateful operators of the old SQL, id and name.
        losses: what is lost, as sentences.

    """

    verdict: str
    queries: tuple[tuple[Mapping[str, Any], tuple[Mapping[str, Any], ...]], ...]
    choices: tuple[tuple[str, str, str], ...]
    olds: tuple[tuple[str, str], ...]
    losses: tuple[str, ...]

    @property
    def means(self) -> str:
        """What the verdict means."""
        return MEANS.get(self.verdict, "")

    @property
    def must_rewrite(self) -> bool:
        """Whether something is to be applied."""
        return self.verdict in {"convert", "partial", "lost"}


def view_check(answer: Mapping[str, Any]) -> CheckView:
    """Return what a check has found."""
    operators: Sequence[Mapping[str, Any]] = answer["operators"]
    pairs = {each["new"]: each["old"] for each in answer["mapping"]}
    queries = tuple(
        (query, tuple(each for each in operators if each["query"] == query["query"]))
        for query in answer["queries"]
    )
    choices = [
        (each["new"], each["name"], pairs.get(each["new"], "")) for each in operators if each["new"]
    ]
    olds = {each["old"]: each["name"] for each in operators if each["old"]}
    return CheckView(
        answer["verdict"], queries, tuple(choices), tuple(sorted(olds.items())), _losses(queries)
    )


def _losses(
    queries: Sequence[tuple[Mapping[str, Any], Sequence[Mapping[str, Any]]]],
) -> tuple[str, ...]:
    found = []
    for query, operators in queries:
        names = {each["old"]: each["name"] for each in operators}
        for each in operators:
            if each["verdict"] in LOSING:
                columns = [
                    c["name"] for c in each["columns"] if c["verdict"] in {"partial", "lost"}
                ]
                of = f": {', '.join(columns)}" if columns else ""
                found.append(f"{query['query']}, {each['name']} is {each['verdict']}{of}")
        lost = query["lost"] or {"states": []}
        for state in lost["states"]:
            rows = (
                "rows that no file counts" if state["rows"] is None else f"{state['rows']:,} rows"
            )
            about = "about " if state["is_estimate"] else ""
            size = format_size(state["bytes"])
            name = names.get(state["operator"]) or "the whole query"
            found.append(f"{query['query']}, {name}: {about}{rows}, up to {size}")
    return tuple(found)


def mapping_of(fields: Mapping[str, str]) -> tuple[list[tuple[str, str]], list[tuple[str, str]]]:
    """Return pins and forbids of a form: fields `map:NEW` with the id of an old operator.

    `old:NEW` is the pair that was found; to choose none forbids it.
    """
    pins, forbids = [], []
    for name, old in fields.items():
        if not name.startswith("map:"):
            continue
        new = name.removeprefix("map:")
        found = fields.get(f"old:{new}", "")
        if old == NEW and found:
            forbids.append((found, new))
        elif old not in {AUTOMATIC, NEW}:
            pins.append((old, new))
    return pins, forbids


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
        with suppress(AshoreError):  # SQL may be written while a lake does not answer
            migrated = await frame.look(name, list_migrated)
            return _show(frame, request, "migrate.html", name, text=text, migrated=migrated)
        return _show(frame, request, "migrate.html", name, text=text, migrated=())

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
        answer = answer_of(frame, command)
        shown = {"draft": draft, "view": _view(answer), "diff": diff, **live}
        shown |= {"document": answer_text(answer), "failure": answer.get("error")}
        return _show(frame, request, "migration.html", name, command=command, **shown)


def _add_undo(frame: PageFrame, router: APIRouter) -> None:
    @router.get(ROOT + "/undo")
    async def ask_undo(request: Request, name: str) -> Response:
        migrated = await frame.look(name, list_migrated)
        shown = {"runs": _runs(frame, name), "migrated": migrated}
        return _show(frame, request, "migrate_undo.html", name, **shown)

    @router.post(ROOT + "/undo")
    async def undo(request: Request, name: str) -> Response:
        fields, job = form_of(request), frame.job(name)
        query, asker = fields.get("query", "").strip(), asker_of(request)
        values = without_empty(job_file=str(job.path), query=query, why=asker.why)
        id_ = frame.run("migrate undo", name, asker.by, values)
        return RedirectResponse(f"/ui/operations/{id_}", 303, HEADERS)


def _add_apply(frame: PageFrame, router: APIRouter) -> None:
    drafts, operations, clock = frame.plane.drafts, frame.plane.operations, SystemClock()

    @router.get(ROOT + "/{draft}/apply")
    async def ask(request: Request, name: str, draft: str, check: str) -> Response:
        command = find(frame, check, name)
        shown = {"draft": draft, "view": _verdict(frame, command), "runs": _runs(frame, name)}
        return _show(frame, request, "migrate_apply.html", name, command=command, **shown)

    @router.post(ROOT + "/{draft}/apply")
    async def apply(request: Request, name: str, draft: str) -> Response:
        fields, job = form_of(request), frame.job(name)
        asker, found = asker_of(request), drafts.find(name, draft)
        caller = visitor_of(request).caller
        labels = await frame.check(read_labels, name, read_job_text(found.path))
        check_labels(caller, name, labels)  # before the state is rewritten
        view = _verdict(frame, find(frame, fields.get("check", ""), name))
        if view.losses and fields.get("agreed") != "yes":
            raise RequestInvalid(
                "this change loses state, and the loss was not accepted",
                hint="tick `I agree that this is lost`, or choose other SQL",
            )
        values = without_empty(
            job_file=str(job.path),
            to=str(found.path),
            accept=view.verdict if view.must_rewrite else "",
            mapping=str(found.mapping) if found.mapping.is_file() else "",
            why=asker.why,
        )
        text = read_job_text(found.path)

        id_ = frame.run("migrate apply", name, asker.by, values)

        def replace_file() -> None:
            """Let the next start have the new SQL: the job file is the truth."""
            with suppress(OperationUnknown):
                while not operations.get(id_).is_final:
                    clock.sleep(LOOK_S)
                if operations.get(id_).exit_code == 0:
                    frame.plane.deploy(name, text, caller)

        threading.Thread(target=replace_file, daemon=True).start()
        return RedirectResponse(f"/ui/operations/{id_}", 303, HEADERS)


def _begin_check(frame: PageFrame, request: Request, name: str, draft: JobDraft) -> Response:
    mapping = str(draft.mapping) if draft.mapping.is_file() else ""
    values = without_empty(job_file=str(frame.job(name).path), to=str(draft.path), mapping=mapping)
    id_ = frame.run("migrate check", name, asker_of(request).by, values)
    target = f"/ui/jobs/{quote(name)}/migrate/{draft.id}?check={id_}"
    return RedirectResponse(target, 303, HEADERS)


def without_empty(**values: str) -> dict[str, Value]:
    """Return the values of a command that are set."""
    return {name: value for name, value in values.items() if value}


def _show(
    frame: PageFrame, request: Request, template: str, name: str, **shown: object
) -> Response:
    frame.job(name)
    values = {"tab": "Versions", "at": "Jobs", "chips": CHIPS, **shown}
    return frame.show(request, template, name=name, **values)


def _runs(frame: PageFrame, name: str) -> bool:
    supervised = frame.job(name).supervised
    return supervised is not None and supervised.process is not None


def _view(answer: Mapping[str, Any]) -> CheckView | None:
    return view_check(answer) if "verdict" in answer else None


def _verdict(frame: PageFrame, command: OperationView) -> CheckView:
    """Return what a check has found. Raises RequestInvalid where it found nothing."""
    view = _view(answer_of(frame, command))
    if view is None:
        raise RequestInvalid("this check has no verdict", hint="check the SQL again")
    return view
