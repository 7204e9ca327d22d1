"""Dead letters: records that are no row of their table, kept as they came.

What it is: the table `<table>__dead` and its rows.
What it promises: a dead row holds the bytes of the record and says where it was; a value or key
that was not there stays null.
What it must not know: how decoding works; it is given reasons.
"""

from collections.abc import Sequence

import pyarrow as pa

from ashore.formats import BadRow, parse_ddl, to_arrow
from ashore.landing.writer.runs import Run
from ashore.protocol.side_tables import DEAD_DDL

DEAD_SCHEMA = to_arrow(parse_ddl(DEAD_DDL))


def build_dead_rows(run: Run, bad: Sequence[BadRow]) -> pa.Table:
    """Return the dead rows of a run's bad records, in their order."""
    rows = run.records.take(pa.array([row.index for row in bad], pa.int64()))
    columns = {name: rows.column(name) for name in rows.schema.names}
    columns["reason"] = pa.array([row.reason for row in bad], pa.string())
    return pa.table([columns[name] for name in DEAD_SCHEMA.names], schema=DEAD_SCHEMA)
