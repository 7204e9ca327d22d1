"""From what the job file says to the table formats of its tables.

What it promises: no catalog is called yet. Where no table has a format, nothing of it is loaded.
"""

from collections.abc import Mapping

from ashore.base.clock import Clock
from ashore.errors import NotInstalled
from ashore.log.tables import DELTA, ICEBERG
from ashore.storage.base import Storage
from ashore.tables.table_format import Directories, TableFormat, TableFormats

CATALOG_FILE = "iceberg.db"  # of SQLite, in a lake on a local disk whose job names no catalog


def open_formats(
    storage: Storage, clock: Clock, catalog: Mapping[str, str] | None, *, delta: bool
) -> TableFormat:
    """Return the formats of a job's tables. Raises NotInstalled.

    Arguments:
        storage: of the lake.
        clock: for the waits between tries.
        catalog: properties by which pyiceberg opens an Iceberg catalog, and its `name`; None: no
            table is an Iceberg table.
        delta: whether a table is a Delta table.

    """
    formats: dict[str, TableFormat] = {}
    if catalog is not None:
        formats[ICEBERG] = _open_iceberg(storage, clock, catalog)
    if delta:
        from ashore.tables.delta.delta_tables import DeltaTables  # noqa: PLC0415

        formats[DELTA] = DeltaTables(storage, clock)
    return TableFormats(formats) if formats else Directories()


def _open_iceberg(storage: Storage, clock: Clock, catalog: Mapping[str, str]) -> TableFormat:
    try:
        from ashore.tables.iceberg.catalogs import CatalogAddress  # noqa: PLC0415
        from ashore.tables.iceberg.iceberg_tables import IcebergTables  # noqa: PLC0415
    except ModuleNotFoundError as error:
        if error.name is None or not error.name.startswith(("pyiceberg", "sqlalchemy")):
            raise
        raise NotInstalled(
            f"Iceberg tables need the package {error.name.partition('.')[0]}",
            hint="pip install 'ashore[iceberg]'",
        ) from error
    properties = dict(catalog)
    if catalog.get("type") != "glue":  # it has no address, and messages would name this one
        properties.setdefault("uri", _default_uri(storage))
    address = CatalogAddress(
        catalog.get("name", "ashore"),
        tuple(sorted((key, value) for key, value in properties.items() if key != "name")),
    )
    return IcebergTables(address, storage, clock)


def _default_uri(storage: Storage) -> str:
    return f"sqlite:///{storage.describe().removeprefix('file://').rstrip('/')}/{CATALOG_FILE}"
