"""Who reaches a handler: routes and their guard, other sites, foreign names, logins."""

import asyncio
import json
import re
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from ipaddress import ip_network
from pathlib import Path
from typing import Any

import httpx
import pytest
from fastapi.routing import APIRoute
from tests.unit.fleet.conftest import Served, bearer, serving_app
from tests.unit.fleet.profile import Entered
from typer.testing import CliRunner

from ashore.cli.app import app
from ashore.errors import RequestInvalid
from ashore.fleet.access.guard import Admits, TrustedProxy
from ashore.fleet.access.tokens import LOOK_S, UserRole
from ashore.fleet.records.server_files import desired_name
from ashore.fleet.records.store import read_lines
from ashore.fleet.server.doorway import is_page
from ashore.fleet.server.pages.frame import PageRoute

# Whatever is added here is answered to anybody who reaches the port.
OPEN = {
    ("GET", "/"),
    ("GET", "/ui/login"),
    ("POST", "/ui/login"),
    ("GET", "/ui/static/versions.css"),
    ("GET", "/ui/static/{name}"),
}
FORMS_OF_READERS = {"/ui/logout", "/ui/write"}  # all other forms are for `operate`


def all_routes(routes: Iterable[Any]) -> Iterator[Any]:
    """Yield routes, also those of routers that were included."""
    for each in routes:
        included = getattr(each, "original_router", None)
        if included is None:
            yield each
        else:
            yield from all_routes(included.routes)


def routes_of(served: Served) -> list[tuple[str, APIRoute]]:
    found = [each for each in all_routes(served.app.routes) if isinstance(each, APIRoute)]
    assert len(found) > 80, "the routes were not found"
    return [(method, each) for each in found for method in sorted(each.methods or ())]


def address_of(route: APIRoute) -> str:
    values = {"name": "clicks", "job": "clicks", "number": "0"}
    return re.sub(r"{(\w+)}", lambda each: values.get(each[1], "x"), route.path)


def test_the_routes_that_are_open_are_listed_here(served: Served) -> None:
    """An address is below the pages, whose routes have a guard, or below the layer before all."""
    pages = [(method, each) for method, each in routes_of(served) if isinstance(each, PageRoute)]
    assert {(method, each.path) for method, each in pages if each.admits is Admits.ANYBODY} == OPEN
    forms = {each.path for method, each in pages if method != "GET"} - {"/ui/login"}
    for_readers = {each.path for method, each in pages if each.admits is Admits.READERS}
    assert for_readers & forms == FORMS_OF_READERS
    for _, route in routes_of(served):
        assert is_page(route.path) == isinstance(route, PageRoute), route.path
    others = [each for each in all_routes(served.app.routes) if not isinstance(each, APIRoute)]
    assert [each.path for each in others if is_page(each.path)] == []


def test_no_handler_runs_for_who_has_no_login(served: Served) -> None:
    """Red where any handler does anything, a look at a job file say, before it asks who comes."""

    async def ask_all(headers: dict[str, str]) -> dict[tuple[str, str], int]:
        transport, found = httpx.ASGITransport(app=served.door), {}
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
            for method, route in routes_of(served):
                answer = await client.request(method, address_of(route), headers=headers)
                found[method, route.path] = answer.status_code
        return found

    for headers in ({}, bearer("wrong"), {"cookie": "ashore_session=operate.9999999999999.x.y"}):
        with Entered() as entered:
            answers = asyncio.run(ask_all(headers))
        for method, route in routes_of(served):
            is_open = (method, route.path) in OPEN
            ran = route.endpoint.__code__ in entered.codes
            assert ran == is_open, f"{method} {route.path}: the handler ran without a login"
            if not is_open:
                status = 303 if is_page(route.path) else 401
                assert answers[method, route.path] == status, (method, route.path)


@contextmanager
def login(served: Served, token: str) -> Iterator[httpx.Client]:
    """Have a browser, as it were, that has logged in."""
    with httpx.Client(base_url=served.client.base_url, timeout=60) as client:
        answer = client.post("/ui/login", data={"token": token})
        assert answer.status_code == 303, answer.text
        yield client


