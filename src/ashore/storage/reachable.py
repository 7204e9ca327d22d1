"""Whether anybody listens at the addresses of servers.

What it promises: one answer within the time given, whatever the network does; a connection is made
and closed, nothing is sent.
What it must not know: whose servers they are, and whether they serve.
"""

import socket
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from queue import Empty, SimpleQueue

from ashore.base.clock import Clock

_PAUSE_S = 0.2  # between two tries: a server that is being started listens after a moment


def find_unreachable(addresses: Sequence[str], within_s: float, clock: Clock) -> tuple[str, ...]:
    """Return why none of `host:port` can be reached, one reason each; empty: one of them listens.

    All are tried side by side, again and again for `within_s`. Looking up a name may hang: its
    thread is abandoned then.
    """
    reached: SimpleQueue[bool] = SimpleQueue()
    reasons = dict.fromkeys(addresses, f"no answer within {within_s:g} s")
    deadline_s = clock.monotonic_s() + within_s
    for address in addresses:
        attempt = _Attempt(address, clock, deadline_s, reasons, reached)
        threading.Thread(target=attempt.run, daemon=True).start()
    for _ in addresses:
        try:
            if reached.get(timeout=max(0.0, deadline_s - clock.monotonic_s()) + _PAUSE_S):
                return ()
        except Empty:
            break
    return tuple(f"{address}: {reason}" for address, reason in list(reasons.items()))


@dataclass(frozen=True, slots=True)
class _Attempt:
    """One address, tried until somebody listens there or the time is over."""

    address: str
    clock: Clock
    deadline_s: float
    reasons: dict[str, str]
    reached: "SimpleQueue[bool]"

    def run(self) -> None:
        host, _, port = self.address.rpartition(":")
        while (left_s := self.deadline_s - self.clock.monotonic_s()) > 0:
            try:
                socket.create_connection((host.strip("[]"), int(port)), timeout=left_s).close()
            except TimeoutError:
                break
            except (OSError, ValueError, OverflowError) as error:
                reason = getattr(error, "strerror", None) or str(error)
                self.reasons[self.address] = reason.strip()
                self.clock.sleep(min(_PAUSE_S, left_s))
            else:
                self.reached.put(True)
                return
        self.reached.put(False)
