"""Columns, partitions and order of a table, as Iceberg has them.

What it is: Iceberg's schema, partition spec and sort order of a `CatalogTable`; what an existing
table contradicts; the field ids by which files name their columns.
What it promises: a partition column of directories is a column of the table, with the identity
transform. Files do not hold it: its value stands in the snapshot, where the format says that
readers take it from (https://iceberg.apache.org/spec, column projection).
"""

from collections.abc import Iterator, Sequence

from pyiceberg import types as iceberg
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema as IcebergSchema
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.sorting import (
    UNSORTED_SORT_ORDER,
    NullOrder,
    SortDirection,
    SortField,
    SortOrder,
)
from pyiceberg.transforms import IdentityTransform
from pyiceberg.transforms import parse_transform as parse_iceberg

from ashore.tables.catalog import CatalogTable
from ashore.tables.ddl import (
    Array,
    Atom,
    DataType,
    Decimal,
    Field,
    FieldIds,
    Map,
    Struct,
    type_ddl,
)
from ashore.tables.transforms import parse_transform, partition_name

_FIRST_PARTITION_ID = 1000  # as the format has it
_ATOMS: dict[Atom, iceberg.PrimitiveType] = {
    Atom.BOOLEAN: iceberg.BooleanType(),
    Atom.TINYINT: iceberg.IntegerType(),  # the format has no smaller integer
    Atom.SMALLINT: iceberg.IntegerType(),
    Atom.INT: iceberg.IntegerType(),
    Atom.BIGINT: iceberg.LongType(),
    Atom.FLOAT: iceberg.FloatType(),
    Atom.DOUBLE: iceberg.DoubleType(),
    Atom.STRING: iceberg.StringType(),
    Atom.BINARY: iceberg.BinaryType(),
    Atom.DATE: iceberg.DateType(),
    Atom.TIMESTAMP: iceberg.TimestamptzType(),
    Atom.TIMESTAMP_NTZ: iceberg.TimestampType(),
}


def iceberg_schema(table: CatalogTable) -> IcebergSchema:
    """Return the schema of a new table: columns of its files first, then those of partitions."""
    fields = (*table.columns.fields, *table.partition_columns.fields)
    return IcebergSchema(*_Numbers().fields(fields))


def partition_spec(table: CatalogTable, schema: IcebergSchema) -> PartitionSpec:
    """Return the partition spec of a new table with this schema."""
    return PartitionSpec(
        *(
            PartitionField(
                schema.find_field(column).field_id,
                _FIRST_PARTITION_ID + place,
                parse_iceberg(transform),
                partition_name(text),
            )
            for place, (text, column, transform) in enumerate(_list_fields(table))
        )
    )


def sort_order(table: CatalogTable, schema: IcebergSchema) -> SortOrder:
    """Return the order in which a compaction writes rows: the smallest first, nulls last."""
    if not table.sort_by:
        return UNSORTED_SORT_ORDER
    return SortOrder(*(sort_field(schema.find_field(name).field_id) for name in table.sort_by))


def sort_field(field_id: int) -> SortField:
    """Return the order of one column."""
    return SortField(field_id, IdentityTransform(), SortDirection.ASC, NullOrder.NULLS_LAST)


def _list_fields(table: CatalogTable) -> list[tuple[str, str, str]]:
    """Return how rows are placed: the text of the job file, its column, Iceberg's transform."""
    texts = table.partition_by or table.partition_columns.names
    found = [(text, parse_transform(text)) for text in texts]
    return [
        (text, each.column, each.iceberg) if each else (text, text, "identity")
        for text, each in found
    ]


class _Numbers:
    """Field ids from 1, in the order of the fields."""

    def __init__(self) -> None:
        self._last = 0

    def fields(self, fields: tuple[Field, ...]) -> list[iceberg.NestedField]:
        numbered = [(self._next(), field) for field in fields]
        return [
            iceberg.NestedField(number, each.name, self.type(each.type), required=False)
            for number, each in numbered
        ]

    def type(self, data_type: DataType) -> iceberg.IcebergType:
        match data_type:
            case Atom():
                return _ATOMS[data_type]
            case Decimal(precision, scale):
                return iceberg.DecimalType(precision, scale)
            case Array(element):
                number = self._next()
                return iceberg.ListType(number, self.type(element), element_required=False)
            case Map(key, value):
                key_id, value_id = self._next(), self._next()
                key_type, value_type = self.type(key), self.type(value)
                return iceberg.MapType(key_id, key_type, value_id, value_type, value_required=False)
            case Struct(fields):
                return iceberg.StructType(*self.fields(fields))

    def _next(self) -> int:
        self._last += 1
        return self._last


def field_ids(schema: IcebergSchema) -> FieldIds:
    """Return the ids of all fields of a table: `a`, `a.b`, `list.element`, `map.key`."""
    numbers = range(1, schema.highest_field_id + 1)
    named = ((schema.find_column_name(number), number) for number in numbers)
    return tuple(sorted((name, number) for name, number in named if name is not None))


