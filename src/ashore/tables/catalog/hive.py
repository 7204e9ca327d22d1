"""The Hive metastore as a catalog.

What it is: `Catalog` in calls of the metastore's thrift interface.
What it promises: partitions go a hundred a call. What others keep with a table or a partition
(owner, comments, properties) stays. A partition has no statistics until it is sealed: they would be
wrong soon, and the metastore would list its directory to find them.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import replace
from typing import Any, TypeVar

from ashore.base.clock import SystemClock
from ashore.errors import CatalogError
from ashore.tables.catalog.base import (
    CatalogPartition,
    CatalogTable,
    CatalogTableSeen,
    PartitionSeal,
    TableChange,
)
from ashore.tables.catalog.growth import (
    GrownColumn,
    Growth,
    compare_columns,
    compare_partitioning,
    find_repeated,
    refuse_growth,
)
from ashore.tables.catalog.hive_client import HiveClient
from ashore.tables.catalog.hive_schema import (
    SPARK_PATH,
    SPARK_PROVIDER,
    SPARK_SCHEMA,
    STORAGES,
    find_unfit,
    hive_columns,
    same_location,
    same_type,
    spark_properties,
)
from ashore.tables.catalog.hive_wire import Address, HiveRefusal, thrift
from ashore.tables.ddl import Schema

# A call that times out is made again from its start, so it must be small enough to end in time.
PARTITIONS_A_CALL = 100
EVERY = -1  # partition, however many there are

JOB = "ashore.job"
SEALED_VERSION = "ashore.sealed.version"
SEALED_ROWS = "ashore.rows"

# Zero means unknown to readers. Without them the metastore counts the files of a new partition.
_NO_STATISTICS = {"numFiles": "0", "totalSize": "0"}
_KEEP_STATISTICS = thrift.EnvironmentContext({"DO_NOT_UPDATE_STATS": "true"})

T = TypeVar("T")


class HiveCatalog:
    """Tables and partitions of the metastore's default catalog. Any thread may call."""

    def __init__(self, addresses: Sequence[Address], timeout_s: float) -> None:
        self._addresses = addresses
        self._client = HiveClient(addresses, timeout_s, SystemClock())

    def check_table(self, table: CatalogTable) -> None:
        """See Catalog."""
        self._check_names(table)
        known = self._load_table(table)
        if known is not None:
            self._compare(known, table)

    def ensure_table(self, table: CatalogTable) -> TableChange:
        """See Catalog."""
        self._check_names(table)
        known = self._load_table(table)
        if known is None:
            if self._create(table):
                return TableChange(is_created=True)
            known = self._load_table(table)  # another process was faster
        if known is None:
            raise CatalogError(
                f"{table.full_name} was created and dropped repeatedly in {self.describe()}"
            )
        growth = self._compare(known, table)
        if growth.added or known.parameters.get(JOB) != table.job:
            _grow(known, table, growth.added)
            arguments = (known.dbName, known.tableName, known, _KEEP_STATISTICS)
            self._client.call("alter_table_with_environment_context", *arguments)
        return TableChange(added=growth.added)

    def add_partitions(self, table: CatalogTable, partitions: Sequence[CatalogPartition]) -> int:
        """See Catalog."""
        if not partitions:
            return 0
        there, count = self._require_table(table), 0
        for some in _in_batches(_distinct(partitions)):
            added = self._add(there, table, dict.fromkeys(some, _NO_STATISTICS))
            self._load_partitions(table, [each for each in some if each not in added])
            count += len(added)
        return count

    def mark_sealed(self, table: CatalogTable, seals: Sequence[PartitionSeal]) -> None:
        """See Catalog."""
        if not seals:
            return
        there = self._require_table(table)
        highest = {seal.partition: seal for seal in sorted(seals, key=lambda seal: seal.version)}
        for some in _in_batches(list(highest.values())):
            known = self._load_partitions(table, [seal.partition for seal in some])
            absent = {s.partition: _parameters(s) for s in some if s.partition not in known}
            if absent:
                added = self._add(there, table, absent)
                faster = [each for each in absent if each not in added]
                known |= self._load_partitions(table, faster)
            changed = [
                _sealed(known[seal.partition], seal, there.sd.cols)
                for seal in some
                if seal.partition in known and _version(known[seal.partition]) < seal.version
            ]
            if changed:
                arguments = (*_names(table), changed, thrift.EnvironmentContext({}))
                self._client.call("alter_partitions_with_environment_context", *arguments)

    def drop_partitions(self, table: CatalogTable, partitions: Sequence[CatalogPartition]) -> int:
        """See Catalog. Each is a call of its own: the one for many needs a filter expression."""
        dropped = 0
        for each in partitions:
            each.check_columns(table)
            deletes_data = False
            arguments = (*_names(table), _partition_name(each), deletes_data)
            answer = self._client.call(
                "drop_partition_by_name", *arguments, accept=["NoSuchObjectException"]
            )
            dropped += not isinstance(answer, HiveRefusal)
        return dropped

    def observe(
        self, table: CatalogTable, partitions: Sequence[CatalogPartition]
    ) -> CatalogTableSeen | None:
        """See Catalog."""
        known = self._load_table(table)
        if known is None:
            return None
        growth = compare_columns(_columns(known.sd.cols), _comparable(table.columns))
        names: list[str] = []
        if known.partitionKeys:
            accept = ["NoSuchObjectException"]  # it was dropped since
            answer = self._client.call("get_partition_names", *_names(table), EVERY, accept=accept)
            names = [] if isinstance(answer, HiveRefusal) else answer
        return CatalogTableSeen(
            (*growth.differences, *_compare_rest(known, table)),
            frozenset(CatalogPartition(name).values for name in names),
            {
                partition: there.sd.location
                for some in _in_batches(_distinct(partitions))
                for partition, there in self._ask_partitions(table, some).items()
                if not _is_at_home(there, table, partition)
            },
        )

    def describe(self) -> str:
        """See Catalog."""
        return ",".join(f"thrift://{address}" for address in self._addresses)

    def close(self) -> None:
        """See Catalog."""
        self._client.close()

    def _check_names(self, table: CatalogTable) -> None:
        unfit = [*find_repeated(table), *find_unfit(table)]
        if unfit:
            raise refuse_growth(table.full_name, self.describe(), unfit)

    def _compare(self, known: Any, table: CatalogTable) -> Growth:
        """Return what the metastore's table lacks. Raises SchemaConflict."""
        growth = compare_columns(_columns(known.sd.cols), _comparable(table.columns))
        conflicts = [*growth.conflicts, *_compare_rest(known, table)]
        if conflicts:
            raise refuse_growth(table.full_name, self.describe(), conflicts)
        return growth

    def _load_table(self, table: CatalogTable) -> Any:
        request = thrift.GetTableRequest(*_names(table))
        answer = self._client.call("get_table_req", request, accept=["NoSuchObjectException"])
        return None if isinstance(answer, HiveRefusal) else answer.table

    def _require_table(self, table: CatalogTable) -> Any:
        known = self._load_table(table)
        if known is None:
            raise CatalogError(
                f"there is no table {table.full_name} in {self.describe()}",
                hint="start the job again, which creates it; `MSCK REPAIR TABLE "
                f"{table.full_name}` registers older partitions again",
                table=table.full_name,
            )
        return known

    def _create(self, table: CatalogTable) -> bool:
        """Create the table, and its database; False where another process was faster."""
        database, _ = _names(table)
        known = self._client.call("get_database", database, accept=["NoSuchObjectException"])
        if isinstance(known, HiveRefusal):
            location = table.location.rstrip("/").rpartition("/")[0]
            new = thrift.Database(database, "", location, {})
            self._client.call("create_database", new, accept=["AlreadyExistsException"])
        answer = self._client.call(
            "create_table_with_environment_context",
            _new_table(table),
            _KEEP_STATISTICS,
            accept=["AlreadyExistsException"],
        )
        return not isinstance(answer, HiveRefusal)

    def _add(
        self,
        there: Any,
        table: CatalogTable,
        partitions: Mapping[CatalogPartition, Mapping[str, str]],
    ) -> set[CatalogPartition]:
        """Register partitions with their parameters; return those that were not there."""
        for each in partitions:
            each.check_columns(table)
        new = [
            _new_partition(there, each.values, _location(table, each), parameters)
            for each, parameters in partitions.items()
        ]
        request = thrift.AddPartitionsRequest(*_names(table), new, True, True)
        answer = self._client.call("add_partitions_req", request)
        added = {tuple(each.values) for each in answer.partitions or ()}
        return {each for each in partitions if each.values in added}

    def _load_partitions(
        self, table: CatalogTable, partitions: Sequence[CatalogPartition]
    ) -> dict[CatalogPartition, Any]:
        """Return those of `partitions` that are there. Raises CatalogError if one lies elsewhere.

        Rows of such a partition would be invisible, without any message.
        """
        found = self._ask_partitions(table, partitions)
        for partition, there in found.items():
            if not _is_at_home(there, table, partition):
                raise CatalogError(
                    f"partition {partition.path} of {table.full_name} is registered at "
                    f"{there.sd.location}, but its files are at {_location(table, partition)}",
                    hint="drop the partition from the metastore; it is then registered again",
                    table=table.full_name,
                    partition=partition.path,
                )
        return found

    def _ask_partitions(
        self, table: CatalogTable, partitions: Sequence[CatalogPartition]
    ) -> dict[CatalogPartition, Any]:
        """Return those of `partitions` that are there, wherever they lie."""
        if not partitions:
            return {}
        by_values = {each.values: each for each in partitions}
        paths = [_partition_name(each) for each in partitions]
        answer = self._client.call("get_partitions_by_names", *_names(table), paths)
        return {by_values[tuple(each.values)]: each for each in answer}


