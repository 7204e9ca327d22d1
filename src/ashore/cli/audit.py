"""The command `ashore audit`: a report, or a live view, lines or JSON lines of many.

What it promises: Ctrl-C and SIGTERM end it after the interval under way, with an exit code that
says what was found. A line has its time, and comes when something has changed that matters, or now
and then as a sign of life; colour carries no meaning.
"""

import json
import signal
import sys
import threading
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from typing import Annotated

import typer
from rich.console import Group, RenderableType
from rich.live import Live
from rich.markup import escape
from rich.text import Text

from ashore.base.units import format_duration, format_size
from ashore.cli.options import Debug, JobFile, parse_duration, parse_size
from ashore.cli.output import (
    CommandAnswer,
    out,
    print_json,
    reported_errors,
    say,
    shown_progress,
    talk,
)
from ashore.cli.signals import signals_call
from ashore.errors import ExitCode
from ashore.proof.audit.result import AuditFinding, AuditReport, Away, Pace, Round
from ashore.topics.open_job import open_job

INTERVAL_S_MIN = 1.0


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
    rate = parse_size(read_rate)
    interval_s = None if interval is None else parse_duration(interval) / 1000
    reporting = reported_errors(as_json=as_json, debug=debug, in_lines=continuous)
    with reporting, open_job(job_file) as opened:
        if not continuous:
            with shown_progress(quiet=as_json) as progress:
                progress("log", 0, 0)
                from ashore.proof.audit.auditor import audit_once  # noqa: PLC0415 - loads Arrow

                report = audit_once(opened, progress)
            code = show_once(report, as_json=as_json)
            raise CommandAnswer(code, ANSWERS[code])
        if interval_s is None:
            interval_s = opened.job.batch.interval_ms / 1000
        if not as_json:
            say_at(opened.clock.now_ms(), f"reading the log of job {opened.job.job}")
        from ashore.proof.audit.auditor import follow_job  # noqa: PLC0415 - loads Arrow

        stopping = threading.Event()
        with signals_call(lambda *_: stopping.set(), signal.SIGTERM, signal.SIGINT):
            pace = Pace(max(interval_s, INTERVAL_S_MIN), rate)
            reports = follow_job(opened, pace, stopping.is_set)
            code = show_all(reports, as_json=as_json)
            raise CommandAnswer(code, ANSWERS[code])


ANSWERS = {ExitCode.DONE: "ok", ExitCode.WRONG: "wrong", ExitCode.UNPROVEN: "unprovable"}
FINDINGS_SHOWN = 15  # on a terminal; `--json` has them all
LINE_EVERY_MS = 60_000  # at least, where there is no terminal
# What is said when nothing is amiss any more.
BACK = {
    "Kafka": "Kafka answers again",
    "the lake": "the lake answers again",
    "the catalog": "the catalog answers again",
    "job": "a job is running",
}


def show_once(report: AuditReport, *, as_json: bool) -> ExitCode:
    """Print one report to stdout and return the exit code."""
    if as_json:
        print_json(report.to_dict())
    else:
        for finding in report.findings:
            out.print(escape(_line(finding)))
        for line in _lines(report):
            out.print(escape(line))
    return report.exit_code


def show_all(reports: Iterable[AuditReport], *, as_json: bool) -> ExitCode:
    """Show reports as they come and return the exit code of the last; 6 if there was none."""
    if as_json:
        return _show_json(reports)
    if talk.is_terminal:
        code = ExitCode.UNPROVEN
        with Live(console=talk, auto_refresh=False) as live:
            for report in reports:
                code = report.exit_code
                live.update(render(report), refresh=True)
        return code
    return _show_lines(reports)


def render(report: AuditReport) -> RenderableType:
    """Return what a terminal shows of a report."""
    shown = [Text(_line(each)) for each in report.findings[:FINDINGS_SHOWN]]
    more = len(report.findings) - len(shown)
    if more:
        shown.append(Text(f"and {more:,} more (see --json)"))
    return Group(*(Text(line) for line in _lines(report)), *shown)


def say_at(at_ms: int, text: str) -> None:
    """Say one line, with its time."""
    say(escape(f"{_time(at_ms)} {text}"))


def _show_lines(reports: Iterable[AuditReport]) -> ExitCode:
    code = ExitCode.UNPROVEN
    before: AuditReport | None = None
    reported_ms = 0
    for report in reports:
        code = report.exit_code
        for text in _changes(before, report):
            say_at(report.now_ms, text)
        is_due = report.now_ms - reported_ms >= LINE_EVERY_MS
        if before is None or is_due or _counts(before) != _counts(report):
            reported_ms = report.now_ms
            say_at(report.now_ms, f"{_gauge(report)}; {_last_entry(report)}")
        before = report
    return code


