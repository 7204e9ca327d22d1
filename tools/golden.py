"""The golden files of the landing log: `python -m tools.golden` writes those that are missing.

What it is: one small log that holds an entry of every kind, a snapshot of it, an archive.
What it promises: the same bytes on every machine. A file that is there is never written again: the
bytes of a format version do not change; another form is another format version.
What it must not know: tests; they compare.
"""

import gzip
import io
import sys
from dataclasses import replace
from pathlib import Path

from ashore.log.entries import (
    Begin,
    Body,
    Closing,
    Commit,
    Compact,
    DeferredAction,
    Define,
    Draft,
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
    read_entry,
    write_entry,
)
from ashore.log.extend import extend
from ashore.log.files import BatchPlace, DataFile, FileSpan, Role, TableCommit, Target
from ashore.log.fold import EMPTY, Fold
from ashore.log.names import ARCHIVE_ENTRIES, SliceName
from ashore.log.positions import BatchTime, OffsetRange, ShardKey, ShardRange
from ashore.log.query import Letter, MappingEdit, link
from ashore.log.snapshot import write_snapshot
from ashore.log.tables import TableColumn, TableDefinition

DIRECTORY = Path(__file__).parent.parent / "tests" / "golden"
START_MS = 1_795_248_000_000  # 2026-11-21 08:00 UTC

KEY = ShardKey("kafka", "clicks", 1, "0")
OTHER = ShardKey("kafka", "clicks", 1, "1")
TARGET = Target(
    table="ods.clicks",
    role=Role.MAIN,
    partition="date=2026-11-21/hour=16",
    values=(("date", "2026-11-21"), ("hour", "16")),
    schema="id BIGINT, ts BIGINT",
    extension="parquet",
)
DEAD = Target("ods.clicks__dead", Role.DEAD, "", (), "topic STRING, value BINARY", "parquet")
REGISTER = DeferredAction(
    "register:ods.clicks:date=2026-11-21/hour=16", "register", TARGET.table, TARGET.partition
)
WATERMARKS = (("ods.clicks", START_MS - 30_000),)


def build_golden() -> dict[str, bytes]:
    """Return the golden files by their names."""
    log = _Log()
    log.add(Open("worker-7", 4711, "0.1.0"))
    log.add(
        Join((Joined(KEY, _STREAM, 100, "latest"), Joined(OTHER, _STREAM, 0, "earliest"))), None
    )
    log.add(_prepare(), None)
    in_vain = log.draft(Commit("idle"), Closing(2, 1, 1, False, (REGISTER,), (), (_FAILED,)))
    log.add(Commit("idle"), Closing(2, 1, 1, registered=False, deferred=(REGISTER,), done=()))
    log.add(
        Seal(
            (SealedPartition("ods.clicks", TARGET.partition, 1, 5, 5, START_MS),),
            ("success_file",),
            (("main", 3),),
        ),
        Closing(None, 0, 0, registered=False, deferred=(), done=(REGISTER.id,)),
    )
    log.add(Commit("idle"), Closing(4, 0, 0, registered=False, deferred=(), done=()))
    snapshot = write_snapshot(log.fold)
    log.add(
        Skip((ShardRange(KEY, OffsetRange(106, 110)),), None, (), (), "josé", "expired in Kafka"),
        None,
    )
    log.add(_second(), None)
    log.add(_reland(), Closing(7, 0, 0, registered=True, deferred=(), done=()))
    log.add(
        Retire((RetiredPartition("ods.clicks", TARGET.partition),), "ana", "older than a year"),
        Closing(8, 1, 0, registered=True, deferred=(), done=()),
    )
    counted = Retire(
        (RetiredPartition("ods.clicks", TARGET.partition),),
        *("job", "retention", (("retired_files", 3), ("retired_partitions", 1))),
    )
    files = {"snapshot.json": snapshot, "archive.gz": _archive()}
    files["entry-retire-counted.json"] = write_entry(log.draft(counted))[1]
    files |= {**_query_files(), **_aside_files(), **_table_files(), **_leader_files()}
    files |= {**_begin_files(), **_compact_files()}
    files["entry-commit-failed.json"] = write_entry(in_vain)[1]
    for number in (0, 1, 2, 3, 4, 6, 8, 9):
        kind, data = log.entries[number]
        files[f"entry-{kind}.json"] = data
    files["entry-open-looks.json"] = write_entry(_again())[1]
    files["log.jsonl"] = b"".join(data for _, data in log.entries)
    log.add(ResetClock(START_MS + 5_000, WATERMARKS, "ana", "the clock was two seconds ahead"))
    files["entry-reset_clock.json"] = log.entries[10][1]
    return files


