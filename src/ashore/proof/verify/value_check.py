"""`--values`: rows of the files against their records in the source, column by column.

What it promises: reads only, by a second reader and a second decoder. Each row of the sample is
compared, or counted with the reason why not: what has expired is never taken for a difference.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from ashore.errors import OffsetsGone, PathMissing, SourceError, SourceUnreachable
from ashore.jobs.file import ResolvedTable
from ashore.jobs.file.tables import GENERATION_COLUMN, HEADERS_COLUMN, PROVENANCE_COLUMNS
from ashore.log.files import Role, Target
from ashore.log.names import plain_source
from ashore.log.positions import OffsetRange, ShardKey, StreamShard
from ashore.proof.evidence.ledger import Ledger, LoggedFile
from ashore.proof.evidence.offsets import Unreadable, checksum_of, read_file_rows
from ashore.proof.evidence.plain_rows import (
    Odd,
    Row,
    TooDeep,
    decode_row,
    is_same,
    mask_row,
    read_hive,
)
from ashore.proof.evidence.result import (
    Difference,
    Findings,
    NotCompared,
    Problem,
    ProblemKind,
    Progress,
    ValuesVerdict,
)
from ashore.proof.evidence.second_reading import Generations
from ashore.proof.evidence.stored_files import locate_file
from ashore.proof.verify.sample import FileSample, SampleRate, choose_sample
from ashore.storage.base import Storage
from ashore.tables.ddl import Schema, parse_ddl
from ashore.tables.masks import CONTENTS
from ashore.topics.read.source import Record, Source

GAP_OFFSETS = 1_000  # reading this many records costs less than another request
SHOWN_CHARACTERS = 80

WRITTEN_BY_SQL = "written by SQL"
NO_OFFSETS = "its rows carry no offsets"
NO_TOPIC = "its topic is not in the job file"
BY_SPARK = "`select` or `where`: Spark computes the rows"
REPLACED = "the topic was created again"
EXPIRED = "Kafka no longer has the offsets"
NO_RECORD = "Kafka has no record at the offset, or has deleted it"
NO_HEADERS = "Python's Kafka client cannot read the headers"
NOT_MASKED = "landed before its table had this `mask`, so with the values as they are"
TOO_DEEP = "nested too deeply for the second decoder"
FILE_GONE = "the file is gone"
OTHER_BYTES = "the file's bytes are not those that were written"
STRANGE = "the row names a topic partition that its entry does not list"

_DEAD_PROVENANCE = ("topic", "partition", "offset", "timestamp")
_DEAD_HEADERS = "headers"
_DEAD_GENERATION = "generation"
_DEAD_COLUMNS = ("value", "key", _DEAD_GENERATION, _DEAD_HEADERS)  # of its record, and of its topic
_ORC_FIRST_MS = -12_219_292_800_000  # 1582-10-15: Spark and Hive count earlier days otherwise

Topics = Mapping[str, ResolvedTable]


class NotComparable(Exception):
    """Some rows cannot be compared. The message is the reason."""


@dataclass(frozen=True, slots=True)
class _FileReading:
    target: Target
    of_file: Schema  # the columns that are in the file
    of_value: Schema  # the columns that come from a record's value
    provenance: Sequence[str]  # the names of topic, partition, offset, timestamp
    generation: str  # the name of the column; empty: the file has none
    headers: str  # likewise
    topics: Topics

    def compare(self, row: Row, shard: ShardKey, record: Record) -> tuple[Difference, ...]:
        try:
            return self._compare(row, self.expect(shard, record), shard)
        except TooDeep:
            raise NotComparable(TOO_DEEP) from None
        except Odd as error:
            return (Difference("", "a row", f"no row: {error}"[:SHOWN_CHARACTERS]),)

    def _compare(self, row: Row, expected: Row, shard: ShardKey) -> tuple[Difference, ...]:
        masked = self._mask(expected, shard)
        found = tuple(self.differences(row, masked))
        if found and masked != expected and not any(self.differences(row, expected)):
            raise NotComparable(NOT_MASKED)
        return found

    def expect(self, shard: ShardKey, record: Record) -> Row:
        """Return what the columns of a record's row should be. Raises Odd, TooDeep, NotComparable.

        NotComparable is about this record alone.
        """
        own: Row = {self.provenance[3]: kept_time_us(record.timestamp_ms, self.target.extension)}
        if self.generation:
            own[self.generation] = shard.generation
        if self.headers:
            if record.headers is None:
                raise NotComparable(NO_HEADERS)
            own[self.headers] = [
                {"key": key, "value": value} for key, value in record.headers
            ] or None
        if self.target.role is Role.DEAD:
            return {"value": record.value, "key": record.key, **own}
        decode = self.topics[shard.stream].spec.decode
        return {**decode_row(record.value, decode, self.of_value), **own}

    def _mask(self, expected: Row, shard: ShardKey) -> Row:
        """Return what a row should be with the masks of its table."""
        resolved = self.topics.get(shard.stream)
        mask = resolved.spec.mask if resolved else {}
        if not mask:
            return expected
        if self.target.role is Role.DEAD:
            return {**expected, **{name: None for name in CONTENTS if name in expected}}
        return mask_row(expected, mask)

    def differences(self, row: Row, expected: Row) -> Iterator[Difference]:
        in_path = dict(self.target.values)  # columns that only the path has, times too
        for name, value in expected.items():
            if name in in_path:
                column = next(each for each in self.of_value.fields if each.name == name)
                found = read_hive(in_path[name], column.type)
                value = None if value == "" else value  # noqa: PLW2901 - as Hive has it
            else:
                found = _as_client_reads(row[name]) if name == self.headers else row[name]
            if not is_same(found, value):
                yield Difference(name, shorten(found), shorten(value))


@dataclass(frozen=True, slots=True)
class Access:
    """Where both sides of a comparison are read."""

    storage: Storage
    source: Source
    topics: Topics
    since_ms: int | None  # files of entries before are not read

    def reads(self, file: LoggedFile) -> bool:
        """Return whether a file's contents are read at all."""
        return self.since_ms is None or file.written_ms >= self.since_ms


