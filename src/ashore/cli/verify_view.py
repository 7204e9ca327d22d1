"""What a verification looks like: a table per table, what is wrong, one last line.

What it must not know: how it was found.
"""

from ashore.base.units import format_size
from ashore.cli.output import escape, out, print_table
from ashore.proof.verify import NAMED_MAX, ProblemKind, TableVerdict, VerifyResult

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
