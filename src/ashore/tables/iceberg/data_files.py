"""Entries of a manifest, from the footers of Parquet files.

What it is: Iceberg's `DataFile` of a file that is at its final path: its partition from the log,
its column statistics and bounds from its footer.
What it promises: a file's rows and bytes are those of the log, or it is refused.
"""

from pyiceberg.conversions import partition_to_py
from pyiceberg.io.pyarrow import (
    compute_statistics_plan,
    data_file_statistics_from_parquet_metadata,
    parquet_path_to_id_mapping,
)
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.typedef import Record
from pyiceberg.types import PrimitiveType

from ashore.log.files import FilePlace, Target
from ashore.storage.base import Storage
from ashore.tables.footers import read_footer


class ManifestFiles:
    """Makes entries for files that were written with one schema, by one partition spec."""

    def __init__(
        self, storage: Storage, schema: Schema, spec: PartitionSpec, properties: dict[str, str]
    ) -> None:
        self._storage = storage
        self._root = storage.describe().rstrip("/")
        self._schema = schema
        self._spec = spec
        self._plan = compute_statistics_plan(schema, properties)
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
            sort_order_id=None,
            equality_ids=None,
            key_metadata=None,
            **statistics.to_serialized_dict(),
        )
        made.spec_id = self._spec.spec_id
        return made

    def partition(self, target: Target) -> Record:
        """Return the partition values of a directory, in the order of the spec."""
        values = dict(target.values)
        types = [field.field_type for field in self._spec.partition_type(self._schema).fields]
        names = [
            self._schema.find_column_name(field.source_id) or "" for field in self._spec.fields
        ]
        texts = [values[name] for name in names]
        return Record(
            *(
                None if text is None else partition_to_py(data_type, text)
                for data_type, text in zip(types, texts, strict=True)
                if isinstance(data_type, PrimitiveType)  # as all partition values are
            )
        )
