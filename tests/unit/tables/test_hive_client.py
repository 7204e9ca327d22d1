"""The client against servers that misbehave: sockets of this process, no metastore."""

import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress

import pytest

from ashore.base.clock import SystemClock
from ashore.errors import CatalogError, CatalogUnreachable
from ashore.tables.catalog.hive_client import HiveClient
from ashore.tables.catalog.hive_wire import Address, HiveRefusal

Behaviour = Callable[[socket.socket], None]
TIMEOUT_S = 0.1


@contextmanager
def serve(behave: Behaviour) -> Iterator[Address]:
    """Run a server that treats each connection as told, in threads that end with it."""
    with socket.create_server(("127.0.0.1", 0)) as listener, ExitStack() as open_ones:

        def handle(connection: socket.socket) -> None:
            with suppress(OSError):
                behave(connection)
                connection.close()

        def accept() -> None:
            with suppress(OSError):
                while True:
                    connection, _ = listener.accept()
                    open_ones.callback(connection.close)
                    threading.Thread(target=handle, args=(connection,), daemon=True).start()

        threading.Thread(target=accept, daemon=True).start()
        yield Address("127.0.0.1", listener.getsockname()[1])
        with suppress(OSError):
            listener.shutdown(socket.SHUT_RDWR)


def reply(kind: int, payload: bytes, method: bytes = b"get_database") -> bytes:
    head = struct.pack(">II", 0x80010000 | kind, len(method)) + method
    return head + struct.pack(">i", 0) + payload


def text(number: int, value: bytes) -> bytes:
    return struct.pack(">bhI", 11, number, len(value)) + value


DATABASE = reply(2, struct.pack(">bh", 12, 0) + text(1, b"ods") + b"\x00\x00")
NO_SUCH = reply(2, struct.pack(">bh", 12, 1) + text(1, b"no ods") + b"\x00\x00")
META = reply(2, struct.pack(">bh", 12, 2) + text(1, b"the database is away") + b"\x00\x00")
UNKNOWN = reply(3, text(1, b"Invalid method name") + struct.pack(">bhib", 8, 2, 1, 0))


def answer(data: bytes) -> Behaviour:
    def behave(connection: socket.socket) -> None:
        while connection.recv(4096):
            connection.sendall(data)

    return behave


def stay_silent(connection: socket.socket) -> None:
    while connection.recv(4096):
        pass


def drip(connection: socket.socket) -> None:
    """Send a byte now and then: each comes in time, the answer never does."""
    connection.recv(4096)
    for byte in DATABASE * 100:
        connection.sendall(bytes([byte]))
        time.sleep(0.03)


def close_at_once(connection: socket.socket) -> None:
    connection.recv(4096)


@contextmanager
def client(*addresses: Address, timeout_s: float = 5) -> Iterator[HiveClient]:
    made = HiveClient(addresses, timeout_s, SystemClock())
    try:
        yield made
    finally:
        made.close()


