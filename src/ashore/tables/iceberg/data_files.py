"""Entries of a manifest, from the footers of Parquet files.

What it is: Iceberg's `DataFile` of a file that is at its final path: its partition from the log,
its column statistics and bounds from its footer.
What it promises: a file's rows and bytes are those of the log, or it is refused.
"""

from collections.abc import Mapping, Sequence

import pyarrow.parquet as pq
from pyiceberg.conversions import partition_to_py
from pyiceberg.io.pyarrow import (
    compute_statistics_plan,
    data_file_statistics_from_parquet_metadata,
    parquet_path_to_id_mapping,
)
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table.sorting import SortOrder
from pyiceberg.transforms import IdentityTransform
from pyiceberg.typedef import Record
from pyiceberg.types import PrimitiveType

from ashore.log.files import FilePlace, Target
from ashore.storage.base import Storage
from ashore.tables.footers import read_footer
from ashore.tables.iceberg.schema import sort_field
from ashore.tables.transforms import Transform, read_value


class ManifestFiles:
    """Makes entries for files that were written with one schema, by one partition spec."""

    def __init__(
        self,
        storage: Storage,
        schema: Schema,
        spec: PartitionSpec,
        properties: dict[str, str],
        orders: Sequence[SortOrder],
    ) -> None:
        self._storage = storage
        self._root = storage.describe().rstrip("/")
        self._schema = schema
        self._spec = spec
        self._plan = compute_statistics_plan(schema, properties)
        self._orders = orders
        self._ids = parquet_path_to_id_mapping(schema)

    def data_file(self, place: FilePlace, target: Target) -> DataFile:
        """Return the entry of a file. Raises FileConflict, StorageError."""
        file = place.file
        footer = read_footer(self._storage, place)
        statistics = data_file_statistics_from_parquet_metadata(footer, self._plan, self._ids)
        made = DataFile.from_args(
            content=DataFileContent.DATA,
            file_path=f"{self._root}/{place.final}",
            file_format=FileFormat.PARQUET,
            partition=self.partition(target),
            file_size_in_bytes=file.size_bytes,
            sort_order_id=self._find_order(footer),
            equality_ids=None,
            key_metadata=None,
            **statistics.to_serialized_dict(),
        )
        made.spec_id = self._spec.spec_id
        return made

    def partition(self, target: Target) -> Record:
        """Return the partition values of a directory, in the order of the spec."""
        values = dict(target.values)
        return Record(*(self._value(field, values) for field in self._spec.fields))

    def _find_order(self, footer: pq.FileMetaData) -> int | None:
        """Return the newest sort order in which a file is, as its footer says; None: in none.

        A column that the file does not hold has one value in all its rows.
        """
        sorting = footer.row_group(0).sorting_columns if footer.num_row_groups else ()
        paths = [footer.schema.column(place).path for place in range(footer.num_columns)]
        present = {self._ids.get(path) for path in paths}
        fields = [sort_field(self._ids[paths[each.column_index]]) for each in sorting]
        fitting = (
            order.order_id
            for order in self._orders
            if [each for each in order.fields if each.source_id in present] == fields
        )
        return max(fitting, default=None) if fields else None

    def _value(self, field: PartitionField, values: Mapping[str, str | None]) -> object:
        """Return the value of a partition field, whatever the writer that made it calls it."""
        column = self._schema.find_field(field.source_id)
        kind = column.field_type
        if isinstance(field.transform, IdentityTransform) and isinstance(kind, PrimitiveType):
            text = values[column.name]
            return None if text is None else partition_to_py(kind, text)
        transform = _of_iceberg(str(field.transform), column.name)
        text = values[transform.field]
        return None if text is None else read_value(transform, str(kind).upper(), text)


def _of_iceberg(spelling: str, column: str) -> Transform:
    kind, _, number = spelling.rstrip("]").partition("[")
    return Transform(kind, column, int(number) if number else None)
