"""Columns that are NULL in every row while records have a field that is named nearly so.

What it is: `find_null_columns`, from the footers of the newest data files and a few records; and
`NullColumnWatch`, which a running slice asks now and then.
What it promises: reads only, and few bytes: the footer of a file once. A column that is rightly
NULL is not reported: a record has to have the field, and none may have the column's own.
"""

import struct
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ashore.base.clock import Clock
from ashore.base.recent import Recent
from ashore.errors import StorageError
from ashore.log.entries import Prepare
from ashore.log.files import BatchPlace, DataFile, Role, Target
from ashore.log.fold import Fold
from ashore.log.names import SliceName
from ashore.storage.base import Storage
from ashore.tables.ddl import Field, Struct, parse_ddl
from ashore.topics.loop.samples import Path, Respelled, SampledRecord, find_respelled
from ashore.topics.loop.shares import FEW, SEE_STATUS
from ashore.topics.write.batch import LandingSpec

FILES_MAX = 100  # footers that are read of a table at a time
TAIL_BYTES = 64 << 10  # most footers are smaller
FOOTER_BYTES_MAX = 16 << 20
KNOWN_MAX = 5_000
LOOK_S = 600.0  # a running slice looks once in so long
TABLES_MAX, FILES_KEPT = 50, 20  # whose files a running slice keeps in mind until then
UNKNOWN = "unknown_fields"  # the counter of rows with a field that the schema does not name
TOPICS_MAX = 3  # of a table, whose records are read

_known = Recent[tuple[str, str], frozenset[str]](KNOWN_MAX)


@dataclass(frozen=True, slots=True)
class PlacedFile:
    """A data file of a main table, and where it may be."""

    table: str
    paths: tuple[str, str]  # where it belongs, and where it was written
    rows: int
    size_bytes: int
    extension: str


@dataclass(frozen=True, slots=True)
class NullColumn:
    """A column that is NULL in every row, and the field that records have instead."""

    table: str
    respelled: Respelled
    rows: int | None  # that were looked at; None: only records were
    samples: int

    @property
    def text(self) -> str:
        """What is so, in a sentence."""
        column, field = ".".join(self.respelled.column), self.respelled.field
        place = self.respelled.place
        if self.rows is None:
            return (
                f"none of the last {self.samples} records for {self.table} has the field "
                f"`{column}`, which a column is read from, but `{field}` ({place})"
            )
        return (
            f"column `{column}` of {self.table} is NULL in each of its last {self.rows:,} rows; "
            f"records have the field `{field}` instead ({place})"
        )


HINT = (
    "names of fields are compared with case: name the column in `schema` as the records name the "
    "field, or have the producers name the field as the column; rows that landed stay NULL until "
    "their records are landed again"
)


def place_files(name: SliceName, epoch: int, body: Prepare) -> Iterator[PlacedFile]:
    """Yield the files of main tables that a batch has written."""
    place = BatchPlace(name, epoch, body.batch)
    for file in body.files:
        target = body.targets[file.target]
        if target.role is Role.MAIN:
            yield _placed(place, file, target)


def _placed(place: BatchPlace, file: DataFile, target: Target) -> PlacedFile:
    found = place.place(file, target)
    paths = found.final, found.pending
    return PlacedFile(target.table, paths, file.rows, file.size_bytes, target.extension)


@dataclass(frozen=True, slots=True)
class FooterLook:
    """The footers of the files of a table, the newest first, up to a number of rows.

    `has_unknown`: whether records have fields that the schema does not name, as far as is counted.
    """

    storage: Storage
    files: Iterable[PlacedFile]
    records: int
    has_unknown: bool

    def __call__(self, ddl: str) -> tuple[int, list[Path]]:
        """Return how many rows were looked at, and the columns that are NULL in all of them.

        A file that cannot be read is left out. `ddl`: the table's own columns.
        """
        rows, left = 0, list_paths(ddl)
        for number, file in enumerate(self.files):
            if rows >= self.records or not left or number >= FILES_MAX:
                break
            unset = _read_unset(self.storage, file)
            if unset is not None:
                rows += file.rows
                left = [path for path in left if ".".join(path) in unset]
        return rows, left if rows >= FEW else []


def find_null_columns(
    spec: LandingSpec, look: FooterLook | None, read: Callable[[], Sequence[SampledRecord]]
) -> list[NullColumn]:
    """Return the columns of a table that no row has set, as far as a field shows why.

    Arguments:
        spec: of a topic of the table.
        look: at files of the table; None: it has none. Not used where files do not show it: of
            SELECT, and of other formats than Parquet. Only records show it then.
        read: returns some of the newest records of the table's topics.

    """
    if spec.decode != "json":
        return []
    rows: int | None = None
    if look is None or spec.is_decoded_by_spark:
        columns = list_paths(spec.decode_schema)
    elif spec.output.format == "parquet":
        rows, columns = look(spec.output.schema)
    else:
        columns = list_paths(spec.output.schema) if look.has_unknown else []
    samples = read() if columns else ()
    if rows is None and len(samples) < FEW:
        return []
    return [
        NullColumn(spec.table, each, rows, len(samples))
        for each in find_respelled(columns, samples)
    ]


