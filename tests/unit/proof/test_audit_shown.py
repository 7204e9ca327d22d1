"""What the auditor says of success files and of a catalog: what readers are shown."""

import json
from dataclasses import replace

import pytest
from tests.unit.proof.lakes import DATE, JOB, TABLE, Lake, fill, make_lake
from tests.unit.proof.watching import INTERVAL_S

from ashore.jobs.file import parse_job
from ashore.log import names
from ashore.log.entries import (
    Closing,
    Commit,
    Define,
    Retire,
    RetiredPartition,
    Seal,
    SealedPartition,
)
from ashore.log.fold import Action, DeferredAction
from ashore.log.store.effects import success_content
from ashore.log.tables import DEAD_SUFFIX, TableColumn, TableDefinition
from ashore.proof.audit.auditor import CATALOG_EVERY_MS, Auditor
from ashore.proof.audit.result import AuditFinding, AuditReport, Pace
from ashore.proof.evidence.adopted_files import adopted_path, write_adopted
from ashore.proof.evidence.result import ProblemKind
from ashore.tables.catalog import CatalogPartition
from ashore.tables.ddl import parse_ddl
from ashore.topics.loop.registrar import TableShape
from ashore_lab.testing.memory_catalog import MemoryCatalog

EVEN, ODD = f"{DATE}/hour=00", f"{DATE}/hour=01"
DEFINITION = TableDefinition(
    table=TABLE,
    columns=(TableColumn("id", "BIGINT", True), TableColumn("ts", "BIGINT", True)),
    partition_by=("date", "hour"),
    zone="UTC",
    format="parquet",
    provenance=True,
    topics=("clicks",),
)
MAIN = TableShape.of(DEFINITION).catalog_table("", "file:///data/lake", "clicks")
DEAD = TableShape.of(DEFINITION).catalog_table(DEAD_SUFFIX, "file:///data/lake", "clicks")


def deferred(action: Action, partition: str, version: int = 0) -> DeferredAction:
    key = f"{action}:{TABLE}:{partition}" + (f":{version}" if version else "")
    return DeferredAction(key, action, TABLE, partition, version, 7 * version)


def closing(
    number: int | None, *left: DeferredAction, registered: bool = False, done: tuple = ()
) -> Closing:
    return Closing(number, 0, 0, registered, left, tuple(each.id for each in done))


class Shown:
    """A lake in order, a catalog that knows its tables, and an auditor of both."""

    def __init__(self, *left: DeferredAction) -> None:
        self.lake = lake = make_lake()
        lake.job = parse_job(JOB + 'catalog: {hive: {uri: "thrift://127.0.0.1:9083"}}\n')
        self.catalog = MemoryCatalog()
        self.catalog.ensure_table(MAIN)
        self.catalog.ensure_table(DEAD)
        self.catalog.add_partitions(MAIN, [CatalogPartition(EVEN), CatalogPartition(ODD)])
        self.catalog.add_partitions(DEAD, [CatalogPartition(DATE)])
        lake.append(Define((DEFINITION,), (), ""), closing=closing(3, *left, registered=True))
        self.pace = Pace(INTERVAL_S)
        self.auditor = Auditor(lake.opened(), self.pace, catalog=self.catalog)

    def tick(self, after_s: float = CATALOG_EVERY_MS / 1000) -> AuditReport:
        self.lake.clock.advance(after_s)
        return self.auditor.tick()

    def only(self) -> AuditFinding:
        report = self.tick()
        (finding,) = report.findings
        assert report.exit_code == 5
        return finding

    def seal(self, partition: str, version: int = 1, *left: DeferredAction) -> None:
        sealed = SealedPartition(TABLE, partition, version, 7 * version, 7, 0)
        entry = self.lake.append(Seal((sealed,), (Action.SUCCESS_FILE,), ()))
        self.lake.append(Commit("idle"), closing=closing(entry.number, *left))

    def success_path(self, partition: str, version: int = 1) -> str:
        return names.join(names.table_path(TABLE), partition, names.success_name(version))

    def publish(self, partition: str, version: int = 1) -> None:
        content = success_content("clicks", deferred(Action.SUCCESS_FILE, partition, version))
        self.lake.storage.create(self.success_path(partition, version), content)


@pytest.fixture
def shown() -> Shown:
    shown = Shown()
    report = shown.tick()
    assert (report.findings, report.exit_code) == ((), 0)
    return shown


