"""What an audit looks like: a gauge, what is wrong, how far the rounds are.

What it is: one report for people; a live view, lines or JSON lines of many.
What it promises: `render` shows a report and nothing else; colour carries no meaning.
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
from ashore.control.audit import Away, Finding, Report, Round

NOTHING_SEEN = 6  # the exit code then
FINDINGS_SHOWN = 15  # on a terminal; `--json` has them all


def show_once(report: Report, *, as_json: bool) -> int:
    """Print one report to stdout and return the exit code."""
    if as_json:
        print_json(report.to_dict())
    else:
        for finding in report.findings:
            out.print(escape(_line(finding)))
        for line in _lines(report):
            out.print(escape(line))
    return report.exit_code


def show_all(reports: Iterable[Report], *, as_json: bool) -> int:
    """Show reports as they come and return the exit code of the last; 6 if there was none."""
    if as_json:
        return _show_json(reports)
    if talk.is_terminal:
        code = NOTHING_SEEN
        with Live(console=talk, auto_refresh=False) as live:
            for report in reports:
                code = report.exit_code
                live.update(render(report), refresh=True)
        return code
    return _show_lines(reports)


def render(report: Report) -> RenderableType:
    """Return what a terminal shows of a report."""
    shown = [Text(_line(each)) for each in report.findings[:FINDINGS_SHOWN]]
    more = len(report.findings) - len(shown)
    if more:
        shown.append(Text(f"and {more:,} more (see --json)"))
    return Group(*(Text(line) for line in _lines(report)), *shown)


def _show_lines(reports: Iterable[Report]) -> int:
    code, before = NOTHING_SEEN, ""
    for report in reports:
        code = report.exit_code
        for finding in (*report.raised, *report.cleared):
            say(escape(_line(finding)))
        gauge = _gauge(report)
        if gauge != before:
            say(escape(gauge))
        before = gauge
    return code


def _show_json(reports: Iterable[Report]) -> int:
    code = NOTHING_SEEN
    for report in reports:
        code = report.exit_code
        for event in events(report):
            sys.stdout.write(json.dumps(event) + "\n")
        sys.stdout.flush()
    sys.stdout.write(json.dumps({"event": "ended", "exit_code": code}) + "\n")
    return code


def events(report: Report) -> Iterator[Mapping[str, object]]:
    """Yield the JSON lines of a report: `raised` and `cleared`, then `looked`."""
    for kind, findings in (("raised", report.raised), ("cleared", report.cleared)):
        for finding in findings:
            yield {"event": kind, **finding.to_dict()}
    document = report.to_dict()
    for left_out in ("raised", "cleared", "exit_code"):
        del document[left_out]
    yield {"event": "looked", **document, "findings": len(report.findings)}


def _line(finding: Finding) -> str:
    problem = finding.problem
    where = f"{problem.place}: " if problem.place else ""
    state, at_ms = "since", finding.first_seen_ms
    if finding.cleared_ms is not None:
        state, at_ms = "cleared", finding.cleared_ms
    at = datetime.fromtimestamp(at_ms / 1000, UTC).isoformat("T", "seconds")
    return f"{problem.kind} {where}{problem.text} ({state} {at})"


def _gauge(report: Report) -> str:
    gauge = report.gauge
    lag = "not known" if gauge.lag is None else f"{gauge.lag:,}"
    text = f"unaccounted {gauge.unaccounted:,}, not landed yet {lag}"
    if gauge.unprovable:
        text += f", not provable any more {gauge.unprovable:,}"
    if report.unproven:
        text += f", entries not looked at yet {report.unproven:,}"
    return f"{text}, findings {len(report.findings):,}"


def _lines(report: Report) -> Iterator[str]:
    entries = ", ".join(f"{name} {count:,}" for name, count in sorted(report.entries.items()))
    yield f"job {report.job}, interval {report.tick:,}, entries {entries or 'none'}"
    yield _gauge(report)
    for name, away in (("Kafka", report.kafka), ("the lake", report.lake)):
        if away.since_ms is not None:
            yield f"{name} is away for {_since(away, report.now_ms)}: {away.error}"
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
