"""From claims and evidence to the verdict.

What it is: `Judge`: what is lost, what is there twice, what cannot be proved; `count_orphans`,
which reads files that no entry lists and compares them with those that are listed.
What it promises: pure but for that. A record counts as lost only where that is certain; what is
between the certain and the possible is unprovable.
"""

from collections import Counter, defaultdict
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import asdict, dataclass

from ashore.errors import PathMissing
from ashore.log import names
from ashore.log.positions import ShardKey, StreamShard
from ashore.proof.evidence.ledger import Ledger, LoggedFile, Part, PartKey
from ashore.proof.evidence.offsets import FileShard
from ashore.proof.evidence.reader_process import read_orphan
from ashore.proof.evidence.result import (
    NAMED_MAX,
    CheckedBy,
    Findings,
    NotChecked,
    Problem,
    ProblemKind,
    Status,
    TableVerdict,
    Tally,
)
from ashore.proof.evidence.runs import NO_RUNS, Runs, intersect, subtract, unite
from ashore.proof.evidence.second_reading import Answer, Answers, Unaccounted
from ashore.proof.verify.offset_evidence import Evidence, Found
from ashore.storage.base import Storage


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
        try:
            found = read_orphan(storage, path, size_bytes)
        except PathMissing:
            found = None
        if found is None or found.shards is None or not seen.knows(found.shards):
            yield OrphanFile(path, None)
        elif found.rows:
            again, offsets = seen.add(found.shards)
            yield OrphanFile(path, found.rows, again, offsets)


class _Seen:
    """The offsets that stand in files so far, by the topic and the partition that rows name."""

    def __init__(self, evidence: Evidence) -> None:
        runs: dict[StreamShard, list[Runs]] = defaultdict(list)
        generations: dict[StreamShard, set[int]] = defaultdict(set)
        self._unknown: set[StreamShard] = set()
        for key, found in evidence.parts.items():
            partition = StreamShard(key.shard.stream, key.shard.shard)
            generations[partition].add(key.shard.generation)
            # A row does not say which topic of its name it came from.
            if not found.has_offsets or len(generations[partition]) > 1:
                self._unknown.add(partition)
            runs[partition].append(found.unite())
        self._runs = {partition: unite(parts)[0] for partition, parts in runs.items()}

    def knows(self, shards: tuple[FileShard, ...]) -> bool:
        return not any(each.partition in self._unknown for each in shards)

    def add(self, shards: tuple[FileShard, ...]) -> tuple[int, tuple[int, ...]]:
        again, named = 0, list[int]()
        for each in shards:
            known = self._runs.get(each.partition, NO_RUNS)
            common = intersect(known, each.offsets)
            again += common.size + each.rows - each.offsets.size
            named += unite([common, each.repeated])[0].first(NAMED_MAX)
            self._runs[each.partition] = unite([known, each.offsets])[0]
        return again, tuple(named[:NAMED_MAX])


_NO_ANSWER = Answer(0, 0, ())


@dataclass(frozen=True, slots=True)
class PartVerdict:
    """What became of the records of one shard's part of an entry."""

    lost: int
    duplicated: int
    unprovable: int
    checked_by: CheckedBy


def plan_again(ledger: Ledger, evidence: Evidence, since_ms: int | None) -> list[Unaccounted]:
    """Return the offsets that must be read again: more of them are missing than counts explain."""
    unaccounted = []
    for part in ledger.parts:
        if _checked_by(part, evidence.parts.get(part.key), since_ms) is CheckedBy.PROVENANCE:
            missing = _missing(part, evidence.parts.get(part.key))
            if missing.size > part.allowance:
                unaccounted.append(Unaccounted(part.key, missing))
    return unaccounted


def _checked_by(part: Part, found: Found | None, since_ms: int | None) -> CheckedBy:
    if since_ms is not None and part.written_ms < since_ms:
        return CheckedBy.EXISTENCE
    if part.is_query or (found is not None and found.is_counted):
        return CheckedBy.COUNTS
    if found is not None and found.is_unread:
        return CheckedBy.EXISTENCE
    return CheckedBy.PROVENANCE


def _missing(part: Part, found: Found | None) -> Runs:
    return subtract(part.read.offsets, found.unite() if found else NO_RUNS)