# --- values of the interface -----------------------------------------------------------------


def _names(table: CatalogTable) -> tuple[str, str]:
    """Return database and table as the metastore keeps them."""
    return table.database.lower(), table.name.lower()


def _new_table(table: CatalogTable) -> Any:
    database, name = _names(table)
    storage = STORAGES[table.format]
    return thrift.Table(
        tableName=name,
        dbName=database,
        owner="",
        createTime=0,
        lastAccessTime=0,
        retention=0,
        sd=thrift.StorageDescriptor(
            cols=_fields(table.columns),
            location=table.location,
            inputFormat=storage.input_format,
            outputFormat=storage.output_format,
            compressed=False,
            numBuckets=-1,
            serdeInfo=thrift.SerDeInfo(
                name=name,
                serializationLib=storage.serde,
                parameters={"serialization.format": "1", SPARK_PATH: table.location},
            ),
            bucketCols=[],
            sortCols=[],
            parameters={},
        ),
        partitionKeys=_fields(table.partition_columns),
        parameters={"EXTERNAL": "TRUE", JOB: table.job, **spark_properties(table, {})},
        tableType="EXTERNAL_TABLE",
    )


def _new_partition(
    there: Any, values: Sequence[str], location: str, parameters: Mapping[str, str]
) -> Any:
    """Return a partition of the metastore's table.

    It has that table's columns in that table's order, which Hive goes by.
    """
    storage = copy(there.sd)
    storage.location = location
    storage.serdeInfo = copy(there.sd.serdeInfo)
    properties = there.sd.serdeInfo.parameters
    storage.serdeInfo.parameters = {k: v for k, v in properties.items() if k != SPARK_PATH}
    return thrift.Partition(
        values=list(values),
        dbName=there.dbName,
        tableName=there.tableName,
        createTime=0,
        lastAccessTime=0,
        sd=storage,
        parameters=dict(parameters),
    )