def nobody() -> Address:
    """Return an address where nobody listens."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return Address("127.0.0.1", listener.getsockname()[1])


def test_an_answer_and_a_refusal_keep_the_connection():
    connections = []

    def behave(connection: socket.socket) -> None:
        connections.append(connection)
        answer(NO_SUCH)(connection)

    with serve(behave) as address, client(address) as asked:
        for _ in range(3):
            refusal = asked.call("get_database", "ods", accept=["NoSuchObjectException"])
            assert refusal == HiveRefusal("NoSuchObjectException", "no ods")
    assert len(connections) == 1


@pytest.mark.parametrize(
    ("data", "named"),
    [(META, "the database is away"), (NO_SUCH, "no ods"), (UNKNOWN, "Invalid method name")],
)
def test_a_refusal_that_was_not_expected_is_an_error(data: bytes, named: str):
    with (
        serve(answer(data)) as address,
        client(address) as asked,
        pytest.raises(CatalogError, match=named) as caught,
    ):
        asked.call("get_database", "ods")
    assert not isinstance(caught.value, CatalogUnreachable)
    assert caught.value.hint


@pytest.mark.parametrize("behave", [stay_silent, drip])
def test_no_answer_is_unreachable_in_time(behave: Behaviour):
    with serve(behave) as address, client(address, timeout_s=TIMEOUT_S) as asked:
        began = time.monotonic()
        with pytest.raises(CatalogUnreachable, match="no answer"):
            asked.call("get_database", "ods")
        assert time.monotonic() - began < TIMEOUT_S + 0.1


@pytest.mark.parametrize(
    "behave",
    [
        close_at_once,
        answer(b"HTTP/1.1 400 Bad Request\r\n\r\n"),
        answer(b"\x80\x01\x00\x02\x7f\xff\xff\xff" + b"x" * 4096),
        answer(DATABASE[:20]),
    ],
)
def test_nonsense_is_unreachable(behave: Behaviour):
    with (
        serve(behave) as address,
        client(address, timeout_s=TIMEOUT_S) as asked,
        pytest.raises(CatalogUnreachable, match=str(address)),
    ):
        asked.call("get_database", "ods")


def test_nobody_is_unreachable_at_once():
    with (
        client(nobody(), timeout_s=60) as asked,
        pytest.raises(CatalogUnreachable, match="refused"),
    ):
        asked.call("get_database", "ods")


def test_the_next_address_is_asked_and_stays():
    with serve(answer(DATABASE)) as good, client(nobody(), good) as asked:
        assert asked.call("get_database", "ods").name == "ods"
        assert asked._addresses[0] == good
        assert asked.call("get_database", "ods").name == "ods"


def test_a_silent_server_is_not_waited_for_twice():
    """Its work may go on; the next call begins with the next address."""
    with (
        serve(stay_silent) as silent,
        serve(answer(DATABASE)) as good,
        client(silent, good, timeout_s=TIMEOUT_S) as asked,
    ):
        with pytest.raises(CatalogUnreachable):
            asked.call("get_database", "ods")
        assert asked.call("get_database", "ods").name == "ods"


def test_an_answer_that_comes_late_is_never_taken_for_the_next_ones():
    is_first = iter([True])

    def behave(connection: socket.socket) -> None:
        connection.recv(4096)
        if next(is_first, False):
            time.sleep(1.5 * TIMEOUT_S)
            connection.sendall(NO_SUCH)
        else:
            connection.sendall(DATABASE)
        stay_silent(connection)

    with serve(behave) as address, client(address, timeout_s=TIMEOUT_S) as asked:
        with pytest.raises(CatalogUnreachable):
            asked.call("get_database", "ods")
        time.sleep(TIMEOUT_S)
        assert asked.call("get_database", "ods").name == "ods"


def test_a_connection_that_broke_meanwhile_is_replaced():
    def once(connection: socket.socket) -> None:
        connection.recv(4096)
        connection.sendall(DATABASE)

    with serve(once) as address, client(address) as asked:
        for _ in range(3):
            assert asked.call("get_database", "ods").name == "ods"


def test_waiting_for_a_turn_ends_in_time():
    with serve(stay_silent) as address, client(address, timeout_s=TIMEOUT_S) as asked:
        messages = []

        def call() -> None:
            with pytest.raises(CatalogUnreachable) as caught:
                asked.call("get_database", "ods")
            messages.append(caught.value.message)

        threads = [threading.Thread(target=call) for _ in range(4)]
        began = time.monotonic()
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert time.monotonic() - began < 2 * TIMEOUT_S + 0.2
        assert len(messages) == 4


def test_an_argument_that_cannot_be_sent_spoils_no_connection():
    with serve(answer(DATABASE)) as address, client(address) as asked:
        with pytest.raises(CatalogError):
            asked.call("get_database", "\ud800")
        assert asked.call("get_database", "ods").name == "ods"
