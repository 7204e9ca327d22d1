"""Ports that are free, and stay so while a server is down."""

import socket

from ashore_lab.services.ports import (
    LOOPBACK,
    OUTGOING_RANGE,
    find_free_ports,
    is_free,
    is_listening,
)


def test_ports_are_different_free_and_outside_the_outgoing_range():
    ports = find_free_ports(20)
    assert len(set(ports)) == 20
    assert all(is_free(port) and not is_listening(port) for port in ports)
    assert max(ports) < int(OUTGOING_RANGE.read_text().split()[0])


def test_a_port_with_a_listener_is_not_free():
    with socket.create_server((LOOPBACK, find_free_ports(1)[0])) as server:
        port = server.getsockname()[1]
        assert is_listening(port)
        assert not is_free(port)
    assert is_free(port)
    assert not is_listening(port)