def _fields(schema: Schema) -> list[Any]:
    return [thrift.FieldSchema(column.name, column.type) for column in hive_columns(schema)]


def _location(table: CatalogTable, partition: CatalogPartition) -> str:
    """Return the directory. Metastores take it as a path: nothing in it is escaped once more."""
    return f"{table.location.rstrip('/')}/{partition.path}"


def _is_at_home(there: Any, table: CatalogTable, partition: CatalogPartition) -> bool:
    """Return whether the metastore's partition has its own directory."""
    return same_location(there.sd.location) == same_location(_location(table, partition))


def _partition_name(partition: CatalogPartition) -> str:
    """Return the path with the columns as the metastore keeps them."""
    parts = (part.partition("=") for part in partition.path.split("/"))
    return "/".join(f"{column.lower()}={value}" for column, _, value in parts)


# --- comparing and changing ------------------------------------------------------------------


def _columns(fields: Iterable[Any]) -> list[GrownColumn]:
    return [GrownColumn(field.name, same_type(field.type)) for field in fields]


def _comparable(schema: Schema) -> list[GrownColumn]:
    return [GrownColumn(column.name, same_type(column.type)) for column in hive_columns(schema)]


def _compare_rest(known: Any, table: CatalogTable) -> list[str]:
    conflicts = compare_partitioning(
        _columns(known.partitionKeys), _comparable(table.partition_columns)
    )
    if known.tableType != "EXTERNAL_TABLE":  # dropping a managed table would delete the files
        conflicts.append(f"it is a {known.tableType} in the catalog, expected EXTERNAL_TABLE")
    serde, serde_expected = known.sd.serdeInfo.serializationLib, STORAGES[table.format].serde
    if serde != serde_expected:
        conflicts.append(
            f"its SerDe is {serde} in the catalog, but {table.format} files need {serde_expected}"
        )
    if same_location(known.sd.location or "") != same_location(table.location):
        conflicts.append(f"it is at {known.sd.location} in the catalog, expected {table.location}")
    return conflicts