_FAILED = FailedTries("register", 2, START_MS + 2_500, "no metastore answers")
_LETTER = Letter(
    ShardKey("kafka:ods__per_minute", "clicks", 1, "0"),
    107,
    'The value \'x\' of the type "STRING" cannot be cast to "INT" (CAST_INVALID_INPUT)',
)
_STREAM = "Vf3l8Qm2TJeXvI0n8y1c2A"


class _Log:
    def __init__(self) -> None:
        self.fold: Fold = EMPTY
        self.entries: list[tuple[str, bytes]] = []

    def draft(self, body: Body, closing: Closing | None = None) -> Draft:
        number = self.fold.end + 1
        epoch = max(self.fold.epoch, 1)
        written_ms = START_MS + 1000 * number
        return Draft(number, f"{number:032x}", epoch, written_ms, self.fold.last, closing, body)

    def add(self, body: Body, closing: Closing | None = None) -> None:
        entry, data = write_entry(self.draft(body, closing))
        self.fold = extend(self.fold, entry)
        self.entries.append((entry.kind, data))


def _file(task: int, target: int, span: FileSpan) -> DataFile:
    return DataFile(
        target=target,
        task=task,
        unique=f"{0xC0FFEE00 + task:016x}",
        rows=span.rows,
        size_bytes=1000 + task,
        checksum="9f86d081884c7d65",
        spans=(span,),
        event_min_ms=START_MS - 9_000 if target == 0 else None,
        event_max_ms=START_MS - 1_000 if target == 0 else None,
    )


def _prepare() -> Prepare:
    read = ShardRead(KEY, OffsetRange(100, 106), "ods.clicks", 6, 5, 1, 0, 0, 750, START_MS - 1_000)
    return Prepare(
        batch=0,
        time=BatchTime(START_MS + 2_000, WATERMARKS),
        shards=(read, ShardRead(OTHER, OffsetRange(0, 0), "ods.clicks", 0, 0, 0, 0, 0, 0, None)),
        targets=(TARGET, DEAD),
        files=(_file(0, 0, FileSpan(0, 100, 106, 5)), _file(1, 1, FileSpan(0, 103, 104, 1))),
        counters=(("unknown_fields", 2),),
        query=None,
    )


def _second() -> Prepare:
    read = ShardRead(KEY, OffsetRange(110, 113), "ods.clicks", 3, 3, 0, 0, 0, 375, START_MS)
    files = (_file(2, 0, FileSpan(0, 110, 113, 3)),)
    now_ms = START_MS + 7_000
    return Prepare(1, BatchTime(now_ms, WATERMARKS), (read,), (TARGET,), files, (), None)


def _aside_files() -> dict[str, bytes]:
    """Return a batch of a streaming query that has left a record aside."""
    log = _Log()
    log.add(Open("worker-7", 4711, "0.1.0"))
    key = ShardKey("kafka:ods__big", "clicks", 1, "0")
    log.add(Join((Joined(key, _STREAM, 100, "earliest"),)))
    read = ShardRead(key, OffsetRange(100, 106), "ods.big", 1, 0, 1, 0, 0, 125, None)
    targets = (
        Target("ods.big", Role.MAIN, "", (), "id BIGINT", "parquet"),
        replace(DEAD, table="ods.big__dead"),
    )
    rows = DataFile(0, 0, "00000000c0ffee00", 5, 1000, "9f86d081884c7d65", (), None, None)
    query = Query(
        "2f1c8a52-7f0e-4f7c-9a0f-3d9b7b1f0c11",
        0,
        link("", "0" * 64, [ShardRange(key, read.offsets)]),
    )
    files = (rows, _file(1, 1, FileSpan(0, 103, 104, 1)))
    log.add(Prepare(0, BatchTime(START_MS + 2_000), (read,), targets, files, (), query))
    planned = replace(query, planned_ms=START_MS + 1_900)
    body = Prepare(0, BatchTime(START_MS + 2_000), (read,), targets, files, (), planned)
    timed = write_entry(log.draft(body, Closing(2, 2, 0, True, (), ())))[1]
    return {"aside-prepare.json": log.entries[2][1], "planned-prepare.json": timed}


