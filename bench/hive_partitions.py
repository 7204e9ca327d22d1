"""How many partitions a second the Hive catalog registers and seals.

    python -m bench.hive_partitions

A real metastore with Derby on this machine; a table of 26 columns, hourly partitions whose
directories exist. Registering them one call each is what `ALTER TABLE ADD PARTITION` would do.
"""

import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from ashore.tables.catalog import (
    Catalog,
    CatalogPartition,
    CatalogTable,
    PartitionSeal,
    open_catalog,
)
from ashore.tables.ddl import parse_ddl
from ashore_lab.services.hive import Hive
from bench.table import Row

PARTITIONS = 1_000
ONE_BY_ONE = 100
COLUMNS = ", ".join(["id BIGINT", *(f"field_{n} STRING" for n in range(25))])


def make_table(lake: Path, name: str) -> CatalogTable:
    location = lake / "bench.db" / name
    location.mkdir(parents=True)
    return CatalogTable(
        database="bench",
        name=name,
        columns=parse_ddl(COLUMNS),
        partition_columns=parse_ddl("date STRING, hour STRING"),
        location=location.as_uri(),
        format="parquet",
        job="bench",
    )


def make_partitions(lake: Path, table: CatalogTable, count: int) -> list[CatalogPartition]:
    made = []
    for number in range(count):
        path = (
            f"date=2026-{1 + number // 720:02d}-{1 + number // 24 % 30:02d}/hour={number % 24:02d}"
        )
        directory = lake / "bench.db" / table.name / path
        directory.mkdir(parents=True)
        (directory / "a.parquet").write_bytes(b"x")
        made.append(CatalogPartition(path))
    return made


def measure(what: str, count: int, do: Callable[[], object]) -> float:
    """Show and return how many a second."""
    began_s = time.perf_counter()
    do()
    took_s = time.perf_counter() - began_s
    print(f"| {what} | {count} | {count / took_s:,.0f} | {took_s:.2f} |", flush=True)
    return count / took_s


def run(catalog: Catalog, lake: Path) -> list[Row]:
    single, batch = make_table(lake, "single"), make_table(lake, "batch")
    for table in (single, batch):
        catalog.ensure_table(table)
    few = make_partitions(lake, single, ONE_BY_ONE)
    many = make_partitions(lake, batch, PARTITIONS)
    seals = [PartitionSeal(each, 1, 1_000_000) for each in many]
    print("| partitions | number | a second | seconds |\n|---|---|---|---|")

    def one_by_one() -> None:
        for each in few:
            catalog.add_partitions(single, [each])

    single_rate = measure("registered, a call each", len(few), one_by_one)
    steps = (
        ("registered, batched", lambda: catalog.add_partitions(batch, many)),
        ("registered again, batched", lambda: catalog.add_partitions(batch, many)),
        ("sealed, batched", lambda: catalog.mark_sealed(batch, seals)),
        ("sealed again, batched", lambda: catalog.mark_sealed(batch, seals)),
    )
    rates = {what: measure(what, len(many), do) for what, do in steps}
    registered = rates["registered, batched"]
    return [
        Row("partitions registered, batched v. a call each, rate", registered / single_rate),
        Row("partitions sealed v. registered, rate", rates["sealed, batched"] / registered),
    ]


def main() -> list[Row]:
    with tempfile.TemporaryDirectory() as folder:
        print("starting a metastore ...", file=sys.stderr)
        with Hive(Path(folder, "hive")) as hive:
            catalog = open_catalog(hive.uri, timeout_s=120)
            rows = run(catalog, Path(folder, "lake"))
            catalog.close()
            return rows


if __name__ == "__main__":
    main()
