"""A TCP proxy whose connections can be made to fail as networks fail.

What it is: a process of its own (`python -m ashore_lab.services.proxy`) with some routes, each
from a port to a server's port, a control port, and the functions that talk to that.
What it promises: in mode `pass` it changes nothing; it listens while the server does, so that
clients of a server that is down are refused, as they should be. `black_hole` holds connections, old
and new: nothing comes through and nothing is closed, as with a host that is dead. What waited is
delivered when the route is restored, as retransmission does: a call that was given up may still
arrive. `drop_answer` forwards requests, drops the answer and closes the connection.
"""

import asyncio
import json
import socket
import sys
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum

from ashore.errors import ServiceError
from ashore_lab.services.ports import LOOPBACK

CHUNK_BYTES = 1 << 16
WATCH_S = 0.05
CONTROL_DEADLINE_S = 10


class Mode(StrEnum):
    """What a route does."""

    PASS = "pass"  # noqa: S105 -- not a password
    BLACK_HOLE = "black_hole"
    DROP_ANSWER = "drop_answer"


@dataclass(frozen=True, slots=True)
class Route:
    """Who connects to `port` speaks with `target_port`."""

    port: int
    target_port: int


def set_mode(control_port: int, route: int, mode: Mode, *, answers: int | None = None) -> None:
    """Switch route number `route` to `mode`.

    With `answers`, `drop_answer` drops that number, then the route passes again.
    Raises ServiceError if the proxy does not answer.
    """
    _ask(control_port, {"route": route, "mode": mode.value, "answers": answers})


def load_modes(control_port: int) -> list[Mode]:
    """Return the mode of each route. Raises ServiceError if the proxy does not answer."""
    return [Mode(mode) for mode in _ask(control_port, {})]


def _ask(control_port: int, question: dict[str, str | int | None]) -> list[str]:
    try:
        with socket.create_connection((LOOPBACK, control_port), CONTROL_DEADLINE_S) as connection:
            connection.sendall(json.dumps(question).encode() + b"\n")
            modes: list[str] = json.loads(connection.makefile("rb").readline())
            return modes
    except (OSError, ValueError) as error:
        raise ServiceError(
            f"the proxy does not answer on port {control_port}: {error}", hint="start the service"
        ) from error


class _Line:
    """One route at work."""

    def __init__(self, route: Route) -> None:
        self.mode = Mode.PASS
        self._route = route
        self._answers_to_drop: int | None = None
        self._is_open = asyncio.Event()
        self._is_open.set()

    def switch(self, mode: Mode, answers: int | None) -> None:
        self.mode = mode
        self._answers_to_drop = answers
        if mode is Mode.BLACK_HOLE:
            self._is_open.clear()
        else:
            self._is_open.set()

    async def serve(self) -> None:
        """Listen while the server does: an idle connection of our own ends when the server ends."""
        while True:
            try:
                watch, own = await asyncio.open_connection(LOOPBACK, self._route.target_port)
            except OSError:
                await asyncio.sleep(WATCH_S)
                continue
            listener = await asyncio.start_server(self._connect, LOOPBACK, self._route.port)
            with suppress(ConnectionError):
                await watch.read()
            own.close()
            await self._is_open.wait()
            listener.close()

    async def _connect(self, client: asyncio.StreamReader, answers: asyncio.StreamWriter) -> None:
        await self._is_open.wait()
        try:
            server, requests = await asyncio.open_connection(LOOPBACK, self._route.target_port)
        except OSError:
            answers.transport.abort()
            return
        ways = (
            asyncio.create_task(self._forward(client, requests)),
            asyncio.create_task(self._forward(server, answers, is_answer=True)),
        )
        # The end of either way is the end of both: no client here closes only its sending half.
        _, going_on = await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        for way in going_on:
            way.cancel()
        await asyncio.wait(ways)
        for writer in (requests, answers):
            writer.close()

    async def _forward(
        self,
        source: asyncio.StreamReader,
        target: asyncio.StreamWriter,
        *,
        is_answer: bool = False,
    ) -> None:
        """Return when the connection is to be closed."""
        try:
            while data := await source.read(CHUNK_BYTES):
                await self._is_open.wait()
                if is_answer and self._drops():
                    return
                target.write(data)
                await target.drain()
            await self._is_open.wait()
        except ConnectionError:
            await self._is_open.wait()

    def _drops(self) -> bool:
        if self.mode is not Mode.DROP_ANSWER:
            return False
        if self._answers_to_drop is not None:
            self._answers_to_drop -= 1
            if self._answers_to_drop == 0:
                self.mode = Mode.PASS
        return True


async def _control(
    lines: list[_Line], questions: asyncio.StreamReader, answers: asyncio.StreamWriter
) -> None:
    question = json.loads(await questions.readline() or "{}")
    if question:
        lines[question["route"]].switch(Mode(question["mode"]), question["answers"])
    answers.write(json.dumps([line.mode for line in lines]).encode() + b"\n")
    await answers.drain()
    answers.close()


async def _serve(control_port: int, routes: list[Route]) -> None:
    lines = [_Line(route) for route in routes]
    control = await asyncio.start_server(
        lambda questions, answers: _control(lines, questions, answers), LOOPBACK, control_port
    )
    async with control:
        await asyncio.gather(*(line.serve() for line in lines))


def command(control_port: int, routes: list[Route]) -> tuple[str, ...]:
    """Return the command that runs a proxy."""
    pairs = (f"{route.port}:{route.target_port}" for route in routes)
    return (sys.executable, "-m", "ashore_lab.services.proxy", str(control_port), *pairs)


def main(arguments: list[str]) -> None:
    """Serve until the process is ended: `CONTROL_PORT PORT:TARGET_PORT...`."""
    control_port, *pairs = arguments
    routes = [Route(*map(int, pair.split(":"))) for pair in pairs]
    asyncio.run(_serve(int(control_port), routes))


if __name__ == "__main__":
    main(sys.argv[1:])
