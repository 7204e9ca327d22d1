"""Clients that ask a server again and again: `python -m bench.serve_pollers URL COUNT SLOW`.

COUNT pollers keep a connection each and ask for the list of jobs each five seconds; SLOW clients
send a head byte by byte. Ends with its stdin; then prints how many answers came, and how long they
took.
"""

import asyncio
import json
import sys
import time
from contextlib import suppress
from urllib.parse import urlsplit

EVERY_S, BYTE_EVERY_S = 5.0, 1.0
HEAD = "GET {path} HTTP/1.1\r\nhost: {host}\r\n\r\n"


async def poll(host: str, port: int, number: int, taken: list[float]) -> None:
    await asyncio.sleep(EVERY_S * (number % 100) / 100)
    reader, writer = await asyncio.open_connection(host, port)
    while True:
        began_s = time.monotonic()
        writer.write(HEAD.format(path="/api/jobs", host=host).encode())
        head = await reader.readuntil(b"\r\n\r\n")
        assert head.split()[1] == b"200", head
        length = next(
            int(line.split(b":")[1])
            for line in head.split(b"\r\n")
            if line.lower().startswith(b"content-length")
        )
        await reader.readexactly(length)
        taken.append(1000 * (time.monotonic() - began_s))
        await asyncio.sleep(EVERY_S)


async def drip(host: str, port: int) -> None:
    while True:  # it is cut off now and then, and comes again
        with suppress(OSError):
            _, writer = await asyncio.open_connection(host, port)
            for each in HEAD.format(path="/api/jobs", host=host).encode()[:-4]:
                writer.write(bytes([each]))
                await writer.drain()
                await asyncio.sleep(BYTE_EVERY_S)


async def main() -> None:
    url, count, slow = urlsplit(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
    host, port, taken = url.hostname or "", url.port or 0, list[float]()
    tasks = [asyncio.create_task(poll(host, port, number, taken)) for number in range(count)]
    tasks += [asyncio.create_task(drip(host, port)) for _ in range(slow)]
    await asyncio.to_thread(sys.stdin.read)
    failed = sum(each.done() for each in tasks)
    for each in tasks:
        each.cancel()
    taken.sort()
    at = {"p50": len(taken) // 2, "p99": int(0.99 * len(taken)) - 1}
    times = {f"ms_{name}": round(taken[index], 1) for name, index in at.items()}
    print(json.dumps({"answers": len(taken), "gave_up": failed, **times}))


if __name__ == "__main__":
    asyncio.run(main())