def judge_part(
    part: Part, found: Found | None, answer: Answer, is_old: bool, since_ms: int | None
) -> PartVerdict:
    """Say what became of one shard's part of an entry.

    Arguments:
        part: what the log claims.
        found: what the files hold; None: no file holds any of it.
        answer: what the source says of what is missing.
        is_old: the stream has been created again since: the source cannot be asked.
        since_ms: older entries were not read.

    """
    checked_by = _checked_by(part, found, since_ms)
    absent = found.absent if found else 0
    missing = _missing(part, found).size  # unites what was found, which counts repetitions
    duplicated = found.duplicated if found else 0
    if checked_by is not CheckedBy.PROVENANCE:
        return PartVerdict(absent, duplicated, 0, checked_by)
    present = part.read.offsets.size - missing
    # A repetition may have been counted as a record of its own.
    lost = max(0, part.rows - present - duplicated, answer.records - part.allowance)
    possible = max(0, answer.records + answer.unavailable - part.allowance)
    unprovable = max(0, possible - lost)
    if is_old and part.read.fetched == present + part.given_up + part.retired:
        unprovable = 0  # every record that was fetched is there
    return PartVerdict(lost, duplicated, unprovable, checked_by)


def find_repeats(ledger: Ledger, evidence: Evidence) -> dict[ShardKey, tuple[int, Runs]]:
    """Return per shard the offsets that stand in files of two entries, and how often."""
    offsets: dict[ShardKey, list[Runs]] = defaultdict(list)
    for part in ledger.parts:
        found = evidence.parts.get(part.key)
        if found is not None:
            offsets[part.key.shard].append(found.unite())
    repeats = {}
    for shard, runs in offsets.items():
        _, count, again = unite(runs)
        if count:
            repeats[shard] = (count, again)
    return repeats


def find_orphans(
    ledger: Ledger,
    visible: AbstractSet[str],
    adopted: AbstractSet[str],
    table_of: Mapping[str, str],
) -> Iterator[Problem]:
    """Yield the files that readers see and that no entry lists."""
    unlisted = set(visible)  # there may be very many
    unlisted -= ledger.excused | adopted
    for file in ledger.files:
        unlisted.discard(file.final)
    for path in sorted(unlisted):
        yield judge_orphan(path, table_of)


def judge_orphan(path: str, table_of: Mapping[str, str]) -> Problem:
    """Say what a file is that readers see and that no entry lists."""
    ours = names.parse_final(names.leaf(path))
    if ours is None:
        kind, text = ProblemKind.FILE_FOREIGN, "Ashore did not write it"
    else:
        kind = ProblemKind.FILE_UNLISTED
        text = f"no entry lists it; its name says slice {ours.slice}, epoch {ours.epoch}, "
        text += f"batch {ours.batch}"
    return Problem(kind, table_of_path(path, table_of), path, text)


def is_of_other_writer(orphan: Problem, shared: Container[str]) -> bool:
    """Return whether a file may be there: another writer's, in a table that others write too.

    `shared`: tables in a table format. Ashore's own names are given once, whatever the table.
    """
    is_foreign = orphan.kind is ProblemKind.FILE_FOREIGN
    return is_foreign and table_of_path(orphan.place, {}) in shared


def table_of_path(path: str, table_of: Mapping[str, str]) -> str:
    """Return the main table that a file lies in."""
    database, table = path.split("/")[:2]
    name = f"{database.removesuffix('.db')}.{table}"
    return table_of.get(name, name)


