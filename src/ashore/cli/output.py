"""Printing: data to stdout, talk to stderr.

What it promises: `--json` output is one JSON document on stdout and nothing else there.
"""

import json
import os
import sys
import textwrap
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

import typer
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.markup import escape
from rich.measure import Measurement
from rich.padding import Padding
from rich.table import Table

from ashore.base.clock import SystemClock
from ashore.base.units import format_time
from ashore.errors import AshoreError
from ashore.jobs.failure import Failed

# A file or a pipe has no width; a table that is folded there helps no one. On a terminal lines are
# folded between words: it would fold them anywhere.
_IS_TERMINAL = sys.stdout.isatty()
out = Console(highlight=False, soft_wrap=not _IS_TERMINAL, width=None if _IS_TERMINAL else 200)
talk = Console(stderr=True, highlight=False)
STARTING_SPARK = "starting Spark"


def print_json(document: Mapping[str, object]) -> None:
    """Print one JSON document to stdout."""
    sys.stdout.write(json.dumps(document, indent=2, default=str) + "\n")


def print_answer(lines: Iterable[str], document: Mapping[str, object], *, as_json: bool) -> None:
    """Print to stdout what a command has to say: its lines, or the document with `as_json`."""
    if as_json:
        print_json(document)
        return
    print_lines(lines)


def print_lines(lines: Iterable[str]) -> None:
    """Print lines to stdout as they are."""
    for line in lines:
        out.print(line, markup=False)


def print_table(title: str, columns: Mapping[str, str], rows: list[list[str]]) -> None:
    """Print a table to stdout. `columns`: name to `left` or `right`.

    Where it is wider than the terminal, each row becomes lines of names and values: nothing is
    folded within a word or a number.
    """
    table = Table(title=title or None, title_justify="left", header_style="bold", box=SIMPLE_HEAD)
    for name, justify in columns.items():
        table.add_column(name, justify="right" if justify == "right" else "left", no_wrap=True)
    for row in rows:
        table.add_row(*map(escape, row))
    if width_of(out, table) <= out.width or not rows:
        out.print(table)
        return
    if title:
        out.print(f"[italic]{escape(title)}[/]")
    for row in rows:
        first, *others = [(name, cell) for name, cell in zip(columns, row, strict=True) if cell]
        out.print(f"[bold]{first[0]}[/] {escape(first[1])}")
        rest = ", ".join(f"{name}\u00a0{cell}" for name, cell in others)
        out.print(Padding(escape(rest), (0, 0, 0, 2)))


def width_of(console: Console, table: Table) -> int:
    """Return how many columns of a terminal a table takes where nothing is folded."""
    return Measurement.get(console, console.options.update(width=10_000), table).maximum


def print_failure(failed: Failed) -> None:
    """Print an error as a person reads it: what happened, its code, what to do next."""
    code = f"({failed.code})"
    reported = _fold(f"error {failed.message}  {code}").removeprefix("error").removesuffix(code)
    say(f"[bold red]error[/]{escape(reported)}[dim]{code}[/]")
    if failed.hint:
        say(f"[bold]next[/]{escape(_fold(f'next  {failed.hint}').removeprefix('next'))}")


def _fold(text: str) -> str:
    """Return text whose lines fit the terminal, where words allow it: a path is never broken.

    What goes to a file or a pipe keeps its lines.
    """
    if not talk.is_terminal:
        return text
    width = talk.width
    return "\n".join(
        textwrap.fill(
            line,
            width,
            subsequent_indent=" " * 6,
            break_long_words=False,
            break_on_hyphens=False,
            replace_whitespace=False,
        )
        for line in text.split("\n")
    )


def failure_document(failed: Failed) -> dict[str, object]:
    """Return what `--json` prints of a command that failed."""
    document = {"code": failed.code, "message": failed.message, "hint": failed.hint}
    return {"error": {**document, **failed.more}, "exit_code": failed.exit_code}


