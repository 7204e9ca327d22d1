"""Commands that are done by a server: `ashore --server URL COMMAND`.

What it is: `at_server`, which turns a command into a request for its twin; `ServerClient`, over
HTTP.
What it promises: arguments are read as they are here; what the command prints there is printed
here, and its exit code is this one's. Ctrl-C cancels the operation. What a server refuses is raised
with its code, message and hint, as if it had happened here. A token is checked before it is sent,
is sent to the server that was named alone, and is shown nowhere: no message quotes it, the file
that it is from, or a password in an address.
"""

import os
import re
import ssl
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self
from urllib.parse import urlsplit

import typer
from rich.markup import escape

from ashore.cli.output import reported_errors, say, shown_progress, talk
from ashore.errors import (
    AshoreError,
    ExitCode,
    NotAllowed,
    NotInstalled,
    RequestInvalid,
    ServerRefused,
    ServerUnreachable,
    error_of,
)
from ashore.fleet.operate.commands import BY_NAME, CommandTwin

if TYPE_CHECKING:
    import httpx

SERVER, TOKEN, TOKEN_FILE, AUTHORITY = (
    *("ASHORE_SERVER", "ASHORE_TOKEN", "ASHORE_TOKEN_FILE"),
    "ASHORE_CA_FILE",
)
HERE = "http://127.0.0.1:8420"
ANSWER_S = 60.0
_TOKEN = re.compile(r"[!-~]{1,500}")
_FILE_MAX = 1 << 16
WAIT_S = 20


class ServerClient:
    """Asks one server. As a context manager."""

    def __init__(self, url: str) -> None:
        try:
            import httpx  # noqa: PLC0415 - an extra
        except ModuleNotFoundError as error:
            raise NotInstalled(
                f"the package {error.name} is missing: asking a server needs it",
                hint="pip install 'ashore[server]'",
            ) from error
        headers = {"user-agent": "ashore", **_authorization()}
        authority = os.environ.get(AUTHORITY)
        verify: ssl.SSLContext | bool = True
        if authority:
            verify = ssl.create_default_context(cafile=authority)
        self.url = _without_login(url)
        try:
            self._http = httpx.Client(
                base_url=self.url, headers=headers, timeout=ANSWER_S, verify=verify, trust_env=False
            )
        except httpx.InvalidURL as error:
            raise self._unreachable(error) from None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._http.close()

    def ask(self, method: str, path: str, body: Mapping[str, object] | None = None) -> Any:
        """Return the document that a request is answered with. Raises AshoreError."""
        answer = self._send(method, path, None if body is None else dict(body))
        return answer.json() if answer.content else None

    def text(self, path: str) -> str:
        """Return the text at an address. Raises AshoreError."""
        return self._send("GET", path, None).text

    def _send(self, method: str, path: str, body: object) -> "httpx.Response":
        import httpx  # noqa: PLC0415 - an extra; it was there in __init__

        try:
            answer = self._http.request(method, path, json=body)
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            raise self._unreachable(error) from None
        if answer.is_success:
            return answer
        raise _error_of(answer)

    def _unreachable(self, error: Exception) -> ServerUnreachable:
        if "CERTIFICATE_VERIFY_FAILED" in str(error):
            return ServerUnreachable(
                f"the certificate of {self.url} is not trusted: {error}",
                hint="$ASHORE_CA_FILE names a file with the certificates to trust; ask by a host "
                "name that is in the certificate, and renew one that has expired",
            )
        return ServerUnreachable(
            f"no server answers at {self.url}: {error}",
            hint=f"is `ashore serve` running there? --server and ${SERVER} say where",
        )


def server_url() -> str:
    """Return the server that `ashore jobs` and its like ask."""
    return os.environ.get(SERVER) or HERE


def _without_login(url: str) -> str:
    """Return the address of a server. Raises RequestInvalid where it has a user or a password."""
    try:
        has_login = "@" in urlsplit(url).netloc
    except ValueError:
        return url.rstrip("/")
    if has_login:
        raise RequestInvalid(
            "the address of a server has no user and no password",
            hint=f"leave them out, and set ${TOKEN} or ${TOKEN_FILE}",
        )
    return url.rstrip("/")


def _authorization() -> dict[str, str]:
    """Return the header with the token. Raises NotAllowed; no message quotes what is no token."""
    token, file = os.environ.get(TOKEN, "").strip(), os.environ.get(TOKEN_FILE)
    where = f"${TOKEN}"
    if not token and file:
        token, where = _read_token(file), file
    if not token:
        return {}
    if _TOKEN.fullmatch(token) is None:
        has_tokens = token.startswith("{") and '"tokens"' in token
        found = "the file of the server, with all its tokens" if has_tokens else "not a token"
        raise NotAllowed(
            f"{where} is {found}: a token is one word of letters, digits and signs in ASCII",
            hint=f"put the one token into a file of its own for ${TOKEN_FILE}; "
            "`ashore token add` on the server's machine makes one",
        )
    return {"authorization": f"Bearer {token}"}


def _read_token(file: str) -> str:
    try:
        with Path(file).open("rb") as opened:
            return opened.read(_FILE_MAX).decode("utf-8", "replace").strip()
    except OSError as error:
        raise NotAllowed(
            f"the token cannot be read: {file}: {error.strerror}",
            hint=f"${TOKEN_FILE} names a file that holds one token",
        ) from None