def _query_files() -> dict[str, bytes]:
    """Return the first batch of a streaming query, and a snapshot after it."""
    log = _Log()
    log.add(Open("worker-7", 4711, "0.1.0"))
    key = ShardKey("kafka:ods__per_minute", "clicks", 1, "0")
    log.add(Join((Joined(key, _STREAM, 100, "earliest"),)))
    target = Target("ods.per_minute", Role.MAIN, "", (), "minute TIMESTAMP, n BIGINT", "parquet")
    read = ShardRead(key, OffsetRange(100, 106), target.table, 0, 0, 0, 0, 0, 0, None)
    file = DataFile(0, 0, "00000000c0ffee00", 3, 1000, "9f86d081884c7d65", (), None, None)
    lineage = link("", "0" * 64, [ShardRange(key, read.offsets)])
    query = Query("2f1c8a52-7f0e-4f7c-9a0f-3d9b7b1f0c11", 0, lineage)
    log.add(Prepare(0, BatchTime(START_MS + 2_000), (read,), (target,), (file,), (), query))
    log.add(Commit("query"), Closing(2, 1, 0, registered=False, deferred=(), done=()))
    snapshot = write_snapshot(log.fold)
    again = ShardRead(key, OffsetRange(106, 110), target.table, 0, 0, 0, 0, 0, 0, None)
    linked = link(lineage, "0" * 64, [ShardRange(key, again.offsets)])
    later = replace(query, batch_id=1, lineage=linked)
    file = replace(file, unique="00000000c0ffee01")
    log.add(Prepare(1, BatchTime(START_MS + 4_000), (again,), (target,), (file,), (), later))
    body = Rollback(
        entry=2,
        query=query,
        before="",
        shards=(ShardRange(key, again.offsets),),
        targets=(target,),
        files=(Withdrawn(1, 1, file),),
        by="ana",
        why="the SQL was wrong",
    )
    closing = Closing(4, 1, 0, registered=False, deferred=(), done=())
    led = write_entry(log.draft(replace(body, leader_epochs=((key, 3),)), closing))[1]
    left = write_entry(log.draft(replace(body, left_out=(_LETTER,)), closing))[1]
    undone = write_entry(log.draft(replace(body, dead=((key, 2),)), closing))[1]
    log.add(body, closing)
    return {
        **_plan_files(log),
        "dead-rollback.json": undone,
        "leader-rollback.json": led,
        "aside-rollback.json": left,
        "query-prepare.json": log.entries[2][1],
        "query-snapshot.json": snapshot,
        "entry-rollback.json": log.entries[5][1],
    }


def _plan_files(log: _Log) -> dict[str, bytes]:
    """Return the plan that a query goes on by, and a snapshot after it."""
    log.add(Commit("recovery"), Closing(5, 1, 0, registered=False, deferred=(), done=()))
    log.add(Plan("0" * 64, '{"planner":"Spark 4.2.0, graphs 1"}'))
    planned = write_snapshot(log.fold)
    log.add(Version(1, None, 1, "1" * 64, '{"job":"clicks"}'))
    versioned = write_snapshot(log.fold)
    log.add(LeaveOut((_LETTER,)))
    return {
        "entry-plan.json": log.entries[7][1],
        "plan-snapshot.json": planned,
        "entry-version.json": log.entries[8][1],
        "version-snapshot.json": versioned,
        "entry-leave_out.json": log.entries[9][1],
        "aside-snapshot.json": write_snapshot(log.fold),
        **_migration_files(log),
    }


