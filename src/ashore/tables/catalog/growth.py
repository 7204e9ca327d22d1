"""How an existing table differs from the expected one.

What it is: a comparison of columns, by name and type.
What it promises: pure; names are compared as Hive does, without case; a column is never dropped,
renamed, moved or given another type.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from ashore.errors import SchemaConflict
from ashore.tables.catalog.base import CatalogTable

_ONLY_THERE = " is only in the catalog"


class GrownColumn(NamedTuple):
    """A column, its type as the text that the catalog compares."""

    name: str
    type: str


@dataclass(frozen=True, slots=True)
class Growth:
    """What the table lacks, and what cannot be reconciled."""

    added: tuple[str, ...]  # as the expected columns name them, in their order
    conflicts: tuple[str, ...]  # one sentence each

    @property
    def differences(self) -> tuple[str, ...]:
        """All that is not the same, also what is only added, in words."""
        return (
            *self.conflicts,
            *(f"column {name.lower()} is missing in the catalog" for name in self.added),
        )


def find_repeated(table: CatalogTable) -> list[str]:
    """Return a conflict for each column that is there twice, partition columns included."""
    names = [name.lower() for name in (*table.columns.names, *table.partition_columns.names)]
    repeated = sorted({name for name in names if names.count(name) > 1})
    return [f"column {name} appears twice in the catalog" for name in repeated]


def compare_columns(known: Sequence[GrownColumn], expected: Sequence[GrownColumn]) -> Growth:
    """Compare the columns of the files."""
    known_types = {column.name.lower(): column.type for column in known}
    expected_types = {column.name.lower(): column.type for column in expected}
    conflicts = [
        f"column {name} is {type_} in the catalog, expected {expected_types[name]}"
        if name in expected_types
        else f"column {name}{_ONLY_THERE}"
        for name, type_ in known_types.items()
        if expected_types.get(name) != type_
    ]
    added = [column.name for column in expected if column.name.lower() not in known_types]
    return Growth(tuple(added), tuple(conflicts))


def compare_partitioning(
    known: Sequence[GrownColumn], expected: Sequence[GrownColumn]
) -> list[str]:
    """Compare the partition columns, whose order counts. Returns conflicts."""
    there, here = (
        [f"{each.name.lower()} {each.type}" for each in side] for side in (known, expected)
    )
    if there == here:
        return []
    return [
        f"it is partitioned by ({', '.join(there)}) in the catalog, expected ({', '.join(here)})"
    ]


def refuse_growth(table: str, catalog: str, conflicts: Sequence[str]) -> SchemaConflict:
    """Return the error that names all conflicts of a table."""
    hint = "correct the job file, or write to a table with another name"
    if all(each.endswith(_ONLY_THERE) for each in conflicts):
        hint += (
            "; where an undo or a rollback has taken the column back, drop the table from the "
            "catalog (it is external, its files stay), start the job, which creates it again, and "
            f"run `MSCK REPAIR TABLE {table}` for its older partitions"
        )
    return SchemaConflict(
        f"{table} in {catalog} is not the table of this job: {'; '.join(conflicts)}",
        hint=hint,
        table=table,
        conflicts=list(conflicts),
    )
