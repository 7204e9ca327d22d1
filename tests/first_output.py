"""Which libraries a command has loaded when it says its first word, and when it ends.

Run as a program: `python -m tests.first_output` reads commands as JSON from stdin, and writes for
each what it had loaded. Each runs in a process that is forked from one that has loaded what all of
them share, and believes that it has a terminal.
"""

import io
import json
import os
import re
import signal
import sys
from collections.abc import Callable, Iterable
from typing import NoReturn

import pydantic  # noqa: F401 - as above
import rich.live
import rich.progress  # noqa: F401 - what all commands share
import ruamel.yaml  # noqa: F401 - as above
import typer  # noqa: F401 - as above

_CONTROL = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\s")
LONGEST_S = 20


class Terminal(io.TextIOBase):
    """A stream that calls `on_first` once something can be read on it."""

    encoding = "utf-8"

    def __init__(self, on_first: Callable[[str], None]) -> None:
        self._on_first = on_first

    def write(self, text: str) -> int:
        if _CONTROL.sub("", text):
            self._on_first(text)
        return len(text)

    def isatty(self) -> bool:
        return True


def loaded(names: Iterable[str]) -> list[str]:
    return sorted(
        set(names) & (set(sys.modules) | {each.partition(".")[0] for each in sys.modules})
    )


def play(
    arguments: list[str], watched: list[str], answer: int, *, runs_on: bool, asks: bool
) -> NoReturn:
    """Run one command; write to the pipe `answer` what it had loaded at its first word."""
    first: list[str] = []
    text: list[str] = []

    def finish() -> NoReturn:
        at_end = loaded(watched) if runs_on else None
        found = {"first": loaded(watched) if not text else first, "end": at_end, "text": text}
        os.write(answer, json.dumps(found).encode())
        os._exit(0)

    def note(said: str) -> None:
        if not text:
            first.extend(loaded(watched))
        text.append(said)
        if not runs_on:
            finish()

    signal.alarm(LONGEST_S)
    sys.stdout = sys.stderr = Terminal(note)  # type: ignore[assignment]
    sys.argv = ["ashore", *arguments]
    from ashore.cli import main  # noqa: PLC0415 - only now the streams are those of the test

    if asks:
        from ashore.topics import open_job  # noqa: PLC0415

        open_job.SOURCE_TIMEOUT_S = 0.2
    try:
        main()
    except BaseException as error:  # noqa: BLE001 - whatever it was, the caller sees the text
        text.append(repr(error))
    finish()


def answers(asked: dict[str, object]) -> Iterable[dict[str, object]]:
    for command in asked["commands"]:  # type: ignore[attr-defined]
        reads, writes = os.pipe()
        child = os.fork()
        if child == 0:
            play(
                command["arguments"],
                asked["watched"],
                writes,
                runs_on=command["runs_on"],
                asks=command["asks_kafka"],
            )  # type: ignore[arg-type]
        os.close(writes)
        with os.fdopen(reads, "rb") as pipe:
            found = pipe.read()
        os.waitpid(child, 0)
        yield json.loads(found) if found else {"first": None, "end": None, "text": ["no answer"]}


if __name__ == "__main__":
    json.dump(list(answers(json.load(sys.stdin))), sys.stdout)