def find_spec(metadata: TableMetadata, table: CatalogTable) -> PartitionSpec | None:
    """Return the newest partition spec that places rows as `table` does, or None.

    Another one may be the default since: files may be of any that a table has.
    """
    here = [(column, transform) for _, column, transform in _list_fields(table)]
    found = [each for each in metadata.specs().values() if _places(metadata, each) == here]
    return max(found, key=lambda each: each.spec_id, default=None)


def _places(metadata: TableMetadata, spec: PartitionSpec) -> list[tuple[str | None, str]]:
    schema = metadata.schema()
    return [(schema.find_column_name(each.source_id), str(each.transform)) for each in spec.fields]


def find_conflicts(metadata: TableMetadata, table: CatalogTable) -> Iterator[str]:
    """Yield what an existing table has otherwise than `table`, in words.

    Not what the format lets a table change for all its files at once: columns and fields that are
    added, types that are widened, NOT NULL that is removed.
    """
    fields = (*table.columns.fields, *table.partition_columns.fields)
    yield from _compare_fields(metadata.schema().fields, fields, "column ")
    if find_spec(metadata, table) is None:
        there = _spell(_places(metadata, metadata.spec()))
        here = _spell([(column, transform) for _, column, transform in _list_fields(table)])
        yield f"it is partitioned by {there}, new files would be by {here}"
    types = {each.name: each.type for each in fields}
    for name in table.sort_by:
        if name not in types:
            yield f"sort_by: there is no column {name}"
        elif not isinstance(types[name], Atom | Decimal):
            yield f"sort_by: Iceberg sorts no column of the type {type_ddl(types[name])}: {name}"
    if not table.sort_by:
        yield from _find_dropped_order(metadata, table)


def _find_dropped_order(metadata: TableMetadata, table: CatalogTable) -> Iterator[str]:
    """Yield where a column goes by which another writer sorts: readers refuse such an order."""
    order = metadata.sort_order_by_id(metadata.default_sort_order_id) or UNSORTED_SORT_ORDER
    for each in order.fields:
        name = metadata.schema().find_column_name(each.source_id)
        if name in table.dropped:
            yield f"its sort order has column {name}, which is dropped; sort_by sets another order"


def _compare_fields(
    known: Sequence[iceberg.NestedField], expected: Sequence[Field], place: str
) -> Iterator[str]:
    fields = {each.name: each for each in expected}
    for each in known:
        if each.name in fields:
            expected_type = fields[each.name].type
            yield from _compare_types(each.field_type, expected_type, f"{place}{each.name}")
        elif each.required:
            yield f"{place}{each.name} is NOT NULL in the table, and new rows do not have it"


def _compare_types(known: iceberg.IcebergType, expected: DataType, place: str) -> Iterator[str]:
    match known, expected:
        case iceberg.StructType(), Struct(fields):
            yield from _compare_fields(known.fields, fields, f"{place}.")
        case iceberg.ListType(), Array(element):
            yield from _compare_types(known.element_type, element, f"{place}[]")
        case iceberg.MapType(), Map(key, value) if _shape(known.key_type) == _shape(_new_type(key)):
            yield from _compare_types(known.value_type, value, f"{place}[]")
        case iceberg.PrimitiveType(), Atom() | Decimal() if _becomes(known, _new_type(expected)):
            return
        case iceberg.TimestampNanoType() | iceberg.TimestamptzNanoType(), _:
            yield f"{place} is {known}, with nanoseconds, and new files would have microseconds"
        case _:
            yield f"{place} is {known}, not {type_ddl(expected)}"


def _becomes(known: iceberg.IcebergType, expected: iceberg.IcebergType) -> bool:
    """Return whether a type is another one, or the format widens it to that."""
    match known, expected:
        case (iceberg.IntegerType(), iceberg.LongType()) | (
            iceberg.FloatType(),
            iceberg.DoubleType(),
        ):
            return True
        case iceberg.DecimalType(), iceberg.DecimalType():
            return known.scale == expected.scale and known.precision <= expected.precision
        case _:
            return known == expected


def _new_type(data_type: DataType) -> iceberg.IcebergType:
    """Return a type with field ids of its own."""
    return _Numbers().type(data_type)


def _spell(fields: Sequence[tuple[str | None, str]]) -> str:
    return f"({', '.join(f'{transform}({name})' for name, transform in fields)})"


def _shape(data_type: iceberg.IcebergType) -> object:
    """Return a type without its field ids."""
    match data_type:
        case iceberg.StructType():
            return [(each.name, _shape(each.field_type)) for each in data_type.fields]
        case iceberg.ListType():
            return "list", _shape(data_type.element_type)
        case iceberg.MapType():
            return "map", _shape(data_type.key_type), _shape(data_type.value_type)
        case _:
            return str(data_type)
