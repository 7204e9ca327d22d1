"""Operations: `/api/operations`, and those of a job below its own address.

What it is: a route for each command of the command line that is long work or a look, with its
arguments and options as a body; its result.
What it promises: an address and a body for each command, made from the command line itself; a path
in a body is confined to the roots of the server.
"""

import asyncio
import re
import types
from collections.abc import Callable, Mapping
from functools import partial
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query, Request
from fastapi.responses import FileResponse, PlainTextResponse, Response
from pydantic import BaseModel, ConfigDict, Field, create_model
from starlette.concurrency import run_in_threadpool

from ashore.errors import JobUnknown
from ashore.fleet.access.guard import GuardedRoute
from ashore.fleet.access.permissions import JobAccess
from ashore.fleet.access.tokens import Caller
from ashore.fleet.operate.commands import COMMANDS, CommandTwin, Parameter, Value
from ashore.fleet.operate.operations import OperationState, OperationView
from ashore.fleet.records.server_files import Asker
from ashore.fleet.server.api.jobs import Name
from ashore.fleet.server.context import Asking, Context, Shared, job_access_of, may_read_of
from ashore.fleet.server.models import OperationDocument, OperationList

WAIT_S_MAX, LOOK_S = 60.0, 0.2
TEXT_MAX, VALUES_MAX = 10_000, 1_000

_OTHER = re.compile(r"\W+")

_Endpoint = Callable[..., OperationDocument]

router = APIRouter(route_class=GuardedRoute, tags=["operations"])


class _Body(BaseModel):
    """What a command is asked to do."""

    model_config = ConfigDict(extra="forbid")
    own_as_json: bool = Field(
        default=True, alias="as_json", description="whether the result is JSON or text for people"
    )


def body_of(command: CommandTwin, parameters: tuple[Parameter, ...]) -> type[_Body]:
    """Return the model of the body of a command. Fields have names that a model has no use for."""
    fields: dict[str, Any] = {}
    for each in parameters:
        kind = _type_of(each)
        more: dict[str, Any] = {"alias": each.name, "description": each.help}
        if each.many:
            kind, more["max_length"] = types.GenericAlias(list, (kind,)), VALUES_MAX
        if each.required:
            fields[f"own_{each.name}"] = (kind, Field(**more))
        elif each.kind == "flag":
            fields[f"own_{each.name}"] = (kind, Field(default=False, **more))
        else:
            fields[f"own_{each.name}"] = (kind | None, Field(default=None, **more))
    name = "".join(word.capitalize() for word in command.name.replace("-", " ").split())
    name += "Request" if len(parameters) == len(command.parameters) else "OfJobRequest"
    made: type[_Body] = create_model(name, __base__=_Body, __doc__=command.help, **fields)
    return made


def _type_of(parameter: Parameter) -> Any:
    if parameter.choices:
        return Literal[parameter.choices]
    text = Annotated[str, Field(max_length=TEXT_MAX, pattern=r"^[^\x00]*$")]
    kinds = {"flag": bool, "integer": int, "number": float}
    return kinds.get(parameter.kind, text)


def _values_of(body: _Body) -> dict[str, Value]:
    values = body.model_dump(by_alias=True)
    values.pop("as_json")
    return values


def _add_routes(command: CommandTwin) -> None:
    if command.target is not None:
        path = f"/api/jobs/{{job}}/operations/{command.route}"
        _add(path, command, _asking_of_job(command, body_of(command, command.own)))
    if command.target is None or command.target.kind == "place":
        body = body_of(command, command.parameters)
        _add(f"/api/operations/{command.route}", command, _asking(command, body))


def _add(path: str, command: CommandTwin, endpoint: Callable[..., OperationDocument]) -> None:
    router.add_api_route(
        path,
        endpoint,
        methods=["POST"],
        status_code=202,
        summary=command.help,
        operation_id=_OTHER.sub("_", path.strip("/")),
    )


def _asking_of_job(
    command: CommandTwin, body_model: type[_Body]
) -> Callable[..., OperationDocument]:
    def ask(
        request: Request,
        job: Name,
        context: Shared,
        caller: Asking,
        body: body_model,  # type: ignore[valid-type]
    ) -> OperationDocument:
        found = context.supervisor.views.get(job)
        if found is None or found.file is None:
            raise JobUnknown(f"there is no job file of {job!r}", hint="GET /api/jobs lists them")
        values = _values_of(body)
        target = command.target
        if target is not None:
            path = str(found.file.path)
            values[target.name] = [path] if target.many else path
        _check_paths(job_access_of(request), caller, command, job, values)
        return _ask(context, caller, command, (job, values, body))

    return ask


