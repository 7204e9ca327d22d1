"""The command `ashore status`.

What it promises: with `--check` the exit code says whether all is as it should be: 0, or of all
jobs the gravest of 4 (needs a decision), 1 (not healthy), 6 (could not be looked at).
"""

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

from ashore.base.units import format_duration, format_size, format_time
from ashore.cli.options import AsJson, Debug, parse_duration
from ashore.cli.output import CommandAnswer, out, print_json, print_table, reported_errors, waiting
from ashore.errors import ExitCode, LogError, worst_code
from ashore.proof.status.health import (
    ANSWERS,
    DECIDE,
    UNKNOWN,
    Ailment,
    Allowed,
    FleetRow,
    read_fleet,
    read_job,
    worst_ailment,
)
from ashore.proof.status.queries import QueryStatus
from ashore.proof.status.recent import EntryStatus
from ashore.proof.status.status import JobStatus, ShardStatus, SliceStatus, add_lags
from ashore.topics.open_job import open_job
from ashore.topics.use.table_changes import describe_pending

READING = "reading the log, and offsets from Kafka"


def status(
    job_files: Annotated[list[Path], typer.Argument(metavar="JOB.yaml...", help="The job files.")],
    check: Annotated[
        bool, typer.Option("--check", help="End with 0 only if the job is healthy.")
    ] = False,
    max_lag: Annotated[
        int | None,
        typer.Option(min=0, help="With --check: the highest lag in offsets that is healthy."),
    ] = None,
    max_age: Annotated[
        str | None,
        typer.Option(help="With --check: how old the last entry may be while offsets wait: 5m."),
    ] = None,
    as_json: AsJson = False,
    debug: Debug = False,
) -> None:
    """Show state, lag, rates, last entries and warnings. Several jobs: a table. Needs no Spark."""
    if not check and (max_lag is not None or max_age is not None):
        raise typer.BadParameter("--max-lag and --max-age require --check")
    age_ms = None if max_age is None else parse_duration(max_age)
    allowed = Allowed(max_lag, age_ms) if check else None
    if len(job_files) > 1:
        with waiting(READING, quiet=as_json):
            rows = read_fleet(job_files, allowed)
        code = _show_fleet(rows, as_json=as_json)
        raise CommandAnswer(code, ANSWERS[code])
    with reported_errors(as_json=as_json, debug=debug), open_job(job_files[0]) as opened:
        with waiting(READING, quiet=as_json):
            found, ailments = read_job(opened, allowed)
            changes = describe_pending(opened) if found.is_source_reachable else None
        if as_json:
            health = (
                {"ailments": _plain(ailments), "exit_code": worst_ailment(ailments)}
                if check
                else {}
            )
            print_json({**found.to_dict(), "changes": changes, **health})
        else:
            show(found, changes)
            show_ailments(ailments, found.job)
        code = worst_ailment(ailments)
        raise CommandAnswer(code, ANSWERS[code])


def _show_fleet(rows: list[FleetRow], *, as_json: bool) -> ExitCode:
    if as_json:
        print_json({"jobs": [_row(each) for each in rows]})
    else:
        show_fleet(rows)
    return worst_code(map(_code, rows))


def _code(row: FleetRow) -> ExitCode:
    """Return what a row is worth: a job that could not be read is never healthy."""
    if row.error is None:
        return worst_ailment(row.ailments)
    return DECIDE if isinstance(row.error, LogError) else UNKNOWN


def _row(row: FleetRow) -> dict[str, object]:
    document = {"file": row.name, "ailments": _plain(row.ailments), "exit_code": _code(row)}
    if row.error is not None:
        return {**document, "error": row.error.to_dict()}
    return {**document, **(row.status.to_dict() if row.status else {})}


def _plain(ailments: tuple[Ailment, ...]) -> list[dict[str, object]]:
    return [asdict(each) for each in ailments]


SHARDS = {"topic partition": "left", "next": "right", "end": "right", "lag": "right"}
SHARDS_SHOWN = 20
BLOCKED_SHOWN = 10
TABLES = {"table": "left", "partitions": "right", "unsealed": "right", "rows": "right"}


def show(status: JobStatus, changes: Sequence[str] | None = ()) -> None:
    """Print a status to stdout: the slices, what they have landed, what is to be looked at.

    `changes`: what the next start reports; None: it is not known.
    """
    out.print(f"job {escape(status.job)} on {escape(status.lake)}: {_state(status)}")
    out.print(escape(status.why))
    if status.reader is not None:
        out.print(f"reader: {escape(status.reader)}")
    for each in status.slices:
        _show_slice(each)
    for blocked in status.blocked_seals[:BLOCKED_SHOWN]:
        where = f"{blocked.table} {blocked.partition}"
        out.print(f"not sealed: {escape(where)}: {escape(blocked.why)}")
    if len(status.blocked_seals) > BLOCKED_SHOWN:
        out.print(f"not sealed: {len(status.blocked_seals) - BLOCKED_SHOWN:,} more (see --json)")
    for kept in status.kept[:BLOCKED_SHOWN]:
        where = f"{kept.table} {kept.partition}"
        out.print(f"old and not retired: {escape(where)}: {escape(kept.why)}")
    if not status.is_source_reachable:
        out.print("lag is not known: the source does not answer, or refuses the job")
    for warning in status.warnings:
        out.print(f"[bold]warning[/] {escape(warning.subject)}: {escape(warning.text)}")
        if warning.hint:
            out.print(f"[bold]next[/]    {escape(warning.hint)}")
    for change in changes or ():
        out.print(f"the next start reports: {escape(change)}")


