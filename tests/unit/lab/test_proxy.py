"""The proxy as a process, before a server that answers in capitals."""

import socket
import socketserver
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from ashore.errors import ServiceError
from ashore_lab.services.ports import LOOPBACK, find_free_ports, is_listening
from ashore_lab.services.process import Command, ServerProcess
from ashore_lab.services.proxy import Mode, Route, command, load_modes, set_mode

HANG_S = 0.1
ANSWER_S = 10


class Capitals(socketserver.StreamRequestHandler):
    def handle(self) -> None:
        for line in self.rfile:
            self.server.asked.append(line)  # type: ignore[attr-defined]
            self.wfile.write(line.upper())


class Server(socketserver.ThreadingTCPServer):
    allow_reuse_address = True
    daemon_threads = True

    def __init__(self, port: int) -> None:
        self.asked: list[bytes] = []
        super().__init__((LOOPBACK, port), Capitals)
        threading.Thread(target=self.serve_forever, args=(0.01,), daemon=True).start()


@pytest.fixture(scope="module")
def running(tmp_path_factory) -> Iterator[tuple[Route, int, Server]]:
    port, target_port, control_port = find_free_ports(3)
    process = ServerProcess("proxy", tmp_path_factory.mktemp("proxy"))
    route = Route(port, target_port)
    with Server(target_port) as server:
        process.start(
            Command("proxy", command(control_port, [route]), process.log_path.parent),
            lambda _: is_listening(control_port) and is_listening(port),
        )
        try:
            yield route, control_port, server
        finally:
            process.stop()
            server.shutdown()


class Site:
    """One test's view: the proxy passes at its beginning."""

    def __init__(self, route: Route, control_port: int, server: Server) -> None:
        self.route, self.control_port, self.server = route, control_port, server

    def set(self, mode: Mode, answers: int | None = None) -> None:
        set_mode(self.control_port, 0, mode, answers=answers)

    def connect(self) -> socket.socket:
        return socket.create_connection((LOOPBACK, self.route.port), ANSWER_S)


@pytest.fixture
def site(running: tuple[Route, int, Server]) -> Iterator[Site]:
    site = Site(*running)
    site.server.asked.clear()
    yield site
    site.set(Mode.PASS)


def ask(connection: socket.socket, text: bytes, wait_s: float = ANSWER_S) -> bytes:
    connection.sendall(text)
    connection.settimeout(wait_s)
    return connection.recv(100)


def test_it_passes_both_ways_and_shows_its_modes(site: Site):
    with site.connect() as one, site.connect() as two:
        assert ask(one, b"a\n") == b"A\n"
        assert ask(two, b"b\n") == b"B\n"
        assert ask(one, b"c\n") == b"C\n"
    assert load_modes(site.control_port) == [Mode.PASS]
    site.set(Mode.BLACK_HOLE)
    assert load_modes(site.control_port) == [Mode.BLACK_HOLE]


def test_a_black_hole_holds_old_and_new_connections_and_delivers_late(site: Site):
    with site.connect() as old:
        assert ask(old, b"before\n") == b"BEFORE\n"
        site.set(Mode.BLACK_HOLE)
        with site.connect() as new:
            for connection in (old, new):
                with pytest.raises(TimeoutError):
                    ask(connection, b"x\n", HANG_S)
            assert site.server.asked == [b"before\n"]
            site.set(Mode.PASS)
            for connection in (old, new):
                connection.settimeout(ANSWER_S)
                assert connection.recv(100) == b"X\n"


def test_what_a_client_gave_up_still_arrives(site: Site):
    with site.connect() as client:
        assert ask(client, b"before\n") == b"BEFORE\n"
        site.set(Mode.BLACK_HOLE)
        client.sendall(b"given up\n")
    with site.connect() as other:
        with pytest.raises(TimeoutError):
            ask(other, b"y\n", HANG_S)
        assert site.server.asked == [b"before\n"]
        site.set(Mode.PASS)
        other.settimeout(ANSWER_S)
        assert other.recv(100) == b"Y\n"
    # What the first client sent travels on its own: it may arrive after the other's answer.
    deadline_s = time.monotonic() + ANSWER_S
    while len(site.server.asked) < 3 and time.monotonic() < deadline_s:
        time.sleep(0.01)
    assert sorted(site.server.asked) == [b"before\n", b"given up\n", b"y\n"]


def test_a_dropped_answer_was_asked_for(site: Site):
    with site.connect() as client:
        assert ask(client, b"a\n") == b"A\n"
        site.set(Mode.DROP_ANSWER)
        assert ask(client, b"b\n") == b"", "closed"
    with site.connect() as client:
        assert ask(client, b"c\n") == b""
    assert site.server.asked == [b"a\n", b"b\n", b"c\n"]


def test_so_many_answers_are_dropped_and_no_more(site: Site):
    site.set(Mode.DROP_ANSWER, answers=2)
    for text in (b"a\n", b"b\n"):
        with site.connect() as client:
            assert ask(client, text) == b""
    with site.connect() as client:
        assert ask(client, b"c\n") == b"C\n"
    assert load_modes(site.control_port) == [Mode.PASS]


def test_a_proxy_that_is_gone_is_an_error():
    with pytest.raises(ServiceError, match="the proxy does"):
        set_mode(find_free_ports(1)[0], 0, Mode.PASS)


def test_clients_of_a_server_that_ended_are_refused_until_it_is_back(tmp_path: Path):
    port, target_port, control_port = find_free_ports(3)
    listen = (
        "import socket, sys\n"
        "server = socket.create_server(('127.0.0.1', int(sys.argv[1])))\n"
        "held = []\n"
        "while True: held.append(server.accept())\n"
    )
    process, server = ServerProcess("proxy", tmp_path), ServerProcess("server", tmp_path)
    script = Command("server", ("python3", "-S", "-c", listen, str(target_port)), tmp_path)
    try:
        arguments = command(control_port, [Route(port, target_port)])
        process.start(Command("proxy", arguments, tmp_path), lambda _: is_listening(control_port))
        assert not is_listening(port)
        for _ in range(2):
            server.start(script, lambda _: is_listening(port))
            server.kill()
            while is_listening(port):
                pass
    finally:
        process.stop()
        server.kill()
