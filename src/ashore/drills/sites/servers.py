"""The real servers of drills: each is started when it is first asked for, and shared.

What it is: `Servers`, from which real sites come.
What it promises: at the end everything that was started is stopped.
What it must not know: scenarios.
"""

import shutil
from contextlib import ExitStack
from pathlib import Path
from typing import Self

from ashore.drills.recorder import Recorder
from ashore.drills.sites.real import Place, RealSite
from ashore.drills.sites.site import SiteOptions
from ashore.services.kafka import Kafka


class Servers:
    """Servers in one directory. A context manager; `kafka` may be one that runs already."""

    def __init__(self, directory: Path, kafka: Kafka | None = None) -> None:
        self._directory = directory
        self._kafka = kafka
        self._stack = ExitStack()
        self._made = 0

    def kafka(self) -> Kafka:
        """Return the broker, started. Raises ServiceError, JavaMissing."""
        if self._kafka is None:
            directory = self._directory / "kafka"
            # What is worth keeping is in the lakes. Removed after the broker has been stopped.
            self._stack.callback(shutil.rmtree, directory, ignore_errors=True)
            self._kafka = self._stack.enter_context(Kafka(directory))
        return self._kafka

    def site(self, seed: int, options: SiteOptions, recorder: Recorder) -> RealSite:
        """Return a new real site."""
        self._made += 1
        is_new = self._kafka is None
        place = Place(self._directory / f"site-{self._made}", self.kafka())
        if is_new:
            recorder.note("servers", "the broker is up")
        return RealSite(seed, options, place, recorder)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()
