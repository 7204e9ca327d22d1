"""What every request passes: how long it takes, who asks, how much is sent, what is written down.

What it is: `ClientConnection`, on which a request comes; `Doorway`, a layer of ASGI around the
application.
What it promises: a client that sends nothing keeps no place. No address but those of the pages,
which have a guard of their own, is reached without a token; for which jobs that holds, the route
asks (see `access`). Another site's requests reach nothing; a body is bounded in size and time as a
whole; each change leaves an audit line with who, by which rule, what and how it ended, and so does
each request that is refused to a caller who is known, and each login. No body and no token is
written down.
"""

import asyncio
import re
from contextlib import suppress

import h11
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from ashore.base.clock import Clock
from ashore.base.units import format_time
from ashore.errors import AshoreError, NotAllowed, RequestInvalid
from ashore.fleet.access.guard import SAFE, RequestAccess
from ashore.fleet.access.permissions import noted_caller, noted_rule
from ashore.fleet.operate.commands import COMMANDS
from ashore.fleet.records.server_files import AUDIT, REFUSED, ServerFiles
from ashore.fleet.records.store import Records
from ashore.fleet.server.problems import answer, disk_failed

HEAD_S_MAX = 20.0
REST_S_MAX = 5.0  # of a body, after its answer
AUDIT_BYTES, AUDITS_KEPT = 50_000_000, 10
REFUSED_BYTES, REFUSED_KEPT = 10_000_000, 3
PATH_MAX = 1_000
NOT_KNOWN = ""  # who asked, where there was no valid token


