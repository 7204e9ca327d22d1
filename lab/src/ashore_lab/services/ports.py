"""Free ports on the loopback address.

What it promises: a port without a listener a moment ago, below the range from which the
kernel takes ports for outgoing connections. So a server that is down keeps its port: a client that
tries to reconnect cannot be given that very port, and so cannot connect to itself.
Ports that are chosen for a directory stay its own.
"""

import secrets
import socket
from pathlib import Path

from ashore.errors import ServiceError
from ashore_lab.services.notes import choose_once

LOOPBACK = "127.0.0.1"
PORT_MIN = 20_000
OUTGOING_RANGE = Path("/proc/sys/net/ipv4/ip_local_port_range")


def find_free_ports(count: int) -> list[int]:
    """Return `count` different free ports."""
    found: list[int] = []
    span = _outgoing_min() - PORT_MIN
    for _ in range(1_000):
        port = PORT_MIN + secrets.randbelow(span)
        if port not in found and is_free(port):
            found.append(port)
        if len(found) == count:
            return found
    raise ServiceError(f"no {count} free ports on {LOOPBACK} from {PORT_MIN} on")


def choose_ports(path: Path, keys: tuple[str, ...]) -> dict[str, int]:
    """Return a port for each of `keys`, noted at `path`; chosen if there is no note yet.

    Raises ServiceError where the note is damaged, as `choose_once` does.
    """
    note = choose_once(path, keys, lambda: dict(zip(keys, find_free_ports(len(keys)), strict=True)))
    return {key: int(note[key]) for key in keys}


def is_free(port: int) -> bool:
    """Return whether a server could listen on `port` now. Connections that ended do not count."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((LOOPBACK, port))
        except OSError:
            return False
        return True


def is_listening(port: int) -> bool:
    """Return whether a process accepts connections on `port`."""
    with socket.socket() as probe:
        probe.settimeout(1)
        return probe.connect_ex((LOOPBACK, port)) == 0


def _outgoing_min() -> int:
    """Return the first port of the kernel's outgoing range, or what Linux usually has."""
    try:
        first = int(OUTGOING_RANGE.read_text().split()[0])
    except OSError:
        first = 32_768
    return first if first > PORT_MIN + 1_000 else 60_000
