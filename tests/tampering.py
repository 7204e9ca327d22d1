"""A proxy that damages what a broker answers, answer by answer.

What it is: threads in this process between clients and one port; a function sees each answer, which
is a number of bytes after its length, and says what goes on.
"""

import socket
import struct
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import BinaryIO, Self

from ashore_lab.services.ports import LOOPBACK

# Number of the answer on its connection, and the answer; returns what is sent in its place, or None
# to close the connection. What is longer or shorter than it should be is sent as it is.
Tamper = Callable[[int, bytes], bytes | None]
LENGTH = struct.Struct(">i")
LARGE = 20_000  # only answers to a fetch of many records are that large
TLS_HEADER = struct.Struct(">BHH")  # kind, version, length


def let_pass(_number: int, answer: bytes) -> bytes:
    return LENGTH.pack(len(answer)) + answer


def speaks_up_to(highest: int, asked: list[int]):
    """Answer as a broker whose newest fetch is older; note in `asked` each time that it is told."""

    def tamper(number: int, answer: bytes) -> bytes:
        # The first answer of a connection lists requests: key, lowest and highest version, each of
        # two bytes, the first eight bytes in.
        if number == 0 and len(answer) < 1_000:
            keys = {answer[at : at + 2]: at for at in range(10, len(answer) - 5, 6)}
            fetch, metadata = keys[b"\0\1"], keys[b"\0\3"]
            answer = put(put(answer, fetch + 4, highest), metadata + 4, 9)
            asked.append(highest)
        return let_pass(number, answer)

    return tamper


def put(answer: bytes, at: int, version: int) -> bytes:
    return answer[:at] + version.to_bytes(2, "big") + answer[at + 2 :]


def not_leading(answer: bytes) -> bytes:
    """Return an answer to the same fetch, of its first partition alone: an error, and no record."""
    error, no_offsets, no_replica = b"\0\6", b"\xff" * 24, b"\xff" * 4
    if answer[15] == 2:  # one topic, by its id: a newer version, with fields that may have tags
        partition = b"\2" + answer[33:37]
        return answer[:32] + partition + error + no_offsets + b"\0" + no_replica + b"\1\0\0\0"
    at = 20 + int.from_bytes(answer[18:20])  # after the topic's name
    partition = b"\0\0\0\1" + answer[at + 4 : at + 8]
    return answer[:at] + partition + error + no_offsets + b"\xff" * 4 + no_replica + b"\0" * 4


class TamperingProxy:
    """As a context manager it serves inside. `tamper` may be changed at any time."""

    def __init__(self, port: int, target_port: int) -> None:
        self.tamper: Tamper = let_pass
        self.pause_s = 0.0  # more: what is large is sent byte by byte, each after such a pause
        self.port = port
        self.accepted = 0  # connections so far
        self._target_port = target_port
        self._listener = socket.create_server((LOOPBACK, port))
        self._open: list[socket.socket] = []

    def __enter__(self) -> Self:
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for each in self._open:
            _close(each)

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                self.accepted += 1
                server = socket.create_connection((LOOPBACK, self._target_port))
                self._open += [client, server]
                for work in (self._forward_requests, self._forward_answers):
                    threading.Thread(target=work, args=(client, server), daemon=True).start()

    def close_all(self) -> None:
        """Close what is open, as a broker does that stops, or finds a connection idle."""
        while self._open:
            _close(self._open.pop())

    def _forward_requests(self, client: socket.socket, server: socket.socket) -> None:
        with suppress(OSError):
            while data := client.recv(1 << 16):
                server.sendall(data)
        _close(client)
        _close(server)

    def _forward_answers(self, client: socket.socket, server: socket.socket) -> None:
        number, source = 0, server.makefile("rb")
        with suppress(OSError):
            while (answer := self._read_answer(source)) is not None:
                sent = self.tamper(number, answer)
                if sent is None:
                    break
                self._send(client, sent)
                number += 1
        _close(client)
        _close(server)

    def _read_answer(self, source: BinaryIO) -> bytes | None:
        head = source.read(LENGTH.size)
        return source.read(*LENGTH.unpack(head)) if head else None

    def _send(self, client: socket.socket, sent: bytes) -> None:
        at = 0
        while self.pause_s and at < len(sent) and len(sent) > LARGE:
            client.sendall(sent[at : at + 1])
            at += 1
            time.sleep(self.pause_s)
        client.sendall(sent[at:])


class TamperingTlsProxy(TamperingProxy):
    """The same for records of TLS, each with its header; `chunk` is how much is sent at once."""

    chunk = 1 << 20

    def _read_answer(self, source: BinaryIO) -> bytes | None:
        head = source.read(TLS_HEADER.size)
        return head + source.read(TLS_HEADER.unpack(head)[-1]) if head else None

    def _send(self, client: socket.socket, sent: bytes) -> None:
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for at in range(0, len(sent), self.chunk):
            client.sendall(sent[at : at + self.chunk])


def _close(end: socket.socket) -> None:
    with suppress(OSError):
        end.shutdown(socket.SHUT_RDWR)
    end.close()
