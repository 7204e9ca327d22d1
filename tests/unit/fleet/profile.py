"""What runs while something is asked."""

import sys
import threading
from types import CodeType
from typing import Any, Self


class Entered:
    """Which functions were entered while inside, in all threads that begin meanwhile."""

    def __init__(self) -> None:
        self.codes: set[CodeType] = set()

    def __enter__(self) -> Self:
        sys.setprofile(self._note)
        threading.setprofile(self._note)
        return self

    def __exit__(self, *_: object) -> None:
        sys.setprofile(None)
        threading.setprofile(None)

    def _note(self, frame: Any, event: str, _argument: object) -> None:
        if event == "call":
            self.codes.add(frame.f_code)
