"""What workers of the tests are told to do. A module of its own: workers import it."""

import os
import re
import signal
import time

from ashore.errors import BadRecord

Call = tuple[str, object]


class StubbornError(Exception):
    """An error that cannot be made again from what it was made of."""

    def __init__(self, one: int, other: int) -> None:
        super().__init__(f"{one} {other}")


def work(call: Call) -> object:
    match call:
        case ("pid", _):
            time.sleep(0.05)  # so that the other worker has something to do as well
            return os.getpid()
        case ("double", int(number)):
            return 2 * number
        case ("sleep", float(seconds)):
            return time.sleep(seconds)
        case ("refuse", int(offset)):
            raise BadRecord(f"offset {offset} is bad", offset=offset)
        case ("raise what cannot travel", _):
            raise StubbornError(1, 2)
        case ("die", int(number)):
            signal.signal(number, signal.SIG_DFL) if number != signal.SIGKILL else None
            os.kill(os.getpid(), number)
        case ("freeze", int(number)):
            os.kill(os.getpid(), number)
        case ("hold the interpreter", str(text)):
            return re.match(r"(a+)+$", text)  # in C, and no other thread runs meanwhile
        case ("exit", int(code)):
            os._exit(code)
    raise ValueError(call)
