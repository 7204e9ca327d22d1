"""State of one batch, copied to where Spark may read it.

What it is: `extract`, from a checkpoint to a directory of this machine.
What it promises: the checkpoint is only read: Spark never sees it. The copy has what the batch
needs of some operators and partitions, and nothing else, so that Spark cannot take another file
for one that is damaged. Checksums that a local file system keeps come along.
"""

from collections.abc import Collection
from dataclasses import dataclass
from pathlib import PurePosixPath

from ashore.queries.state.checkpoint import Checkpoint
from ashore.queries.state.layout import (
    CheckpointPath,
    ChecksumPath,
    MigrationPath,
    SourcePath,
    StatePath,
    TablePath,
    VersionPath,
)
from ashore.queries.state.savepoints.links import link_between
from ashore.queries.state.savepoints.transfer import Advance, ExpectedFile, transfer_files
from ashore.queries.state.survey import Survey


@dataclass(frozen=True, slots=True)
class WantedState:
    """Whose state is wanted: of some operators, and of one partition or of all."""

    operators: Collection[int]
    partition: int | None = None

    def has(self, path: CheckpointPath) -> bool:
        """Return whether a file is needed for it."""
        match path:
            case SourcePath() | VersionPath() | MigrationPath():
                return False
            case ChecksumPath(of):
                return self.has(of)
            case StatePath(store) | TablePath(store):
                # Spark finds schemas in partition 0, and reads each partition that it finds.
                partitions = {0, self.partition} if self.partition is not None else None
                is_wanted = partitions is None or store.partition in partitions
                return store.operator in self.operators and is_wanted
            case _:
                return True


def extract(survey: Survey, wanted: WantedState, target: Checkpoint, advance: Advance) -> None:
    """Copy what a batch needs to an empty directory of this machine, or give it second names.

    If interrupted: some files are there.

    Raises StorageError; PathMissing where a running Spark has deleted a file; CheckpointUnfit where
    one is not as it was listed.
    """
    files = [each for each in survey.required.files if wanted.has(each.of)]
    sums = {_sum_of(each.path) for each in files if isinstance(each.of, StatePath | TablePath)}
    files += [each for each in survey.files if each.path in sums]
    expected = [ExpectedFile(each.path, each.size_bytes) for each in files]
    link = link_between(survey.checkpoint, target)
    transfer_files(expected, survey.checkpoint, target, link, advance)


def _sum_of(path: str) -> str:
    """Return where a local file system of Hadoop keeps the checksum of a file."""
    found = PurePosixPath(path)
    return str(found.with_name(f".{found.name}.crc"))
