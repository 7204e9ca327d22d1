"""Connections to a server: slow ones, too many, and TLS by a certificate of its own."""

import json
import os
import signal
import socket
import ssl
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import httpx
import pytest
import uvicorn
from tests.served import serving
from tests.unit.fleet.conftest import Served
from typer.testing import CliRunner

from ashore.cli.app import app
from ashore.errors import RequestInvalid, ServerRefused
from ashore.fleet.server import doorway
from ashore.fleet.server.doorway import ClientConnection
from ashore_lab.testing.simulation import write_simulated_job

ROOT = Path(__file__).parents[3]


class _QuietServer(uvicorn.Server):
    def install_signal_handlers(self) -> None:
        """Leave signals to pytest."""


async def hello(scope, receive, send) -> None:
    if scope["type"] == "http":
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"hello"})


@contextmanager
def answering(app=hello, **settings: object) -> Iterator[int]:
    """Serve an application as `ashore serve` does, and yield its port."""
    config = uvicorn.Config(app, port=0, log_level="critical", lifespan="off", **settings)  # type: ignore[arg-type]
    server = _QuietServer(config)
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        while not server.started:
            time.sleep(0.01)
        yield server.servers[0].sockets[0].getsockname()[1]
    finally:
        server.should_exit = True
        thread.join()


@pytest.mark.parametrize("sent", [b"", b"GET / HTTP/1.1\r\nx-slow: 1\r\n"])
def test_a_head_that_does_not_come_is_cut_off(sent: bytes) -> None:
    class Quick(ClientConnection):
        head_s_max = 0.2

    with (
        answering(http=Quick) as port,
        socket.create_connection(("127.0.0.1", port), 60) as slow,
        httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=60) as client,
    ):
        slow.sendall(sent)
        assert client.get("/").text == "hello", "others are answered meanwhile"
        assert slow.recv(1) == b"", "it is cut off"
        assert client.get("/").text == "hello", "a connection that has asked is kept"


def test_a_connection_too_many_is_told_so_and_the_next_is_served() -> None:
    with answering(http=ClientConnection, limit_concurrency=20) as port:
        url = f"http://127.0.0.1:{port}/"
        with ExitStack() as stack:
            for _ in range(25):
                stack.enter_context(socket.create_connection(("127.0.0.1", port), 60))
            assert httpx.get(url, timeout=60).status_code == 503
        for _ in range(600):
            if httpx.get(url, timeout=60).status_code == 200:
                return
            time.sleep(0.05)
        raise AssertionError("no connection is served after the others have gone")


def test_a_body_that_does_not_come_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doorway, "BODY_S_MAX", 0.2)

    async def reads(scope, receive, send) -> None:
        bounded = doorway._bounded(receive)
        status = 200
        try:
            while (await bounded()).get("more_body"):
                pass
        except doorway.HTTPException as error:
            status = error.status_code
        await send({"type": "http.response.start", "status": status, "headers": []})
        await send({"type": "http.response.body", "body": b""})

    with (
        answering(reads, http=ClientConnection) as port,
        socket.create_connection(("127.0.0.1", port), 60) as slow,
    ):
        slow.sendall(b"PUT / HTTP/1.1\r\nhost: x\r\ncontent-length: 100\r\n\r\n{")
        assert slow.recv(100).split()[1] == b"413"


SLOW = (
    b"GET / HTTP/1.1\r\nhost: x\r\n\r\n",
    b"POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 1\r\n\r\nx",
)


class Quick(ClientConnection):
    """A connection with little patience."""

    head_s_max = 0.3
    rest_s_max = 0.3


def read_answer(client: socket.socket) -> bytes:
    """Return an answer up to the end of its body."""
    answer = b""
    while not answer.endswith(b"0\r\n\r\n"):
        part = client.recv(1000)
        assert part, answer
        answer += part
    return answer


@pytest.mark.parametrize("first", SLOW)
@pytest.mark.parametrize("rest", [b"G", b"GET / HTTP/1.1\r\nx-slow: 1\r\n"])
def test_the_head_of_a_second_request_has_to_come_in_time_too(first: bytes, rest: bytes) -> None:
    """Also one that comes byte by byte: each byte made the server forget that it waits."""
    with (
        answering(http=Quick) as port,
        socket.create_connection(("127.0.0.1", port), 60) as client,
    ):
        client.sendall(first)
        assert b"200" in read_answer(client)
        assert is_cut_off(client, rest)


def is_cut_off(client: socket.socket, first: bytes) -> bool:
    """Send bytes again and again, and tell whether the other side has ended it."""
    client.settimeout(0.05)
    client.sendall(first)
    for _ in range(200):
        with suppress(TimeoutError):
            try:
                client.sendall(b"a")
                if client.recv(1000) == b"":
                    return True
            except ConnectionError:
                return True
    return False


def test_a_body_that_drips_on_after_its_answer_is_cut_off() -> None:
    with (
        answering(http=Quick) as port,
        socket.create_connection(("127.0.0.1", port), 60) as client,
    ):
        client.sendall(b"POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 100000\r\n\r\n")
        assert b"200" in read_answer(client)
        assert is_cut_off(client, b"x")


