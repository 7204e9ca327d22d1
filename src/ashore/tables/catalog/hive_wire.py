"""One connection to a Hive metastore.

What it is: the interface (`hive_metastore.thrift`) as classes, and calls over a socket.
What it promises: a call ends at its deadline, however slowly bytes come (looking up a host's name
aside, which is the machine's affair). It ends with an answer, or with a Refusal, which is an answer
too; or it raises, and the connection is of no use any more.
"""

import socket
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import thriftpy2
from thriftpy2.protocol import TBinaryProtocolFactory
from thriftpy2.thrift import TApplicationException, TClient
from thriftpy2.transport import TBufferedTransportFactory

from ashore.base.clock import Clock

# Structs of the interface have no static types.
thrift: Any = thriftpy2.load(
    str(Path(__file__).with_name("hive_metastore.thrift")), "ashore_hive_metastore_thrift"
)
_DECLARED = tuple(thrift.__thrift_meta__["exceptions"])
_READ_BYTES_MAX = 1 << 20


@dataclass(frozen=True, slots=True)
class Address:
    """Where a metastore listens."""

    host: str
    port: int

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"


@dataclass(frozen=True, slots=True)
class HiveRefusal:
    """The metastore's answer that it does not do what was asked."""

    kind: str  # the exception's name in the interface
    message: str


class Connection:
    """An open connection. Used by one thread at a time."""

    def __init__(self, address: Address, deadline_s: float, clock: Clock) -> None:
        self.address = address
        self._socket = _DeadlineSocket(address, deadline_s, clock)
        transport = TBufferedTransportFactory().get_transport(self._socket)
        protocol = TBinaryProtocolFactory().get_protocol(transport)
        self._client = TClient(thrift.ThriftHiveMetastore, protocol)

    def ask(self, method: str, arguments: tuple[object, ...], deadline_s: float) -> Any:
        """Return the answer, or a Refusal. Raises TimeoutError or whatever broke the connection."""
        self._socket.deadline_s = deadline_s
        try:
            return getattr(self._client, method)(*arguments)
        except _DECLARED as error:
            return HiveRefusal(type(error).__name__, error.message or "")
        except TApplicationException as error:
            return HiveRefusal("TApplicationException", error.message or "")

    def close(self) -> None:
        """Close the connection. Never fails."""
        self._socket.close()


class _DeadlineSocket:
    """What thriftpy2 asks of a transport, with one deadline for all reads and writes of a call."""

    def __init__(self, address: Address, deadline_s: float, clock: Clock) -> None:
        self.deadline_s = deadline_s
        self._clock = clock
        self._socket = socket.create_connection((address.host, address.port), self._left_s())
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def read(self, size: int) -> bytes:
        self._socket.settimeout(self._left_s())
        data = self._socket.recv(min(size, _READ_BYTES_MAX))
        if not data:
            raise ConnectionError("the metastore closed the connection")
        return data

    def write(self, data: bytes) -> None:
        self._socket.settimeout(self._left_s())
        self._socket.sendall(data)

    def flush(self) -> None:
        """Do nothing: nothing is buffered here."""

    def close(self) -> None:
        self._socket.close()

    def _left_s(self) -> float:
        left_s = self.deadline_s - self._clock.monotonic_s()
        if left_s <= 0:
            raise TimeoutError("no answer in time")
        return left_s