class ClientConnection(H11Protocol):
    """A connection of a client, whose heads have to come in time. Uvicorn cuts idle ones off.

    A client that sends nothing, or a head byte by byte, is cut off, at its first request and at
    each later one, and so is one that keeps sending a body that has been answered. So no client
    keeps a place for ever, or others from an answer: there is no thread of its own.
    """

    head_s_max = HEAD_S_MAX
    rest_s_max = REST_S_MAX
    _waits: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin to wait for the head of a request."""
        super().connection_made(transport)
        self._wait(self.head_s_max)

    def connection_lost(self, exc: Exception | None) -> None:
        """Wait no more."""
        self._wait_no_more()
        super().connection_lost(exc)

    def handle_events(self) -> None:
        """Take what has come. A head that is there in part has to be whole in time."""
        super().handle_events()
        if self.conn.their_state is not h11.IDLE:
            if not self._is_answered():
                self._wait_no_more()
        elif self.conn.trailing_data[0] and self._waits is None:
            self._wait(self.head_s_max)

    def on_response_complete(self) -> None:
        """Let the next request come, or give up one that has been answered and still comes."""
        super().on_response_complete()
        if self._is_answered():
            self._wait(self.rest_s_max)

    def _is_answered(self) -> bool:
        """Return whether a body still comes of a request that has its answer."""
        is_coming = self.conn.their_state is h11.SEND_BODY
        return is_coming and self.cycle is not None and self.cycle.response_complete

    def _wait(self, seconds: float) -> None:
        self._wait_no_more()
        self._waits = self.loop.call_later(seconds, self._give_up)

    def _wait_no_more(self) -> None:
        if self._waits is not None:
            self._waits.cancel()
            self._waits = None

    def _give_up(self) -> None:
        self._waits = None
        if not self.transport.is_closing():
            self.transport.close()


class AuditLog:
    """Writes down changes, and those who were refused. May be used by many threads.

    A change is in `audit.jsonl`, a refusal in `refused.jsonl`: so refusals, however many, cannot
    have the lines of changes rotated away. No body and no token is written. Lines are not chained:
    who may write the state directory may change them.
    """

    def __init__(self, records: Records, clock: Clock) -> None:
        self._records = records
        self._clock = clock

    def change(self, scope: Scope, by: str, status: int) -> None:
        """Write down a change, done or not. Raises OSError."""
        self._records.append(AUDIT, self._line(scope, by, status), AUDIT_BYTES, AUDITS_KEPT)

    def refusal(self, scope: Scope, by: str, status: int) -> None:
        """Write down that a caller was refused. A disk that is full changes no answer."""
        with suppress(OSError):
            line = self._line(scope, by, status)
            self._records.append(REFUSED, line, REFUSED_BYTES, REFUSED_KEPT)

    def _line(self, scope: Scope, by: str, status: int) -> dict[str, object]:
        client, rule = scope.get("client") or ("", 0), noted_rule(scope)
        return {
            "at": format_time(self._clock.now_ms()),
            "by": by,
            **({"rule": rule} if rule else {}),
            "from": client[0],
            "method": scope["method"],
            "path": str(scope["path"])[:PATH_MAX],
            "status": status,
        }


BODY_BYTES_MAX = 4 << 20
BODY_S_MAX = 30.0
PAGES = "/ui/"  # and `/`: they have a guard that knows cookies
_LOOKS = {each.route for each in COMMANDS if not each.changes}
_OPERATIONS = re.compile(r"/api/(?:jobs/[^/]+/)?operations/(.+)")


class _TooMuch(HTTPException):
    """A body that is too large, or too slow. FastAPI passes it on as it is."""

    def __init__(self) -> None:
        limit = f"the body has more than {BODY_BYTES_MAX:,} bytes, or took more than "
        super().__init__(413, f"{limit}{BODY_S_MAX:.0f} s")


class Doorway:
    """Lets requests in.

    Arguments:
        app: what is behind it.
        access: who may ask.
        files: of the server.
        clock: of this machine.

    """

    def __init__(
        self, app: ASGIApp, access: RequestAccess, files: ServerFiles, clock: Clock
    ) -> None:
        self._app = app
        self._access = access
        self._files = files
        self._audit = AuditLog(files.records, clock)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or answer it here."""
        if scope["type"] != "http":
            if scope["type"] == "lifespan":
                await self._app(scope, receive, send)
            return  # there are no web sockets
        headers = Headers(scope=scope)
        if self._access.proxy is not None and self._access.proxy.is_peer(scope):
            self._access.proxy.take_over(scope, headers)
        try:
            self._access.check_site(scope["method"], headers)
            _check_length(headers)
            if not is_page(scope["path"]):
                is_change = scope["method"] not in SAFE and not is_look(scope["path"])
                self._access.admit(scope, headers, is_change=is_change)
        except AshoreError as error:
            await self._refuse(error, headers, scope, receive, send)
            return
        await self._pass(scope, _bounded(receive), send)

    async def _pass(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on. The audit line of a change is there before its answer is sent."""
        is_answered = False

        async def noted(message: Message) -> None:
            nonlocal is_answered
            if is_answered:
                return
            if message["type"] == "http.response.start":
                status = int(message["status"])
                try:
                    await self._note(scope, status)
                except OSError as error:
                    failed = disk_failed(error, self._files.state, _unnoted(status))
                    if failed is None:
                        raise
                    is_answered = True
                    await answer(failed)(scope, receive, send)
                    return
            await send(message)

        await self._app(scope, receive, noted)

    async def _note(self, scope: Scope, status: int) -> None:
        """Write down a change, or a login that was refused. Raises OSError."""
        caller, is_change = noted_caller(scope)
        is_refused = status == 403 and (caller is not None or scope["method"] not in SAFE)
        if is_refused or (status == 401 and scope["method"] not in SAFE):
            by = NOT_KNOWN if caller is None else caller.name
            await run_in_threadpool(self._audit.refusal, scope, by, status)
        elif caller is not None and is_change:
            await run_in_threadpool(self._audit.change, scope, caller.name, status)

    async def _refuse(
        self, error: AshoreError, headers: Headers, scope: Scope, receive: Receive, send: Send
    ) -> None:
        status = 413 if isinstance(error, RequestInvalid) else None
        if isinstance(error, NotAllowed) and error.fields.get("is_unknown"):
            status = 401
        response = answer(error, status)
        if status == 401:
            response.headers["www-authenticate"] = "Bearer"
        caller, _ = noted_caller(scope)
        user = self._access.user_of(scope, headers)
        if caller is not None or user or (status == 401 and "authorization" in headers):
            by = (user or NOT_KNOWN) if caller is None else caller.name
            await run_in_threadpool(self._audit.refusal, scope, by, response.status_code)
        await response(scope, receive, send)


def is_page(path: str) -> bool:
    """Return whether an address is one of the pages, whose routes have a guard of their own."""
    return path == "/" or path.startswith(PAGES)


def is_look(path: str) -> bool:
    """Return whether a path is that of a command that changes nothing, though it is no GET."""
    found = _OPERATIONS.fullmatch(path)
    return found is not None and found[1] in _LOOKS


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
    """Return what receives a body that is neither too large nor, as a whole, too slow."""
    got, is_whole, deadline_s = 0, False, -1.0

    async def bounded() -> Message:
        nonlocal got, is_whole, deadline_s
        if is_whole:
            return await receive()  # it waits for the end of the connection
        loop = asyncio.get_running_loop()
        if deadline_s < 0:
            deadline_s = loop.time() + BODY_S_MAX
        try:
            async with asyncio.timeout_at(deadline_s):
                message = await receive()
        except TimeoutError:
            raise _TooMuch from None
        got += len(message.get("body", b""))
        is_whole = not message.get("more_body", False)
        if got > BODY_BYTES_MAX:
            raise _TooMuch
        return message

    return bounded