def list_paths(ddl: str) -> list[Path]:
    """Return the columns of a schema and the fields below them, each after what it is below."""
    return [path for field in parse_ddl(ddl).fields for path in _paths(field, ())]


def _paths(field: Field, above: Path) -> Iterator[Path]:
    path = (*above, field.name)
    yield path
    if isinstance(field.type, Struct):
        for each in field.type.fields:
            yield from _paths(each, path)


def _read_unset(storage: Storage, file: PlacedFile) -> frozenset[str] | None:
    """Return the paths of columns that are NULL in each row; None: the file cannot be read."""
    key = storage.describe(), file.paths[0]
    known = _known.get(key)
    if known is not None:
        return known
    for path in file.paths:
        try:
            return _known.put(key, unset_columns(_read_footer(storage, path, file.size_bytes)))
        except (StorageError, OSError, ValueError):
            continue  # it is elsewhere, or damaged: `verify` looks at that
    return None


def _read_footer(storage: Storage, path: str, size_bytes: int) -> bytes:
    """Return the end of a Parquet file, from its footer on. Raises StorageError, ValueError."""
    length = min(size_bytes, TAIL_BYTES)
    tail = storage.read(path, size_bytes - length, length)
    if len(tail) < 8:
        raise ValueError("no Parquet file")
    (footer,) = struct.unpack("<I", tail[-8:-4])
    needed = min(size_bytes, footer + 8)
    if needed > FOOTER_BYTES_MAX:
        raise ValueError("the footer is too large")
    return tail if needed <= length else storage.read(path, size_bytes - needed, needed)


def unset_columns(footer: bytes) -> frozenset[str]:
    """Return the columns, and fields below them, of which a file says that all are NULL."""
    import pyarrow as pa  # noqa: PLC0415 - who only looks at logs does not load Arrow
    import pyarrow.parquet as pq  # noqa: PLC0415

    metadata = pq.read_metadata(pa.BufferReader(footer))
    set_paths, paths = set[str](), set[str]()
    for number in range(metadata.num_columns):
        is_unset = all(
            _is_null(metadata.row_group(group).column(number))
            for group in range(metadata.num_row_groups)
        )
        parts = metadata.schema.column(number).path.split(".")
        above = {".".join(parts[:length]) for length in range(1, len(parts) + 1)}
        paths |= above
        if not is_unset:
            set_paths |= above
    return frozenset(paths - set_paths)


def _is_null(chunk: Any) -> bool:
    """Return whether a column chunk has statistics that say that each value is NULL."""
    statistics = chunk.statistics
    if statistics is None or not statistics.has_null_count:
        return False
    return bool(statistics.null_count == chunk.num_values)


class NullColumnWatch:
    """Looks for such columns while a slice runs. Used by one thread."""

    def __init__(
        self, storage: Storage, clock: Clock, read: Callable[[Fold, str], Sequence[SampledRecord]]
    ) -> None:
        self._storage, self._clock, self._read = storage, clock, read
        self._files: dict[str, deque[PlacedFile]] = {}  # since the last look
        self._rows = 0
        self._has_unknown = False
        self._next_s: float | None = None
        self._known: set[tuple[str, Path]] = set()

    def take(
        self,
        name: SliceName,
        fold: Fold,
        body: Prepare,
        find_specs: Callable[[], Mapping[str, LandingSpec]],
    ) -> Iterator[str]:
        """Take a batch whose files are in their tables. Yields a sentence for each new column."""
        for file in place_files(name, fold.epoch, body):
            if file.table in self._files or len(self._files) < TABLES_MAX:
                kept = self._files.setdefault(file.table, deque(maxlen=FILES_KEPT))
                kept.appendleft(file)
                self._rows += file.rows
        self._has_unknown = self._has_unknown or UNKNOWN in dict(body.counters)
        now_s = self._clock.monotonic_s()
        if self._rows < FEW or (self._next_s is not None and now_s < self._next_s):
            return
        self._next_s = now_s + LOOK_S
        found = {
            (each.table, each.respelled.column): each for each in self._find(fold, find_specs())
        }
        for key, each in found.items():
            if key not in self._known:
                yield f"{each.text}{SEE_STATUS}"
        self._known = set(found)
        self._files.clear()
        self._rows, self._has_unknown = 0, False

    def _find(self, fold: Fold, specs: Mapping[str, LandingSpec]) -> Iterator[NullColumn]:
        for table, files in sorted(self._files.items()):
            topics = sorted(topic for topic, spec in specs.items() if spec.table == table)
            if topics:
                rows = sum(each.rows for each in files)
                look = FooterLook(self._storage, files, rows, self._has_unknown)
                yield from find_null_columns(specs[topics[0]], look, self._reading(fold, topics))

    def _reading(self, fold: Fold, topics: Sequence[str]) -> Callable[[], list[SampledRecord]]:
        def read() -> list[SampledRecord]:
            return [each for topic in topics[:TOPICS_MAX] for each in self._read(fold, topic)]

        return read
