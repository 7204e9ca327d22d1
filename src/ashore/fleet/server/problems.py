"""Errors as problem documents (RFC 9457), with the codes and hints of the command line.

What it promises: what goes wrong on purpose is answered with what happened and what to do; what was
not meant to happen is answered too, without its traceback.
"""

import errno
import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect

from ashore.errors import (
    AshoreError,
    ExitCode,
    JobFileInvalid,
    JobUnknown,
    NotAllowed,
    OperationUnknown,
    PathNotAllowed,
    RequestInvalid,
    ServerBusy,
    ServerDiskFailed,
    ServerRefused,
)
from ashore.jobs.failure import Failed

NOT_DONE = "What was asked for was not done"
MEDIA_TYPE = "application/problem+json"
_TEXT = {"type": "string"}
_SCHEMA = {
    "type": "object",
    "required": ["type", "title", "status", "detail", "code", "hint", "exit_code"],
    "properties": {
        **dict.fromkeys(("type", "title", "detail", "code", "hint"), _TEXT),
        "status": {"type": "integer"},
        "exit_code": {"type": "integer"},
        "more": {"type": "object"},
    },
}
PROBLEMS: dict[int | str, dict[str, Any]] = {
    "4XX": {
        "description": "refused: nothing was changed",
        "content": {MEDIA_TYPE: {"schema": _SCHEMA}},
    },
    "5XX": {"description": "the server failed", "content": {MEDIA_TYPE: {"schema": _SCHEMA}}},
}
_BY_KIND: tuple[tuple[type[AshoreError], int], ...] = (
    (JobUnknown, 404),
    (OperationUnknown, 404),
    (NotAllowed, 403),
    (PathNotAllowed, 403),
    (ServerBusy, 429),
    (RequestInvalid, 422),
    (JobFileInvalid, 422),
    (ServerRefused, 409),
    (ServerDiskFailed, 507),
)
_BY_EXIT_CODE = {ExitCode.USAGE: 422, ExitCode.MISSING: 503}  # others: 409
_OF_DISKS = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES, errno.EIO})
_log = logging.getLogger("ashore.fleet.server")


def disk_failed(error: OSError, where: Path, what: str) -> ServerDiskFailed | None:
    """Return the error for a disk that refused a write; None: it is another failure.

    Arguments:
        error: of a write.
        where: a directory of the server.
        what: what became of the request, as a sentence.

    """
    if error.errno not in _OF_DISKS:
        return None
    return ServerDiskFailed(
        f"the server cannot write its files: {error.strerror}. {what}",
        hint=f"free space on the disk of {where}, or let the server's user write there; then ask "
        "again. Jobs continue meanwhile",
    )


def status_of(error: AshoreError) -> int:
    """Return the status of HTTP that an error is answered with."""
    for kind, status in _BY_KIND:
        if isinstance(error, kind):
            return status
    return _BY_EXIT_CODE.get(error.exit_code, 500 if error.exit_code is ExitCode.BUG else 409)


def problem_document(failed: Failed, status: int) -> dict[str, object]:
    """Return the problem document of an error; its own keys are those of `--json`."""
    return {
        "type": f"urn:ashore:error:{failed.code}",
        "title": failed.code.replace("-", " "),
        "status": status,
        "detail": failed.message,
        "code": failed.code,
        "hint": failed.hint or "",
        "exit_code": failed.exit_code,
        "more": dict(failed.more),
    }


def answer(
    error: AshoreError, status: int | None = None, headers: Mapping[str, str] | None = None
) -> JSONResponse:
    """Return the answer to a request that failed with an error."""
    status = status_of(error) if status is None else status
    document = problem_document(Failed.of(error), status)
    return JSONResponse(_plain(document), status, dict(headers or {}), media_type=MEDIA_TYPE)


def _plain(value: object) -> object:
    """Return a value that JSON has: the fields of an error may be anything."""
    if isinstance(value, Mapping):
        return {str(key): _plain(each) for key, each in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [_plain(each) for each in value]
    return value if value is None or isinstance(value, bool | int | str) else str(value)


def add_handlers(app: FastAPI) -> None:
    """Let an app answer errors with problem documents."""

    async def expected(_request: Request, error: Exception) -> JSONResponse:
        return (
            answer(error) if isinstance(error, AshoreError) else await unexpected(_request, error)
        )

    async def invalid(_request: Request, error: Exception) -> JSONResponse:
        found = error.errors() if isinstance(error, RequestValidationError) else []
        places = [
            f"{'.'.join(map(str, each.get('loc', ())))}: {each.get('msg', '')}" for each in found
        ]
        problem = RequestInvalid(
            f"the request is not valid: {'; '.join(places[:5])}"[:2000],
            hint="GET /api/openapi.json describes each request",
        )
        return answer(problem)

    async def http(_request: Request, error: Exception) -> JSONResponse:
        status = error.status_code if isinstance(error, HTTPException) else 500
        detail = error.detail if isinstance(error, HTTPException) else ""
        headers = error.headers if isinstance(error, HTTPException) else None
        hint = "GET /api/openapi.json lists what there is"
        return answer(RequestInvalid(str(detail), hint=hint), status, headers)

    async def disk(request: Request, error: Exception) -> JSONResponse:
        where = request.app.state.context.files.state
        problem = disk_failed(error, where, NOT_DONE) if isinstance(error, OSError) else None
        return await unexpected(request, error) if problem is None else answer(problem)

    async def gone(_request: Request, _error: Exception) -> JSONResponse:
        """Answer a client that left while its body came: the server has not failed."""
        return answer(RequestInvalid("the body has not come as a whole"), 400)

    async def unexpected(_request: Request, error: Exception) -> JSONResponse:
        _log.error("a request failed", exc_info=error)
        problem = AshoreError("the server failed at this request", hint="its log has the traceback")
        return answer(problem, 500)

    app.add_exception_handler(AshoreError, expected)
    app.add_exception_handler(ClientDisconnect, gone)
    app.add_exception_handler(OSError, disk)
    app.add_exception_handler(RequestValidationError, invalid)
    app.add_exception_handler(HTTPException, http)
    app.add_exception_handler(Exception, unexpected)
