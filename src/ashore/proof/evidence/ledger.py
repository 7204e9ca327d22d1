"""What a job's logs claim: ranges, counts, files. The log's own contradictions are found here.

What it promises: pure, and computed apart from the fold, so that a mistake there does not hide
itself. Little of each file stays in memory.
"""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import pairwise

from ashore.log import names
from ashore.log.entries import (
    Begin,
    Closing,
    Compact,
    Entry,
    Join,
    Prepare,
    Reland,
    Retire,
    Rollback,
    Seal,
    ShardRead,
    Skip,
)
from ashore.log.files import BatchPlace, DataFile, Role, TableCommit, Target
from ashore.log.names import SliceName
from ashore.log.positions import OffsetRange, Seam, ShardKey, find_seams
from ashore.proof.evidence.packing import Packed
from ashore.proof.evidence.result import Problem, ProblemKind

OVERLAPS_REPORTED = "overlapping_spans"  # a counter: the writer has seen spans overlap, and said so


class Excuse(StrEnum):
    """Why a file of the log need not be there."""

    RELANDED = "relanded"  # other files hold its rows
    GIVEN_UP = "given_up"
    RETIRED = "retired"
    WITHDRAWN = "withdrawn"  # its table was rolled back: it leaves, and must not stay
    COMPACTED = "compacted"  # other files hold its rows, and readers must not see both
    ABANDONED = "abandoned"  # of a compaction that came to nothing: readers must not see it


@dataclass(frozen=True, slots=True)
class PartKey:
    """One shard's part of one `prepare`."""

    slice: str
    entry: int
    shard: ShardKey


@dataclass(frozen=True, slots=True)
class LoggedFile:
    """A file that an entry lists."""

    slice: str
    entry: int  # the `prepare` whose records it holds; the `compact` that has put some together
    listed: int  # the entry that lists it: a later one after a reland
    written_ms: int
    table: str  # the main table that it counts for
    place: BatchPlace
    target: Target
    file: DataFile
    parts: tuple[PartKey, ...]  # that its spans refer to
    commit: TableCommit | None = None  # by which it came into its table, of a table format

    @property
    def pending(self) -> str:
        """Where the file lies until it is moved."""
        return self.place.place(self.file, self.target).pending

    @property
    def final(self) -> str:
        """Where readers find the file."""
        return self.place.place(self.file, self.target).final


@dataclass(frozen=True, slots=True)
class Part:
    """What an entry says of one shard's range."""

    key: PartKey
    written_ms: int
    read: ShardRead
    is_query: bool  # of streaming SQL: its rows have no offsets, only its dead letters have
    given_up: int = 0
    retired: int = 0

    @property
    def rows(self) -> int:
        """Rows that should be in files now."""
        return self.read.landed + self.read.dead - self.given_up - self.retired

    @property
    def allowance(self) -> int:
        """Records of the range that are in no file, for a reason that the log knows."""
        return self.read.filtered + self.read.dropped + self.given_up + self.retired


@dataclass(frozen=True, slots=True)
class Ledger:
    """All that the logs claim, with the contradictions in it."""

    parts: tuple[Part, ...]
    files: Collection[LoggedFile]  # that are asked for
    excused_files: tuple[LoggedFile, ...]  # that may be there and need not
    skipped: tuple[tuple[ShardKey, int], ...]  # offsets given up
    batches: tuple[tuple[str, str, int], ...]  # slice, table, number of `prepare` entries
    generations: dict[tuple[str, str], tuple[int, str]]  # (source, stream): the newest, its id
    table_of_shard: dict[ShardKey, str]  # as the last entry that read it says
    table_of: dict[str, str]  # each table, late and dead ones too, to its main table
    unclosed: dict[str, int]  # slice: number of the entry whose effects may not have happened
    begun: tuple[tuple[str, Begin], ...]  # slices that continued from a savepoint
    commits: dict[str, frozenset[int]]  # of each table in a table format: those that were made
    problems: tuple[Problem, ...]

    @property
    def excused(self) -> frozenset[str]:
        """Final paths that may be there and need not."""
        return frozenset(file.final for file in self.excused_files)

    def is_in_flight(self, file: LoggedFile) -> bool:
        """Return whether a file may not have been moved yet."""
        return self.unclosed.get(file.slice) == file.listed


