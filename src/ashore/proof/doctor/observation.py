"""What the doctor looks at, as values: nothing here is judged yet.

What it is: the log, the tables, the source and a former writer as they were found.
What it promises: plain values, so that every judgement can be tried without a lake.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import PurePosixPath

from ashore.errors import LogDamaged, LogLost
from ashore.log.files import Role
from ashore.log.fold import Fold
from ashore.log.lost_end import LogEnd
from ashore.log.names import FinalName, SliceName
from ashore.log.plan_batch import ShardOffsets
from ashore.log.positions import StreamShard
from ashore.proof.evidence.offsets import FileShard
from ashore.proof.evidence.runs import intersect
from ashore.storage.base import FileStat
from ashore.topics.read.source import StreamInfo


@dataclass(frozen=True, slots=True)
class LoggedSize:
    """A file that the log lists: where it ought to be, and how long."""

    path: str
    size_bytes: int
    partition: str
    is_unclosed: bool  # the entry that lists it may not have moved it yet
    is_there: bool = False  # and it was found at one of its places


@dataclass(frozen=True, slots=True)
class SliceLogSeen:
    """A slice's log. `fold` is None where it cannot be folded."""

    fold: Fold | None
    damage: str = ""
    hint: str = ""
    foreign: tuple[str, ...] = ()  # files in its directory that no writer of a log makes
    bad_snapshots: tuple[tuple[int, str], ...] = ()  # number, what is wrong with it
    is_newest_bad: bool = False


@dataclass(frozen=True, slots=True)
class TableSeen:
    """A table of the job: its files as readers see them, and what the log says of them."""

    table: str
    path: str
    owner: str | None
    claimed_ms: int
    visible: tuple[FileStat, ...]
    logged: tuple[LoggedSize, ...]
    excused: frozenset[str]  # listed once, need not be there
    adopted: frozenset[str]  # of a former writer, taken over before
    has_spark_metadata: bool
    waits_for_seal: bool = False  # its partitions come into the catalog when they are complete
    is_made_by_spark: bool = False  # only Spark knows which columns `select` makes

    @property
    def orphans(self) -> list[FileStat]:
        """The visible files that neither the log nor an adoption accounts for."""
        known = {each.path for each in self.logged} | self.excused | self.adopted
        return [each for each in self.visible if each.path not in known]


@dataclass(frozen=True, slots=True)
class TopicSeen:
    """What the job file makes of a topic."""

    table: str
    side_tables: tuple[str, ...]
    format: str
    partition_by: tuple[str, ...]
    ddl: str = ""
    is_made_by_spark: bool = False  # only Spark knows which columns `select` makes
    begins_at_first: bool = True  # where it is read first, it is read from its beginning
    retention: str = ""  # how old partitions become before a job retires them, as people write it


@dataclass(frozen=True, slots=True)
class SparkSeen:
    """What a query of Spark's left: its checkpoint, and the log of its file sink."""

    checkpoint: str
    lake_path: str  # path of the lake's address, which the sink's names begin with
    table: str | None  # whose directory holds `_spark_metadata`; None: no table of the job
    sources: int
    has_state: bool
    offsets: Mapping[int, bytes]
    commits: frozenset[int]
    sink: Mapping[str, bytes]  # by file name: `7`, `9.compact`


@dataclass(frozen=True, slots=True)
class ConnectSeen:
    """What a sink of Kafka Connect left: the names of its files, and how many rows they hold."""

    table: str
    rows: Mapping[str, int | None]  # by path; None: a format that cannot be counted


@dataclass(frozen=True, slots=True)
class ControlSeen:
    """Events of a sink's control topic whose files are in the table: how far tasks had read."""

    events: tuple[Mapping[StreamShard, int | None], ...]  # next offsets; None: nothing new
    is_whole: bool  # the control topic has its first events


@dataclass(frozen=True, slots=True)
class LakehouseSinkSeen:
    """What a sink left in a table in a table format, and in its control topic."""

    table: str
    format: str
    marks: Mapping[str, str]
    topics: tuple[str, ...]  # that the job lands in the table
    files: tuple[str, ...]  # of the current snapshot or version, but those of Ashore
    control: ControlSeen | None = None  # of Iceberg's sink, where it has one mark


@dataclass(frozen=True, slots=True, eq=False)
class OwnFile:
    """A visible file that bears a name of Ashore, that no entry lists, and what it holds."""

    path: str
    name: FinalName
    table: str
    role: Role
    schema: str  # DDL of its table by the job file
    size_bytes: int
    checksum: str
    rows: int
    shards: tuple[FileShard, ...] | None  # None: it cannot be read, or holds no offsets

    def of(self, shard: StreamShard) -> list[FileShard]:
        """Return its rows of a topic partition."""
        return [each for each in self.shards or () if each.partition == shard]

    def overlaps(self, other: FileShard) -> bool:
        """Return whether it has some of these offsets too."""
        return any(
            intersect(each.offsets, other.offsets).size
            for each in self.shards or ()
            if each.partition == other.partition
        )


@dataclass(frozen=True, slots=True, eq=False)
class StagedDataFile:
    """A staged file that can be read back. Its name does not say which partition it is for."""

    path: str
    shards: tuple[FileShard, ...]


@dataclass(frozen=True, slots=True, eq=False)
class OwnSeen:
    """What the job itself has left in its tables beyond its log."""

    files: tuple[OwnFile, ...]
    staged: tuple[StagedDataFile, ...]
    lost_queries: tuple[LogLost | LogDamaged, ...]  # what starts of queries say of their logs
    end: LogEnd  # how far the log must have been, by all traces; no number of an entry
    missing: Mapping[StreamShard, int]  # the first record that the source has and no file
    retired: frozenset[str]  # tables that partitions were retired from, by what is left of the log
    earliest: Mapping[StreamShard, int]  # what the source still has


FormerSeen = SparkSeen | ConnectSeen | LakehouseSinkSeen


@dataclass(frozen=True, slots=True)
class SourceSeen:
    """What the source says of the topics that are to be adopted."""

    name: str
    streams: Mapping[str, StreamInfo] = field(default_factory=dict)
    offsets: Mapping[StreamShard, ShardOffsets] = field(default_factory=dict)
    error: str = ""


@dataclass(frozen=True, slots=True)
class Observations:
    """All that a plan is made of."""

    job: str
    name: SliceName
    token: str  # of the directories that things are moved aside to; used once
    log: SliceLogSeen
    tables: tuple[TableSeen, ...]
    topics: Mapping[str, TopicSeen]
    source: SourceSeen
    skips_gaps: bool
    has_catalog: bool
    former: FormerSeen | None = None
    own: OwnSeen | None = None  # looked at only where it was asked for
    lands_missing: bool = False  # also where partitions may have been retired


def ends_of(files: Iterable[OwnFile]) -> dict[StreamShard, int]:
    """Return up to where files hold rows of each topic partition."""
    ends: dict[StreamShard, int] = {}
    for each in (shard for file in files for shard in file.shards or ()):
        ends[each.partition] = max(ends.get(each.partition, 0), each.offsets.end)
    return ends


def path_below(path: str, directory: str) -> str:
    """Return `path` relative to `directory`, which it is in."""
    return str(PurePosixPath(path).relative_to(directory))
