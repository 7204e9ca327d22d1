"""What every request to the API passes: who asks, how much is sent, what is written down.

What it is: `Doorway`, a layer of ASGI around the application.
What it promises: nothing below it is reached without a token that allows it; a body is bounded in
size and time; each change leaves an audit line with who, what and how it ended. No body and no
token is written down.
What it must not know: what requests do.
"""

import asyncio
from collections.abc import Callable

from starlette.concurrency import run_in_threadpool
from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ashore.base.clock import Clock
from ashore.base.units import format_time
from ashore.errors import AshoreError, NotAllowed, RequestInvalid
from ashore.runtime.files import append_line, rotate
from ashore.runtime.layout import ServerFiles
from ashore.server.access import Caller, Tokens
from ashore.server.pages.control_plane import UserRole
from ashore.server.problems import answer, disk_failed

BODY_BYTES_MAX = 4 << 20
BODY_S_MAX = 30.0
AUDIT_BYTES, AUDITS_KEPT = 50_000_000, 10
GUARDED = ("/api", "/metrics")
FORMS = frozenset({"/ui/login", "/ui/logout"})  # they change nothing
PAGE = Caller("page", UserRole.OPERATE)  # who is logged in, pages know: they look at the role
SAFE = frozenset({"GET", "HEAD", "OPTIONS"})


class _TooMuch(HTTPException):
    """A body that is too large, or too slow. FastAPI passes it on as it is."""

    def __init__(self) -> None:
        told = f"the body has more than {BODY_BYTES_MAX:,} bytes, or took more than "
        super().__init__(413, f"{told}{BODY_S_MAX:.0f} s")


class Doorway:
    """Lets requests in.

    Arguments:
        app: what is behind it.
        tokens: None: everybody may do everything.
        files: of the server.
        clock: for audit lines.
        is_look: whether a request that is no GET changes nothing, by method and path.

    """

    def __init__(
        self,
        app: ASGIApp,
        tokens: Tokens | None,
        files: ServerFiles,
        clock: Clock,
        is_look: Callable[[str], bool],
    ) -> None:
        self._app = app
        self._tokens = tokens
        self._files = files
        self._clock = clock
        self._is_look = is_look

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or answer it here."""
        path = str(scope.get("path", ""))
        if scope["type"] != "http" or not path.startswith(GUARDED):
            is_form = scope["type"] == "http" and scope["method"] == "POST" and path not in FORMS
            await self._pass(scope, receive, send, PAGE if is_form else None)
            return
        headers = Headers(scope=scope)
        is_change = scope["method"] not in SAFE and not self._is_look(path)
        try:
            caller = self._admit(headers, is_change=is_change)
            _check_length(headers)
        except AshoreError as error:
            status = 413 if isinstance(error, RequestInvalid) else None
            if isinstance(error, NotAllowed) and error.fields.get("is_unknown"):
                status = 401
            await self._refuse(answer(error, status), scope, receive, send)
            return
        scope.setdefault("state", {})["caller"] = caller
        await self._pass(scope, _bounded(receive), send, caller if is_change else None)

    def _admit(self, headers: Headers, *, is_change: bool) -> Caller:
        """Return who asks. Raises NotAllowed."""
        if self._tokens is None:
            return Caller("anybody", UserRole.OPERATE)
        kind, _, token = headers.get("authorization", "").partition(" ")
        caller = self._tokens.find(token.strip()) if kind.casefold() == "bearer" else None
        if caller is None:
            raise NotAllowed(
                "a token is needed",
                hint="send `Authorization: Bearer TOKEN`; tokens.json in the server's state "
                "directory has them",
                is_unknown=True,
            )
        if is_change and caller.role is not UserRole.OPERATE:
            raise NotAllowed(
                f"the token `{caller.name}` may only read", hint="use one whose role is `operate`"
            )
        return caller

    async def _pass(
        self, scope: Scope, receive: Receive, send: Send, changer: Caller | None
    ) -> None:
        """Pass a request on. The audit line of a change is there before its answer is sent."""
        is_answered = False

        async def noted(message: Message) -> None:
            nonlocal is_answered
            if is_answered:
                return
            if changer is not None and message["type"] == "http.response.start":
                status = int(message["status"])
                try:
                    await run_in_threadpool(self._write, scope, changer, status)
                except OSError as error:
                    told = disk_failed(error, self._files.state, _unnoted(status))
                    if told is None:
                        raise
                    is_answered = True
                    await answer(told)(scope, receive, send)
                    return
            await send(message)

        await self._app(scope, receive, noted)

    async def _refuse(self, response: Response, scope: Scope, receive: Receive, send: Send) -> None:
        if response.status_code == 401:
            response.headers["www-authenticate"] = "Bearer"
        await response(scope, receive, send)

    def _write(self, scope: Scope, caller: Caller, status: int) -> None:
        client = scope.get("client") or ("", 0)
        rotate(self._files.audit, AUDIT_BYTES, AUDITS_KEPT)
        append_line(
            self._files.audit,
            {
                "at": format_time(self._clock.now_ms()),
                "by": caller.name,
                "from": client[0],
                "method": scope["method"],
                "path": scope["path"],
                "status": status,
            },
        )


def _unnoted(status: int) -> str:
    """Say what became of a request that the audit has no line of."""
    if status >= 400:
        return f"What was asked for was not done: it was answered with {status}"
    return "What was asked for was done, and the audit has no line of it"


def _check_length(headers: Headers) -> None:
    length = headers.get("content-length", "0")
    if not length.isdecimal() or int(length) > BODY_BYTES_MAX:
        raise RequestInvalid(f"the body has more than {BODY_BYTES_MAX:,} bytes")


def _bounded(receive: Receive) -> Receive:
    """Return what receives a body that is neither too large nor too slow."""
    got, is_whole = 0, False

    async def bounded() -> Message:
        nonlocal got, is_whole
        if is_whole:
            return await receive()  # it waits for the end of the connection
        try:
            message = await asyncio.wait_for(receive(), BODY_S_MAX)
        except TimeoutError:
            raise _TooMuch from None
        got += len(message.get("body", b""))
        is_whole = not message.get("more_body", False)
        if got > BODY_BYTES_MAX:
            raise _TooMuch
        return message

    return bounded