# ---- success files


def test_a_success_file_that_is_gone_is_raised_with_what_it_held_and_cleared(shown: Shown):
    shown.publish(EVEN)
    shown.seal(EVEN)
    assert shown.tick().findings == ()
    shown.lake.storage.delete(shown.success_path(EVEN))
    problem = shown.only().problem
    assert (problem.kind, problem.place) == (
        ProblemKind.SUCCESS_FILE_MISSING,
        shown.success_path(EVEN),
    )
    line = problem.text[problem.text.index("{") :]
    assert json.loads(line) == {
        "job": "clicks",
        "table": TABLE,
        "partition": EVEN,
        "version": 1,
        "rows": 7,
    }
    shown.lake.storage.create(shown.success_path(EVEN), line.encode())
    assert shown.tick().findings == ()


def test_each_version_has_its_success_file(shown: Shown):
    for version in (1, 2):
        shown.publish(EVEN, version)
        shown.seal(EVEN, version)
    assert shown.tick().findings == ()
    shown.lake.storage.delete(shown.success_path(EVEN, 1))
    assert shown.only().problem.place == shown.success_path(EVEN, 1)


def test_a_success_file_that_is_owed_is_not_missed_until_it_is_done(shown: Shown):
    due = deferred(Action.SUCCESS_FILE, EVEN, 1)
    sealed = SealedPartition(TABLE, EVEN, 1, 7, 7, 0)
    entry = shown.lake.append(Seal((sealed,), (Action.SUCCESS_FILE,), ()))
    assert shown.tick().findings == (), "its entry is not closed"
    shown.lake.append(Commit("idle"), closing=closing(entry.number, due))
    assert shown.tick().findings == (), "it is deferred"
    shown.lake.append(Commit("idle"), closing=closing(None, done=(due,)))
    assert shown.only().problem.kind is ProblemKind.SUCCESS_FILE_MISSING


def test_a_retired_partition_needs_no_success_file_and_no_catalog(shown: Shown):
    shown.publish(EVEN)
    shown.seal(EVEN)
    assert shown.tick().findings == ()
    shown.lake.storage.delete(shown.success_path(EVEN))
    shown.catalog.drop_partitions(MAIN, [CatalogPartition(EVEN)])
    assert len(shown.tick().findings) == 2
    shown.lake.append(Retire((RetiredPartition(TABLE, EVEN),), "me", "old"))
    assert shown.tick().findings == ()


def test_a_table_that_publishes_no_success_files_lacks_none(shown: Shown):
    sealed = SealedPartition(TABLE, EVEN, 1, 7, 7, 0)
    entry = shown.lake.append(Seal((sealed,), (Action.HTTP,), ()))
    shown.lake.append(Commit("idle"), closing=closing(entry.number))
    assert shown.tick().findings == ()


# ---- the catalog


def test_a_partition_that_the_catalog_lacks(shown: Shown):
    shown.catalog.drop_partitions(MAIN, [CatalogPartition(EVEN)])
    problem = shown.only().problem
    assert (problem.kind, problem.table) == (ProblemKind.CATALOG_LACKS, TABLE)
    assert EVEN in problem.text
    assert ODD not in problem.text
    assert f"MSCK REPAIR TABLE {TABLE}" in problem.text
    shown.catalog.add_partitions(MAIN, [CatalogPartition(EVEN)])
    assert shown.tick().findings == ()


def test_a_partition_of_a_dead_table(shown: Shown):
    fill(shown.lake.source, "clicks", 0, 1)
    entry = shown.lake.land({shown.lake.key(0): (100, 101)}, dead={100})
    shown.lake.append(Commit("idle"), closing=closing(entry.number, registered=True))
    assert shown.tick().findings == ()
    shown.catalog.drop_partitions(DEAD, [CatalogPartition(DATE)])
    assert shown.only().problem.table == TABLE + DEAD_SUFFIX


def test_a_partition_that_is_owed_is_not_missed_until_it_is_done():
    left = (deferred(Action.REGISTER, EVEN), deferred(Action.REGISTER, ODD))
    shown = Shown(*left)
    shown.catalog.drop_partitions(MAIN, [CatalogPartition(EVEN), CatalogPartition(ODD)])
    assert shown.tick().findings == ()
    shown.lake.append(Commit("idle"), closing=closing(None, done=left))
    text = shown.only().problem.text
    assert EVEN in text
    assert ODD in text


