"""Which files of a table become fewer ones, and the entry that says so.

What it is: `plan_groups`: files that are put together, in the order in which they were landed;
`compact_entry`, from what was written.
What it promises: pure. Files of a group are of one partition, have the same columns, and each of
their offsets means one record: no group has a topic of two generations. A group makes one file of
about the target size.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from ashore.log.entries.compaction import Compact, FilePart, ReplacedFile
from ashore.log.files import DataFile, TableCommit, Target
from ashore.log.fold import Fold

CHUNK_FILES = 2_000  # that one entry replaces
CHUNK_BYTES = 1 << 30
SPANS_MAX = 5_000  # of one file: with more, the entry would be large


@dataclass(frozen=True, slots=True)
class CompactRule:
    """When files are put together."""

    target_bytes: int
    files_min: int  # fewer small files of a partition are left as they are
    every_s: float = 0.0  # how often a running job looks for them
    sort_by: tuple[str, ...] = ()  # columns

    def is_small(self, file: DataFile) -> bool:
        """Return whether a file is worth to be put together with others."""
        return file.size_bytes < self.target_bytes * 3 // 4


@dataclass(frozen=True, slots=True)
class ListedFile:
    """A file of the log that readers see."""

    path: str  # final
    target: Target
    file: DataFile
    parts: tuple[FilePart, ...]  # that its spans refer to
    commit: TableCommit  # by which it came into its table

    @property
    def layout(self) -> tuple[Target, int, int]:
        """What files must have in common: partition, columns, and the spec that places them."""
        return self.target, self.commit.schema_id, self.commit.spec_id


@dataclass(frozen=True, slots=True)
class FileGroup:
    """Files that become one."""

    files: tuple[ListedFile, ...]
    sort_by: tuple[str, ...] = ()  # columns by which the rows of the file are sorted

    @property
    def target(self) -> Target:
        """Their partition."""
        return self.files[0].target

    @property
    def rows(self) -> int:
        """Their rows."""
        return sum(each.file.rows for each in self.files)

    @property
    def size_bytes(self) -> int:
        """Their bytes."""
        return sum(each.file.size_bytes for each in self.files)


def plan_groups(files: Iterable[ListedFile], rule: CompactRule) -> tuple[FileGroup, ...]:
    """Return what is put together. `files`: of one table, in the order of the log."""
    by_layout: dict[tuple[Target, int, int], list[ListedFile]] = {}
    for each in files:
        if rule.is_small(each.file):
            by_layout.setdefault(each.layout, []).append(each)
    found: list[FileGroup] = []
    for listed in by_layout.values():
        if len(listed) >= rule.files_min:
            found += [group for group in _fill(listed, rule) if len(group.files) > 1]
    return tuple(found)


def leave_large(files: Iterable[ListedFile]) -> Iterable[ListedFile]:
    """Yield the files of each layout without those of twice the size of all smaller ones together.

    For who puts files together again and again: a new file is larger by half than its largest old
    one, at least, so that a row is written anew a few times on its way to the target.
    """
    by_layout: dict[tuple[Target, int, int], list[ListedFile]] = {}
    for each in files:
        by_layout.setdefault(each.layout, []).append(each)
    for listed in by_layout.values():
        sizes = sorted(each.file.size_bytes for each in listed)
        smaller = sum(sizes)
        while sizes and sizes[-1] > 2 * (smaller - sizes[-1]):
            smaller -= sizes.pop()
        yield from (each for each in listed if sizes and each.file.size_bytes <= sizes[-1])


def _fill(files: Sequence[ListedFile], rule: CompactRule) -> Iterable[FileGroup]:
    """Yield neighbours whose bytes are about the target, each with one meaning of an offset."""
    group: list[ListedFile] = []
    streams: dict[tuple[str, str], tuple[str, int]] = {}
    size_bytes = spans = 0
    for each in files:
        keys = [part.key for part in each.parts]
        named = {(key.stream, key.shard): (key.source, key.generation) for key in keys}
        is_other = any(streams.get(name, key) != key for name, key in named.items())
        size_bytes += each.file.size_bytes
        spans += len(each.file.spans)
        if group and (is_other or size_bytes > rule.target_bytes or spans > SPANS_MAX):
            yield FileGroup(tuple(group), rule.sort_by)
            group, streams = [], {}
            size_bytes, spans = each.file.size_bytes, len(each.file.spans)
        group.append(each)
        streams |= named
    if group:
        yield FileGroup(tuple(group), rule.sort_by)


def split_chunks(
    groups: Iterable[FileGroup], bytes_max: int = CHUNK_BYTES
) -> Iterable[tuple[FileGroup, ...]]:
    """Yield groups that one entry replaces: of one schema and one spec, and not too many."""
    by_schema: dict[tuple[int, int], list[FileGroup]] = {}
    for group in groups:
        commit = group.files[0].commit
        by_schema.setdefault((commit.schema_id, commit.spec_id), []).append(group)
    for alike in by_schema.values():
        chunk: list[FileGroup] = []
        files = size_bytes = 0
        for group in alike:
            files, size_bytes = files + len(group.files), size_bytes + group.size_bytes
            if chunk and (files > CHUNK_FILES or size_bytes > bytes_max):
                yield tuple(chunk)
                chunk, files, size_bytes = [], len(group.files), group.size_bytes
            chunk.append(group)
        if chunk:
            yield tuple(chunk)


def compact_entry(
    fold: Fold, base: int, drawn: int, written: Sequence[tuple[FileGroup, DataFile]]
) -> Compact:
    """Return the entry that replaces groups by the files that were written of them.

    Arguments:
        fold: of the slice's log.
        base: id of the table's snapshot.
        drawn: of the snapshot to come.
        written: groups of one chunk, each with its file.

    """
    parts: dict[FilePart, int] = {}
    targets: dict[Target, int] = {}
    files: list[DataFile] = []
    replaced: list[ReplacedFile] = []
    for group, file in written:
        spans = tuple(
            replace(span, shard=parts.setdefault(each.parts[span.shard], len(parts)))
            for each in group.files
            for span in each.file.spans
        )
        target = targets.setdefault(group.target, len(targets))
        files.append(replace(file, target=target, spans=spans))
        replaced += [
            ReplacedFile(each.path, each.file.rows, each.file.size_bytes, each.file.checksum)
            for each in group.files
        ]
    return Compact(
        batch=fold.next_batch - 1,
        base=base,
        replaced=tuple(replaced),
        parts=tuple(parts),
        targets=tuple(targets),
        files=tuple(files),
        commit=replace(written[0][0].files[0].commit, snapshot_id=drawn),
    )