def test_a_body_that_comes_byte_by_byte_is_given_up_as_a_whole(
    monkeypatch: pytest.MonkeyPatch, served: Served
) -> None:
    """Of the API and of a login, which nobody has a token for: each byte is in time by itself."""
    monkeypatch.setattr(doorway, "BODY_S_MAX", 0.5)
    port = served.client.base_url.port
    token = served.operate["authorization"].encode()
    for head in (b"PUT /api/jobs/clicks", b"POST /ui/login"):
        with socket.create_connection(("127.0.0.1", port), 60) as client:
            client.settimeout(0.05)
            sent = head + b" HTTP/1.1\r\nhost: 127.0.0.1\r\nauthorization: " + token
            client.sendall(sent + b"\r\ncontent-length: 1000\r\n\r\n")
            assert drip(client).split()[1] == b"413"


def drip(client: socket.socket) -> bytes:
    """Send a byte every 50 ms until there is an answer, and return it."""
    for _ in range(1000):
        with suppress(TimeoutError):
            client.sendall(b" ")
            return client.recv(1000)
    return b"none none"


def test_a_login_that_is_cut_off_leaves_no_traceback(
    served: Served, caplog: pytest.LogCaptureFixture
) -> None:
    port = served.client.base_url.port
    assert port is not None
    for path in ("/ui/login", "/api/jobs/clicks/stop"):
        with socket.create_connection(("127.0.0.1", port), 60) as client:
            head = f"POST {path} HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-length: 9\r\n"
            head += "content-type: application/json\r\n"
            head += f"authorization: {served.operate['authorization']}\r\n\r\n"
            client.sendall(head.encode() + b"tok")
            time.sleep(0.1)
    for _ in range(20):
        assert served.client.get("/ui/login").status_code == 200
        time.sleep(0.02)
    assert [each.getMessage() for each in caplog.records if each.levelname == "ERROR"] == []


def test_a_login_form_is_short(served: Served) -> None:
    """Anybody may send one: what is longer is not taken apart."""
    token = served.read["authorization"].split()[1]
    sent = f"token={token}".encode()
    url = f"{served.client.base_url}/ui/login"
    assert httpx.post(url, content=sent).headers["location"] == "/ui/jobs"
    found = httpx.post(url, content=sent + b"&a=1" * 5_000)
    assert (found.status_code, found.headers["location"]) == (303, "/ui/login?next=/ui/login")


# --- TLS -----------------------------------------------------------------------------------------


@pytest.fixture
def certificate(tmp_path: Path) -> tuple[Path, Path]:
    made, key = tmp_path / "server.pem", tmp_path / "server.key"
    command = "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 "
    command += "-subj /CN=localhost -addext subjectAltName=IP:127.0.0.1"
    places = ["-keyout", str(key), "-out", str(made)]
    subprocess.run([*command.split(), *places], check=True, capture_output=True)
    return made, key


@pytest.mark.slow
def test_a_server_with_a_certificate_is_asked_by_tls_alone(
    tmp_path: Path, certificate: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    jobs = tmp_path / "jobs"
    jobs.mkdir()
    write_simulated_job(jobs, "clicks")
    made, key = certificate
    command = [sys.executable, "-c", "from ashore.cli import main; main()", "serve", str(jobs)]
    command += ["--port", "0", "--tls-certificate", str(made), "--tls-key", str(key)]
    with subprocess.Popen(command, cwd=ROOT, stderr=subprocess.PIPE, text=True) as server:
        try:
            assert server.stderr is not None
            line = server.stderr.readline()
            url = line.split()[-1]
            assert url.startswith("https://127.0.0.1:"), line
            with pytest.raises(httpx.ConnectError, match="certificate"):
                httpx.get(f"{url}/api/server")
            with pytest.raises(httpx.HTTPError):
                httpx.get(url.replace("https", "http") + "/api/server", timeout=60)
            trusted = ssl.create_default_context(cafile=str(made))
            assert httpx.get(f"{url}/api/server", verify=trusted, timeout=60).status_code == 401
            tokens = json.loads((jobs / ".ashore/tokens.json").read_text("utf-8"))
            token = next(each["token"] for each in tokens["tokens"] if each["role"] == "operate")
            for name, value in (("SERVER", url), ("CA_FILE", str(made)), ("TOKEN", token)):
                monkeypatch.setenv(f"ASHORE_{name}", value)
            asked = CliRunner().invoke(app, ["jobs", "--json"])
            assert asked.exit_code == 0, asked.output
            assert [each["name"] for each in json.loads(asked.stdout)["jobs"]] == ["clicks"]
        finally:
            os.kill(server.pid, signal.SIGTERM)
            assert server.wait(60) == 0


def test_a_port_that_is_taken_is_said_before_a_job_is_started(tmp_path: Path) -> None:
    write_simulated_job(tmp_path, "clicks")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        found = CliRunner().invoke(app, ["serve", str(tmp_path), "--port", str(port)])
    assert found.exit_code == ServerRefused.exit_code
    assert f"listen at 127.0.0.1 port {port}" in found.output
    assert "--port" in found.output


def test_a_certificate_that_is_none_is_refused(tmp_path: Path) -> None:
    wrong = tmp_path / "server.pem"
    wrong.write_text("no PEM")
    options = ["--port", "0", "--tls-certificate", str(wrong), "--tls-key", str(wrong)]
    found = CliRunner().invoke(app, ["serve", str(tmp_path), *options])
    assert found.exit_code == RequestInvalid.exit_code
    assert "has no certificate" in found.output


@pytest.mark.slow
def test_an_answer_is_sent_at_once(tmp_path: Path) -> None:
    """A connection that gathers small pieces would wait 40 ms for what the other side has got."""
    with serving(tmp_path) as (client, _server):
        taken = []
        for _ in range(20):
            began_s = time.perf_counter()
            client.get("/api/server").raise_for_status()
            taken.append(time.perf_counter() - began_s)
    assert statistics.median(taken) < 0.03
