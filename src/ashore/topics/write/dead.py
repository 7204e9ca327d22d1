"""Dead letters: records that are no row of their table, kept as they came.

What it is: the table `<table>__dead`, its partitions and its rows.
What it promises: a dead row holds the bytes of the record and says where it was, with its headers
where the table keeps them; a value or key that was not there stays null.
"""

import functools

import pyarrow as pa

from ashore.log.files import Role, Target
from ashore.log.tables import DEAD_PARTITION_BY, DEAD_SUFFIX, dead_ddl
from ashore.tables.ddl import parse_ddl
from ashore.tables.names import partition_path, partition_values
from ashore.topics.decode.arrow_types import to_arrow
from ashore.topics.decode.decode import BadRows
from ashore.topics.route.buckets import Bucketer
from ashore.topics.write.specs import OutputSpec


@functools.cache  # there are four
def _dead_schema(ddl: str) -> pa.Schema:
    return to_arrow(parse_ddl(ddl))


DEAD_SCHEMA = _dead_schema(dead_ddl(headers=False))


def dead_target(output: OutputSpec, now_ms: int, ddl: str) -> Target:
    """Return the partition of bad records: they have no event time, so the batch's counts.

    `ddl`: the columns, as `dead_ddl` gives them.
    """
    bucketer = Bucketer(DEAD_PARTITION_BY, output.timezone, DEAD_SCHEMA)
    values = bucketer.assign_one(now_ms)
    return Target(
        output.table + DEAD_SUFFIX,
        Role.DEAD,
        partition_path(bucketer.partition_by, values),
        partition_values(bucketer.partition_by, values),
        ddl,
        output.format,
    )


def build_dead_rows(records: pa.RecordBatch, bad: BadRows, ddl: str) -> pa.Table:
    """Return the dead rows of some records that are bad, in their order. `ddl`: their columns."""
    schema = _dead_schema(ddl)
    rows = records.take(pa.array(bad.indices))
    columns = {name: rows.column(name) for name in rows.schema.names}
    columns["reason"] = bad.reasons
    return pa.table([columns[name] for name in schema.names], schema=schema)
