"""A process that compacts the Iceberg table of a job, whose calls a test strikes at.

What it is: the world of `iceberg_job`, after its batches; a process that compacts; the checker,
which compares what readers see with the log, by `verify` too.
What it promises: as `iceberg_job`.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.crash.harness import NAME
from tests.crash.iceberg_job import (
    TABLE,
    FaultyIceberg,
    IcebergWorld,
    build_job,
    iceberg_world,
    read_offsets,
)

from ashore.errors import AshoreError
from ashore.log.entries import Compact, Prepare
from ashore.log.plan_compact import CompactRule
from ashore.log.store.committer import Committer
from ashore.log.store.log import LandingLog, LogContext
from ashore.log.store.reader import read_history, read_log
from ashore.proof.compact import CompactedTable, compact_table, plan_table
from ashore.proof.evidence.log_reading import read_ledger
from ashore.proof.evidence.result import Status, VerifyResult
from ashore.proof.verify.job import verify_job
from ashore.storage.open import LakeAddress
from ashore.tables.iceberg.catalogs import CatalogAddress
from ashore.tables.iceberg.commit import find_data_files
from ashore.tables.iceberg.iceberg_tables import IcebergTables
from ashore.topics.open_job import OpenJob
from ashore_lab.testing import Fault, FaultyStorage, ProcessStopped

RULE = CompactRule(1 << 20, 2)


@dataclass
class CompactProcess:
    """One run of the command."""

    world: IcebergWorld
    storage: FaultyStorage
    tables: IcebergTables
    done: CompactedTable | None = None
    rule: CompactRule = RULE

    def run(self) -> AshoreError | ProcessStopped | None:
        """Compact; return what ended it before."""
        try:
            self.done = self.compact()
        except (AshoreError, ProcessStopped) as error:
            return error
        return None

    def compact(self) -> CompactedTable:
        world, storage = self.world, self.storage
        log = LandingLog(LogContext(storage, world.clock, world.entropy), NAME)
        committer = Committer(log, storage, world.clock, commit_table=self.tables.commit)
        committer.take_over()
        ledger, last = read_ledger(storage, NAME.job), log.fold.commits[TABLE]
        plan = plan_table(self.tables, ledger, last, NAME, self.rule)
        return compact_table(committer, self.tables, LakeAddress("memory:"), plan)


def start_compaction(world: IcebergWorld, faults: Sequence[Fault] = ()) -> CompactProcess:
    storage = FaultyStorage(world.machine, faults, pending=world.pending)
    tables = IcebergTables(CatalogAddress("ashore", ()), storage, world.clock)
    tables._opened = FaultyIceberg(world.catalog(), storage, tables._lake)
    return CompactProcess(world, storage, tables)


def landed_world(directory: Path) -> IcebergWorld:
    """A table with four files in two partitions, of two batches."""
    world = iceberg_world(directory)
    assert world.start().run() is None
    assert len(visible(world)) == 4
    return world


def visible(world: IcebergWorld) -> set[str]:
    table = world.catalog().load_table(TABLE)
    return {each.file_path.removeprefix(world.lake.root) for each in find_data_files(table)}


def open_world(world: IcebergWorld) -> OpenJob:
    tables = IcebergTables(CatalogAddress("ashore", ()), world.machine, world.clock)
    tables._opened = world.catalog()

    class Job(OpenJob):
        def _open_formats(self) -> IcebergTables:
            return tables

    return Job(build_job(), world.machine, world.source, world.clock)


def verify(world: IcebergWorld) -> VerifyResult:
    return verify_job(open_world(world))


def check_compacted(world: IcebergWorld, gone: frozenset[int] = frozenset()) -> None:
    """Check that each record but those that another writer has removed is read once, as logged."""
    assert read_offsets(world) == Counter(set(range(5)) - gone)
    ledger = read_ledger(world.machine, NAME.job)
    assert ledger.problems == ()
    assert not ledger.unclosed
    listed = {each.final for each in ledger.files}
    if not gone:
        assert visible(world) == listed
        verdict = verify(world)
        assert verdict.totals.lost == verdict.totals.duplicated == 0, verdict.problems
        assert {each.status for each in verdict.tables} == {Status.OK}, verdict.problems
    fold = read_log(world.machine, NAME)
    assert sum(each.files for each in fold.partitions.values()) == len(listed)
    assert sum(each.rows for each in fold.partitions.values()) == 5
    ordered = [
        each
        for entry in read_history(world.machine, NAME)
        if isinstance(entry.body, Prepare | Compact)
        for each in ([entry.body.commit] if isinstance(entry.body, Compact) else entry.body.commits)
    ]
    made = [each.snapshot_id for each in world.catalog().load_table(TABLE).snapshots()]
    own = [each.snapshot_id for each in ordered if each.snapshot_id in made]
    assert [each for each in made if each in own] == own, "each is made once, in the log's order"
