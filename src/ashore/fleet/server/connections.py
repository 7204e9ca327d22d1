"""Connections of clients: how many there may be, and how long a request may take to come.

What it is: `ClientConnection`, the protocol of one; `allow_files`, which lets a server have many.
What it promises: a client that sends nothing, or a head byte by byte, is cut off, at its first
request and at each later one; so is one that goes on sending a body that has been answered. So
none takes a place for ever, and none keeps others from an answer: there is no thread of its own.
What it must not know: what requests do.
"""

import asyncio
import resource

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

HEAD_S_MAX = 20.0
REST_S_MAX = 5.0  # of a body, after its answer
CONNECTIONS_MAX = 4_000  # with more, requests are answered with 503
FILES_WANTED = 3 * CONNECTIONS_MAX


class ClientConnection(H11Protocol):
    """A connection whose heads have to come in time. Idle ones uvicorn cuts off."""

    head_s_max = HEAD_S_MAX
    rest_s_max = REST_S_MAX
    _waits: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin to wait for the head of a request."""
        super().connection_made(transport)
        self._wait(self.head_s_max)

    def connection_lost(self, exc: Exception | None) -> None:
        """Wait no more."""
        self._wait_no_more()
        super().connection_lost(exc)

    def handle_events(self) -> None:
        """Take what has come. A head that is there in part has to be whole in time."""
        super().handle_events()
        if self.conn.their_state is not h11.IDLE:
            if not self._is_answered():
                self._wait_no_more()
        elif self.conn.trailing_data[0] and self._waits is None:
            self._wait(self.head_s_max)

    def on_response_complete(self) -> None:
        """Let the next request come, or give up one that has been answered and still comes."""
        super().on_response_complete()
        if self._is_answered():
            self._wait(self.rest_s_max)

    def _is_answered(self) -> bool:
        """Tell whether a body still comes of a request that has its answer."""
        is_coming = self.conn.their_state is h11.SEND_BODY
        return is_coming and self.cycle is not None and self.cycle.response_complete

    def _wait(self, seconds: float) -> None:
        self._wait_no_more()
        self._waits = self.loop.call_later(seconds, self._give_up)

    def _wait_no_more(self) -> None:
        if self._waits is not None:
            self._waits.cancel()
            self._waits = None

    def _give_up(self) -> None:
        self._waits = None
        if not self.transport.is_closing():
            self.transport.close()


def allow_files() -> None:
    """Let this process have as many open files as connections and jobs need, if it may."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = FILES_WANTED if hard == resource.RLIM_INFINITY else min(FILES_WANTED, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