def _asking(command: CommandTwin, body_model: type[_Body]) -> _Endpoint:
    def ask(
        request: Request,
        context: Shared,
        caller: Asking,
        body: body_model,  # type: ignore[valid-type]
    ) -> OperationDocument:
        values = _values_of(body)
        _check_paths(job_access_of(request), caller, command, "", values)
        return _ask(context, caller, command, ("", values, body))

    return ask


def _check_paths(
    access: JobAccess, caller: Caller, command: CommandTwin, job: str, values: Mapping[str, Value]
) -> None:
    """Check the paths that a request names. Raises NotAllowed."""
    if any(values.get(each.name) for each in command.parameters if each.kind == "path"):
        is_written = any(each.flag and values.get(each.name) for each in command.parameters)
        access.check_paths(caller, job, writes=is_written and not command.changes)


def _ask(
    context: Context,
    caller: Caller,
    command: CommandTwin,
    request: tuple[str, dict[str, Value], _Body],
) -> OperationDocument:
    job, values, body = request
    confined = _confine(context, command, values, is_of_job=bool(job))
    holds = job and command.name == "stop"
    hold = partial(context.verbs.stop, job, Asker(caller.name)) if holds else None
    about, as_json = (job, caller.name), body.own_as_json
    made = context.operations.run(command, about, confined, as_json=as_json, hold=hold)
    return document_of(context, context.operations.get(made))


def _confine(
    context: Context, command: CommandTwin, values: Mapping[str, Value], *, is_of_job: bool
) -> dict[str, Value]:
    """Return values whose paths are inside the roots. Raises PathNotAllowed."""
    confined = dict(values)
    for each in command.parameters:
        value = values.get(each.name)
        if not each.is_path or not value or (each.kind == "place" and is_of_job):
            continue
        lakes = context.supervisor.lakes()
        if isinstance(value, list):
            confined[each.name] = [context.roots.confine(one, lakes) for one in value]
        else:
            confined[each.name] = context.roots.confine(str(value), lakes)
    return confined


def document_of(context: Context, found: OperationView) -> OperationDocument:
    """Return the document of an operation, with its result, where it has ended."""
    return OperationDocument.of(found, context.operations.result(found))


@router.get("/api/operations")
def list_operations(
    request: Request,
    context: Shared,
    job: Annotated[str | None, Query(max_length=100)] = None,
    state: OperationState | None = None,
    limit: Annotated[int, Query(ge=1, le=1000)] = 100,
) -> OperationList:
    """Return the operations that the caller may read, the newest first, without their results."""
    may_read = may_read_of(request, job)
    found = [
        each
        for each in context.operations.all()
        if (job is None or each.request.job == job)
        and (state is None or each.state is state)
        and may_read(each.request.job)
    ]
    return OperationList(operations=[OperationDocument.of(each, None) for each in found[:limit]])


@router.get("/api/operations/{id}")
async def get_operation(
    request: Request,
    id: str,  # noqa: A002 - what the address calls it
    context: Shared,
    wait_s: Annotated[float, Query(ge=0, le=WAIT_S_MAX)] = 0,
) -> OperationDocument:
    """Return an operation; with `wait_s`, once it has ended, or after `wait_s` seconds."""
    until_s = context.clock.monotonic_s() + wait_s
    while True:
        found = await run_in_threadpool(context.operations.get, id)
        is_over = found.is_final or context.clock.monotonic_s() >= until_s
        if is_over or await request.is_disconnected():
            return await run_in_threadpool(document_of, context, found)
        await asyncio.sleep(LOOK_S)


@router.get("/api/operations/{id}/output", response_class=PlainTextResponse)
def get_output(id: str, context: Shared) -> Response:  # noqa: A002 - as above
    """Return what the command of an operation has printed to stdout so far, as it is."""
    path = context.operations.output(id)
    if not path.exists():
        return PlainTextResponse("")
    return FileResponse(path, media_type="text/plain; charset=utf-8")


@router.post("/api/operations/{id}/cancel")
def cancel_operation(id: str, context: Shared) -> OperationDocument:  # noqa: A002 - as above
    """Let an operation end as Ctrl-C would; one that has ended stays as it is."""
    return document_of(context, context.operations.cancel(id))


for _each in COMMANDS:
    _add_routes(_each)
