"""Which NameNode is active, and making it so.

What it is: the two calls of Hadoop's `HAServiceProtocol` that `hdfs haadmin` makes, spoken here,
and the NameNode's own page about itself. So a switch takes milliseconds, and not the two seconds
in which a Java virtual machine starts.
What it promises: every call has a deadline; what did not answer is an error, never a guess.
What it must not know: processes and directories; which NameNode should be active.
"""

import json
import os
import pwd
import socket
import struct
import urllib.error
import urllib.request
from enum import StrEnum
from typing import NamedTuple
from uuid import uuid4

from ashore.errors import ServiceError
from ashore.services.ports import LOOPBACK

PROTOCOL = "org.apache.hadoop.ha.HAServiceProtocol"
MAGIC = b"hrpc" + bytes((9, 0, 0))  # version 9, no service class, no authentication
CONTEXT_CALL = -3
BEANS = "http://{host}:{port}/jmx?qry=Hadoop:service=NameNode,name={name}"


class Role(StrEnum):
    """What a NameNode says that it is."""

    ACTIVE = "active"
    STANDBY = "standby"
    INITIALIZING = "initializing"


class NameNodeState(NamedTuple):
    """What a NameNode says of itself. One that was frozen may say what is no longer true."""

    role: Role
    since_ms: int  # 0 for what it was at its start
    is_safe_mode: bool
    live_datanodes: int


def server_user() -> str:
    """Return the user that servers run as, who is HDFS's superuser."""
    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return "ashore"


def load_state(http_port: int, *, deadline_s: float = 5) -> NameNodeState:
    """Ask a NameNode for its state. Raises ServiceError if it does not answer."""
    status = _load_bean(http_port, "NameNodeStatus", deadline_s)
    system = _load_bean(http_port, "FSNamesystemState", deadline_s)
    return NameNodeState(
        role=Role(str(status["State"])),
        since_ms=int(str(status["LastHATransitionTime"])),
        is_safe_mode=system["FSState"] != "Operational",
        live_datanodes=int(str(system["NumLiveDataNodes"])),
    )


def transition(rpc_port: int, role: Role, *, deadline_s: float = 30) -> None:
    """Make a NameNode active or standby. One that is so already stays so.

    Raises ServiceError if it refuses or does not answer: then what it is now is not known.
    """
    method = "transitionToActive" if role is Role.ACTIVE else "transitionToStandby"
    by_user = _field(1, _number(1, 0))  # reqInfo {reqSource: REQUEST_BY_USER}
    try:
        with socket.create_connection((LOOPBACK, rpc_port), deadline_s) as connection:
            connection.sendall(MAGIC + _context() + _request(method, by_user))
            header = _read_header(connection)
    except OSError as error:
        raise ServiceError(f"{method}: port {rpc_port} does not answer: {error}") from error
    if header.get(2, 0):
        raise ServiceError(f"{method}: port {rpc_port} says {header.get(4)}: {header.get(5)}")


def _load_bean(http_port: int, name: str, deadline_s: float) -> dict[str, object]:
    url = BEANS.format(host=LOOPBACK, port=http_port, name=name)
    try:
        with urllib.request.urlopen(url, timeout=deadline_s) as answer:  # noqa: S310 -- ours, http
            beans: list[dict[str, object]] = json.load(answer)["beans"]
    except (OSError, ValueError, urllib.error.URLError) as error:
        raise ServiceError(f"NameNode at port {http_port} does not answer: {error}") from error
    if not beans:
        raise ServiceError(f"NameNode at port {http_port} does not know itself yet")
    return beans[0]


def _context() -> bytes:
    user = _field(2, _field(1, server_user().encode()))
    return _packet(_call_header(CONTEXT_CALL), user + _field(3, PROTOCOL.encode()))


def _request(method: str, message: bytes) -> bytes:
    header = _field(1, method.encode()) + _field(2, PROTOCOL.encode()) + _number(3, 1)
    return _packet(_call_header(0), header, message)


def _call_header(call: int) -> bytes:
    """Return RpcRequestHeaderProto: a protobuf call, final packet; call ids are zigzag."""
    zigzag = (call << 1) ^ (call >> 31)
    return _number(1, 2) + _number(2, 0) + _number(3, zigzag) + _field(4, uuid4().bytes)


def _packet(*messages: bytes) -> bytes:
    body = b"".join(_varint(len(message)) + message for message in messages)
    return struct.pack(">i", len(body)) + body


def _number(tag: int, value: int) -> bytes:
    return _varint(tag << 3) + _varint(value)


def _field(tag: int, value: bytes) -> bytes:
    return _varint(tag << 3 | 2) + _varint(len(value)) + value


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
