"""Every table partition that has files is one that readers of the metastore find.

What it promises: compares directories with visible files, by listing alone, with what the metastore
says. Reads only.
What it must not know: when partitions were registered.
"""

import posixpath
from collections.abc import Mapping

from ashore.drills.checkers.exactly_once import find_visible
from ashore.errors import AshoreError
from ashore.protocol import names
from ashore.storage.base import Storage

NAMED_MAX = 5


def check_registered(storage: Storage, table: str, registered: Mapping[str, str]) -> list[str]:
    """Return what is wrong. Never raises for what it finds.

    Arguments:
        storage: the lake.
        table: `database.name`.
        registered: where the metastore says that each partition is, below the lake.

    """
    try:
        files = list(find_visible(storage, names.table_path(table)))
    except AshoreError as error:
        return [f"{table} cannot be listed: {error.message}"]
    there = {posixpath.dirname(path) for path in files}
    known = set(registered.values())
    kinds = (("not registered", there - known), ("registered without files", known - there))
    return [
        f"{kind}: {len(found)} partitions of {table} ({', '.join(sorted(found)[:NAMED_MAX])})"
        for kind, found in kinds
        if found
    ]
