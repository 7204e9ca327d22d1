"""A Hive metastore as an Iceberg catalog.

What it is: pyiceberg's `Catalog`, as far as Ashore calls it, over the project's client of Thrift. A
table is registered as Iceberg's Java library registers it: its metadata file is a parameter.
What it promises: a commit replaces the metadata file that it was computed from, or nothing: the
metastore compares, in its transaction (HIVE-26882: since 2.3.10 and 4.0). One that does not
is found by `require_fence`, and refused. pyiceberg's own catalog of this kind alters whatever is
there, under a lock that may have run out.
"""

from typing import Any

from pyiceberg import types as iceberg
from pyiceberg.catalog import MetastoreCatalog
from pyiceberg.catalog.noop import NoopCatalog
from pyiceberg.exceptions import (
    CommitFailedException,
    NoSuchIcebergTableError,
    NoSuchTableError,
    TableAlreadyExistsError,
)
from pyiceberg.schema import Schema
from pyiceberg.serializers import FromInputFile
from pyiceberg.table import CommitTableResponse, StagedTable, Table
from pyiceberg.table.update import TableRequirement, TableUpdate
from pyiceberg.typedef import EMPTY_DICT, Identifier, Properties

from ashore.base.unique import unique
from ashore.errors import CatalogError
from ashore.tables.catalog.hive_client import HiveClient
from ashore.tables.catalog.hive_wire import HiveRefusal, thrift

_LOCATION = "metadata_location"
_NOT_FOUND = "table not found"
_LOOKS = 2  # a metastore over Derby may miss a table for a moment while a commit replaces it
_KEEP_STATISTICS = {"DO_NOT_UPDATE_STATS": "true"}
_FORMATS = "org.apache.iceberg.mr.hive.HiveIceberg"
_HIVE_TYPES = {"long": "bigint", "timestamptz": "timestamp", "time": "string", "uuid": "string"}


class MetastoreTables(MetastoreCatalog, NoopCatalog):
    """Iceberg tables of a metastore's default catalog. Any thread may call."""

    def __init__(self, name: str, client: HiveClient, root: str, properties: Properties) -> None:
        """Call nothing yet. `root`: the address below which databases are made, with a slash."""
        super().__init__(name, **properties)
        self._client = client
        self._root = root

    def require_fence(self, database: str) -> None:
        """Raise CatalogError where the metastore alters a table whose metadata file is another.

        It is tried with a table of its own: a real one could lose a commit by that.
        """
        self.create_namespace_if_not_exists(database)
        probe = f"ashore_probe_{unique()}".lower()
        location = f"{self._root}{database}.db/{probe}"
        table = _new_table(database, probe, location, Schema(), "at the start")
        self._client.call("create_table_with_environment_context", table, _context(), accept=_THERE)
        try:
            refusal = self._alter(table, "another one")
        finally:
            accept = ["NoSuchObjectException"]
            self._client.call("drop_table", database, probe, False, accept=accept)
        if refusal is None:
            raise CatalogError(
                "this metastore does not compare what a commit replaces, so that one writer could "
                "overwrite another's commit",
                hint="use a metastore of Hive 2.3.10, 4.0 or newer, or another catalog",
            )

    def load_table(self, identifier: str | Identifier) -> Table:
        """See Catalog. Raises NoSuchTableError, also for a table that is not Iceberg's."""
        return self._open(self._load(*_names(identifier)))

    def create_table(self, identifier: str | Identifier, *rest: Any, **named: Any) -> Table:
        """See Catalog."""
        staged = self._create_staged_table(identifier, *rest, **named)
        self._write_metadata(staged.metadata, staged.io, staged.metadata_location)
        database, name = _names(identifier)
        table = _new_table(
            database, name, staged.location(), staged.schema(), staged.metadata_location
        )
        answer = self._client.call(
            "create_table_with_environment_context", table, _context(), accept=_THERE
        )
        if isinstance(answer, HiveRefusal):
            raise TableAlreadyExistsError(f"{database}.{name}")
        return self.load_table(identifier)

    def commit_table(
        self,
        table: Table,
        requirements: tuple[TableRequirement, ...],
        updates: tuple[TableUpdate, ...],
    ) -> CommitTableResponse:
        """See Catalog. Raises CommitFailedException where another commit was faster."""
        identifier = table.name()
        there = self._load(*_names(identifier))
        current = self._open(there)
        staged = self._update_and_stage_table(current, identifier, requirements, updates)
        if staged.metadata != current.metadata:
            self._write_metadata(staged.metadata, staged.io, staged.metadata_location)
            _change(there, current, staged)
            refusal = self._alter(there, current.metadata_location)
            if refusal is not None:
                raise CommitFailedException(refusal.message)
        return CommitTableResponse.model_validate(
            {"metadata": staged.metadata, "metadata-location": staged.metadata_location}
        )

    def drop_table(self, identifier: str | Identifier) -> None:
        """See Catalog. Files stay."""
        names = _names(identifier)
        answer = self._client.call("drop_table", *names, False, accept=["NoSuchObjectException"])
        if isinstance(answer, HiveRefusal):
            raise NoSuchTableError(".".join(names))

    def create_namespace_if_not_exists(
        self,
        namespace: str | Identifier,
        properties: Properties = EMPTY_DICT,  # noqa: ARG002 - see Catalog
    ) -> None:
        """See Catalog."""
        database = self.identifier_to_database(namespace)
        known = self._client.call("get_database", database, accept=["NoSuchObjectException"])
        if isinstance(known, HiveRefusal):
            made = thrift.Database(database, "", f"{self._root}{database}.db", {})
            self._client.call("create_database", made, accept=_THERE)

    def close(self) -> None:
        """Close the connection."""
        self._client.close()

    def _load(self, database: str, name: str) -> Any:
        request = thrift.GetTableRequest(database, name)
        for _ in range(_LOOKS):
            answer = self._client.call("get_table_req", request, accept=["NoSuchObjectException"])
            if not isinstance(answer, HiveRefusal):
                return answer.table
        raise NoSuchTableError(f"{database}.{name}")

    def _open(self, there: Any) -> Table:
        name = there.dbName, there.tableName
        location = there.parameters.get(_LOCATION)
        if there.parameters.get("table_type", "").lower() != "iceberg" or not location:
            raise NoSuchIcebergTableError(f"{'.'.join(name)} is a table of another format")
        io = self._load_file_io(location=location)
        metadata = FromInputFile.table_metadata(io.new_input(location))
        return Table(name, metadata, location, io, self)

    def _alter(self, table: Any, expected_location: str) -> HiveRefusal | None:
        """Replace a table that has this metadata file; return the refusal where it has another."""
        fence = {"expected_parameter_key": _LOCATION, "expected_parameter_value": expected_location}
        answer = self._client.call(
            "alter_table_with_environment_context",
            *(table.dbName, table.tableName, table, _context(fence)),
            accept=["MetaException", "InvalidOperationException"],
        )
        if not isinstance(answer, HiveRefusal):
            return None
        # A table that is gone, or that another commit was replacing: nothing was changed.
        if _LOCATION in answer.message or answer.message.endswith(_NOT_FOUND):
            return answer
        raise CatalogError(f"the metastore refused a commit: {answer.message}")


