"""What was seen of a checkpoint: all that a diagnosis decides from.

What it is: values only.
What it promises: nothing is judged here but whether a file can be read as what its path says.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from ashore.log.plan_query import NO_BATCH
from ashore.queries.state.files import CheckpointFile
from ashore.queries.state.layout import BatchLog, CheckpointPath, CommitFile, OffsetsFile
from ashore.queries.state.required_files import Required, list_batches, list_done


class Flaw(StrEnum):
    """What is wrong with one file."""

    MISSING = "missing"
    DAMAGED = "damaged"
    OTHER_VERSION = "other_version"
    EDITED = "edited"  # a text that nothing contradicts, and is not that of its `.crc` file


@dataclass(frozen=True, slots=True)
class BadFile:
    """A file that is not as it has to be.

    Arguments:
        file: below the root.
        flaw: what is wrong.
        text: the same in words; they begin with the file.

    """

    file: str
    flaw: Flaw
    text: str


@dataclass(frozen=True, slots=True)
class TopicEnds:
    """What Kafka has of a topic now: first and end offset by partition; none: it is gone."""

    first: Mapping[str, int]
    end: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Looked:
    """What was looked at, in numbers.

    Arguments:
        files: that were listed.
        batches: whose offsets or commits were parsed.
        texts: other texts that were parsed: of the query, of operators, schemas, of sources.
        changes: files of state whose blocks were followed.
        snapshots: whose archive was read to its end.
        tables: whose end was read, and whose size was compared with the snapshot's.
        checksums: files that were compared with a checksum of Hadoop or Spark, and tables whose
            blocks were compared with theirs.

    """

    files: int = 0
    batches: int = 0
    texts: int = 0
    changes: int = 0
    snapshots: int = 0
    tables: int = 0
    checksums: int = 0


@dataclass(frozen=True, slots=True)
class Observed:
    """A checkpoint as it was seen.

    Arguments:
        uri: where it is, as Spark knows it.
        files: all of them, sorted by path.
        source_directories: names of those in `sources`.
        offsets: of each batch whose file can be read.
        commits: as above.
        bad: files that are not as they have to be, those of the newest batches first.
        good: what the newest batch needs that is whole; None: no batch is.
        looked: what was looked at.
        not_looked: what was not, in words.
        doubted: files whose content nothing proves, and in which words that is reported; N in
            them is how many files it is.
        expected_sources: how many the query reads now; None: unknown.
        topics: what Kafka has of each topic; None: it was not asked.

    """

    uri: str
    files: Sequence[CheckpointFile]
    source_directories: Sequence[str]
    offsets: Mapping[int, OffsetsFile]
    commits: Mapping[int, CommitFile]
    bad: Sequence[BadFile]
    good: Required | None
    looked: Looked
    not_looked: Sequence[str] = ()
    doubted: Mapping[CheckpointPath, str] = field(default_factory=dict)
    expected_sources: int | None = None
    topics: Mapping[str, TopicEnds] | None = None

    @property
    def unproven(self) -> Sequence[str]:
        """What a restart reads and nothing proves, in words."""
        needed = None if self.good is None else {each.of for each in self.good.files}
        counted = Counter(
            what for path, what in self.doubted.items() if needed is None or path in needed
        )
        return [what.replace("N", f"{number:,}", 1) for what, number in sorted(counted.items())]

    @property
    def batches(self) -> Mapping[BatchLog, Sequence[int]]:
        """The batches of each log, sorted."""
        return list_batches(self.files)

    @property
    def done(self) -> int:
        """The newest batch that is done and has offsets."""
        return max(list_done(self.files), default=NO_BATCH)