def test_a_partition_where_nobody_has_put_a_file(shown: Shown):
    strange = CatalogPartition("date=2020-01-01/hour=it%27s")
    shown.catalog.add_partitions(MAIN, [strange])
    problem = shown.only().problem
    assert problem.kind is ProblemKind.CATALOG_EXTRA
    assert f"ALTER TABLE {TABLE} DROP PARTITION (date='2020-01-01', hour='it''s')" in problem.text
    adopted = f"{names.table_path(TABLE)}/{strange.path}/part-0.parquet"
    shown.lake.storage.create(adopted, b"")
    data = write_adopted(TABLE, "Spark query", (adopted,))
    shown.lake.storage.create(adopted_path("clicks", "0" * 16), data)
    assert shown.tick().findings == (), "another writer has"


def test_a_partition_that_lies_elsewhere(shown: Shown):
    known = shown.catalog.tables[TABLE]
    known.elsewhere[EVEN] = "file:///data/old"
    problem = shown.only().problem
    assert problem.kind is ProblemKind.CATALOG_ELSEWHERE
    assert f"SET LOCATION '{MAIN.location}/{EVEN}'" in problem.text
    known.elsewhere.clear()
    assert shown.tick().findings == ()


def test_partitions_have_their_turn_to_be_located(shown: Shown):
    shown.auditor = Auditor(
        shown.lake.opened(), Pace(INTERVAL_S, listings=1), catalog=shown.catalog
    )
    shown.catalog.tables[TABLE].elsewhere[ODD] = "file:///data/old"
    found = [shown.tick().findings for _ in range(5)]
    assert [len(each) for each in found] == [0, 1, 1, 1, 1], "nor is it cleared by another's turn"


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"columns": parse_ddl("id INT, ts BIGINT")}, "column id is"),
        ({"columns": parse_ddl("id BIGINT")}, "column ts is missing"),
        ({"location": "file:///data/old"}, "its location is file:///data/old in the catalog"),
    ],
)
def test_another_table(shown: Shown, change: dict, named: str):
    known = shown.catalog.tables[TABLE]
    before, known.table = known.table, replace(known.table, **change)
    problem = shown.only().problem
    assert problem.kind is ProblemKind.CATALOG_TABLE
    assert named in problem.text
    known.table = before
    assert shown.tick().findings == ()


def test_a_table_that_is_gone(shown: Shown):
    del shown.catalog.tables[TABLE]
    problem = shown.only().problem
    assert problem.kind is ProblemKind.CATALOG_TABLE
    assert "Start the job again" in problem.text


def test_a_catalog_that_is_away_is_counted_and_what_was_found_stays(shown: Shown):
    shown.catalog.drop_partitions(MAIN, [CatalogPartition(EVEN)])
    assert shown.only()
    shown.catalog.is_reachable = False
    away = shown.tick()
    assert len(away.findings) == 1
    assert away.catalog.since_ms == away.now_ms
    shown.catalog.is_reachable = True
    shown.catalog.add_partitions(MAIN, [CatalogPartition(EVEN)])
    back = shown.tick()
    assert (back.findings, back.catalog.since_ms, back.exit_code) == ((), None, 0)


def test_well_but_for_a_catalog_that_is_away_is_not_proven(shown: Shown):
    shown.catalog.is_reachable = False
    assert shown.tick().exit_code == 6


def test_the_catalog_is_not_asked_in_each_interval(shown: Shown):
    calls = shown.catalog.calls
    shown.tick(CATALOG_EVERY_MS / 1000 - 1)
    assert shown.catalog.calls == calls
    shown.tick(1)
    assert shown.catalog.calls == calls + 1


# ---- verify, which never asks the catalog


def test_verify_notes_that_the_catalog_was_not_compared_and_what_is_not_registered() -> None:
    def notes(lake: Lake) -> list[str]:
        result = lake.verify()
        assert result.exit_code == 0
        return [each for each in result.notes if "metastore" in each]

    assert notes(make_lake()) == []
    (registered,) = notes(Shown().lake)
    assert "not registered" not in registered
    (waiting,) = notes(Shown(deferred(Action.REGISTER, EVEN)).lake)
    assert "`ashore audit" in waiting
    assert "; 1 partitions are not registered " in waiting