class LedgerBuilder:
    """Takes entries in their order, slice by slice or mixed."""

    def __init__(self) -> None:
        self._parts: list[Part] = []
        self._files = Packed[LoggedFile]()
        self._excuses: dict[tuple[str, str], Excuse] = {}  # (slice, unique)
        self._firsts: dict[ShardKey, int] = {}
        self._ranges: dict[ShardKey, list[OffsetRange]] = defaultdict(list)
        self._slices_of: dict[ShardKey, set[str]] = defaultdict(set)
        self._skipped: list[tuple[ShardKey, int]] = []
        self._batches: dict[tuple[str, str], int] = defaultdict(int)
        self._generations: dict[tuple[str, str], tuple[int, str]] = {}
        self._tables: dict[str, str] = {}
        self._listed_by: dict[str, dict[int, list[LoggedFile]]] = defaultdict(dict)
        self._table_of_shard: dict[ShardKey, str] = {}
        self._unclosed: dict[str, int] = {}
        self._rollbacks: dict[str, int] = {}  # slice: number of the last one
        self._compacts: dict[str, Compact] = {}  # slice: one that is not closed
        self._begun: dict[str, Begin] = {}  # slices that continued from a savepoint
        self._ordered: dict[str, tuple[TableCommit, ...]] = {}  # slice: by its unclosed entry
        self._commits: dict[str, set[int]] = defaultdict(set)
        self._retired: dict[tuple[str, str], list[tuple[str, Entry]]] = defaultdict(list)
        self._problems: list[Problem] = []
        # Of the leaders that reported where ranges end; None: an older release, or not asked.
        self.leaders: dict[ShardKey, int | None] = {}

    def take(self, name: SliceName, entry: Entry) -> None:
        """Take the next entry of a slice."""
        self._take_closing(name.slice, entry.closing)
        match entry.body:
            case Join() | Begin() as join:
                self._take_join(name, join)
            case Prepare() as prepare:
                self._take_prepare(name, entry, prepare)
            case Reland() as reland:
                self._take_reland(name, entry, reland)
            case Skip() as skip:
                self._take_skip(name, skip)
            case Rollback() as rollback:
                self._take_rollback(name, entry.number, rollback)
            case Compact() as compact:
                self._take_compact(name, entry, compact)
            case Retire() as retire:
                for each in retire.partitions:
                    self._retired[each.table, each.partition].append((name.slice, entry))
            case _:
                pass
        if isinstance(entry.body, Prepare | Reland | Seal | Rollback | Compact):
            self._unclosed[name.slice] = entry.number

    def tables(self) -> dict[str, str]:
        """Return every table that the logs name so far, with its main table."""
        return dict(self._tables)

    def excuse_of(self, file: LoggedFile) -> Excuse | None:
        """Return why a file need not be there, as far as entries were taken."""
        excuse = self._excuses.get((file.slice, file.file.unique))
        if excuse is None and self._is_retired(file):
            return Excuse.RETIRED
        return excuse

    def has_left(self, file: LoggedFile) -> bool:
        """Return whether a file must not be in its table: readers would see its rows twice.

        Until the slice's last rollback is closed, it may still be on its way.
        """
        excuse = self.excuse_of(file)
        if excuse is not Excuse.WITHDRAWN:
            return excuse in {Excuse.COMPACTED, Excuse.ABANDONED}
        return self._unclosed.get(file.slice) != self._rollbacks[file.slice]

    def positions(self) -> dict[ShardKey, int]:
        """Return the next offset of each shard that was joined."""
        return {
            key: max((each.end for each in self._ranges.get(key, ())), default=first)
            for key, first in self._firsts.items()
        }

    def excuse_rows(self, parts: Iterable[Part], files: Iterable[LoggedFile]) -> Iterator[Part]:
        """Yield `parts` with the rows of their `files` that need not be there any more."""
        rows: Counter[tuple[PartKey, Excuse]] = Counter()
        for file in files:
            excuse = self.excuse_of(file)
            for span in file.file.spans if excuse else ():
                key = file.parts[span.shard]
                rows[key, excuse or Excuse.RETIRED] += span.rows
        for part in parts:
            given_up, retired = rows[part.key, Excuse.GIVEN_UP], rows[part.key, Excuse.RETIRED]
            yield replace(part, given_up=given_up, retired=retired)

    def find_seams(self) -> Iterator[Seam]:
        """Yield where the ranges of a shard do not meet."""
        for key, ranges in sorted(self._ranges.items()):
            if key in self._firsts:
                # A shard that has moved between slices is in order by its offsets alone.
                ordered = sorted(ranges) if len(self._slices_of[key]) > 1 else ranges
                yield from find_seams(key, self._firsts[key], ordered)

    def drain(self) -> Ledger:
        """Return the ledger of the entries taken since the last call, and forget them.

        What contradicts itself in the ranges of a shard is reported each time until it is repaired.
        For those who follow a log: memory does not grow with what was drained.
        """
        ledger = self.finish()
        broken = {seam.key for seam in self.find_seams()}
        for key in self._ranges.keys() & self._firsts.keys() - broken:
            self._ranges[key] = [
                OffsetRange(self._firsts[key], max(each.end for each in self._ranges[key]))
            ]
        for drained in (self._parts, self._files, self._skipped, self._problems):
            drained.clear()
        self._batches.clear()
        self._commits.clear()
        return ledger

    def finish(self) -> Ledger:
        """Return the ledger of all entries taken."""
        expected, excused = self._files.copy(), list[LoggedFile]()
        if self._excuses or self._retired:
            expected = Packed[LoggedFile]()
            for listed in self._files.lists():
                kept: list[LoggedFile] = []
                for file in listed:
                    (kept if self.excuse_of(file) is None else excused).append(file)
                expected.add(kept)
        return Ledger(
            parts=tuple(self.excuse_rows(self._parts, excused)),
            files=expected,
            excused_files=tuple(file for file in excused if not self.has_left(file)),
            skipped=tuple(self._skipped),
            batches=tuple((*key, count) for key, count in self._batches.items()),
            generations=dict(self._generations),
            table_of_shard=dict(self._table_of_shard),
            table_of=dict(self._tables),
            unclosed=dict(self._unclosed),
            begun=tuple(sorted(self._begun.items(), key=lambda each: each[0])),
            commits={table: frozenset(ids) for table, ids in self._commits.items()},
            problems=(*self._problems, *self._judge_ranges()),
        )

    # ---- entries

    def _take_closing(self, slice_name: str, closing: Closing | None) -> None:
        if closing is not None and closing.entry is not None:
            self._unclosed.pop(slice_name, None)  # a closing may also only say what is done
            for each in self._ordered.pop(slice_name, ()) if not closing.abandoned else ():
                self._commits[each.table].add(each.snapshot_id)
            self._close_compact(slice_name, is_done=not closing.abandoned)

    def _take_join(self, name: SliceName, body: Join | Begin) -> None:
        if isinstance(body, Begin):
            self._begun[name.slice] = body
        for each in body.shards:
            # A shard that moved to another slice joins there once more, where the first had ended.
            known_first = self._firsts.get(each.key, each.first_offset)
            self._firsts[each.key] = min(known_first, each.first_offset)
            stream = (each.key.source, each.key.stream)
            known = self._generations.get(stream, (0, ""))
            self._generations[stream] = max(known, (each.key.generation, each.stream_id))

    def _take_prepare(self, name: SliceName, entry: Entry, body: Prepare) -> None:
        for read in body.shards:
            self._add_range(name, read.key, read.offsets)
            self.leaders[read.key] = read.leader_epoch
            if not read.table:
                continue  # a query whose rows went into a topic: no file has them
            self._table_of_shard[read.key] = read.table
            key = PartKey(name.slice, entry.number, read.key)
            self._parts.append(Part(key, entry.written_ms, read, body.query is not None))
        for table in {read.table for read in body.shards if read.table}:
            self._batches[name.slice, table] += 1
        shards = [(read.key, read.table) for read in body.shards]
        self._list(name, entry, body, entry.number, shards)
        self._problems += find_miscounts(name, entry, body)
        if not dict(body.counters).get(OVERLAPS_REPORTED):
            self._problems += find_span_overlaps(name, entry, body)

    def _take_reland(self, name: SliceName, entry: Entry, body: Reland) -> None:
        before = self._listed_by[name.slice].get(body.entry, [])
        lost = self._excuse(name, body.entry, body.lost, Excuse.RELANDED)
        shards = [(key, self._table_of_shard.get(key, "")) for key in body.shards]
        # What it lists holds records of the entry that first read them, maybe relands ago.
        number = before[0].entry if before else entry.number
        self._list(name, entry, body, number, shards)
        rows = sum(file.rows for file in body.files)
        lost_rows = sum(each.file.rows for each in lost)
        if rows != lost_rows:
            text = f"entry {entry.number}: {rows} rows landed again, {lost_rows} were lost"
            self._problems.append(Problem(ProblemKind.COUNTS, "", str(name), text))

    def _take_skip(self, name: SliceName, body: Skip) -> None:
        leaders = dict(body.leader_epochs)
        for skipped in body.ranges:
            self.leaders[skipped.key] = leaders.get(skipped.key)
            self._add_range(name, skipped.key, skipped.offsets)
            self._skipped.append((skipped.key, skipped.offsets.size))
        self._excuse(name, body.entry, body.lost, Excuse.GIVEN_UP)

    def _take_rollback(self, name: SliceName, number: int, body: Rollback) -> None:
        leaders = dict(body.leader_epochs)
        for each in body.shards:
            self.leaders[each.key] = leaders.get(each.key)
            start = each.offsets.start
            self._ranges[each.key] = [
                OffsetRange(known.start, min(known.end, start))
                for known in self._ranges[each.key]
                if known.start < start
            ]
        self._parts = [
            part
            for part in self._parts
            if part.key.slice != name.slice or part.key.entry <= body.entry
        ]
        for withdrawn in body.files:
            self._excuses[name.slice, withdrawn.file.unique] = Excuse.WITHDRAWN
        self._rollbacks[name.slice] = number

    def _take_compact(self, name: SliceName, entry: Entry, body: Compact) -> None:
        rows = sum(each.rows for each in body.replaced) - sum(each.rows for each in body.files)
        if rows:
            text = f"entry {entry.number}: {rows} rows fewer in the files of a compaction"
            self._problems.append(Problem(ProblemKind.COUNTS, "", str(name), text))
        self._compacts[name.slice] = body
        shards = [(each.key, self._table_of_shard.get(each.key, "")) for each in body.parts]
        self._list(name, entry, body, entry.number, shards)

    def decide_compactions(self, visible: Collection[str]) -> None:
        """Take a compaction that no entry has closed yet as what readers see of it.

        `visible`: paths of the files that readers see.
        """
        for slice_name, body in list(self._compacts.items()):
            is_done = not any(each.path in visible for each in body.replaced)
            self._close_compact(slice_name, is_done=is_done)

    def _close_compact(self, slice_name: str, *, is_done: bool) -> None:
        body = self._compacts.pop(slice_name, None)
        if body is None:
            return
        if is_done:
            old_files = [names.parse_final(names.leaf(each.path)) for each in body.replaced]
            for final in filter(None, old_files):
                self._excuses[final.slice, final.unique] = Excuse.COMPACTED
        else:
            for file in body.files:
                self._excuses[slice_name, file.unique] = Excuse.ABANDONED

    def _list(
        self,
        name: SliceName,
        entry: Entry,
        body: Prepare | Reland | Compact,
        number: int,
        shards: Sequence[tuple[ShardKey, str]],
    ) -> None:
        """Take the files of an entry. `shards`: that spans mean, each with its table."""
        place = BatchPlace(name, entry.epoch, body.batch)
        if isinstance(body, Compact):
            parts = tuple(PartKey(name.slice, each.entry, each.key) for each in body.parts)
            commits = {body.commit.table: body.commit}
        else:
            parts = tuple(PartKey(name.slice, number, key) for key, _ in shards)
            commits = {each.table: each for each in body.commits}
        self._ordered[name.slice] = tuple(commits.values())
        listed = []
        for file in body.files:
            target = body.targets[file.target]
            table = shards[file.spans[0].shard][1] if file.spans else target.table
            self._tables.setdefault(target.table, table)
            listed.append(
                LoggedFile(
                    slice=name.slice,
                    entry=number,
                    listed=entry.number,
                    written_ms=entry.written_ms,
                    table=table,
                    place=place,
                    target=target,
                    file=file,
                    parts=parts,
                    commit=commits.get(target.table),
                )
            )
        for _, table in shards:
            if table:
                self._tables.setdefault(table, table)
        # Only files of the unclosed entry can be given up: older lists are of no more use.
        self._listed_by[name.slice] = {entry.number: listed}
        self._files.add(listed)

    def _excuse(
        self, name: SliceName, number: int | None, lost: Sequence[str], excuse: Excuse
    ) -> list[LoggedFile]:
        uniques = set(lost)
        listed = self._listed_by[name.slice].get(number if number is not None else -1, [])
        found = [file for file in listed if file.file.unique in uniques]
        for file in found:
            self._excuses[file.slice, file.file.unique] = excuse
        if len(found) != len(uniques):
            text = f"{len(uniques) - len(found)} lost files are not of entry {number}"
            self._problems.append(Problem(ProblemKind.COUNTS, "", str(name), text))
        return found

    def _add_range(self, name: SliceName, key: ShardKey, offsets: OffsetRange) -> None:
        self._ranges[key].append(offsets)
        self._slices_of[key].add(name.slice)

    # ---- at the end

    def _is_retired(self, file: LoggedFile) -> bool:
        """Return whether the partition was retired after the file was listed, not before."""
        return any(
            entry.number > file.listed
            if slice_name == file.slice
            else entry.written_ms >= file.written_ms
            for slice_name, entry in self._retired.get(
                (file.target.table, file.target.partition), ()
            )
        )

    def _judge_ranges(self) -> Iterator[Problem]:
        for key in sorted(self._ranges.keys() - self._firsts.keys()):
            table = self._table_of_shard.get(key, "")
            yield Problem(ProblemKind.RANGES, table, str(key), f"{key} was never joined")
        for seam in self.find_seams():
            table, at = self._table_of_shard.get(seam.key, ""), min(seam.expected, seam.found)
            yield Problem(ProblemKind.RANGES, table, str(seam.key), str(seam), (at,))


