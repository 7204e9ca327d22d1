"""A table partition that is called complete is complete.

What it is: success files, compared with the entries that seal, with what readers see, and with what
was produced: three sources that share no code with the sealing.
What it promises: reads only. It counts the seals that it has seen, so that a drill in which none
was due does not pass for one that proves something.
"""

import json
import posixpath
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from ashore.errors import AshoreError
from ashore.log import names
from ashore.log.entries import Seal
from ashore.log.names import SliceName
from ashore.log.store.reader import read_history
from ashore.storage.base import Storage
from ashore_lab.drills.checkers.exactly_once import find_visible, read_rows
from ashore_lab.drills.workloads.numbers import Produced

NAMED_MAX = 5
Seals = Mapping[tuple[str, int], int]  # partition and version, rows


@dataclass(frozen=True, slots=True)
class Sealed:
    """How many partitions the log calls complete, and what is wrong with that."""

    partitions: int
    problems: tuple[str, ...] = ()


def check_sealed(storage: Storage, name: SliceName, produced: Produced, table: str) -> Sealed:
    """Compare what is called complete with what is there. Never raises for what it finds.

    Requires: partitions of the table are sealed once all of their records have been read, and not
    for lack of records: each is sealed once.
    """
    try:
        seals = read_seals(storage, name, table)
        files, rows = count_rows(storage, table)
    except (AshoreError, OSError, ValueError) as error:
        return Sealed(0, (f"seals of {table} cannot be read: {error}",))
    sealed = {partition: rows for (partition, _), rows in seals.items()}
    expected = produced.count_partitions()
    kinds = (
        ("success files without a seal", files.items() - seals.items()),
        ("seals without a success file", seals.items() - files.items()),
        ("sealed again", {key for key in seals if key[1] > 1}),
        ("sealed with other rows than were produced", sealed.items() - expected.items()),
        ("sealed, and readers see other rows", sealed.items() - rows.items()),
    )
    problems = (
        f"{kind}: {len(found)} ({', '.join(map(str, sorted(found)[:NAMED_MAX]))})"
        for kind, found in kinds
        if found
    )
    return Sealed(len(sealed), tuple(problems))


def read_seals(storage: Storage, name: SliceName, table: str) -> Seals:
    """Return what the log has sealed of a table."""
    return {
        (each.partition, each.version): each.rows
        for entry in read_history(storage, name)
        if isinstance(entry.body, Seal)
        for each in entry.body.partitions
        if each.table == table
    }


def count_rows(storage: Storage, table: str) -> tuple[Seals, Counter[str]]:
    """Return what success files say, and how many rows readers see in each partition."""
    root = names.table_path(table)
    rows: Counter[str] = Counter()
    reported: dict[tuple[str, int], int] = {}
    for path in find_files(storage, root):
        partition = posixpath.dirname(path).removeprefix(f"{root}/")
        content = storage.read(path)
        if not names.leaf(path).startswith("_SUCCESS"):
            rows[partition] += sum(1 for _ in read_rows(path, content))
            continue
        document = json.loads(content)
        reported[document["partition"], document["version"]] = document["rows"]
        if document["partition"] != partition:
            reported[partition, 0] = document["rows"]  # it lies in another partition than it names
    return reported, rows


def find_files(storage: Storage, root: str) -> list[str]:
    """Return data files and success files below a directory, by listing alone."""
    visible = list(find_visible(storage, root))
    directories = sorted({posixpath.dirname(path) for path in visible})
    marks = [
        found.path
        for directory in directories
        for found in storage.list(directory)
        if names.leaf(found.path).startswith("_SUCCESS")
    ]
    return visible + marks
