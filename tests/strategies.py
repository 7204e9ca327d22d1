"""Logs for tests: `Chain` grows a valid one by hand, the strategies draw values and whole logs.

What it promises: every log of `chains` follows all rules of the protocol; every value of `bodies`
has the form of an entry, whether or not it makes sense.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from hypothesis import settings
from hypothesis import strategies as st

from ashore.log.entries import (
    Begin,
    Body,
    Closing,
    Commit,
    Compact,
    DeferredAction,
    Define,
    Draft,
    Entry,
    FailedTries,
    FilePart,
    Join,
    Joined,
    LeaveOut,
    Migrate,
    MigratedOperator,
    Open,
    Plan,
    Prepare,
    Query,
    Reland,
    ReplacedFile,
    ResetClock,
    Retire,
    RetiredPartition,
    Rollback,
    Seal,
    SealedPartition,
    ShardRead,
    Skip,
    Version,
    Withdrawn,
    write_entry,
)
from ashore.log.extend import extend
from ashore.log.files import DataFile, FileSpan, Role, TableCommit, Target
from ashore.log.fold import EMPTY, Fold
from ashore.log.positions import BatchTime, OffsetRange, ShardKey, ShardRange
from ashore.log.query import Letter
from ashore.log.tables import TableColumn, TableDefinition

# A test on a busy machine is not wrong because it is slow.
settings.register_profile("ashore", deadline=None)
settings.load_profile("ashore")

START_MS = 1_795_248_000_000
TABLE = "ods.clicks"


def key_of(shard: object = 0, stream: str = "clicks", generation: int = 1) -> ShardKey:
    """Return a shard's key."""
    return ShardKey("kafka", stream, generation, str(shard))


def target_of(hour: int = 8, table: str = TABLE, role: Role = Role.MAIN) -> Target:
    """Return one hour of a table."""
    partition = f"date=2026-11-21/hour={hour:02d}"
    values = (("date", "2026-11-21"), ("hour", f"{hour:02d}"))
    return Target(table, role, partition, values, "id BIGINT", "parquet")


class Part(NamedTuple):
    """What a batch does with one shard: so many offsets, of which so many records per hour."""

    key: ShardKey
    size: int
    rows: Mapping[int, int]  # hour to rows
    dead: int = 0
    dropped: int = 0


