"""The command `ashore audit`.

What it promises: Ctrl-C and SIGTERM end it after the interval under way, with an exit code that
says what was found.
What it must not know: what a finding is.
"""

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Annotated

import typer

from ashore.base.units import parse_duration_ms, parse_size_bytes
from ashore.cli import audit_view
from ashore.cli.options import Debug, JobFile
from ashore.cli.output import CommandAnswer, reported_errors, shown_progress
from ashore.proof.audit import Pace
from ashore.topics import open_job

INTERVAL_S_MIN = 1.0


def _duration(text: str) -> float:
    return _parsed(parse_duration_ms, text) / 1000


def _size(text: str) -> int:
    return _parsed(parse_size_bytes, text)


def _parsed(parse: Callable[[str], int], text: str) -> int:
    try:
        return parse(text)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None


def audit(
    job_file: JobFile,
    continuous: Annotated[
        bool, typer.Option("--continuous", help="Check again every interval, until stopped.")
    ] = False,
    interval: Annotated[
        str | None, typer.Option(help="With --continuous. Default: the job's, 1s at least.")
    ] = None,
    read_rate: Annotated[
        str, typer.Option(help="With --continuous: at most so much is read again per second.")
    ] = "32MB",
    as_json: Annotated[
        bool, typer.Option("--json", help="One JSON document; with --continuous one per line.")
    ] = False,
    debug: Debug = False,
) -> None:
    """Check that every offset is accounted for and every file matches the log."""
    rate = _size(read_rate)
    interval_s = None if interval is None else _duration(interval)
    reporting = reported_errors(as_json=as_json, debug=debug, in_lines=continuous)
    with reporting, open_job.open_job(job_file) as opened:
        if not continuous:
            with shown_progress(quiet=as_json) as progress:
                progress("log", 0, 0)
                from ashore.proof.audit.follow import audit_once  # noqa: PLC0415 - loads Arrow

                report = audit_once(opened, progress)
            code = audit_view.show_once(report, as_json=as_json)
            raise CommandAnswer(code, audit_view.ANSWERS[code])
        if interval_s is None:
            interval_s = opened.job.batch.interval_ms / 1000
        if not as_json:
            audit_view.say_at(opened.clock.now_ms(), f"reading the log of job {opened.job.job}")
        from ashore.proof.audit.follow import follow  # noqa: PLC0415 - loads Arrow

        with _signals_stop() as stopping:
            pace = Pace(max(interval_s, INTERVAL_S_MIN), rate)
            reports = follow(opened, pace, stopping.is_set)
            code = audit_view.show_all(reports, as_json=as_json)
            raise CommandAnswer(code, audit_view.ANSWERS[code])


@contextmanager
def _signals_stop() -> Iterator[threading.Event]:
    """Have SIGTERM and SIGINT set an event while inside."""
    stopping = threading.Event()
    before = {
        number: signal.signal(number, lambda _number, _frame: stopping.set())
        for number in (signal.SIGTERM, signal.SIGINT)
    }
    try:
        yield stopping
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
