"""The process of one measurement: what the parent orders, and what the peer answers.

What it is: `Order` and `Conversation`, the two ends of a pipe: one JSON object a line.
What it promises: the parent has looked at the clock of the kernel before the measured work begins
and before the process ends; a peer ends when its parent does.
What it must not know: Spark, Flink, Ashore.
"""

import json
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Self

from bench.peers.workload import SHAPES, Shape
from bench.processes import receive, send

CORES = 2


@dataclass(frozen=True, slots=True)
class Order:
    """What a peer is to land. `streams`: until told to stop, at the rhythm of `interval_s`."""

    peer: str
    shape_name: str
    servers: str
    topics: tuple[str, ...]  # landed one after the other; the last one is measured
    directory: str  # for everything that is written; each topic has a directory of its own
    interval_s: float
    streams: bool = False
    cores: int = CORES

    @property
    def shape(self) -> Shape:
        """The records' shape."""
        return SHAPES[self.shape_name]

    def root(self, topic: str) -> Path:
        """Return the directory of a topic's table, log or checkpoint."""
        return Path(self.directory, topic)

    def to_text(self) -> str:
        """Return the order as an argument of a process."""
        return json.dumps(asdict(self))

    @classmethod
    def of_text(cls, text: str) -> Self:
        """Return the order in an argument."""
        fields = json.loads(text)
        return cls(**{**fields, "topics": tuple(fields["topics"])})


def land_all(order: Order, land: Callable[[str], float | None], excluded: list[int]) -> None:
    """Land every topic but the last, then the last, measured. `land` returns when all is final.

    It may return the seconds that count, where its end waits for something else than records.
    """
    *warm, measured = order.topics
    for topic in warm:
        land(topic)
    send("ready", excluded=excluded)
    receive()
    began_s = time.perf_counter()
    counted_s = land(measured)
    passed_s = time.perf_counter() - began_s
    send("landed", seconds=passed_s if counted_s is None else counted_s)
    receive()
