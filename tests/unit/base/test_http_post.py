"""Posts of seals: to which addresses they are sent, and that no answer sends them elsewhere."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from ashore.base.http_post import ALLOW, post_json, refusal_of


@contextmanager
def listening(status: int = 200, location: str = "") -> Iterator[tuple[str, list[str]]]:
    """Answer requests while inside; yield the address, and what was asked."""
    asked: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def _answer(self) -> None:
            asked.append(f"{self.command} {self.path}")
            self.send_response(status)
            if location:
                self.send_header("location", location)
            self.send_header("content-length", "0")
            self.end_headers()

        do_GET = do_POST = _answer  # noqa: N815 - their names are those of the library

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield f"http://127.0.0.1:{server.server_port}", asked
        finally:
            server.shutdown()


@pytest.mark.parametrize(
    ("address", "allowed", "is_sent"),
    [
        ("8.8.8.8", None, True),
        ("127.0.0.1", None, True),
        ("169.254.169.254", None, False),
        ("fe80::1%eth0", None, False),
        ("::ffff:169.254.169.254", "0.0.0.0/0", False),
        ("8.8.8.8", "", True),
        ("2001:4860:4860::8888", "", True),
        ("10.1.2.3", "", False),
        ("127.0.0.1", "", False),
        ("::1", "", False),
        ("::ffff:127.0.0.1", "", False),
        ("0.0.0.0", "", False),
        ("100.64.0.1", "", False),
        ("fd00::1", "", False),
        ("224.0.0.1", "", False),
        ("10.1.2.3", "192.168.0.0/16, 10.0.0.0/8", True),
        ("10.1.2.3", "Scheduler.example", True),
        ("10.1.2.3", "other.example", False),
    ],
)
def test_which_addresses_are_asked(address: str, allowed: str | None, is_sent: bool) -> None:
    assert (refusal_of("scheduler.example", address, allowed) == "") is is_sent


def test_below_a_server_an_inner_address_has_to_be_allowed(monkeypatch: pytest.MonkeyPatch) -> None:
    with listening() as (url, asked):
        monkeypatch.delenv(ALLOW, raising=False)
        post_json(f"{url}/alone", b"{}")
        monkeypatch.setenv(ALLOW, "")
        for host in (url, url.replace("127.0.0.1", "localhost")):
            with pytest.raises(OSError, match="not a public"):
                post_json(f"{host}/refused", b"{}")
        monkeypatch.setenv(ALLOW, "127.0.0.0/8")
        post_json(f"{url}/listed", b"{}")
        assert asked == ["POST /alone", "POST /listed"]
    with pytest.raises(OSError, match="link-local"):
        post_json("http://169.254.169.254/latest/meta-data", b"{}")


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_no_redirect_is_followed(status: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(ALLOW, raising=False)
    with listening() as (inner, asked), listening(status, f"{inner}/secret") as (url, first):
        with pytest.raises(OSError, match=str(status)):
            post_json(f"{url}/sealed", b"{}")
        assert first == ["POST /sealed"]
        assert asked == []