def _migration_files(log: _Log) -> dict[str, bytes]:
    """Return a migration, a snapshot after it, and its undo with and without a rollback."""
    mapping = (MigratedOperator("n3", "n2", "digest"),)
    planner = '{"planner":"Spark 4.2.0, graphs 1"}'
    body = Migrate(
        digest="2" * 64,
        document=planner,
        before="0" * 64,
        batch=0,
        attempt=1,
        savepoint="hdfs://lake/savepoints/per_minute-0",
        mapping=mapping,
        by="ana",
        why="only orders that are paid",
    )
    edited = replace(body, pinned=(MappingEdit("n3", "n2"),), forbidden=(MappingEdit("n3", "n4"),))
    edited_bytes = write_entry(log.draft(edited, None))[1]
    edited_fold = extend(log.fold, read_entry(edited_bytes))
    log.add(body)
    back = replace(body, digest="0" * 64, before="2" * 64, mapping=(), undoes=10)
    (key,) = log.fold.shards
    rolled = Rollback(
        entry=2,
        query=Query("2f1c8a52-7f0e-4f7c-9a0f-3d9b7b1f0c11", 0, "3" * 64),
        before="",
        shards=(ShardRange(key, OffsetRange(106, 110)),),
        targets=(),
        files=(),
        by="ana",
        why="it was the wrong country",
        undo=back,
    )
    table = TableDefinition(
        table="ods.per_minute",
        columns=(TableColumn("minute", "TIMESTAMP", nullable=False),),
        partition_by=(),
        zone="UTC",
        format="parquet",
        provenance=False,
        topics=(),
    )
    tabled = replace(rolled, undo=replace(back, tables=(table,)))
    return {
        "table-rollback.json": write_entry(log.draft(tabled, None))[1],
        "entry-migrate.json": log.entries[10][1],
        "migrate-snapshot.json": write_snapshot(log.fold),
        "edited-migrate.json": edited_bytes,
        "edited-snapshot.json": write_snapshot(edited_fold),
        "undo-migrate.json": write_entry(log.draft(back, None))[1],
        "undo-rollback.json": write_entry(log.draft(rolled, None))[1],
    }


def _begin_files() -> dict[str, bytes]:
    """Return the beginning of a log that goes on from a savepoint, and a snapshot after a batch."""
    log = _Log()
    log.add(Open("worker-7", 4711, "0.1.0"))
    key = ShardKey("kafka:ods__anew", "clicks", 1, "0")
    query = Query("2f1c8a52-7f0e-4f7c-9a0f-3d9b7b1f0c11", 118, "a" * 64, START_MS - 1_000)
    body = Begin(
        query=query,
        shards=(Joined(key, _STREAM, 100, "savepoint"),),
        digest="0" * 64,
        document='{"planner":"Spark 4.2.0, graphs 1"}',
        owner="clicks/ods__per_minute",
        savepoint="/saved/savepoint-118-3f9c0a12b4d5e6f7",
        by="ana",
        why="the table is moved",
    )
    log.add(body)
    target = Target("ods.anew", Role.MAIN, "", (), "minute TIMESTAMP, n BIGINT", "parquet")
    read = ShardRead(key, OffsetRange(100, 106), target.table, 0, 0, 0, 0, 0, 0, None)
    file = DataFile(0, 0, "00000000c0ffee00", 3, 1000, "9f86d081884c7d65", (), None, None)
    linked = link(query.lineage, "0" * 64, [ShardRange(key, read.offsets)])
    next_one = Query(query.query_id, 119, linked, START_MS + 1_900)
    log.add(Prepare(0, BatchTime(START_MS + 2_000), (read,), (target,), (file,), (), next_one))
    log.add(Commit("query"), Closing(2, 1, 0, registered=False, deferred=(), done=()))
    return {
        "entry-begin.json": log.entries[1][1],
        "begin-snapshot.json": write_snapshot(log.fold),
    }


def _table_files() -> dict[str, bytes]:
    """Return the definition of a table that was changed, and a snapshot after it."""
    log = _Log()
    log.add(Open("worker-7", 4711, "0.1.0"))
    columns = (TableColumn("id", "BIGINT", nullable=False), TableColumn("ts", "BIGINT", True))
    table = TableDefinition(
        table="ods.clicks",
        columns=columns,
        partition_by=("date", "hour"),
        zone="Asia/Shanghai",
        format="parquet",
        provenance=True,
        topics=("clicks",),
    )
    log.add(Define((table,), ("ods.clicks: column note is dropped",), "ana"))
    with_headers = log.draft(Define((replace(table, headers=True),), (), ""), None)
    with_generation = log.draft(Define((replace(table, generation=True),), (), ""), None)
    rules = (("decode", "json"), ("where", "country <> 'ZZ'"))
    changed = "ods.clicks: where changed from none to `country <> 'ZZ'`"
    with_rules = log.draft(Define((replace(table, rules=rules),), (), "", (changed,)), None)
    return {
        "headers-define.json": write_entry(with_headers)[1],
        "rules-define.json": write_entry(with_rules)[1],
        "generation-define.json": write_entry(with_generation)[1],
        "entry-define.json": log.entries[1][1],
        "snapshot-tables.json": write_snapshot(log.fold),
    }


