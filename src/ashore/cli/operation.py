"""The process of an operation: `python -m ashore.cli.operation DIRECTORY LOCK`.

What it is: one command of the command line, whose exit code is kept in a file.
What it promises: it holds the operation's lock for its life, says first which process it is, and
last how it ended. SIGTERM is Ctrl-C to the command.
"""

import os
import signal
import sys
from pathlib import Path

from ashore.base.clock import SystemClock
from ashore.cli.app import app
from ashore.cli.output import CommandAnswer
from ashore.cli.signals import sigterm_does
from ashore.errors import ExitCode, check
from ashore.fleet.machine.processes import own_start_ms
from ashore.fleet.operate.operations import CANCELLED
from ashore.fleet.records.server_files import (
    OperationEnd,
    OperationFiles,
    OperationProcess,
    OperationRequest,
)
from ashore.fleet.records.store import read_record, write_record


def main(arguments: list[str] | None = None) -> int:
    """Run a command and return its exit code."""
    directory, lock = sys.argv[1:] if arguments is None else arguments
    files, clock = OperationFiles(Path(directory)), SystemClock()
    os.set_inheritable(int(lock), False)
    write_record(files.process, OperationProcess(os.getpid(), own_start_ms()))
    request = read_record(OperationRequest, files.request)
    check(request is not None, f"{files.request} cannot be read")
    code, answer = int(ExitCode.BUG), ""
    try:
        with sigterm_does(_interrupt):
            code, answer = _run(list(request.line if request else ()))
    except KeyboardInterrupt:
        code = CANCELLED
    finally:
        sys.stdout.flush()
        write_record(files.end, OperationEnd(code, clock.now_ms(), answer))
    return code


def _run(line: list[str]) -> tuple[int, str]:
    """Return the exit code of a command and, where that is an answer, its word."""
    try:
        app(line, prog_name="ashore")
    except SystemExit as end:
        cause = end.__context__  # Typer exits while it handles what the command has raised
        word = cause.word if isinstance(cause, CommandAnswer) else ""
        return end.code if isinstance(end.code, int) else int(end.code is not None), word
    return 0, ""


def _interrupt(_number: int, _frame: object) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    raise KeyboardInterrupt


if __name__ == "__main__":
    sys.exit(main())
