"""Faults that strike a catalog and the storage of the same process."""

import pytest

from ashore.errors import CatalogError, CatalogUnreachable
from ashore.storage import MemoryStorage
from ashore.tables.catalog import CatalogPartition, CatalogTable
from ashore.tables.ddl import parse_ddl
from ashore_lab.testing import (
    FailAfterEffect,
    FailBefore,
    Fault,
    FaultyCatalog,
    FaultyStorage,
    LateEffect,
    ProcessStopped,
    StopProcess,
)
from ashore_lab.testing.memory_catalog import MemoryCatalog

TABLE = CatalogTable(
    "ods", "clicks", parse_ddl("id BIGINT"), parse_ddl("date STRING"), "file:///lake/ods.db/clicks",
    "parquet", "shop",
)  # fmt: skip
DAY = [CatalogPartition("date=2026-11-21")]


class Process:
    def __init__(self, *faults: Fault) -> None:
        self.inner = MemoryCatalog()
        self.storage = FaultyStorage(MemoryStorage(), faults)
        self.catalog = FaultyCatalog(self.inner, self.storage)

    def partitions(self) -> set[str]:
        return set(self.inner.tables["ods.clicks"].partitions)


def test_calls_of_both_are_numbered_together():
    process = Process()
    process.storage.create("a", b"")
    process.catalog.ensure_table(TABLE)
    assert process.catalog.add_partitions(TABLE, DAY) == 1
    process.storage.stat("a")
    assert [(call.number, call.kind) for call in process.storage.calls] == [
        (1, "create"), (2, "ensure_table"), (3, "add_partitions"), (4, "stat"),
    ]  # fmt: skip


def test_what_fails_before_is_not_applied_and_what_fails_after_is():
    process = Process(FailBefore(1, kind="ensure_table"), FailAfterEffect(1, kind="add_partitions"))
    with pytest.raises(CatalogUnreachable):
        process.catalog.ensure_table(TABLE)
    assert process.inner.tables == {}
    process.catalog.ensure_table(TABLE)
    with pytest.raises(CatalogUnreachable):
        process.catalog.add_partitions(TABLE, DAY)
    assert process.partitions() == {"date=2026-11-21"}


def test_a_late_call_is_applied_later_and_its_refusal_reaches_nobody():
    process = Process(LateEffect(1, after=None), LateEffect(3, after=None))
    with pytest.raises(CatalogUnreachable):
        process.catalog.add_partitions(TABLE, DAY)
    process.storage.pending.release()  # there is no table yet
    process.catalog.ensure_table(TABLE)
    with pytest.raises(CatalogUnreachable):
        process.catalog.add_partitions(TABLE, DAY)
    assert process.partitions() == set()
    process.storage.pending.release()
    assert process.partitions() == {"date=2026-11-21"}


def test_a_stop_at_the_catalog_stops_the_storage_too_even_if_the_call_was_refused():
    process = Process(StopProcess(1, kind="add_partitions", when="after"))
    with pytest.raises(ProcessStopped):
        process.catalog.add_partitions(TABLE, DAY)  # there is no table
    with pytest.raises(ProcessStopped):
        process.storage.stat("a")


def test_an_answer_is_an_answer():
    process = Process()
    with pytest.raises(CatalogError, match="no table"):
        process.catalog.add_partitions(TABLE, DAY)