def find_miscounts(name: SliceName, entry: Entry, body: Prepare) -> Iterator[Problem]:
    """Yield where the counts of an entry, its shards and its files do not add up."""
    rows = [[0, 0] for _ in body.shards]
    for file in body.files:
        is_dead = body.targets[file.target].role is Role.DEAD
        table = body.shards[file.spans[0].shard].table if file.spans else ""
        for span in file.spans:
            rows[span.shard][is_dead] += span.rows
            offsets = body.shards[span.shard].offsets
            if not offsets.start <= span.start < span.end <= offsets.end:
                text = f"entry {entry.number}: file {file.unique} spans [{span.start}, {span.end})"
                text += f" outside of {offsets}"
                yield Problem(ProblemKind.SPANS, table, str(body.shards[span.shard].key), text)
        # Rows of a query are of no shard.
        has_spans = body.query is None or is_dead
        if has_spans and sum(span.rows for span in file.spans) != file.rows:
            text = (
                f"entry {entry.number}: file {file.unique} has {file.rows} rows, its spans have "
                "another number"
            )
            yield Problem(ProblemKind.COUNTS, table, str(name), text)
    for read, (landed, dead) in zip(body.shards, rows, strict=True):
        accounted = read.landed + read.dead + read.filtered + read.dropped
        is_even = read.fetched == accounted and (landed, dead) == (read.landed, read.dead)
        if not is_even or read.fetched > read.offsets.size:
            text = (
                f"entry {entry.number}, {read.offsets}: {read.fetched} fetched; {read.landed} "
                f"landed, {read.dead} dead, {read.filtered} filtered, {read.dropped} dropped; "
                f"{landed} rows and {dead} dead rows in files"
            )
            yield Problem(ProblemKind.COUNTS, read.table, str(read.key), text)


def find_span_overlaps(name: SliceName, entry: Entry, body: Prepare) -> Iterator[Problem]:
    """Yield spans of one shard that overlap in two files of one task and target."""
    spans: dict[tuple[int, int, int], list[tuple[int, int, DataFile]]] = defaultdict(list)
    for file in body.files:
        for span in file.spans:
            spans[file.task, file.target, span.shard].append((span.start, span.end, file))
    for (_, _, shard), found in spans.items():
        found.sort(key=lambda each: each[:2])
        for (_, end, left), (start, _, right) in pairwise(found):
            if start < end and left is not right:
                read = body.shards[shard]
                text = (
                    f"{name} entry {entry.number}: files {left.unique} and {right.unique} both "
                    f"span [{start}, {end})"
                )
                yield Problem(ProblemKind.SPANS, read.table, str(read.key), text, (start,))