def _leader_files() -> dict[str, bytes]:
    """Return a batch whose ranges name the leaders that told their ends, and a snapshot after."""
    log = _Log()
    log.add(Open("worker-7", 4711, "0.1.0"))
    log.add(Join((Joined(KEY, _STREAM, 110, "latest"),)))
    body = replace(_second(), batch=0)
    (read,) = body.shards
    log.add(replace(body, shards=(replace(read, leader_epoch=3),)))
    log.add(Commit("idle"), Closing(2, 1, 0, registered=False, deferred=(), done=()))
    snapshot = write_snapshot(log.fold)
    here = ShardRange(KEY, OffsetRange(113, 113))
    log.add(Skip((here,), None, (), (), "ana", "what was cut is in the table", ((KEY, 4),)))
    return {
        "leader-prepare.json": log.entries[2][1],
        "leader-snapshot.json": snapshot,
        "leader-skip.json": log.entries[4][1],
    }


def _compact_files() -> dict[str, bytes]:
    """Return a compaction, how it is closed, and how it is abandoned."""
    log = _Log()
    log.add(Open("worker-7", 4711, "0.1.0"))
    log.add(Join((Joined(KEY, _STREAM, 110, "latest"),)))
    commit = TableCommit("ods.clicks", "5c2b2f9e-4a5f-4a53-9a5c-0f6b3f0f3b11", 0, 0, 41)
    first = replace(_second(), batch=0, commits=(commit,))
    (file,), place = first.files, BatchPlace(SliceName("clicks", "main"), 1, 0)
    log.add(first)
    path = place.place(file, TARGET).final
    body = Compact(
        batch=0,
        base=41,
        replaced=(ReplacedFile(path, file.rows, file.size_bytes, file.checksum),),
        parts=(FilePart(2, KEY),),
        targets=(TARGET,),
        files=(_file(3, 0, FileSpan(0, 110, 113, 3)),),
        commit=replace(commit, snapshot_id=42),
    )
    log.add(body, Closing(2, 1, 0, registered=False, deferred=(), done=()))
    why = "another writer has removed 1 of its files"
    ended = Closing(3, 1, 0, registered=False, deferred=(), done=(), abandoned=why)
    in_vain = log.draft(Commit("compact"), ended)
    log.add(Commit("compact"), replace(ended, abandoned=""))
    return {
        "entry-compact.json": log.entries[3][1],
        "compact-snapshot.json": write_snapshot(log.fold),
        "abandoned-commit.json": write_entry(in_vain)[1],
    }


def _reland() -> Reland:
    second = _second()
    return Reland(
        entry=7,
        batch=second.batch,
        time=second.time,
        lost=tuple(file.unique for file in second.files),
        shards=(KEY,),
        targets=second.targets,
        files=(_file(3, 0, FileSpan(0, 110, 113, 3)),),
    )


def _again() -> Draft:
    """Return the `open` of a writer that looks back, after one that does not."""
    log = _Log()
    log.add(Open("worker-7", 4711, "0.1.0"))
    return replace(log.draft(Open("worker-8", 815, "0.1.0", looks_back=True)), epoch=2)


def _archive() -> bytes:
    log = _Log()
    log.add(Open("worker-7", 4711, "0.1.0"))
    while log.fold.end < ARCHIVE_ENTRIES - 1:
        log.add(Commit("idle"), Closing(None, 0, 0, registered=False, deferred=(), done=()))
    packed = io.BytesIO()
    with gzip.GzipFile(fileobj=packed, mode="wb", mtime=0) as lines:
        lines.write(b"".join(data for _, data in log.entries))
    return packed.getvalue()


def main() -> int:
    """Write the golden files that are missing; say which of the others would differ."""
    DIRECTORY.mkdir(parents=True, exist_ok=True)
    differing = 0
    for name, data in build_golden().items():
        path = DIRECTORY / name
        if not path.exists():
            path.write_bytes(data)
            print(f"wrote {path}")
        elif path.read_bytes() != data:
            differing += 1
            print(f"{path} differs: a changed form needs a new format version", file=sys.stderr)
    return 1 if differing else 0


if __name__ == "__main__":
    sys.exit(main())