def show_fleet(rows: Sequence[FleetRow]) -> None:
    """Print jobs side by side, a row each; what ails them below."""
    columns = {"job": "left", "state": "left", "since": "right", "lag": "right"}
    columns |= {"records/s": "right", "last entry": "right", "warnings": "right"}
    print_table("", columns, [_fleet_row(each) for each in rows])
    for each in rows:
        if each.error is not None:
            out.print(f"[bold]{escape(each.name)}[/]: {escape(each.error.message)}")
        show_ailments(each.ailments, each.name)


def show_ailments(found: Sequence[Ailment], name: str) -> None:
    """Print what is wrong with a job, a line each."""
    for each in found:
        out.print(f"[bold]{escape(name)}[/]: {escape(each.text)}")


def _fleet_row(row: FleetRow) -> list[str]:
    status = row.status
    if status is None:
        return [row.name, "?", "", "?", "", "", ""]
    since = "" if status.since_ms is None else format_duration(status.now_ms - status.since_ms)
    rates = [each.records_per_s for each in status.slices if each.records_per_s is not None]
    ages = [each.last.age_ms for each in status.slices if each.last is not None]
    return [
        status.job,
        str(status.state),
        since,
        _count(status.lag),
        f"{sum(rates):,.0f}" if rates else "",
        format_duration(min(ages)) if ages else "",
        str(len(status.warnings)) if status.warnings else "",
    ]


def _state(status: JobStatus) -> str:
    text = str(status.state)
    if status.since_ms is not None:
        text += f" for {format_duration(max(0, status.now_ms - status.since_ms))}"
    return text if status.pid is None else f"{text}, process {status.pid}"


def _show_slice(each: SliceStatus) -> None:
    rate = "" if each.records_per_s is None else f", {each.records_per_s:,.0f} records/s"
    lag = "not known" if each.lag is None else f"{each.lag:,}"
    head = f"\nslice {each.slice}, epoch {each.epoch}:"
    if each.query is None:
        out.print(
            f"{head} {each.fetched:,} fetched, {each.landed:,} landed, {each.dead:,} dead, "
            f"lag {lag}{rate}"
        )
    else:
        _show_query(head, each.query, f"{lag}{rate}")
        rows = "landed" if each.tables else "sent"
        out.print(f"{each.fetched:,} offsets read, {each.landed:,} rows {rows}, {each.dead:,} dead")
    out.print(f"last entry {_entry(each.last)}; unclosed {_entry(each.unclosed)}")
    if each.counters:
        counters = ", ".join(f"{name} {count:,}" for name, count in each.counters.items() if count)
        out.print(f"counted {counters or 'nothing odd'}")
    if each.deferred_by_action:
        deferred = ", ".join(f"{one.effects:,} x {one.action}" for one in each.deferred_by_action)
        out.print(f"deferred {escape(deferred)}")
    out.print()
    _show_shards(each.shards)
    tables = [
        [table.table, *map(_count, (table.partitions, table.unsealed, table.rows))]
        for table in each.tables
    ]
    print_table("", TABLES, tables)
    for table in each.tables:
        if snapshot := table.last_snapshot:
            entry = f"entry {_entry(table.snapshot)}" if table.snapshot else "an older entry"
            out.print(f"{escape(table.table)}: {snapshot}, by {entry}")


def _show_shards(shards: Sequence[ShardStatus]) -> None:
    """Print topic partitions, a row each: where there are many, those with the most lag."""
    shown, left = shards, shards[:0]
    if len(shards) > SHARDS_SHOWN:
        by_lag = sorted(shards, key=lambda each: -(each.lag or 0))  # stable: then by name
        shown, left = by_lag[:SHARDS_SHOWN], by_lag[SHARDS_SHOWN:]
    rows = [
        [f"{each.stream}/{each.shard}", *map(_count, (each.next, each.end, each.lag))]
        for each in shown
    ]
    print_table("", SHARDS, rows)
    if left:
        lag = add_lags(each.lag for each in left)
        known = "not known" if lag is None else f"{lag:,}"
        out.print(f"{len(left):,} more topic partitions, lag {known}; --json lists all")


def _show_query(head: str, query: QueryStatus, lag: str) -> None:
    out.print(f"{head} query {query.query_id}, batch {query.batch_id:,}, {query.state}, lag {lag}")
    if query.begins_after is not None:
        out.print(f"begins after batch {query.begins_after:,}, which another table has")
    if query.why is not None:
        out.print(f"stopped: {escape(query.why)}")
    if query.held_by is not None and query.held_since_ms is not None:
        since = format_time(query.held_since_ms)
        out.print(f"waits for {escape(query.held_by)}: no record since {since}")
    if query.behind is not None:
        out.print(f"reads partitions in step: the others wait for {escape(query.behind)}")
    reported = [f"late {query.late:,} records"]
    if query.far_future:
        reported.append(f"{query.far_future:,} too far ahead")
    if query.watermark_ms is not None:
        reported.insert(0, f"watermark {format_time(query.watermark_ms)}")
    if query.state_bytes is not None:
        rows = "" if query.state_rows is None else f"{query.state_rows:,} rows, "
        size = format_size(query.state_bytes)
        reported.append(f"state {rows}{size}, committed in {query.commit_ms:,} ms")
    if query.dropped:
        reported.append(f"{query.dropped:,} rows dropped as too late since the start")
    out.print(", ".join(reported))


def _entry(entry: EntryStatus | None) -> str:
    if entry is None:
        return "none"
    return f"{entry.number} ({entry.kind}, {format_duration(entry.age_ms)} ago)"


def _count(count: int | None) -> str:
    return "?" if count is None else f"{count:,}"
