"""What an audit looks like: a gauge, what is wrong, how far the rounds are.

What it is: one report for people; a live view, lines or JSON lines of many.
What it promises: `render` shows a report and nothing else; colour carries no meaning. A line has
its time, and comes when something has changed that matters, or now and then as a sign of life.
What it must not know: how anything was found out.
"""

import json
import sys
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime

from rich.console import Group, RenderableType
from rich.live import Live
from rich.text import Text

from ashore.base.units import format_duration, format_size
from ashore.cli.output import escape, out, print_json, say, talk
from ashore.errors import ExitCode
from ashore.proof.audit import AuditFinding, AuditReport, Away, Round

ANSWERS = {0: "ok", 5: "wrong", 6: "unprovable"}  # by exit code
FINDINGS_SHOWN = 15  # on a terminal; `--json` has them all
LINE_EVERY_MS = 60_000  # at least, where there is no terminal
# What is said when nothing is amiss any more.
BACK = {
    "Kafka": "Kafka answers again",
    "lake": "the lake answers again",
    "catalog": "the catalog answers again",
    "job": "a job is running",
}


def show_once(report: AuditReport, *, as_json: bool) -> int:
    """Print one report to stdout and return the exit code."""
    if as_json:
        print_json(report.to_dict())
    else:
        for finding in report.findings:
            out.print(escape(_line(finding)))
        for line in _lines(report):
            out.print(escape(line))
    return report.exit_code


def show_all(reports: Iterable[AuditReport], *, as_json: bool) -> int:
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


def _show_lines(reports: Iterable[AuditReport]) -> int:
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
    """Return what is told as soon as it changes. A lag changes all the time."""
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
    for name, subject, away in (
        ("Kafka", "Kafka", report.kafka),
        ("lake", "the lake", report.lake),
        ("catalog", "the catalog", report.catalog),
    ):
        yield name, "" if away.since_ms is None else f"{subject} does not answer: {away.error}"
    if report.lake.since_ms is None:
        yield "job", _absence(report)


def _absence(report: AuditReport) -> str:
    """Return in words that there is no job, if the log tells so."""
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


def _show_json(reports: Iterable[AuditReport]) -> int:
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
    for name, away in (
        ("Kafka", report.kafka),
        ("the lake", report.lake),
        ("the catalog", report.catalog),
    ):
        if away.since_ms is not None:
            yield f"{name} has not answered for {_since(away, report.now_ms)}: {away.error}"
    yield f"names and sizes: {_round(report.listing, 'directories')}"
    yield f"checksums again: {_round(report.reading, 'files')}"


def _since(away: Away, now_ms: int) -> str:
    return format_duration(max(0, now_ms - (away.since_ms or now_ms)))


def _round(found: Round, things: str) -> str:
    text = f"{found.done:,} of {found.total:,} {things}"
    if found.size_bytes:
        text += f", {format_size(found.size_bytes)}"
    if found.took_ms is not None:
        text += f", the last round took {format_duration(found.took_ms)}"
    return text