def form_word(client: httpx.Client, path: str = "/ui/jobs") -> str:
    found = re.search(r'name="csrf" value="([0-9a-f]+)"', client.get(path).text)
    assert found is not None
    return found[1]


def test_forms_of_readers_and_of_operators(served: Served) -> None:
    """A role `read` has no form accepted but those listed; a form needs the word of a page."""
    with login(served, served.read["authorization"].split()[1]) as client:
        word = form_word(client)
        for method, route in routes_of(served):
            if method == "GET" or not isinstance(route, PageRoute) or route.path in OPEN:
                continue
            if route.path in FORMS_OF_READERS | {"/ui/login"}:
                continue
            found = client.post(address_of(route), data={"csrf": word})
            assert found.status_code == 403, route.path
            assert "may only read" in found.text
        saved = client.post("/ui/write", data={"csrf": word, "do": "save", "name": "x"})
        assert saved.status_code == 403
        assert client.post("/ui/write", data={"do": "check"}).status_code == 403, "no word"
        checked = client.post("/ui/write", data={"csrf": word, "do": "check", "name": "x"})
        assert checked.status_code == 200


# ---- other sites, foreign names


FOREIGN: list[dict[str, str]] = [
    {"sec-fetch-site": "cross-site", "sec-fetch-mode": "cors"},
    {"sec-fetch-site": "same-site", "sec-fetch-mode": "no-cors"},
    {"origin": "http://evil.example"},
    {"origin": "null"},
    {"origin": "http://127.0.0.1:1"},
]


@pytest.mark.parametrize("headers", FOREIGN, ids=str)
def test_a_page_of_another_site_changes_nothing(tmp_path: Path, headers: dict[str, str]) -> None:
    with serving_app(tmp_path, is_open=True) as served:
        for method, path in (
            ("POST", "/api/jobs/clicks/start"),
            ("POST", "/ui/jobs/clicks/do/start"),
            ("PUT", "/api/jobs/clicks"),
            ("GET", "/api/jobs"),
            ("GET", "/metrics"),
        ):
            found = served.client.request(method, path, headers=headers)
            assert (found.status_code, found.json()["code"]) == (403, "not-allowed"), path
        assert not (served.files.state / desired_name("clicks")).exists()


def test_the_own_pages_programs_and_links_are_answered(tmp_path: Path) -> None:
    with serving_app(tmp_path, is_open=True) as served:
        own = f"http://127.0.0.1:{served.client.base_url.port}"
        for headers in ({}, {"origin": own}, {"sec-fetch-site": "same-origin", "origin": own}):
            found = served.client.post("/api/jobs/clicks/stop", headers=headers)
            assert found.status_code == 200, headers
        link = {"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate"}
        assert served.client.get("/ui/jobs", headers=link).status_code == 200
        frame = {**link, "sec-fetch-dest": "iframe"}
        assert served.client.get("/ui/jobs", headers=frame).status_code == 403


@pytest.mark.parametrize(
    ("host", "is_answered"),
    [
        *(("127.0.0.1:8420", True), ("localhost", True), ("LOCALHOST:1", True), ("[::1]:8", True)),
        *(("lake.internal:8420", True), ("10.0.0.7", True), ("evil.example", False)),
        *(("127.0.0.1.evil.example", False), ("lake.internal.evil.example", False)),
        *(("localhost.evil.example:8420", False), ("", False), ("[evil.example]", False)),
    ],
)
def test_without_tokens_only_the_names_of_the_server_are_answered(
    open_served: Served, host: str, is_answered: bool
) -> None:
    """Else a name of somebody else's could be made to point here: DNS rebinding."""
    found = open_served.client.get("/api/jobs", headers={"host": host})
    assert (found.status_code == 200) == is_answered, found.text
    if not is_answered:
        assert found.status_code == 403
        assert "--allow-host" in found.json()["hint"]


@pytest.fixture(scope="module")
def open_served(tmp_path_factory: pytest.TempPathFactory) -> Any:
    with serving_app(
        tmp_path_factory.mktemp("open"), is_open=True, hosts=["lake.internal:8443"]
    ) as found:
        yield found