class Chain:
    """A log that grows in memory. Whatever is appended must follow, or LogDamaged is raised."""

    def __init__(self) -> None:
        self.fold = EMPTY
        self.entries: list[Entry] = []
        self.data: list[bytes] = []
        self.epoch = 0
        self._names = 0

    @classmethod
    def started(cls, *keys: ShardKey) -> "Chain":
        """Return a log with an `open` and a `join` of these shards at offset 0."""
        chain = cls()
        chain.open()
        chain.join(*(keys or (key_of(),)))
        return chain

    def draft(self, body: Body, closing: Closing | None = None, **changes: object) -> Draft:
        """Return the next entry as a draft, with some of its fields changed."""
        number = self.fold.end + 1
        fields: dict[str, object] = {
            "number": number,
            "id": f"{number:032x}",
            "epoch": self.epoch,
            "written_ms": START_MS + number,
            "previous": self.fold.last,
            "closing": closing,
            "body": body,
        }
        return Draft(**{**fields, **changes})

    def append(self, draft: Draft) -> Fold:
        """Append a draft as it is."""
        entry, data = write_entry(draft)
        self.fold = extend(self.fold, entry)
        self.entries.append(entry)
        self.data.append(data)
        return self.fold

    def add(
        self, body: Body, deferred: Sequence[DeferredAction] = (), done: Sequence[str] = ()
    ) -> Fold:
        """Append an entry that closes the unclosed one, all of it moved and registered."""
        return self.append(self.draft(body, self.closing(deferred, done)))

    def closing(
        self, deferred: Sequence[DeferredAction] = (), done: Sequence[str] = ()
    ) -> Closing | None:
        """Return the closing that the next entry needs."""
        unclosed = self.fold.unclosed
        if unclosed is None:
            closing = Closing(None, 0, 0, registered=False, deferred=(), done=tuple(done))
            return closing if done else None
        files = () if isinstance(unclosed.body, Seal) else unclosed.body.files
        return Closing(
            unclosed.number,
            len(files),
            0,
            registered=True,
            deferred=tuple(deferred),
            done=tuple(done),
        )

    def open(self, *, looks_back: bool = False) -> Fold:
        """Take over."""
        self.epoch += 1
        return self.append(self.draft(Open("host", 1, "0.1.0", looks_back)))

    def join(self, *keys: ShardKey, first: int = 0) -> Fold:
        """Join shards. Each generation of a stream has an identity of its own."""
        joined = (
            Joined(key, f"id-{key.stream}-{key.generation}", first, "earliest") for key in keys
        )
        return self.add(Join(tuple(joined)))

    def prepare(
        self, *parts: Part, deferred: Sequence[DeferredAction] = (), done: Sequence[str] = ()
    ) -> Fold:
        """Prepare a batch; without parts: three rows of each current shard."""
        parts = parts or tuple(Part(key, 3, {8: 3}) for key in sorted(self.fold.current()))
        return self.add(self.batch(*parts), deferred, done)

    def commit(self, reason: str = "idle") -> Fold:
        """Close the unclosed entry; where there is none, append an entry that says nothing."""
        closing = self.closing() or Closing(None, 0, 0, registered=False, deferred=(), done=())
        return self.append(self.draft(Commit(reason), closing))

    def batch(self, *parts: Part) -> Prepare:
        """Return the body of the next batch: one file a shard and hour."""
        targets: dict[Target, int] = {}
        reads: list[ShardRead] = []
        files: list[DataFile] = []
        for index, part in enumerate(parts):
            start = self.fold.shards[part.key].next
            landed = sum(part.rows.values())
            kinds = [(target_of(hour), rows) for hour, rows in part.rows.items()]
            if part.dead:
                kinds.append((target_of(0, f"{TABLE}__dead", Role.DEAD), part.dead))
            for target, rows in kinds:
                span = FileSpan(index, start, start + part.size, rows)
                files.append(self.file(targets.setdefault(target, len(targets)), index, span))
            fetched = landed + part.dead + part.dropped
            reads.append(
                ShardRead(
                    key=part.key,
                    offsets=OffsetRange(start, start + part.size),
                    table=TABLE,
                    fetched=fetched,
                    landed=landed,
                    dead=part.dead,
                    filtered=0,
                    dropped=part.dropped,
                    size_bytes=100 * fetched,
                    event_max_ms=START_MS + start if landed else None,
                )
            )
        return Prepare(
            batch=self.fold.next_batch,
            time=BatchTime(max(START_MS, self.fold.now_ms)),
            shards=tuple(reads),
            targets=tuple(targets),
            files=tuple(files),
            counters=(("unknown_fields", 1),),
            query=None,
        )

    def query_batch(self, query: Query, *parts: Part) -> Prepare:
        """Return the body of the next batch of a query: its rows come from no offset."""
        body = self.batch(*parts)
        return replace(
            body,
            shards=tuple(replace(each, fetched=0, landed=0) for each in body.shards),
            files=tuple(replace(each, spans=()) for each in body.files),
            query=query,
        )

    def file(self, target: int, task: int, span: FileSpan) -> DataFile:
        """Return a file with a name that was never used in this log."""
        self._names += 1
        unique = f"{self._names:016x}"
        return DataFile(target, task, unique, span.rows, 1000, "0" * 16, (span,), 1, 2)

    def reland(self, *lost: DataFile) -> Reland:
        """Return the body that lands some files of the unclosed entry again."""
        unclosed = self.fold.unclosed
        body = unclosed.body
        keys = body.shards if isinstance(body, Reland) else tuple(read.key for read in body.shards)
        again = tuple(
            self.file(file.target, file.task, span) for file in lost for span in file.spans
        )
        return Reland(
            entry=unclosed.number,
            batch=body.batch,
            time=body.time,
            lost=tuple(file.unique for file in lost),
            shards=keys,
            targets=body.targets,
            files=again,
        )

    def accept_loss(self, *lost: DataFile) -> Skip:
        """Return the body that gives some files of the unclosed entry up."""
        unclosed = self.fold.unclosed
        shards = unclosed.body.shards
        keys = shards if isinstance(unclosed.body, Reland) else [read.key for read in shards]
        rows: dict[ShardKey, int] = {}
        for file in lost:
            for span in file.spans:
                rows[keys[span.shard]] = rows.get(keys[span.shard], 0) + span.rows
        names = tuple(file.unique for file in lost)
        return Skip((), unclosed.number, names, tuple(sorted(rows.items())), "ana", "disk died")