def print_line(document: Mapping[str, object]) -> None:
    """Print an object as a line of JSON to stdout, with the time: `at`."""
    sys.stdout.write(json.dumps({**document, "at": now_text()}, default=str) + "\n")
    sys.stdout.flush()


def now_text() -> str:
    """Return the machine's time as ISO 8601, in UTC and milliseconds."""
    return format_time(SystemClock().now_ms())


def say(line: str) -> None:
    """Print one line of talk. Never folded: a path is there to be copied."""
    talk.print(line, soft_wrap=True)


@contextmanager
def waiting(what: str, *, quiet: bool) -> Iterator[None]:
    """Show on stderr what a command waits for, on a terminal only; it disappears at the end."""
    if quiet or not talk.is_terminal:
        yield
        return
    with talk.status(escape(what)):
        yield


def cell_text(value: object) -> str:
    """Return a value of a row as a table shows it."""
    if value is None:
        return "NULL"
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def printable(text: str) -> str:
    """Return text in which what a terminal would not show, or would act on, is escaped."""
    if text.isprintable():
        return text
    return "".join(
        each if each.isprintable() else each.encode("unicode_escape").decode() for each in text
    )


class CommandAnswer(typer.Exit):
    """Ends a command that has done what it was asked for: its exit code is what it found.

    A command that could not do it ends by `reported_errors` instead.

    Arguments:
        code: the exit code.
        word: what that says, for who lists commands that have ended.

    """

    def __init__(self, code: int, word: str) -> None:
        super().__init__(code)
        self.word = word


@contextmanager
def reported_errors(*, as_json: bool, debug: bool, in_lines: bool = False) -> Iterator[None]:
    """Turn an AshoreError into a message and its exit code; with `debug`, a traceback first.

    `in_lines`: as JSON it is an event on one line, the last of those that went before.
    """
    try:
        yield
    except AshoreError as error:
        if debug:
            traceback.print_exc()
        if as_json and in_lines:
            print_line(Failed.of(error).to_dict())
        elif as_json:
            print_json(failure_document(Failed.of(error)))
        else:
            print_failure(Failed.of(error))
        raise typer.Exit(error.exit_code) from None


def progress_keeper() -> Callable[[str, int, int], None]:
    """Return what keeps progress in the file that $ASHORE_PROGRESS names: of an operation.

    It is written at most five times a second, and where something has begun or is done.
    """
    path, clock, written_s = os.environ.get("ASHORE_PROGRESS"), SystemClock(), [float("-inf")]

    def keep(what: str, done: int, total: int) -> None:
        now_s = clock.monotonic_s()
        if path and (done in {0, total} or now_s - written_s[0] >= 0.2):
            written_s[0] = now_s
            with suppress(OSError):
                made = Path(f"{path}.new")
                made.write_text(json.dumps({"what": what, "done": done, "total": total}), "utf-8")
                made.replace(path)

    return keep


@contextmanager
def shown_progress(*, quiet: bool) -> Iterator[Callable[..., None]]:
    """Show a progress bar on stderr. Yields `(what, done, total, more="")`."""
    from rich.progress import (  # noqa: PLC0415 - few commands have a bar
        BarColumn,
        Progress,
        TaskProgressColumn,
        TextColumn,
        TimeElapsedColumn,
    )

    columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn())
    with Progress(
        *columns, TimeElapsedColumn(), console=talk, transient=True, disable=quiet
    ) as progress:
        bars: dict[str, object] = {}
        keep = progress_keeper()

        def show(what: str, done: int, total: int, more: str = "") -> None:
            description = f"{what}: {more}" if more else what
            keep(description, done, total)
            if what not in bars:
                bars[what] = progress.add_task(what, total=total)
            progress.update(
                bars[what],  # type: ignore[arg-type]
                completed=done,
                total=total,
                description=description,
            )

        yield show
