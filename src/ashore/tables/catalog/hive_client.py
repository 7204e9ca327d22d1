"""Calls to a Hive metastore that may run at several addresses.

What it is: one connection at a time, made when it is needed.
What it promises: a call answers or raises CatalogUnreachable within `timeout_s`, whatever the
servers do. A connection that breaks is replaced, by the next address if there is one, and the call
is made again: so only calls that may be repeated go through here. Threads take turns.
"""

import threading
from collections.abc import Collection, Iterator, Sequence
from typing import Any

from ashore.base.clock import Clock
from ashore.errors import CatalogError, CatalogUnreachable
from ashore.tables.catalog.hive_wire import Address, Connection, HiveRefusal


class HiveClient:
    """A client that lives as long as its job."""

    def __init__(self, addresses: Sequence[Address], timeout_s: float, clock: Clock) -> None:
        self._timeout_s = timeout_s
        self._addresses = list(addresses)  # the one to connect to next comes first
        self._clock = clock
        self._connection: Connection | None = None
        self._lock = threading.Lock()

    def call(self, method: str, *arguments: object, accept: Collection[str] = ()) -> Any:
        """Return what the metastore answers; a Refusal if it refuses by an exception of `accept`.

        Raises CatalogError for any other refusal, and CatalogUnreachable.
        """
        deadline_s = self._clock.monotonic_s() + self._timeout_s
        if not self._lock.acquire(timeout=self._timeout_s):
            raise self._unreachable(method, ["other calls take all the time"])
        try:
            answer = self._ask_any(method, arguments, deadline_s)
        finally:
            self._lock.release()
        if isinstance(answer, HiveRefusal) and answer.kind not in accept:
            raise _refused(method, answer)
        return answer

    def close(self) -> None:
        """Close the connection, once no call uses it."""
        with self._lock:
            self._drop()

    def _ask_any(self, method: str, arguments: tuple[object, ...], deadline_s: float) -> Any:
        """Ask by the connection that there is, then by a new one to each address."""
        causes: list[str] = []
        for connection in self._connections(deadline_s, causes):
            try:
                return connection.ask(method, arguments, deadline_s)
            except TimeoutError:
                # That server may still be at it: asking another one would only add to its work.
                causes.append(f"{connection.address}: no answer in {self._timeout_s:g} s")
                self._drop()
                break
            except Exception as error:  # noqa: BLE001 - named when no other address answers
                causes.append(f"{connection.address}: {error}")
                self._drop()
            except BaseException:
                self._drop()  # an answer that is left unread would be taken for the next call's
                raise
        raise self._unreachable(method, causes)

    def _connections(self, deadline_s: float, causes: list[str]) -> Iterator[Connection]:
        if self._connection is not None:
            yield self._connection  # may be broken: a server that was restarted meanwhile
        for left in range(len(self._addresses), 0, -1):
            address = self._addresses[0]
            now_s = self._clock.monotonic_s()
            share_s = max(deadline_s - now_s, 0) / left  # so that a dead host leaves time for more
            try:
                self._connection = Connection(address, now_s + share_s, self._clock)
            except Exception as error:  # noqa: BLE001 - named when no other address answers
                causes.append(f"{address}: {error}")
                self._drop()
            else:
                yield self._connection

    def _drop(self) -> None:
        """Close the connection; the next one is made to the next address."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None
        self._addresses.append(self._addresses.pop(0))

    def _unreachable(self, method: str, causes: list[str]) -> CatalogUnreachable:
        return CatalogUnreachable(
            f"no metastore answers {method}: {'; '.join(causes)}",
            hint="start the metastore, or correct its address in the job file",
        )


def _refused(method: str, refusal: HiveRefusal) -> CatalogError:
    if refusal.kind == "TApplicationException":
        hint = "a Hive metastore of release 2.3 or newer is needed"
    else:
        hint = "see the log of the metastore"
    return CatalogError(
        f"the metastore refused {method}: {refusal.kind}: {refusal.message}",
        hint=hint,
        kind=refusal.kind,
    )
