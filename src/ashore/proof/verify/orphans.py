"""What readers see in files that no entry lists: the same rows again, or unknown rows.

What it is: `count_orphans`, which reads such files and compares their offsets with those of the
files that the log lists.
What it promises: reads only. What cannot be counted is said to be so, and never counted as nothing.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from ashore.errors import PathMissing
from ashore.log import names
from ashore.log.files import Role
from ashore.log.tables import DEAD_SUFFIX
from ashore.proof.evidence.offsets import FileOffsets, FileShard, Unreadable
from ashore.proof.evidence.reader_process import read_unproven
from ashore.proof.evidence.result import NAMED_MAX
from ashore.proof.evidence.runs import NO_RUNS, Runs, intersect, unite
from ashore.proof.verify.observation import Evidence
from ashore.storage.base import Storage

_EXTENSIONS = {"json": "jsonl"}

_TopicPartition = tuple[str, str]  # topic and partition, as rows name them


@dataclass(frozen=True, slots=True)
class OrphanFile:
    """A file that readers see and that no entry lists."""

    path: str
    rows: int | None  # None: they cannot be compared with the rows of other files
    again: int = 0  # how many of these stand in other files too, or twice in this one
    offsets: tuple[int, ...] = ()  # the first of them


def count_orphans(
    storage: Storage, files: Mapping[str, int], evidence: Evidence
) -> Iterator[OrphanFile]:
    """Yield what is in `files`, paths with their sizes. Raises StorageError."""
    seen = _Seen(evidence)
    for path, size_bytes in sorted(files.items()):
        found = _read(storage, path, size_bytes)
        if found is None or found.shards is None or not seen.knows(found.shards):
            yield OrphanFile(path, None)
        elif found.rows:
            again, offsets = seen.add(found.shards)
            yield OrphanFile(path, found.rows, again, offsets)


def _read(storage: Storage, path: str, size_bytes: int) -> FileOffsets | None:
    extension = names.leaf(path).rpartition(".")[2]
    role = Role.DEAD if path.split("/")[1].endswith(DEAD_SUFFIX) else Role.MAIN
    try:
        kind = (_EXTENSIONS.get(extension, extension), role)
        return read_unproven(storage, path, size_bytes, kind)
    except (Unreadable, PathMissing):
        return None


class _Seen:
    """The offsets that stand in files so far, by the topic and the partition that rows name."""

    def __init__(self, evidence: Evidence) -> None:
        runs: dict[_TopicPartition, list[Runs]] = defaultdict(list)
        generations: dict[_TopicPartition, set[int]] = defaultdict(set)
        self._unknown: set[_TopicPartition] = set()
        for key, found in evidence.parts.items():
            partition = (key.shard.stream, key.shard.shard)
            generations[partition].add(key.shard.generation)
            # A row does not say which topic of its name it came from.
            if not found.has_offsets or len(generations[partition]) > 1:
                self._unknown.add(partition)
            runs[partition].append(found.unite())
        self._runs = {partition: unite(parts)[0] for partition, parts in runs.items()}

    def knows(self, shards: tuple[FileShard, ...]) -> bool:
        """Return whether all offsets of these shards that stand in listed files are known."""
        return not any((each.stream, each.shard) in self._unknown for each in shards)

    def add(self, shards: tuple[FileShard, ...]) -> tuple[int, tuple[int, ...]]:
        """Take the offsets of one more file; return how many come again, and the first of them."""
        again, named = 0, list[int]()
        for each in shards:
            partition = (each.stream, each.shard)
            known = self._runs.get(partition, NO_RUNS)
            common = intersect(known, each.offsets)
            again += common.size + each.rows - each.offsets.size
            named += unite([common, each.repeated])[0].first(NAMED_MAX)
            self._runs[partition] = unite([known, each.offsets])[0]
        return again, tuple(named[:NAMED_MAX])