# ---- values of every kind, whether or not they make sense

numbers = st.integers(min_value=-(2**70), max_value=2**70)
texts = st.text(max_size=20) | st.sampled_from(["\ud800", '","checksum":"', "\n\r\u2028", "é"])


def _pairs(
    left: st.SearchStrategy[object], right: st.SearchStrategy[object]
) -> st.SearchStrategy[tuple[object, ...]]:
    return st.lists(st.tuples(left, right), max_size=3).map(tuple)


def _many(each: st.SearchStrategy[object]) -> st.SearchStrategy[tuple[object, ...]]:
    return st.lists(each, max_size=3).map(tuple)


offset_ranges = st.tuples(st.integers(0, 2**63), st.integers(0, 2**63)).map(
    lambda pair: OffsetRange(min(pair), max(pair))
)
shard_keys = st.builds(ShardKey, texts, texts, numbers, texts)
targets = st.builds(
    Target,
    table=st.from_regex(r"[A-Za-z][A-Za-z0-9_]{0,9}\.[A-Za-z][A-Za-z0-9_]{0,9}", fullmatch=True),
    role=st.sampled_from(Role),
    partition=st.sampled_from(["", "day=1", "date=2026-11-21/hour=08", "name=%2F é"]),
    values=_pairs(texts, st.none() | texts),
    schema=texts,
    extension=texts,
)
files = st.builds(
    DataFile,
    target=numbers,
    task=numbers,
    unique=texts,
    rows=numbers,
    size_bytes=numbers,
    checksum=texts,
    spans=_many(st.builds(FileSpan, numbers, numbers, numbers, numbers)),
    event_min_ms=st.none() | numbers,
    event_max_ms=st.none() | numbers,
)
closings = st.builds(
    Closing,
    entry=st.none() | numbers,
    moved=numbers,
    already_moved=numbers,
    registered=st.booleans(),
    deferred=_many(st.builds(DeferredAction, texts, texts, texts, texts)),
    done=_many(texts),
    failed=_many(st.builds(FailedTries, texts, numbers, numbers, texts)),
    abandoned=texts,
)
batch_times = st.builds(BatchTime, numbers, _pairs(texts, numbers))
shard_reads = st.builds(
    ShardRead,
    key=shard_keys,
    offsets=offset_ranges,
    table=texts,
    fetched=numbers,
    landed=numbers,
    dead=numbers,
    filtered=numbers,
    dropped=numbers,
    size_bytes=numbers,
    event_max_ms=st.none() | numbers,
)
definitions = st.builds(
    TableDefinition,
    table=texts,
    columns=_many(st.builds(TableColumn, texts, texts, st.booleans())),
    partition_by=_many(texts),
    zone=texts,
    format=texts,
    provenance=st.booleans(),
    topics=_many(texts),
    headers=st.booleans(),
    generation=st.booleans(),
    rules=_many(st.tuples(texts, texts)),
)
MIGRATES = st.builds(
    Migrate,
    *(texts, texts, texts, numbers, numbers, texts),
    _many(st.builds(MigratedOperator, texts, texts, texts)),
    *(texts, texts, st.none() | numbers),
    tables=_many(definitions),
)
KIND_STRATEGIES: dict[str, st.SearchStrategy[Body]] = {
    "open": st.builds(Open, texts, numbers, texts, st.booleans()),
    "join": st.builds(Join, _many(st.builds(Joined, shard_keys, texts, numbers, texts))),
    "prepare": st.builds(
        Prepare,
        batch=numbers,
        time=batch_times,
        shards=_many(shard_reads),
        targets=_many(targets),
        files=_many(files),
        counters=_pairs(texts, numbers),
        query=st.none() | st.builds(Query, texts, numbers, texts, numbers),
    ),
    "commit": st.builds(Commit, texts),
    "reland": st.builds(
        Reland,
        entry=numbers,
        batch=numbers,
        time=batch_times,
        lost=_many(texts),
        shards=_many(shard_keys),
        targets=_many(targets),
        files=_many(files),
    ),
    "seal": st.builds(
        Seal,
        _many(st.builds(SealedPartition, texts, texts, numbers, numbers, numbers, numbers)),
        _many(texts),
        _pairs(texts, numbers),
    ),
    "skip": st.builds(
        Skip,
        ranges=_many(st.builds(ShardRange, shard_keys, offset_ranges)),
        entry=st.none() | numbers,
        lost=_many(texts),
        lost_rows=_pairs(shard_keys, numbers),
        by=texts,
        why=texts,
    ),
    "migrate": MIGRATES,
    "rollback": st.builds(
        Rollback,
        entry=numbers,
        query=st.builds(Query, texts, numbers, texts, numbers),
        before=texts,
        shards=_many(st.builds(ShardRange, shard_keys, offset_ranges)),
        targets=_many(targets),
        files=_many(st.builds(Withdrawn, numbers, numbers, files)),
        by=texts,
        why=texts,
        dead=_pairs(shard_keys, numbers),
        undo=st.none() | MIGRATES,
        tables=_many(definitions),
    ),
    "plan": st.builds(Plan, texts, texts),
    "begin": st.builds(
        Begin,
        query=st.builds(Query, texts, numbers, texts, numbers),
        shards=_many(st.builds(Joined, shard_keys, texts, numbers, texts)),
        digest=texts,
        document=texts,
        owner=texts,
        savepoint=texts,
        by=texts,
        why=texts,
    ),
    "reset_clock": st.builds(ResetClock, numbers, _pairs(texts, numbers), texts, texts),
    "retire": st.builds(Retire, _many(st.builds(RetiredPartition, texts, texts)), texts, texts),
    "define": st.builds(Define, _many(definitions), _many(texts), texts, _many(texts)),
    "version": st.builds(Version, numbers, st.none() | numbers, numbers, texts, texts),
    "compact": st.builds(
        Compact,
        batch=numbers,
        base=numbers,
        replaced=_many(st.builds(ReplacedFile, texts, numbers, numbers, texts)),
        parts=_many(st.builds(FilePart, numbers, shard_keys)),
        targets=_many(targets),
        files=_many(files),
        commit=st.builds(TableCommit, texts, texts, numbers, numbers, numbers, texts),
    ),
    "leave_out": st.builds(LeaveOut, _many(st.builds(Letter, shard_keys, numbers, texts))),
}
bodies = st.one_of(*KIND_STRATEGIES.values())
drafts = st.builds(
    Draft,
    number=numbers,
    id=texts,
    epoch=numbers,
    written_ms=numbers,
    previous=st.none() | texts,
    closing=st.none() | closings,
    body=bodies,
)


