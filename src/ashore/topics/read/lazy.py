"""Kafka as a source that is opened by the first question.

What it is: `open_later`, for commands of which many never ask.
What it promises: neither the client nor Arrow is loaded, and no connection is made, until a caller
asks. May be asked by several threads at once.
"""

import threading
from collections.abc import Mapping
from typing import Any, cast

from ashore.topics.read.source import Source


class _Later:
    """A `KafkaSource` from the first question on; the arguments are its own."""

    name = "kafka"

    def __init__(
        self, bootstrap_servers: str, options: Mapping[str, str], timeout_s: float
    ) -> None:
        self._arguments = (bootstrap_servers, options, timeout_s)
        self._opened: Source | None = None
        self._lock = threading.Lock()

    def __getattr__(self, question: str) -> Any:
        with self._lock:
            if self._opened is None:
                from ashore.topics.read.kafka import KafkaSource  # noqa: PLC0415 - see the module

                self._opened = KafkaSource(*self._arguments)
        return getattr(self._opened, question)

    def close(self) -> None:
        if self._opened is not None:
            self._opened.close()


def open_later(bootstrap_servers: str, options: Mapping[str, str], timeout_s: float) -> Source:
    """Return a Kafka cluster as a source. A call raises what it and opening `KafkaSource` raise."""
    return cast("Source", _Later(bootstrap_servers, options, timeout_s))
