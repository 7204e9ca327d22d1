"""What `ashore checkpoint clean` prints.

What it promises: a view of a value: no clock, no storage.
What it must not know: how the value came about.
"""

from ashore.base.units import format_size
from ashore.cli.output import print_lines, print_table
from ashore.queries.tools.clean import Cleaned


def show_cleaned(found: Cleaned, *, explain: bool) -> None:
    """Print what was deleted, or would be."""
    rows = [
        [str(why), f"{each.files:,}", format_size(each.size_bytes)]
        for why, each in sorted(found.amounts.items())
    ]
    if rows:
        print_table("", {"not needed": "left", "count": "right", "size": "right"}, rows)
    print_lines(f"left alone: {each.path}: {each.why}" for each in found.left)
    total, count = found.total, len(found.checkpoints)
    verb = "would be deleted" if explain else "deleted"
    where = found.checkpoints[0] if count == 1 else f"{count} checkpoints"
    print_lines([f"{where}: {total.files:,} files {verb}, {format_size(total.size_bytes)}"])


def cleaned_document(found: Cleaned, *, explain: bool) -> dict[str, object]:
    """Return what `clean --json` prints."""
    total = found.total
    return {
        "files": total.files,
        "bytes": total.size_bytes,
        "checkpoints": found.checkpoints,
        "reasons": {
            why.name.lower(): {"count": each.files, "bytes": each.size_bytes}
            for why, each in sorted(found.amounts.items())
        },
        "left_alone": [{"path": each.path, "why": each.why} for each in found.left],
        "done": not explain,
    }