# ---- whole logs


@st.composite
def chains(draw: st.DrawFn, size_max: int = 20) -> Chain:
    """Draw a log that follows all rules, with every kind of entry in it now and then."""
    chain = Chain.started(key_of(0), key_of(1), key_of(0, "views"))
    for _ in range(draw(st.integers(0, size_max))):
        _grow(draw, chain)
    return chain


def _grow(draw: st.DrawFn, chain: Chain) -> None:
    unclosed = chain.fold.unclosed
    files = () if unclosed is None or isinstance(unclosed.body, Seal) else unclosed.body.files
    kinds = ["open", "join", "prepare", "prepare", "commit", "seal", "skip", "retire", "define"]
    if chain.fold.latest_ms > 0:
        kinds.append("reset_clock")
    if files:
        kinds += ["reland", "loss"]
    deferred, done = _draw_effects(draw, chain)
    match draw(st.sampled_from(kinds)):
        case "open":
            chain.open()
        case "join":
            chain.join(_draw_new_shard(draw, chain.fold))
        case "prepare":
            chain.add(chain.batch(*_draw_parts(draw, chain.fold)), deferred, done)
        case "commit":
            chain.commit()
        case "seal":
            chain.add(_draw_seal(draw, chain.fold), deferred, done)
        case "skip":
            state = draw(st.sampled_from(list(chain.fold.shards.values())))
            gap = OffsetRange(state.next, state.next + draw(st.integers(0, 5)))
            chain.add(
                Skip((ShardRange(state.key, gap),), None, (), (), "ana", "gap"), deferred, done
            )
        case "retire":
            gone = draw(st.lists(st.sampled_from([8, 9, 10]), unique=True, min_size=1))
            partitions = tuple(RetiredPartition(TABLE, target_of(hour).partition) for hour in gone)
            chain.add(Retire(partitions, "ana", "old"), deferred, done)
        case "define":
            defined = draw(st.lists(definitions, max_size=2, unique_by=lambda each: each.table))
            chain.add(Define(tuple(defined), (), ""), deferred, done)
        case "reset_clock":
            chain.add(_draw_reset(draw, chain.fold), deferred, done)
        case "reland":
            chain.add(chain.reland(*_draw_some(draw, files)), deferred, done)
        case "loss":
            chain.add(chain.accept_loss(*_draw_some(draw, files)), deferred, done)