def compare_values(
    access: Access, ledger: Ledger, sampling: SampleRate, findings: Findings, progress: Progress
) -> ValuesVerdict:
    """Compare a sample of the rows of `ledger` with their records. Adds to the findings.

    A source that fails, or does not answer, is no error here: what it does not answer is counted.
    Raises StorageError.
    """
    comparison = _Comparison(access, ledger, findings)
    sample = choose_sample((file for file in ledger.files if access.reads(file)), sampling)
    for done, each in enumerate(sample, 1):
        comparison.take(each)
        progress("values", done, len(sample))
    return ValuesVerdict(
        sampling.rate,
        sampling.seed,
        comparison.compared,
        comparison.different,
        tuple(NotCompared(*key, rows) for key, rows in sorted(comparison.not_compared.items())),
    )


class _Comparison:
    def __init__(self, access: Access, ledger: Ledger, findings: Findings) -> None:
        self._access = access
        self._ledger = ledger
        self._findings = findings
        self._silent = ""  # why the source is not asked any more
        self.compared = self.different = 0
        self.not_compared: Counter[tuple[str, str]] = Counter()  # by table and reason

    def take(self, sample: FileSample) -> None:
        try:
            reading = plan_reading(sample.file, self._access.topics)
            path, rows = self._read(sample, reading)
        except NotComparable as reason:
            self._skip(sample.file, str(reason), sample.rows)
            return
        topic, partition, offset, _ = reading.provenance
        shards = {(key.stream, key.shard): key for key in _shards_of(sample.file)}
        by_shard: dict[ShardKey | None, dict[int, list[Row]]] = defaultdict(dict)
        for row in rows:
            shard = shards.get((row[topic], str(row[partition])))
            by_shard[shard].setdefault(row[offset], []).append(row)
        for shard, of_shard in by_shard.items():
            if shard is None:
                self._skip(sample.file, STRANGE, sum(map(len, of_shard.values())))
            else:
                self._compare(sample.file, path, reading, shard, of_shard)

    def _read(self, sample: FileSample, reading: _FileReading) -> tuple[str, list[Row]]:
        file, storage = sample.file, self._access.storage
        for _ in range(2):  # a move in between is seen at the second look
            is_in_flight = self._ledger.is_in_flight(file)
            place = locate_file(storage, file, is_in_flight=is_in_flight)
            if place is None:
                break
            try:
                extension = file.target.extension
                if extension == "orc" and checksum_of(storage, place[0])[0] != file.file.checksum:
                    raise NotComparable(OTHER_BYTES)  # Arrow's reader may end the process
                rows = read_file_rows(storage, place, extension, reading.of_file, sample.blocks)
                return place[0], list(rows)
            except PathMissing:
                continue
            except Unreadable as error:
                raise NotComparable(f"a file cannot be read: {error}") from error
        raise NotComparable(FILE_GONE)

    def _compare(
        self,
        file: LoggedFile,
        path: str,
        reading: _FileReading,
        shard: ShardKey,
        rows: dict[int, list[Row]],
    ) -> None:
        try:
            records, earliest = self._fetch(shard, sorted(rows))
        except NotComparable as reason:
            self._skip(file, str(reason), sum(map(len, rows.values())))
            return
        for offset, of_offset in sorted(rows.items()):
            record = records.get(offset)
            if record is None:
                self._skip(file, EXPIRED if offset < earliest else NO_RECORD, len(of_offset))
                continue
            for row in of_offset:
                try:
                    found = reading.compare(row, shard, record)
                except NotComparable as reason:
                    self._skip(file, str(reason), 1)
                    continue
                self.compared += 1
                self.different += bool(found)
                for each in found:
                    column = f"column {each.column}: " if each.column else ""
                    text = f"{shard} offset {offset}, {column}the file has {each.in_table}, "
                    text += f"Kafka {each.in_source}"
                    problem = Problem(ProblemKind.VALUE, file.table, path, text, (offset,), each)
                    self._findings.add(problem)

    def _fetch(self, shard: ShardKey, offsets: Sequence[int]) -> tuple[dict[int, Record], int]:
        """Return the records at these offsets, and the first offset that there is.

        Raises NotComparable. The identity of the stream is asked last: what was read is its.
        """
        generations: Generations = self._ledger.generations
        newest, stream_id = generations.get((shard.source, shard.stream), (0, ""))
        source = self._access.source
        if shard.generation != newest or plain_source(shard.source) != source.name:
            raise NotComparable(REPLACED)
        if self._silent:
            raise NotComparable(self._silent)
        there = StreamShard(shard.stream, shard.shard)
        found: dict[int, Record] = {}
        offset_set = set(offsets)
        try:
            bounds = source.read_offsets([there])[there]
            inside = [each for each in offsets if bounds.earliest <= each < bounds.end]
            for stretch in _stretches(inside):
                for record in source.read_plain(there, stretch):
                    if record.offset in offset_set:
                        found[record.offset] = record
            info = source.describe_streams([shard.stream]).get(shard.stream)
        except OffsetsGone:
            raise NotComparable(EXPIRED) from None
        except SourceError as error:
            if isinstance(error, SourceUnreachable):
                self._silent = error.message
            raise NotComparable(error.message) from error
        if info is None or info.stream_id != stream_id:
            raise NotComparable(REPLACED)
        return found, bounds.earliest

    def _skip(self, file: LoggedFile, reason: str, rows: int) -> None:
        self.not_compared[file.target.table, reason] += rows