def _counts(report: AuditReport) -> tuple[object, ...]:
    """Return what is reported as soon as it changes. A lag changes all the time."""
    gauge = report.gauge
    return gauge.unaccounted, gauge.unprovable, len(report.findings), report.unproven > 0


def _changes(before: AuditReport | None, report: AuditReport) -> Iterator[str]:
    """Yield what is new since the report before: what was found, what is away, whether a job is."""
    yield from (_line(finding) for finding in (*report.raised, *report.cleared))
    was = {} if before is None else dict(_states(before))
    for name, state in _states(report):
        if state != was.get(name, ""):
            yield state or BACK[name]


def _states(report: AuditReport) -> Iterator[tuple[str, str]]:
    """Yield what may be amiss around the job, by name; an empty text: it is not."""
    for subject, away in _services(report):
        text = "" if away.since_ms is None else f"{subject} does not answer: {away.error}"
        yield subject, text
    if report.lake.since_ms is None:
        yield "job", _absence(report)


def _absence(report: AuditReport) -> str:
    """Return in words that there is no job, if the log shows it."""
    activity = report.activity
    if activity.last_entry_ms is None:
        return "the job has never run: its log is empty"
    if activity.silent_since_ms is None:
        return ""
    since = _time(activity.silent_since_ms)
    return f"no job seems to be running: records wait, and its log has not grown since {since}"


def _last_entry(report: AuditReport) -> str:
    last_ms = report.activity.last_entry_ms
    if last_ms is None:
        return "no entry yet"
    return f"last entry {format_duration(max(0, report.now_ms - last_ms))} ago"


def _show_json(reports: Iterable[AuditReport]) -> ExitCode:
    code = ExitCode.UNPROVEN
    for report in reports:
        code = report.exit_code
        for event in events(report):
            sys.stdout.write(json.dumps(event) + "\n")
        sys.stdout.flush()
    sys.stdout.write(json.dumps({"event": "ended", "exit_code": code}) + "\n")
    return code


def events(report: AuditReport) -> Iterator[Mapping[str, object]]:
    """Yield the JSON lines of a report: `raised` and `cleared`, then `looked`."""
    for kind, findings in (("raised", report.raised), ("cleared", report.cleared)):
        for finding in findings:
            yield {"event": kind, **finding.to_dict()}
    document = report.to_dict()
    for left_out in ("raised", "cleared", "exit_code"):
        del document[left_out]
    yield {"event": "looked", **document, "findings": len(report.findings)}


def _line(finding: AuditFinding) -> str:
    problem = finding.problem
    where = f"{problem.place}: " if problem.place else ""
    state, at_ms = "since", finding.first_seen_ms
    if finding.cleared_ms is not None:
        state, at_ms = "cleared", finding.cleared_ms
    return f"{problem.kind} {where}{problem.text} ({state} {_time(at_ms)})"


def _time(at_ms: int) -> str:
    return datetime.fromtimestamp(at_ms / 1000, UTC).isoformat("T", "seconds")


def _gauge(report: AuditReport) -> str:
    gauge = report.gauge
    lag = "not known" if gauge.lag is None else f"{gauge.lag:,}"
    text = f"unaccounted {gauge.unaccounted:,}, not landed yet {lag}"
    if gauge.unprovable:
        text += f", no longer provable {gauge.unprovable:,}"
    if report.unproven:
        text += f", entries not checked yet {report.unproven:,}"
    return f"{text}, findings {len(report.findings):,}"


def _lines(report: AuditReport) -> Iterator[str]:
    entries = ", ".join(f"{name} {count:,}" for name, count in sorted(report.entries.items()))
    last = f", the {_last_entry(report)}" if entries else ""
    yield f"job {report.job}, interval {report.tick:,}, entries {entries or 'none'}{last}"
    yield _gauge(report)
    if absence := _absence(report):
        yield absence
    for subject, away in _services(report):
        if away.since_ms is not None:
            duration = format_duration(max(0, report.now_ms - away.since_ms))
            yield f"{subject} has not answered for {duration}: {away.error}"
    yield f"names and sizes: {_round(report.listing, 'directories')}"
    yield f"checksums again: {_round(report.reading, 'files')}"


def _services(report: AuditReport) -> tuple[tuple[str, Away], ...]:
    return (("Kafka", report.kafka), ("the lake", report.lake), ("the catalog", report.catalog))


def _round(found: Round, things: str) -> str:
    text = f"{found.done:,} of {found.total:,} {things}"
    if found.size_bytes:
        text += f", {format_size(found.size_bytes)}"
    if found.took_ms is not None:
        text += f", the last round took {format_duration(found.took_ms)}"
    return text