def _draw_reset(draw: st.DrawFn, fold: Fold) -> ResetClock:
    now_ms = draw(st.integers(0, fold.latest_ms - 1))
    kept = {
        table: draw(st.integers(min(0, watermark_ms), watermark_ms))
        for table, watermark_ms in fold.watermarks.items()
        if draw(st.booleans())
    }
    return ResetClock(now_ms, tuple(kept.items()), "ana", "the clock was ahead")


def _draw_some(draw: st.DrawFn, files: Sequence[DataFile]) -> list[DataFile]:
    return draw(st.lists(st.sampled_from(files), min_size=1, unique_by=lambda file: file.unique))


def _draw_effects(draw: st.DrawFn, chain: Chain) -> tuple[list[DeferredAction], list[str]]:
    deferred: list[DeferredAction] = []
    if chain.fold.unclosed is not None and draw(st.booleans()):
        hour = draw(st.sampled_from([8, 9]))
        name = f"register:{hour}:{chain.fold.end}"
        deferred.append(DeferredAction(name, "register", TABLE, target_of(hour).partition))
    known = sorted(chain.fold.deferred)
    done = draw(st.lists(st.sampled_from(known), unique=True)) if known else []
    return deferred, done


def _draw_new_shard(draw: st.DrawFn, fold: Fold) -> ShardKey:
    stream = draw(st.sampled_from(["clicks", "views", "carts"]))
    known = fold.generation("kafka", stream)
    generation = known[0] + draw(st.integers(0, 1)) if known else 1
    count = sum((each.stream, each.generation) == (stream, generation) for each in fold.shards)
    return key_of(count, stream, generation)


def _draw_parts(draw: st.DrawFn, fold: Fold) -> list[Part]:
    keys = draw(st.lists(st.sampled_from(sorted(fold.current())), unique=True))
    parts = []
    for key in keys:
        hours = draw(st.dictionaries(st.sampled_from([8, 9, 10]), st.integers(1, 5), max_size=2))
        dead, dropped = draw(st.integers(0, 2)), draw(st.integers(0, 2))
        size = sum(hours.values()) + dead + dropped + draw(st.integers(0, 3))
        parts.append(Part(key, size, hours, dead, dropped))
    return parts


def _draw_seal(draw: st.DrawFn, fold: Fold) -> Seal:
    sealed = []
    for hour in draw(st.lists(st.sampled_from([8, 9, 10]), unique=True, min_size=1)):
        partition = target_of(hour).partition
        state = fold.partitions.get((TABLE, partition))
        version = state.sealed_version + 1 if state else 1
        rows = state.rows if state else 0
        sealed.append(SealedPartition(TABLE, partition, version, rows, rows, fold.now_ms))
    return Seal(tuple(sealed), ("success_file",), (("main", fold.end),))