def _grow(known: Any, table: CatalogTable, added: Sequence[str]) -> None:
    """Add columns to the metastore's table, and to what Spark keeps with it."""
    fields = {field.name.lower(): field for field in table.columns.fields}
    order = [*(column.name for column in known.sd.cols), *added]
    columns = Schema(tuple(fields[name.lower()] for name in order))
    comments = {field.name: field.comment for field in [*known.sd.cols, *known.partitionKeys]}
    known.sd.cols += _fields(columns)[len(known.sd.cols) :]
    known.parameters[JOB] = table.job
    if SPARK_PROVIDER in known.parameters:
        kept = {k: v for k, v in known.parameters.items() if not k.startswith(SPARK_SCHEMA)}
        known.parameters = kept | spark_properties(replace(table, columns=columns), comments)


def _parameters(seal: PartitionSeal) -> dict[str, str]:
    return {SEALED_VERSION: str(seal.version), SEALED_ROWS: str(seal.rows)}


def _version(partition: Any) -> int:
    """Return the sealed version; 0 where the parameter is not there, or is not ours."""
    text = partition.parameters.get(SEALED_VERSION, "")
    return int(text) if text.isdecimal() else 0


def _sealed(partition: Any, seal: PartitionSeal, columns: list[Any]) -> Any:
    """Change the metastore's partition.

    It may be older than a column of its files. Without statistics it is counted anew.
    """
    kept = {k: v for k, v in partition.parameters.items() if k not in _NO_STATISTICS}
    partition.parameters = kept | _parameters(seal)
    partition.sd.cols = columns
    return partition


def _distinct(items: Iterable[T]) -> list[T]:
    return list(dict.fromkeys(items))


def _in_batches(items: Sequence[T]) -> Iterator[Sequence[T]]:
    for start in range(0, len(items), PARTITIONS_A_CALL):
        yield items[start : start + PARTITIONS_A_CALL]
