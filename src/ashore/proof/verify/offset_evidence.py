"""What was found in files, compared with what the log says of them.

What it promises: pure. `Evidence` keeps rows and offsets per shard and entry. Memory grows with the
runs of offsets, not with rows; those of an entry are united when its last file was taken.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field

from ashore.proof.evidence.ledger import Ledger, LoggedFile, PartKey
from ashore.proof.evidence.offsets import FileOffsets, FileShard
from ashore.proof.evidence.result import NAMED_MAX, Problem, ProblemKind
from ashore.proof.evidence.runs import NO_RUNS, Runs, unite
from ashore.proof.evidence.stored_files import FileLook


@dataclass(slots=True, eq=False)
class Found:
    """What the files hold of one shard's part of an entry."""

    absent: int = 0  # rows that files should hold and do not, by their counts
    is_counted: bool = False  # some file has no provenance
    is_unread: bool = False  # some file was not read
    duplicated: int = 0
    repeated: Runs = NO_RUNS
    offsets: list[Runs] = field(default_factory=list)

    @property
    def has_offsets(self) -> bool:
        """Whether the offsets of every row that is there are known."""
        return not (self.is_counted or self.is_unread)

    def unite(self) -> Runs:
        """Return all offsets, having made them one set."""
        if len(self.offsets) != 1:
            union, again, repeated = unite(self.offsets)
            self.duplicated += again
            self.repeated = unite([self.repeated, repeated])[0]
            self.offsets = [union]
        return self.offsets[0]


class Evidence:
    """What all files hold. Used by one thread."""

    def __init__(self, ledger: Ledger) -> None:
        self.ledger = ledger
        self.parts: dict[PartKey, Found] = {}
        self.loose_lost: Counter[str] = Counter()  # by table: rows of files without offset spans
        self.files_read = 0
        self.failed: list[tuple[LoggedFile, str]] = []  # that the storage did not read, and why
        self._left = Counter((file.slice, file.entry) for file in ledger.files)

    def take(self, file: LoggedFile, look: FileLook) -> Iterator[Problem]:
        """Take what was found of a file. Yields what is wrong with it."""
        if look.path is None or look.error is not None:
            self._lose(file, file.file.rows)
        elif look.offsets is None:
            if look.failed is not None:
                self.failed.append((file, look.failed))
            for key in self._keys(file):
                self._found(key).is_unread = True
        else:
            self.files_read += 1
            self._keep(file, look.offsets)
        entry = (file.slice, file.entry)
        self._left[entry] -= 1
        if not self._left[entry]:
            for part in file.parts:
                found = self.parts.get(part)
                if found is not None:
                    found.unite()
        yield from judge_file(file, look)

    def _keep(self, file: LoggedFile, offsets: FileOffsets) -> None:
        if offsets.shards is None:
            for key in self._keys(file):
                self._found(key).is_counted = True
            self._lose(file, max(0, file.file.rows - offsets.rows))
            return
        known = _by_name(file)
        for each in offsets.shards:
            parts = known.get((each.stream, each.shard), ())
            for number, part in enumerate(parts):
                found = self._found(part)
                if number == 0:
                    found.duplicated += each.rows - each.offsets.size
                    found.repeated = unite([found.repeated, each.repeated])[0]
                one = each.offsets if len(parts) == 1 else _within(file, part, each.offsets)
                found.offsets.append(one)

    def _lose(self, file: LoggedFile, rows: int) -> None:
        for span in file.file.spans:
            here = min(rows, span.rows)
            self._found(file.parts[span.shard]).absent += here
            rows -= here
        if rows:
            self.loose_lost[file.table] += rows

    def _keys(self, file: LoggedFile) -> list[PartKey]:
        return list({file.parts[span.shard] for span in file.file.spans})

    def _found(self, key: PartKey) -> Found:
        return self.parts.setdefault(key, Found())


def _by_name(file: LoggedFile) -> dict[tuple[str, str], list[PartKey]]:
    """Return the parts that a file may hold, by what its rows say of their topic partition."""
    named: dict[tuple[str, str], list[PartKey]] = defaultdict(list)
    for part in dict.fromkeys(file.parts):
        named[part.shard.stream, part.shard.shard].append(part)
    return named


def _within(file: LoggedFile, part: PartKey, offsets: Runs) -> Runs:
    """Return those of a compacted file's offsets that its spans say are of a part."""
    spans = [each for each in file.file.spans if file.parts[each.shard] == part]
    return unite([offsets.clip(each.start, each.end) for each in spans])[0]


def judge_file(file: LoggedFile, look: FileLook) -> Iterator[Problem]:
    """Yield what is wrong with one file."""
    expected = file.file

    def problem(kind: ProblemKind, text: str, offsets: tuple[int, ...] = ()) -> Problem:
        path = look.path or file.final
        return Problem(kind, file.table, path, f"entry {file.listed}: {text}", offsets)

    if look.path is None:
        yield problem(ProblemKind.FILE_MISSING, f"it is gone, with {expected.rows} rows")
        return
    if look.size_bytes != expected.size_bytes:
        text = f"{look.size_bytes} bytes, the log says {expected.size_bytes}"
        yield problem(ProblemKind.FILE_SIZE, text)
    elif look.checksum is not None and look.checksum != expected.checksum:
        text = f"checksum {look.checksum}, the log says {expected.checksum}"
        yield problem(ProblemKind.FILE_CHECKSUM, text)
    if look.error is not None:
        yield problem(ProblemKind.FILE_UNREADABLE, look.error)
    if look.offsets is None:
        return
    if look.offsets.rows != expected.rows:
        text = f"{look.offsets.rows} rows, the log says {expected.rows}"
        yield problem(ProblemKind.FILE_ROWS, text)
    for text, offsets in _strange_offsets(file, look.offsets.shards or ()):
        yield problem(ProblemKind.PROVENANCE, text, offsets)


def _strange_offsets(
    file: LoggedFile, shards: tuple[FileShard, ...]
) -> Iterator[tuple[str, tuple[int, ...]]]:
    """Yield where the offsets in a file are not those that its spans promise."""
    known = _by_name(file)
    for each in shards:
        parts = known.get((each.stream, each.shard), [])
        spans = [span for span in file.file.spans if file.parts[span.shard] in parts]
        if not spans:
            text = f"{each.rows} rows of {each.stream}/{each.shard}, which the entry does not list"
            yield text, tuple(each.offsets.first(NAMED_MAX))
            continue
        shard, outside = parts[0].shard, each.offsets
        for span in spans:
            outside = outside.without(span.start, span.end)
        if outside.size:
            promised = " ".join(f"[{span.start}, {span.end})" for span in spans)
            text = f"{outside.size} offsets of {shard} are outside of {promised}"
            yield text, tuple(outside.first(NAMED_MAX))
        if each.is_of_other(shard.generation):
            named = ", ".join(str(generation) for generation in each.generations)
            yield f"rows of {shard} have generation {named}, its entry {shard.generation}", ()
        rows = sum(span.rows for span in spans)
        if each.rows != rows:
            yield f"{each.rows} rows of {shard}, its spans say {rows}", ()
