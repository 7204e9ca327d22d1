"""Tables as the other slices of a job know them: the slice of its topics, and those of its INSERTs.

What it is: `read_others`, for a table that a slice does not know yet, and that another one filled.
What it promises: reads only, and only the logs of slices that could have filled such a table.
What it must not know: what becomes of the table.
"""

from collections.abc import Collection, Mapping

from ashore.landing.job import MAIN
from ashore.landing.log_reader import read_log
from ashore.protocol import names
from ashore.protocol.names import SliceName, insert_into_table
from ashore.protocol.tables import TableDefinition
from ashore.storage.base import Storage


def read_others(
    storage: Storage, name: SliceName, tables: Collection[str]
) -> Mapping[str, TableDefinition]:
    """Return tables that a slice does not know, as others do. Raises LogDamaged, StorageError."""
    listed = storage.list(names.job_directory(name.job))
    there = {names.leaf(each.path) for each in listed if each.is_directory}
    found = {}
    for table in tables:
        other = insert_into_table(table) if name.slice == MAIN else MAIN
        if other in there:
            definition = read_log(storage, SliceName(name.job, other)).tables.get(table)
            if definition is not None:
                found[table] = definition
    return found
