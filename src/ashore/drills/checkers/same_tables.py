"""Two tables that were landed from one topic, record by record.

What it is: the rows of both, read where the metastore says that they are, as readers do.
What it promises: every column is compared, and how often a row is there. Reads only.
What it must not know: workloads, logs, and which of the two is the healthy one.
"""

from collections import Counter
from collections.abc import Mapping

from ashore.drills.checkers.exactly_once import find_visible, read_files
from ashore.storage.base import Storage

Rows = Counter[tuple[tuple[str, object], ...]]


def read_registered(storage: Storage, locations: Mapping[str, str]) -> Rows:
    """Return how often each row is in the partitions that a metastore names. Raises StorageError.

    Arguments:
        storage: the lake.
        locations: where each partition is, below the lake.

    """
    rows: Rows = Counter()
    directories = locations.values()
    paths = [path for directory in directories for path in find_visible(storage, directory)]
    rows.update(tuple(sorted(row.items())) for row in read_files(storage, paths))
    return rows


def compare_rows(tested: Rows, control: Rows) -> list[str]:
    """Return what differs. Pure."""
    found = (
        ("rows of the control group are missing", control - tested),
        ("rows are not those of the control group", tested - control),
    )
    return [f"{rows.total():,} {text}, such as {next(iter(rows))}" for text, rows in found if rows]
