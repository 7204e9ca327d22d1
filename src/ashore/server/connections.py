"""Connections of clients: how many there may be, and how long a request may take to come.

What it is: `ClientConnection`, the protocol of one; `allow_files`, which lets a server have many.
What it promises: a client that sends nothing, or a head byte by byte, is cut off; so it takes no
place for ever. Nobody is kept from an answer by it: there is no thread of its own.
What it must not know: what requests do.
"""

import asyncio
import resource

from uvicorn.protocols.http.h11_impl import H11Protocol

HEAD_S_MAX = 20.0
CONNECTIONS_MAX = 4_000  # with more, requests are answered with 503
FILES_WANTED = 3 * CONNECTIONS_MAX


class ClientConnection(H11Protocol):
    """A connection whose first head has to come in time. Later ones: uvicorn cuts idle ones off."""

    head_s_max = HEAD_S_MAX

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin to wait for the head of a request."""
        super().connection_made(transport)
        self._waits = self.loop.call_later(self.head_s_max, self._give_up)

    def connection_lost(self, exc: Exception | None) -> None:
        """Wait no more."""
        self._waits.cancel()
        super().connection_lost(exc)

    def _give_up(self) -> None:
        has_asked = getattr(self, "cycle", None) is not None
        if not has_asked and not self.transport.is_closing():
            self.transport.close()


def allow_files() -> None:
    """Let this process have as many open files as connections and jobs need, if it may."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = FILES_WANTED if hard == resource.RLIM_INFINITY else min(FILES_WANTED, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