def _error_of(answer: "httpx.Response") -> AshoreError:
    try:
        document = answer.json()
        code, message = str(document["code"]), str(document["detail"])
        hint = str(document.get("hint") or "")
    except (ValueError, KeyError, TypeError):
        message = f"{answer.request.url} answered {answer.status_code} {answer.reason_phrase}"
        return ServerRefused(message, hint="is it an Ashore server?")
    if code == NotAllowed.code and answer.status_code == 401:
        hint = f"set ${TOKEN} or ${TOKEN_FILE}; `ashore token add` on its machine makes one"
    return error_of(code, message, hint=hint)


BAR_S = 1  # between two looks at what has a bar


def at_server(url: str, command: Any, name: str) -> Any:
    """Return a command, or a group of them, whose work is done by a server."""
    if hasattr(command, "commands"):
        for each in command.commands.values():
            at_server(url, each, f"{name} {each.name}")
        return command
    is_own = getattr(command.callback, "asks_server", False)
    if not is_own:
        command.callback = _asking(url, name)
    return command


def _asking(url: str, name: str) -> Any:
    def ask(**values: object) -> None:
        as_json = bool(values.pop("as_json", False))
        debug = bool(values.pop("debug", False))
        with reported_errors(as_json=as_json, debug=debug), ServerClient(url) as client:
            if name == "run":  # a job of a server is started
                _start(client, values)
                return
            command = BY_NAME.get(name)
            if command is None:
                raise RequestInvalid(
                    f"`ashore {name}` is for this machine only", hint="leave --server out"
                )
            raise typer.Exit(run_there(client, command, values, as_json=as_json))

    return ask


def run_there(
    client: ServerClient, command: CommandTwin, values: Mapping[str, object], *, as_json: bool
) -> int:
    """Let a server run a command; print what it prints, and return its exit code."""
    body = {name: _plain(value) for name, value in values.items() if value not in (None, [], ())}
    path = f"/api/operations/{command.route}"
    target = command.target
    if target is not None:
        named = body.pop(target.name, "")
        job = job_of(named[0] if isinstance(named, list) and named else str(named))
        if target.kind == "place" and not _is_job(client, job):
            body[target.name] = named
        else:
            path = f"/api/jobs/{job}/operations/{command.route}"
    made = client.ask("POST", path, {**body, "as_json": as_json})
    return follow_operation(client, str(made["id"]), quiet=as_json)


def follow_operation(client: ServerClient, operation: str, *, quiet: bool = False) -> int:
    """Wait for an operation; print what it prints, and return its exit code. `quiet`: no bar."""
    try:
        found = _wait(client, operation, quiet=quiet or not talk.is_terminal)
    except KeyboardInterrupt:
        client.ask("POST", f"/api/operations/{operation}/cancel")
        say(f"operation {operation} is cancelled")
        return ExitCode.INTERRUPTED
    except ServerUnreachable as error:
        hint = f"operation {operation} continues, and `ashore operations` shows how it ended"
        raise ServerUnreachable(error.message, hint=f"{hint}; {error.hint}") from None
    sys.stdout.write(client.text(f"/api/operations/{operation}/output"))
    sys.stdout.flush()
    if found["state"] == "lost":
        say(f"operation {operation}: its process is gone and left no exit code")
    return int(found["exit_code"] if found["exit_code"] is not None else 1)


def _wait(client: ServerClient, operation: str, *, quiet: bool) -> Any:
    """Return an operation that has ended, and show meanwhile what it says and how far it is."""
    shown, wait_s = "", WAIT_S if quiet else BAR_S
    with shown_progress(quiet=quiet) as progress:
        while True:
            found = client.ask("GET", f"/api/operations/{operation}?wait_s={wait_s}")
            shown = _show(shown, str(found["stderr"]))
            if at := found["progress"]:
                progress(found["command"], at["done"], at["total"], at["what"])
            if found["exit_code"] is not None or found["state"] in {"lost", "cancelled"}:
                return found


def job_of(text: str) -> str:
    """Return the name of the job that an argument means: `clicks`, or its file."""
    path = Path(text)
    return path.stem if path.suffix in {".yaml", ".yml"} else text


def _is_job(client: ServerClient, name: str) -> bool:
    if not name or "/" in name or ":" in name:
        return False
    return any(each["name"] == name for each in client.ask("GET", "/api/jobs")["jobs"])


def _start(client: ServerClient, values: dict[str, object]) -> None:
    names = sorted(
        name for name, value in values.items() if value not in (None, False, [], (), "text")
    )
    if names != ["job_file"]:
        options = ", ".join(name.replace("_", "-") for name in names if name != "job_file")
        raise RequestInvalid(
            f"a job of a server is started without options: {options}",
            hint="stop it, and use the command on the server's machine",
        )
    job = job_of(str(values["job_file"]))
    client.ask("POST", f"/api/jobs/{job}/start", {})
    say(f"job {escape(job)} is started: ashore jobs shows where it is")


def _show(shown: str, stderr: str) -> str:
    """Print what is new on stderr, and return what has been seen.

    The server keeps the newest part of a long text, so `stderr` may begin within `shown`.
    """
    longest = min(len(shown), len(stderr))
    common = next(n for n in range(longest, -1, -1) if shown.endswith(stderr[:n]))
    sys.stderr.write(stderr[common:])
    sys.stderr.flush()
    return stderr


def _plain(value: object) -> object:
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    return value if isinstance(value, bool | int | float | str) else str(value)
