"""Calls to a NameNode, spoken here: so one takes milliseconds, and not the two seconds in which a
Java virtual machine starts.

What it is: Hadoop's RPC over one connection for one call, and the little of protobuf that it needs.
What it promises: a call has a deadline; what did not answer is an error, never a guess. Answers
have no content but that they are there.
"""

import os
import pwd
import socket
import struct
from uuid import uuid4

from ashore.errors import ServiceError
from ashore_lab.services.ports import LOOPBACK

MAGIC = b"hrpc" + bytes((9, 0, 0))  # version 9, no service class, no authentication
CONTEXT_CALL = -3


def server_user() -> str:
    """Return the user that servers run as, who is HDFS's superuser."""
    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return "ashore"


def call(rpc_port: int, protocol: str, method: str, message: bytes, *, deadline_s: float) -> None:
    """Make one call. Raises ServiceError if it is refused or unanswered: its effect is unknown."""
    try:
        with socket.create_connection((LOOPBACK, rpc_port), deadline_s) as connection:
            connection.sendall(MAGIC + _context(protocol) + _request(protocol, method, message))
            header = _read_header(connection)
    except OSError as error:
        raise ServiceError(f"{method}: port {rpc_port} does not answer: {error}") from error
    if header.get(2, 0):
        raise ServiceError(f"{method}: port {rpc_port} says {header.get(4)}: {header.get(5)}")


def number(tag: int, value: int) -> bytes:
    """Return a field of a message: a number that is not negative."""
    return _varint(tag << 3) + _varint(value)


def field(tag: int, value: bytes) -> bytes:
    """Return a field of a message: a text, or another message."""
    return _varint(tag << 3 | 2) + _varint(len(value)) + value


def _context(protocol: str) -> bytes:
    user = field(2, field(1, server_user().encode()))
    return _packet(_call_header(CONTEXT_CALL), user + field(3, protocol.encode()))


def _request(protocol: str, method: str, message: bytes) -> bytes:
    header = field(1, method.encode()) + field(2, protocol.encode()) + number(3, 1)
    return _packet(_call_header(0), header, message)


def _call_header(call: int) -> bytes:
    """Return RpcRequestHeaderProto: a protobuf call, final packet; call ids are zigzag."""
    zigzag = (call << 1) ^ (call >> 31)
    return number(1, 2) + number(2, 0) + number(3, zigzag) + field(4, uuid4().bytes)


def _packet(*messages: bytes) -> bytes:
    body = b"".join(_varint(len(message)) + message for message in messages)
    return struct.pack(">i", len(body)) + body


def _varint(value: int) -> bytes:
    encoded = bytearray()
    while value > 0x7F:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)


def _read_header(connection: socket.socket) -> dict[int, int | str]:
    """Read an answer and return its RpcResponseHeaderProto: numbers and texts by tag."""
    with connection.makefile("rb") as stream:
        prefix = stream.read(4)
        packet = stream.read(struct.unpack(">i", prefix)[0]) if len(prefix) == 4 else b""
    if not packet:
        raise ConnectionError("the connection was closed")
    size, at = _parse_varint(packet, 0)
    end = at + size
    found: dict[int, int | str] = {}
    while at < end:
        key, at = _parse_varint(packet, at)
        value, at = _parse_varint(packet, at)
        if key & 7 == 0:
            found[key >> 3] = value
        else:
            found[key >> 3] = packet[at : at + value].decode("utf-8", "replace")
            at += value
    return found


def _parse_varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        value |= (data[at] & 0x7F) << shift
        at += 1
        if data[at - 1] < 0x80:
            return value, at
        shift += 7
