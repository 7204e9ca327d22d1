"""Registering a job's tables and partitions in a catalog.

What it is: `Registrar`, between the tables of a job and a Catalog.
What it promises: a table that the catalog knows with another schema is refused before anything is
written there. A catalog that is away delays registration and stops nothing: what is not registered
stays deferred in the landing log.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from ashore.errors import CatalogError
from ashore.log import names
from ashore.log.entries import DeferredAction
from ashore.log.tables import DEAD_PARTITION_BY, DEAD_SUFFIX, LATE_SUFFIX, TableDefinition, dead_ddl
from ashore.tables.catalog import Catalog, CatalogPartition, CatalogTable, PartitionSeal
from ashore.tables.ddl import Atom, Field, Schema, parse_ddl
from ashore.tables.transforms import find_transforms, parse_transform
from ashore.topics.loop.definitions import schema_of
from ashore.topics.write.batch import LandingSpec, OutputSpec, provenance_schema

Spec = LandingSpec | OutputSpec  # a table of a topic, or of a query


class Registrar:
    """Registers for one job. Used by the threads of its slices, one call at a time each."""

    def __init__(
        self, catalog: Catalog, lake: str, job: str, on_warning: Callable[[str], None]
    ) -> None:
        self._catalog = catalog
        self._lake = lake.rstrip("/")
        self._job = job
        self._on_warning = on_warning
        self._tables: dict[str, CatalogTable] = {}
        self._ensured: set[str] = set()
        self._is_away = False  # when it was last asked: one question is enough to wait for

    def check(self, spec: Spec) -> None:
        """Raise SchemaConflict where the catalog's tables contradict `spec`.

        For the first look at a table, before anything is written there. A catalog that is away is
        asked again by `ensure` only.
        """
        tables = catalog_tables(spec, self._lake, self._job)
        if self._is_away or self._ensured.issuperset(table.full_name for table in tables):
            return
        try:
            for table in tables:
                self._catalog.check_table(table)
        except CatalogError as error:
            self._is_away = True
            self._on_warning(f"{spec.table} was not compared with the catalog: {error.message}")

    def ensure(self, specs: Iterable[Spec]) -> None:
        """Make the tables known, main, late and dead. Raises SchemaConflict.

        A catalog that is unreachable, or fails, gets them with their first partition.
        Requires: the tables' directories exist.
        """
        for spec in specs:
            for table in catalog_tables(spec, self._lake, self._job):
                self._tables[table.full_name] = table
        try:
            for name in sorted(self._tables.keys() - self._ensured):
                self._ensure(name)
            self._is_away = False
        except CatalogError as error:
            self._on_warning(f"tables are not in the catalog yet: {error.message}")

    def register(self, table: str, partitions: Sequence[str]) -> None:
        """Register partitions in one call. Raises CatalogError. May be repeated."""
        if table not in self._tables:
            return  # a table that the job file names no more
        self._ensure(table)
        found = [CatalogPartition(partition) for partition in partitions]
        self._catalog.add_partitions(self._tables[table], found)

    def mark_sealed(self, effects: Sequence[DeferredAction]) -> None:
        """Write version and rows of sealed partitions, one call a table. Raises CatalogError."""
        seals: dict[str, list[PartitionSeal]] = defaultdict(list)
        for each in effects:
            if each.table in self._tables:
                seal = PartitionSeal(CatalogPartition(each.partition), each.version, each.rows)
                seals[each.table].append(seal)
        for table, found in seals.items():
            self._ensure(table)
            self._catalog.mark_sealed(self._tables[table], found)

    def _ensure(self, table: str) -> None:
        if table not in self._ensured:
            self._catalog.ensure_table(self._tables[table])
            self._ensured.add(table)


def output_of(spec: Spec) -> OutputSpec:
    """Return how the rows of a table become files, those of a topic or of a query."""
    return spec if isinstance(spec, OutputSpec) else spec.output


def catalog_tables(spec: Spec, lake: str, job: str) -> list[CatalogTable]:
    """Return a table as a catalog is to know it, and its late and dead tables, as far as it has."""
    output = output_of(spec)
    landing = spec if isinstance(spec, LandingSpec) else None
    suffixes = [""] + [DEAD_SUFFIX] * output.leaves_aside
    if landing is not None:
        suffixes += [LATE_SUFFIX] * (landing.late.policy in {"side", "keep"})
        suffixes += [DEAD_SUFFIX] * (landing.on_invalid == "dead_letter")
    shape = TableShape(
        output.table,
        parse_ddl(output.schema),
        output.partition_by,
        output.format,
        provenance=landing is not None and landing.provenance,
        headers=output.headers_aside if landing is None else landing.headers,
        generation=landing is not None and landing.generation,
    )
    return [
        replace(
            shape.catalog_table(suffix, lake, job),
            sort_by=() if suffix == DEAD_SUFFIX else output.sort_by,
        )
        for suffix in suffixes
    ]


@dataclass(frozen=True, slots=True)
class TableShape:
    """What a main table is; its late and dead tables follow from it."""

    table: str
    columns: Schema  # without those of the provenance
    partition_by: tuple[str, ...]
    format: str
    provenance: bool
    headers: bool
    generation: bool

    @classmethod
    def of(cls, definition: TableDefinition) -> "TableShape":
        """Return the shape of a table that a log knows."""
        return cls(
            definition.table,
            schema_of(definition),
            definition.partition_by,
            definition.format,
            definition.provenance,
            definition.headers,
            definition.generation,
        )

    def catalog_table(self, suffix: str, lake: str, job: str) -> CatalogTable:
        """Return the table as a catalog is to know it, or the one beside it that has a `suffix`."""
        provenance = provenance_schema(
            provenance=self.provenance, generation=self.generation, headers=self.headers
        )
        schema, partition_by = Schema((*self.columns.fields, *provenance.fields)), self.partition_by
        if suffix == DEAD_SUFFIX:
            dead = dead_ddl(headers=self.headers, generation=self.generation)
            schema, partition_by = parse_ddl(dead), DEAD_PARTITION_BY
        own = {field.name: field for field in schema.fields}
        partitions = tuple(
            own.get(column, Field(column, Atom.STRING, nullable=True))
            for column in partition_by
            if not parse_transform(column)
        )
        rest = tuple(field for field in schema.fields if field.name not in partition_by)
        database, _, name = (self.table + suffix).partition(".")
        return CatalogTable(
            database=database,
            name=name,
            columns=Schema(rest),
            partition_columns=Schema(partitions),
            location=f"{lake.rstrip('/')}/{names.table_path(self.table + suffix)}",
            format=self.format,
            job=job,
            partition_by=partition_by if find_transforms(partition_by) else (),
        )