def test_a_name_that_people_ask_by_through_a_proxy_is_an_origin(open_served: Served) -> None:
    """The proxy puts its own name for the server into Host."""
    for origin, status in (("lake.internal:8443", 200), ("lake.internal:1", 403)):
        headers = {"origin": f"https://{origin}"}
        assert open_served.client.get("/api/jobs", headers=headers).status_code == status
        headers |= {"sec-fetch-site": "same-site"}
        assert open_served.client.get("/api/jobs", headers=headers).status_code == 403


def test_with_tokens_a_page_of_another_site_is_refused_too(served: Served) -> None:
    headers = {**served.operate, "sec-fetch-site": "cross-site", "sec-fetch-mode": "cors"}
    assert served.client.post("/api/jobs/clicks/stop", headers=headers).status_code == 403
    named = {**served.operate, "host": "any.example"}
    assert served.client.get("/api/jobs", headers=named).status_code == 200, "a token says who asks"


# ---- what is written down


def refusals(served: Served) -> list[dict[str, object]]:
    return list(read_lines(served.files.refused))


def test_refused_logins_are_written_and_changes_name_the_token(served: Served) -> None:
    before = len(refusals(served))
    assert served.client.post("/ui/login", data={"token": "wrong-word"}).status_code == 401
    served.client.get("/api/jobs", headers=bearer("wrong-word"))
    served.client.post("/api/jobs/clicks/stop", headers=served.read)
    served.client.get("/api/jobs")  # without a token: not an attempt
    found = refusals(served)[before:]
    assert [(each["path"], each["by"], each["status"]) for each in found] == [
        ("/ui/login", "", 401),
        ("/api/jobs", "", 401),
        ("/api/jobs/clicks/stop", "read", 403),
    ]
    assert "wrong-word" not in served.files.refused.read_text()
    assert served.files.refused.stat().st_mode & 0o077 == 0
    token = served.context.access.tokens.add("anna", UserRole.OPERATE)
    wait_until_known(served, token)
    with login(served, token) as client:
        data = {"csrf": form_word(client), "why": "a test"}
        assert client.post("/ui/jobs/orders/do/stop", data=data).status_code == 303
    lines = [json.loads(each) for each in served.files.audit.read_text().splitlines()]
    assert [(each["by"], each["path"]) for each in lines[-2:]] == [
        ("anna", "/ui/login"),
        ("anna", "/ui/jobs/orders/do/stop"),
    ]
    assert served.ask("GET", "/api/jobs/orders").json()["desired"]["by"] == "anna"


def wait_until_known(served: Served, token: str, *, is_known: bool = True) -> None:
    """Wait until a change of the tokens applies: a second."""
    for _ in range(600):
        answer = served.client.get("/api/jobs", headers=bearer(token))
        if (answer.status_code == 200) == is_known:
            return
        threading.Event().wait(0.05)
    raise AssertionError(answer.text)


def test_a_token_that_is_revoked_opens_nothing_and_neither_does_its_cookie(served: Served) -> None:
    tokens = served.context.access.tokens
    token = tokens.add("bob", UserRole.OPERATE)
    assert token not in served.files.tokens.read_text(), "it is kept by its digest"
    wait_until_known(served, token)
    with login(served, token) as client:
        cookie = client.cookies["ashore_session"]
        assert token not in cookie
        word = form_word(client)
        with client.stream("GET", "/ui/events") as stream:
            tokens.revoke("bob")
            wait_until_known(served, token, is_known=False)
            for _ in stream.iter_lines():
                pass  # it ends, as nobody is logged in any more
        assert client.get("/ui/jobs").status_code == 303
        found = client.post("/ui/jobs/clicks/do/start", data={"csrf": word})
        assert (found.status_code, found.headers["location"][:9]) == (303, "/ui/login")
    assert served.ask("GET", "/api/jobs/clicks").json()["desired"]["state"] != "running"


def test_a_token_file_that_breaks_admits_nobody_and_says_so(served: Served) -> None:
    path = served.files.tokens
    kept = path.read_text()
    try:
        path.write_text("[")
        token = served.operate["authorization"].split()[1]
        wait_until_known(served, token, is_known=False)
        detail = served.client.get("/api/jobs", headers=served.operate).json()["detail"]
        assert "does not hold tokens" in detail
    finally:
        path.write_text(kept)
    wait_until_known(served, token)


