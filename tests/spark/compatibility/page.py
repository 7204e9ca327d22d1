"""The page of the reference that shows the table: `make docs` writes it."""

from collections import defaultdict
from collections.abc import Iterator

from tests.spark.compatibility.change import Base
from tests.spark.compatibility.groups import (
    CANNOT,
    COMES_OUT,
    DROPPED,
    OTHER_INPUTS,
    REPLAY,
    SAME_STATE,
    STARTS,
)
from tests.spark.compatibility.joins import GONE, NEW
from tests.spark.compatibility.table import BASES
from tests.spark.compatibility.widths import WIDER

HEAD = """\
# State when the SQL changes

The verdicts of [`ashore migrate check`](../operate/migration.md) on the changes that the tests try,
for each query:

| Verdict | |
|---|---|
| full | the state is used as it is |
| convert | it is rewritten, nothing is lost |
| partial | a part starts empty, or keeps what the new SQL would not |
| lost | a part is dropped |
| refused | nothing can be kept with a known meaning |

`ashore migrate apply` applies all changes but the refused ones. Where Spark can run both queries,
the tests apply them to running streams and compare the results. Other queries have the verdicts
of their operators. The SQL of each change is in
[`tests/spark/compatibility`](../../tests/spark/compatibility/table.py).

`avg(v)` rewritten as `sum(v) / count(v)` loses the average: Spark keeps its sum as a DOUBLE, and
`sum(v)` of integers is an integer.
"""
NEXMARK = "The query of [nexmark.sql](../../examples/nexmark/nexmark.sql)."
# Reasons that many queries have.
SHORT = {
    REPLAY: "other rows from now on",
    COMES_OUT: "rows of the old condition are still emitted",
    STARTS: "it starts at NULL for existing groups",
    CANNOT: "the new groups cannot be computed from the old ones",
    OTHER_INPUTS: "an operator below computes other rows",
    NEW: "it is NULL in buffered rows",
    GONE: "the new SQL does not use it",
    DROPPED: "the new SQL does not compute it",
    SAME_STATE: "computed from the state of another function",
    WIDER: "a wider type with all old values",
}
ORDER = ("full", "convert", "partial", "lost", "refused")


def render() -> str:
    """Return the page."""
    return "\n".join([HEAD, *(line for base in BASES for line in _render_base(base))])


def _render_base(base: Base) -> Iterator[str]:
    yield f"## {base.name[0].upper()}{base.name[1:]}\n"
    if base.name.startswith("Nexmark"):
        yield f"{NEXMARK}\n"
    else:
        yield f"```sql\n{base.sql}\n```\n"
    names = defaultdict(list)
    for change in base.changes:
        if not change.name.startswith("nothing"):
            names[str(change.verdict), change.why].append(change.name)
    for (verdict, why), of in sorted(names.items(), key=lambda each: ORDER.index(each[0][0])):
        reason = f" ({SHORT.get(why, why)})" if why else ""
        yield f"- **{verdict}**{reason}: {'; '.join(of)}"
    yield ""