_THERE = ["AlreadyExistsException"]


def _context(properties: Properties = EMPTY_DICT) -> Any:
    return thrift.EnvironmentContext({**_KEEP_STATISTICS, **properties})


def _names(identifier: str | Identifier) -> tuple[str, str]:
    """Return database and table as the metastore keeps them."""
    parts = identifier.split(".") if isinstance(identifier, str) else identifier
    database, name = parts
    return database.lower(), name.lower()


def _new_table(database: str, name: str, location: str, schema: Schema, metadata: str) -> Any:
    """Return the metastore's table. Engines read the columns in Iceberg's metadata."""
    return thrift.Table(
        tableName=name,
        dbName=database,
        owner="",
        createTime=0,
        lastAccessTime=0,
        retention=0,
        sd=thrift.StorageDescriptor(
            cols=_columns(schema),
            location=location,
            inputFormat=f"{_FORMATS}InputFormat",
            outputFormat=f"{_FORMATS}OutputFormat",
            compressed=False,
            numBuckets=-1,
            serdeInfo=thrift.SerDeInfo(
                name=name, serializationLib=f"{_FORMATS}SerDe", parameters={}
            ),
            bucketCols=[],
            sortCols=[],
            parameters={},
        ),
        partitionKeys=[],
        parameters={"EXTERNAL": "TRUE", "table_type": "ICEBERG", _LOCATION: metadata},
        tableType="EXTERNAL_TABLE",
    )


def _change(there: Any, current: Table, staged: StagedTable) -> None:
    """Change the metastore's table to what a commit has made of it."""
    there.parameters["previous_metadata_location"] = current.metadata_location
    there.parameters[_LOCATION] = staged.metadata_location
    columns = _columns(staged.schema())
    known = [each.name for each in there.sd.cols]
    # A metastore refuses columns at other places; it goes by places, and Iceberg by ids.
    if [each.name for each in columns[: len(known)]] == known:
        there.sd.cols = columns


def _columns(schema: Schema) -> list[Any]:
    return [thrift.FieldSchema(each.name, _hive_type(each.field_type)) for each in schema.fields]


def _hive_type(data_type: iceberg.IcebergType) -> str:
    match data_type:
        case iceberg.StructType():
            fields = (f"{each.name}:{_hive_type(each.field_type)}" for each in data_type.fields)
            return f"struct<{','.join(fields)}>"
        case iceberg.ListType():
            return f"array<{_hive_type(data_type.element_type)}>"
        case iceberg.MapType():
            return f"map<{_hive_type(data_type.key_type)},{_hive_type(data_type.value_type)}>"
        case iceberg.DecimalType():
            return f"decimal({data_type.precision},{data_type.scale})"
        case iceberg.FixedType():
            return "binary"
        case _:
            return _HIVE_TYPES.get(str(data_type), str(data_type))
