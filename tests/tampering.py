"""A proxy that damages what a broker answers, answer by answer.

What it is: threads in this process between clients and one port; a function sees each answer, which
is a number of bytes after its length, and says what goes on.
"""

import socket
import struct
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Self

from ashore.services.ports import LOOPBACK

# Number of the answer on its connection, and the answer; returns what is sent in its place, or None
# to close the connection. What is longer or shorter than it should be is sent as it is.
Tamper = Callable[[int, bytes], bytes | None]
LENGTH = struct.Struct(">i")


def let_pass(_number: int, answer: bytes) -> bytes:
    return LENGTH.pack(len(answer)) + answer


class TamperingProxy:
    """As a context manager it serves inside. `tamper` may be changed at any time."""

    def __init__(self, port: int, target_port: int) -> None:
        self.tamper: Tamper = let_pass
        self.port = port
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
                server = socket.create_connection((LOOPBACK, self._target_port))
                self._open += [client, server]
                for work in (self._forward_requests, self._forward_answers):
                    threading.Thread(target=work, args=(client, server), daemon=True).start()

    def _forward_requests(self, client: socket.socket, server: socket.socket) -> None:
        with suppress(OSError):
            while data := client.recv(1 << 16):
                server.sendall(data)
        _close(client)
        _close(server)

    def _forward_answers(self, client: socket.socket, server: socket.socket) -> None:
        number, source = 0, server.makefile("rb")
        with suppress(OSError):
            while head := source.read(LENGTH.size):
                sent = self.tamper(number, source.read(*LENGTH.unpack(head)))
                if sent is None:
                    break
                client.sendall(sent)
                number += 1
        _close(client)
        _close(server)


def _close(end: socket.socket) -> None:
    with suppress(OSError):
        end.shutdown(socket.SHUT_RDWR)
    end.close()
