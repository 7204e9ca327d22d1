"""The command `ashore verify`: a table per table, what is wrong, one last line.

What it promises: nothing is changed.
"""

from typing import Annotated

import typer
from rich.markup import escape

from ashore.base.unique import unique
from ashore.base.units import format_size
from ashore.cli.options import AsJson, Debug, JobFile
from ashore.cli.output import (
    CommandAnswer,
    out,
    print_json,
    print_table,
    reported_errors,
    shown_progress,
)
from ashore.proof.evidence.result import NAMED_MAX, ProblemKind, TableVerdict, VerifyResult
from ashore.proof.verify.sample import SampleRate, parse_rate
from ashore.topics.open_job import open_job


def verify(
    job_file: JobFile,
    since: Annotated[
        str | None,
        typer.Option(help="Check contents only of what was written since: 2h, 3d, ISO 8601."),
    ] = None,
    values: Annotated[
        str | None,
        typer.Option(help="Compare a sample of rows with Kafka, value by value: 0.01, 1%, 1."),
    ] = None,
    seed: Annotated[
        int | None, typer.Option(help="With --values: choose the rows of an earlier run again.")
    ] = None,
    as_json: AsJson = False,
    debug: Debug = False,
) -> None:
    """Compare log, files and Kafka: prove that nothing is lost and nothing duplicated."""
    with reported_errors(as_json=as_json, debug=debug), open_job(job_file) as opened:
        sample = None
        if values is not None:
            chosen = int(unique()[:8], 16) if seed is None else seed
            sample = SampleRate(parse_rate(values), chosen)
        elif seed is not None:
            raise typer.BadParameter("--seed requires --values")
        with shown_progress(quiet=as_json) as progress:
            progress("log", 0, 0)
            from ashore.proof.verify.job import verify_job  # noqa: PLC0415 - loads Arrow

            result = verify_job(opened, since=since, sample=sample, progress=progress)
        if as_json:
            print_json(result.to_dict())
        else:
            show(result)
        raise CommandAnswer(result.exit_code, result.answer)


# Columns that are left out where they hold nothing but zeros.
RARE = ("dead", "filtered", "dropped", "unprovable")


def show(result: VerifyResult) -> None:
    """Print a result to stdout. The last line is what people paste: see `VerifyResult.summary`."""
    rows = [_row(table) for table in result.tables]
    empty = {name for name in RARE if all(row[name] == "0" for row in rows)}
    names = [name for name in (rows[0] if rows else {}) if name not in empty]
    columns = {name: "left" if name in ("table", "status") else "right" for name in names}
    print_table(f"job {result.job}", columns, [[row[name] for name in names] for row in rows])
    for problem in result.problems:
        where = f"{problem.place}: " if problem.place else ""
        out.print(f"[bold]{problem.kind}[/] {escape(where + problem.text)}")
    for kind, count in sorted(result.problem_counts.items()):
        named = sum(1 for problem in result.problems if problem.kind is kind)
        if count > named:
            out.print(f"[bold]{ProblemKind(kind)}[/] and {count - named:,} more")
    for each in result.not_checked[:NAMED_MAX]:
        out.print(f"[bold]not compared[/] {escape(f'{each.what}: {each.reason}')}")
    if len(result.not_checked) > NAMED_MAX:
        out.print(f"[bold]not compared[/] and {len(result.not_checked) - NAMED_MAX:,} more")
    for note in result.notes:
        out.print(f"note: {escape(note)}")
    totals = result.totals
    given_up = totals.skipped + totals.given_up
    if given_up:
        out.print(f"given up on purpose: {given_up:,} (see `skip` in the landing log)")
    if result.values is not None:
        rate, seed = result.values.rate, result.values.seed
        out.print(f"values: rate {rate:g}; --seed {seed} chooses the same rows again")
    out.print(escape(result.summary))


def _known(count: int, table: TableVerdict) -> str:
    """Return a count; of a table that was not compared as a whole, 0 is not known."""
    return f"{count:,}" if count or table.is_whole else "?"


def _row(table: TableVerdict) -> dict[str, str]:
    tally = table.tally
    return {
        "table": table.table,
        "batches": f"{tally.batches:,}",
        "fetched": f"{tally.fetched:,}",
        "landed": f"{tally.landed:,}",
        "dead": f"{tally.dead:,}",
        "filtered": f"{tally.filtered:,}",
        "dropped": f"{tally.dropped:,}",
        "files": f"{tally.files:,}",
        "bytes": format_size(tally.size_bytes),
        "lost": _known(tally.lost, table),
        "duplicated": _known(tally.duplicated, table),
        "unprovable": f"{tally.unprovable:,}",
        "status": str(table.status),
    }
