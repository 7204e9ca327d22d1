"""Asking a server: `ashore --server URL`, and the commands that only a server has.

What it is: `ServerClient`, over HTTP.
What it promises: what a server refuses is raised with its code, message and hint, as if it had
happened here. A token is checked before it is sent, is sent to the server that was named alone, and
is shown nowhere: no message quotes it, the file that it is from, or a password in an address.
What it must not know: commands.
"""

import os
import re
import ssl
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self
from urllib.parse import urlsplit

from ashore.errors import (
    AshoreError,
    NotAllowed,
    NotInstalled,
    RequestInvalid,
    ServerRefused,
    ServerUnreachable,
    error_of,
)

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


def server_url(given: str | None = None) -> str:
    """Return the server that commands ask that only a server has."""
    return given or os.environ.get(SERVER) or HERE


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
    """Return the error that a problem document tells."""
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