def plan_reading(file: LoggedFile, topics: Topics) -> _FileReading:
    """Return how the rows of a file are read and compared. Raises NotComparable."""
    target = file.target
    if not file.file.spans:
        raise NotComparable(WRITTEN_BY_SQL)
    schema = parse_ddl(target.schema)
    if target.role is Role.DEAD:
        columns = (*_DEAD_PROVENANCE, *_DEAD_COLUMNS)
        of_file = Schema(tuple(each for each in schema.fields if each.name in columns))
        generation, headers = (
            each if each in schema.names else "" for each in (_DEAD_GENERATION, _DEAD_HEADERS)
        )
        return _FileReading(target, of_file, of_file, _DEAD_PROVENANCE, generation, headers, topics)
    headers, generation, count = _find_provenance(schema)
    for shard in _shards_of(file):
        resolved = topics.get(shard.stream)
        if resolved is None:
            raise NotComparable(NO_TOPIC)
        if resolved.spec.select or resolved.spec.where:
            raise NotComparable(BY_SPARK)
    in_path = dict(target.values)
    of_file = Schema(tuple(each for each in schema.fields if each.name not in in_path))
    of_value = Schema(schema.fields[:-count])
    return _FileReading(target, of_file, of_value, PROVENANCE_COLUMNS, generation, headers, topics)


def _find_provenance(schema: Schema) -> tuple[str, str, int]:
    """Return the columns of headers and generation, if any; and how many the provenance has.

    Raises NotComparable where rows have none.
    """
    last = schema.names
    headers = HEADERS_COLUMN if last[-1:] == [HEADERS_COLUMN] else ""
    before = last[:-1] if headers else last
    generation = GENERATION_COLUMN if before[-1:] == [GENERATION_COLUMN] else ""
    columns = (*PROVENANCE_COLUMNS, *filter(None, (generation, headers)))
    if tuple(last[-len(columns) :]) != columns:
        raise NotComparable(NO_OFFSETS)
    return headers, generation, len(columns)


def _as_client_reads(headers: list[Row] | None) -> list[Row] | None:
    """Return headers as Python's client has them: it takes a key to end at its first NUL."""
    if headers is None:
        return None
    return [{**each, "key": each["key"].partition("\0")[0]} for each in headers]


def kept_time_us(time_ms: int | None, extension: str) -> int | None:
    """Return what a table keeps of the timestamp of a record: see Times in records.md."""
    if time_ms is None:
        return None
    if extension == "orc" and (time_ms < _ORC_FIRST_MS or (time_ms < 0 and time_ms % 1_000)):
        return None
    return time_ms * 1_000


def _shards_of(file: LoggedFile) -> set[ShardKey]:
    return {file.parts[span.shard].shard for span in file.file.spans}


def _stretches(offsets: Iterable[int]) -> Iterator[OffsetRange]:
    """Yield ranges that hold all `offsets`, which ascend."""
    start = end = None
    for each in offsets:
        if start is None or end is None:
            start = each
        elif each - end > GAP_OFFSETS:
            yield OffsetRange(start, end)
            start = each
        end = each + 1
    if start is not None and end is not None:
        yield OffsetRange(start, end)


def shorten(value: object) -> str:
    """Return a value as people see it, cut where it is long."""
    text = repr(value)
    return text if len(text) <= SHOWN_CHARACTERS else f"{text[:SHOWN_CHARACTERS]}..."