# ---- users whom a proxy names


def behind(network: str) -> TrustedProxy:
    return TrustedProxy((ip_network(network),), "x-forwarded-user", "x-forwarded-groups")


def test_a_user_whom_a_trusted_proxy_names_has_their_role(tmp_path: Path) -> None:
    with serving_app(tmp_path, proxy=behind("127.0.0.0/8")) as served:
        tokens = served.context.access.tokens
        tokens.allow("user", "anna@example.com", UserRole.OPERATE)
        tokens.allow("group", "analysts", UserRole.READ)
        threading.Event().wait(LOOK_S + 0.1)
        anna = {"x-forwarded-user": "anna@example.com", "x-forwarded-for": "1.1.1.1, 10.9.8.7"}
        bob = {"x-forwarded-user": "bob", "x-forwarded-groups": "sales, analysts"}
        eve = {"x-forwarded-user": "eve"}
        stop = "/api/jobs/clicks/stop"
        assert served.client.post(stop, headers=anna).status_code == 200
        line = next(reversed(list(read_lines(served.files.audit))))
        assert (line["by"], line["from"]) == ("anna@example.com", "10.9.8.7")
        assert served.client.get("/api/jobs", headers=bob).status_code == 200
        assert served.client.post(stop, headers=bob).status_code == 403
        assert "has no role" in served.client.get("/api/jobs", headers=eve).json()["detail"]
        assert [each["by"] for each in refusals(served)] == ["bob", "eve"]
        twice = [("x-forwarded-user", "eve"), ("x-forwarded-user", "anna@example.com")]
        assert served.client.get("/api/jobs", headers=twice).status_code == 401
        page = served.client.get("/ui/jobs", headers=anna)
        word = re.search(r'name="csrf" value="([0-9a-f]+)"', page.text)
        assert word is not None
        sent = {"csrf": word[1]}
        act = "/ui/jobs/clicks/do/start"
        assert served.client.post(act, data=sent, headers=bob).status_code == 403
        foreign = {**anna, "origin": "https://evil.example"}
        assert served.client.post(act, data=sent, headers=foreign).status_code == 403
        assert served.client.post(act, data={}, headers=anna).status_code == 403, "no word"
        assert served.client.post(act, data=sent, headers=anna).status_code == 303
        assert served.client.get("/ui/jobs", headers=eve).status_code == 303
        assert "The user eve" in served.client.get("/ui/login", headers=eve).text
        assert "The user" not in served.client.get("/ui/login", headers=anna).text
        tokens.revoke("anna@example.com")
        threading.Event().wait(LOOK_S + 0.1)
        assert served.client.post(stop, headers=anna).status_code == 403


def test_nobody_else_is_believed_about_users_and_addresses(tmp_path: Path) -> None:
    headers = {"x-forwarded-user": "anna", "x-forwarded-for": "10.9.8.7"}
    with serving_app(tmp_path, proxy=behind("10.0.0.0/8")) as served:
        served.context.access.tokens.allow("user", "anna", UserRole.OPERATE)
        threading.Event().wait(LOOK_S + 0.1)
        assert served.client.get("/api/jobs", headers=headers).status_code == 401
        assert served.client.get("/ui/jobs", headers=headers).status_code == 303
        own = {**headers, **served.operate}
        assert served.client.post("/api/jobs/clicks/stop", headers=own).status_code == 200
        line = next(reversed(list(read_lines(served.files.audit))))
        assert (line["by"], line["from"]) == ("operate", "127.0.0.1")


@pytest.mark.parametrize(
    "options",
    [["--user-header", "X-User"], ["--trusted-proxy", "no-address", "--user-header", "X-User"]],
)
def test_a_header_of_users_needs_a_proxy(tmp_path: Path, options: list[str]) -> None:
    found = CliRunner().invoke(app, ["serve", str(tmp_path), "--port", "0", *options])
    assert found.exit_code == RequestInvalid.exit_code
    assert "--trusted-proxy" in found.output