class Judge:
    """Puts everything together, table by table."""

    def __init__(
        self,
        ledger: Ledger,
        since_ms: int | None,
        findings: Findings,
        gone_rows: Mapping[PartKey, int],
        not_checked: Sequence[NotChecked] = (),
    ) -> None:
        self._ledger = ledger
        self._gone_rows = (
            gone_rows  # of partitions that are gone: reported already, and counted here
        )
        self._not_checked = not_checked
        self._since_ms = since_ms
        self._findings = findings
        self._counts: dict[str, Counter[str]] = defaultdict(Counter)  # of Tally
        self._topics: dict[str, set[str]] = defaultdict(set)
        self._shards: dict[str, set[ShardKey]] = defaultdict(set)
        self._checked: dict[str, set[CheckedBy]] = defaultdict(set)

    def judge(
        self, evidence: Evidence, answers: Answers, tables: Sequence[str]
    ) -> tuple[TableVerdict, ...]:
        """Return a row for each of `tables` and of the log's tables. Adds to the findings."""
        for part in self._ledger.parts:
            answer = answers.parts.get(part.key, _NO_ANSWER)
            self._take_part(part, evidence.parts.get(part.key), answer)
        for shard, (count, again) in sorted(find_repeats(self._ledger, evidence).items()):
            table = self._ledger.table_of_shard.get(shard, "")
            self._add(table, duplicated=count)
            self._find_duplicates(table, shard, "in files of several entries", count, again)
        for shard, size in self._ledger.skipped:
            self._add(self._ledger.table_of_shard.get(shard, ""), skipped=size)
        for file in self._ledger.files:
            self._take_file(file)
        for _, table, count in self._ledger.batches:
            self._add(table, batches=count)
        for table, rows in evidence.loose_lost.items():
            self._add(table, lost=rows)
        named = {self._ledger.table_of.get(table, table) for table in tables}
        return tuple(self._verdict(table) for table in sorted(named | self._counts.keys()))

    def take_orphans(self, files: Iterable[OrphanFile]) -> int:
        """Count what readers see in files that no entry lists. Comes before `judge`.

        Returns for how many files that is not known.
        """
        uncounted = 0
        for each in files:
            if each.rows is None:
                uncounted += 1
                continue
            table = table_of_path(each.path, self._ledger.table_of)
            self._add(table, duplicated=each.again, unlisted=each.rows - each.again)
            if each.again:
                text = f"{each.again} records are in it again, and no entry lists the file"
                kind = ProblemKind.DUPLICATED
                self._findings.add(Problem(kind, table, each.path, text, each.offsets))
        return uncounted

    def _take_part(self, part: Part, found: Found | None, answer: Answer) -> None:
        shard, read = part.key.shard, part.read
        newest, _ = self._ledger.generations.get((shard.source, shard.stream), (0, ""))
        is_old = shard.generation != newest
        verdict = judge_part(part, found, answer, is_old, self._since_ms)
        self._topics[read.table].add(shard.stream)
        self._shards[read.table].add(shard)
        self._checked[read.table].add(verdict.checked_by)
        self._add(
            read.table,
            fetched=read.fetched,
            landed=read.landed,
            dead=read.dead,
            filtered=read.filtered,
            dropped=read.dropped,
            given_up=part.given_up,
            retired=part.retired,
            lost=verdict.lost,
            duplicated=verdict.duplicated,
            unprovable=verdict.unprovable,
        )
        if verdict.lost > self._gone_rows.get(part.key, 0):
            offsets = answer.offsets or tuple(_missing(part, found).first(NAMED_MAX))
            text = f"entry {part.key.entry}, {read.offsets}: {verdict.lost} records are in no file"
            known = offsets if verdict.checked_by is CheckedBy.PROVENANCE else ()
            self._findings.add(Problem(ProblemKind.LOST, read.table, str(shard), text, known))
        if verdict.duplicated and found is not None:
            text = f"in entry {part.key.entry}"
            self._find_duplicates(read.table, shard, text, verdict.duplicated, found.repeated)

    def _find_duplicates(
        self, table: str, shard: ShardKey, where: str, count: int, again: Runs
    ) -> None:
        offsets = tuple(again.first(NAMED_MAX))
        text = f"{count} records are in it again, {where}"
        self._findings.add(Problem(ProblemKind.DUPLICATED, table, str(shard), text, offsets))

    def _take_file(self, file: LoggedFile) -> None:
        in_flight = self._ledger.is_in_flight(file)
        size = file.file.size_bytes
        self._add(file.table, files=1, files_in_flight=int(in_flight), size_bytes=size)
        if not file.file.spans:  # of a query: no range of records belongs to its rows
            self._add(file.table, landed=file.file.rows)

    def _add(self, table: str, **counts: int) -> None:
        self._counts[table].update(counts)

    def _verdict(self, table: str) -> TableVerdict:
        tally = Tally(**self._counts[table])
        problems = self._findings.by_table.get(table, 0)
        # Where nothing names a table, the source is meant, and tables that were read from it.
        is_whole = not any(
            each.table == table or (not each.table and self._topics[table])
            for each in self._not_checked
        )
        if problems or tally.lost or tally.duplicated:
            status = Status.WRONG
        else:
            is_proved = is_whole and not tally.unprovable
            status = Status.OK if is_proved else Status.UNPROVABLE
        checked = self._checked[table]
        # The weakest statement holds for the table, but what `since` left out is shown separately.
        order = (CheckedBy.COUNTS, CheckedBy.PROVENANCE)
        checked_by = next((each for each in order if each in checked), CheckedBy.EXISTENCE)
        return TableVerdict(
            table=table,
            topics=tuple(sorted(self._topics[table])),
            partitions=len(self._shards[table]),
            tally=tally,
            problems=problems,
            checked_by=checked_by,
            status=status,
            is_whole=is_whole,
        )


def total(tables: Sequence[TableVerdict]) -> Tally:
    """Return the sum of all rows."""
    counts: Counter[str] = Counter()
    for table in tables:
        counts.update(asdict(table.tally))
    return Tally(**counts)
