"""A deadline that passes when a call hangs, on a busy machine too."""

import threading
from collections.abc import Callable
from queue import Empty, SimpleQueue
from typing import Any, TypeVar

from ashore.storage import DeadlineStorage
from ashore.storage.calls import HANGING_MAX
from ashore_lab.testing import FaultyStorage

T = TypeVar("T")


class PromptDeadline(DeadlineStorage):
    """Gives a call up when it hangs, and never because the machine is slow."""

    def __init__(self, faulty: FaultyStorage, hanging_max: int = HANGING_MAX) -> None:
        super().__init__(faulty, 30, hanging_max=hanging_max)
        self._here = threading.local()
        faulty.on_hang = lambda: self._here.working.put("hangs")

    def call(
        self, what: str, function: Callable[[], T], late: Callable[[T | None], None] | None = None
    ) -> T:
        self._here.waiting = news = SimpleQueue[str]()

        def watched() -> T:
            self._here.working = news
            try:
                return function()
            finally:
                news.put("ended")

        return super().call(what, watched, late)

    def _wait(self, answers: "SimpleQueue[Any]") -> Any:
        if self._here.waiting.get() == "hangs":
            raise Empty
        return super()._wait(answers)
