"""Sealing and deferred actions in the loop: memory storage, recorded batches, a failing catalog."""

import json
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import ClassVar

import pytest
from tests.specs import landing

from ashore.base.unique import unique
from ashore.errors import CatalogError, SchemaConflict
from ashore.log.entries import Seal
from ashore.log.fold import Failing
from ashore.log.names import SliceName
from ashore.log.plan_batch import Limits
from ashore.log.plan_commit import Publishing, Waits, nobody_waits
from ashore.log.plan_seal import SealRule
from ashore.log.positions import StreamShard
from ashore.log.progress import Quiet, TablePartitions
from ashore.log.store.effects import PAUSE_S, Effects, Sealer
from ashore.log.store.log import LandingLog, LogContext
from ashore.log.store.reader import read_history, read_log
from ashore.storage import MemoryStorage
from ashore.storage.open import LakeAddress
from ashore.tables.catalog import CatalogTable, TableChange
from ashore.topics.loop.recovery import open_and_find_lost
from ashore.topics.loop.registrar import Registrar, catalog_tables
from ashore.topics.loop.slice_loop import SliceLoop, SliceParts, SlicePlan
from ashore.topics.loop.worker import Tick
from ashore.topics.read.source import FirstOffset
from ashore_lab.testing import FakeClock, RecordedRunner, RecordedSource
from ashore_lab.testing.memory_catalog import MemoryCatalog

NAME = SliceName("shop", "main")
TABLE, EIGHT = "ods.clicks", "date=2026-11-21"
END_MS = 1_795_305_600_000  # 2026-11-22 00:00 UTC
DELAY_MS, IDLE_MS = 600_000, 1_800_000
SHARD = StreamShard("clicks", "0")
SPEC = landing(schema="date STRING, ts BIGINT", partition_by=("date",))


PLAIN = landing(SPEC, table="ods.plain")  # it is never sealed


class Reported(Quiet):
    """Keeps what is sealed and registered."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def sealed(self, slice_name: str, entry: int, sealed: TablePartitions) -> None:
        self.lines.append(f"entry {entry} seals {', '.join(sealed.names)}")

    def registered(self, slice_name: str, registered: TablePartitions) -> None:
        self.lines.append(f"registered {', '.join(registered.names)}")


class Job:
    def __init__(
        self, actions: tuple[str, ...] = ("success_file",), waits: Waits = nobody_waits
    ) -> None:
        self.waits = waits
        self.clock = FakeClock(start_ms=END_MS - 3_600_000)
        self.storage = MemoryStorage(self.clock)
        self.source = RecordedSource(clock=self.clock)
        self.source.create("clicks", 1)
        self.source.create("plain", 1)
        self.catalog = MemoryCatalog()
        self.actions = actions
        self.address: str | None = None
        self.start()

    def start(self) -> None:
        registrar = Registrar(self.catalog, "file:///lake", "shop", lambda _: None)
        registrar.ensure([SPEC, PLAIN])
        self.reported = Reported()
        effects = Effects(
            NAME, storage=self.storage, clock=self.clock, progress=self.reported,
            register=registrar.register, mark_sealed=registrar.mark_sealed,
            address_of=lambda _table: self.address,
        )  # fmt: skip
        plan = SlicePlan(
            LakeAddress("memory:"), NAME,
            lambda: {"clicks": SPEC, "plain": PLAIN}, frozenset({"clicks"}),
            lambda *_: FirstOffset("earliest"), False,
            Limits(1_000, 1 << 30, 1), 1,
        )  # fmt: skip
        self.loop = SliceLoop(
            plan,
            SliceParts(
                self.storage,
                self.source,
                RecordedRunner(self.source, self.storage),
                LandingLog(LogContext(self.storage, self.clock, unique), NAME),
                self.clock,
                self.reported,
                publishing=Publishing(True, self.waits),
                effects=effects,
                sealer=Sealer(
                    self.storage, lambda: [SealRule(TABLE, "UTC", DELAY_MS, self.actions)]
                ),
            ),
        )

    def append(self, shard: StreamShard, *times_ms: int, date: str = "2026-11-21") -> None:
        values = [json.dumps({"date": date, "ts": each}).encode() for each in times_ms]
        self.source.append(shard, *values)

    def land(self, *times_ms: int, date: str = "2026-11-21") -> None:
        self.append(SHARD, *times_ms, date=date)
        assert self.loop.tick() is Tick.LANDED

    def seals(self) -> list[Seal]:
        bodies = [entry.body for entry in read_history(self.storage, NAME)]
        return [body for body in bodies if isinstance(body, Seal)]

    def registered(self) -> set[str]:
        return set(self.catalog.tables[TABLE].partitions)

    def success(self, name: str = "_SUCCESS"):
        return json.loads(self.storage.read(f"ods.db/clicks/{EIGHT}/{name}"))

    @property
    def fold(self):
        return self.loop.parts.log.fold


def test_a_partition_is_sealed_and_its_success_file_tells_version_and_rows():
    job = Job()
    job.land(END_MS - 5, END_MS - 4)
    assert job.seals() == []
    job.clock.advance(4 * 3_600)
    job.land(END_MS + DELAY_MS, date="2026-11-22")
    (seal,) = job.seals()
    assert [(each.partition, each.version, each.rows) for each in seal.partitions] == [
        (EIGHT, 1, 2)
    ]
    assert job.success() == {
        "job": "shop", "table": TABLE, "partition": EIGHT, "version": 1, "rows": 2,
    }  # fmt: skip
    assert job.fold.partitions[TABLE, EIGHT].sealed_version == 1
    named = f"{TABLE}/{EIGHT}"
    assert job.reported.lines[0] == f"registered {named}", "its first batch"
    number = next(each.number for each in read_history(job.storage, NAME) if each.body == seal)
    assert f"entry {number} seals {named}" in job.reported.lines
    assert job.loop.tick() is Tick.IDLE
    assert len(job.seals()) == 1
    assert job.fold.unclosed is None
    assert job.fold.deferred == {}


def test_a_late_record_seals_again_with_the_number_of_rows_added():
    job = Job()
    job.land(END_MS - 5)
    job.clock.advance(4 * 3_600)
    job.land(END_MS + DELAY_MS, date="2026-11-22")
    job.clock.advance(DELAY_MS / 1000)
    job.land(END_MS - 4, END_MS - 3)
    _, again = job.seals()
    assert [(each.version, each.rows, each.added) for each in again.partitions] == [(2, 3, 2)]
    assert job.success("_SUCCESS.2")["rows"] == 3
    assert job.success()["rows"] == 1  # no name is used twice


def test_a_table_that_falls_silent_is_sealed_all_the_same():
    job = Job()
    job.land(END_MS - 5)
    job.clock.advance(3_600 + (DELAY_MS + IDLE_MS) / 1000 - 1)
    assert job.loop.tick() is Tick.IDLE
    assert job.seals() == []
    job.clock.advance(1)
    assert job.loop.tick() is Tick.IDLE
    assert len(job.seals()) == 1


def test_a_success_file_that_is_not_ours_means_the_next_version():
    job = Job()
    job.land(END_MS - 5)
    job.storage.create(f"ods.db/clicks/{EIGHT}/_SUCCESS", b"")
    job.clock.advance(4 * 3_600)
    job.land(END_MS + DELAY_MS, date="2026-11-22")
    assert job.seals()[0].partitions[0].version == 2
    assert job.success("_SUCCESS.2")["version"] == 2
    assert job.storage.read(f"ods.db/clicks/{EIGHT}/_SUCCESS") == b""


def test_partitions_are_registered_before_their_batch_is_closed():
    job = Job()
    job.land(END_MS - 5)
    assert job.registered() == {EIGHT}
    job.loop.tick()
    assert job.fold.partitions[TABLE, EIGHT].registered
    assert job.fold.deferred == {}
    calls = job.catalog.calls
    job.land(END_MS - 4)
    assert job.catalog.calls == calls  # a partition that is known costs no call


def test_a_command_that_closes_a_batch_owes_its_registrations_too():
    """The job died after its `prepare`; `recover` and `rejoin` close it as the job would have."""
    job = Job()
    job.catalog.is_reachable = False
    job.append(SHARD, END_MS - 5)
    assert job.loop.tick() is Tick.LANDED  # nothing is closed before the next entry
    job.start()
    assert open_and_find_lost(job.loop.parts.committer()) is None
    (deferred,) = read_log(job.storage, NAME).deferred.values()
    assert (deferred.action, deferred.partition) == ("register", EIGHT)


def test_partitions_that_wait_for_their_seal_leave_others_alone():
    job = Job(("register", "catalog"), waits=lambda table: table == TABLE)
    job.append(StreamShard("plain", "0"), END_MS - 6)
    job.land(END_MS - 5)  # one batch for both tables
    assert job.loop.tick() is Tick.IDLE
    assert job.catalog.tables["ods.plain"].partitions.keys() == {EIGHT}
    assert job.registered() == set()
    assert job.fold.partitions["ods.plain", EIGHT].registered
    assert not job.fold.partitions[TABLE, EIGHT].registered
    assert (job.fold.deferred, job.fold.unclosed) == ({}, None)
    calls = job.catalog.calls
    job.append(StreamShard("plain", "0"), END_MS - 4)
    job.land(END_MS - 3)
    assert job.loop.tick() is Tick.IDLE
    assert job.catalog.calls == calls
    job.clock.advance(4 * 3_600)
    job.land(END_MS + DELAY_MS, date="2026-11-22")
    assert job.registered() == {EIGHT}
    assert job.loop.tick() is Tick.IDLE
    assert job.fold.partitions[TABLE, EIGHT].registered


def test_a_catalog_that_is_away_delays_registration_and_stops_nothing():
    job = Job()
    job.catalog.is_reachable = False
    job.land(END_MS - 5)
    job.land(END_MS - 4)
    job.loop.tick()
    assert list(job.fold.deferred) == [f"register:{TABLE}:{EIGHT}"]
    assert not job.fold.partitions[TABLE, EIGHT].registered
    since_ms, why = job.clock.now_ms(), "the catalog in memory is away"
    assert job.fold.failing == {  # it is not asked again at every batch
        "register": Failing("register", since_ms, 1, since_ms, why)
    }
    job.clock.advance(1)
    job.start()  # another process: what is deferred is part of the log
    job.loop.tick()
    assert list(job.fold.deferred) == [f"register:{TABLE}:{EIGHT}"]
    assert job.fold.failing == {"register": Failing("register", since_ms, 2, since_ms + 1000, why)}
    job.catalog.is_reachable = True
    job.clock.advance(PAUSE_S)
    job.loop.tick()
    assert job.registered() == {EIGHT}
    assert job.fold.deferred == job.fold.failing == {}
    assert job.fold.partitions[TABLE, EIGHT].registered
    assert job.fold.unclosed is None


def test_an_outage_costs_one_entry_a_try_and_none_in_between():
    job = Job()
    job.catalog.is_reachable = False
    job.land(END_MS - 5)
    job.loop.tick()
    end = job.fold.end
    job.clock.advance(PAUSE_S - 1)
    job.loop.tick()
    assert job.fold.end == end
    job.clock.advance(1)
    job.loop.tick()
    job.loop.tick()
    assert job.fold.end == end + 1
    assert job.fold.failing["register"].times == 2


def test_what_was_done_is_not_done_again_before_the_log_says_so():
    job = Job()
    job.catalog.is_reachable = False
    job.land(END_MS - 5)
    job.catalog.is_reachable = True
    job.clock.advance(PAUSE_S)
    job.land(END_MS - 4)
    calls = job.catalog.calls
    assert job.loop.tick() is Tick.IDLE
    assert job.catalog.calls == calls
    assert job.fold.deferred == {}


@pytest.mark.parametrize("address", ["http://[", "http://127.0.0.1:1/\n", "ftp://127.0.0.1:1/"])
def test_an_address_that_cannot_be_reported_anything_stays_owed(address: str):
    job = Job(("http",))
    job.address = address
    job.land(END_MS - 5)
    job.clock.advance(4 * 3_600)
    job.land(END_MS + DELAY_MS, date="2026-11-22")
    assert job.loop.tick() is Tick.IDLE
    assert [deferred.action for deferred in job.fold.deferred.values()] == ["http"]
    assert job.fold.failing["http"].error


def test_an_effect_of_a_later_release_is_named_and_stays_owed():
    job = Job(("success_file", "snapshot"))
    job.land(END_MS - 5)
    job.clock.advance(4 * 3_600)
    job.land(END_MS + DELAY_MS, date="2026-11-22")
    assert job.loop.tick() is Tick.IDLE
    assert job.success()["rows"] == 1
    (deferred,) = read_log(job.storage, NAME).deferred.values()
    assert (type(deferred.action), deferred.action) == (str, "snapshot")
    assert "the effect snapshot" in job.fold.failing["snapshot"].error
    job.start()  # nothing of it stops a start, nor is it forgotten
    assert job.loop.tick() is Tick.IDLE
    assert job.fold.failing["snapshot"].times == 2
    job.land(END_MS + DELAY_MS + 1, date="2026-11-22")
    assert [*job.fold.deferred] == [deferred.id]


def test_the_seal_of_a_catalog_is_marked_there():
    job = Job(("success_file", "register", "catalog"))
    job.land(END_MS - 5)
    job.clock.advance(4 * 3_600)
    job.land(END_MS + DELAY_MS, date="2026-11-22")
    seal = job.catalog.tables[TABLE].partitions[EIGHT]
    assert seal is not None
    assert (seal.version, seal.rows) == (1, 1)


class Listener(BaseHTTPRequestHandler):
    """Keeps what it is told; answers with an error as often as it was asked to."""

    reported: ClassVar[list[dict[str, object]]] = []
    refusals = 0

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if Listener.refusals:
            Listener.refusals -= 1
            self.send_error(503)
            return
        Listener.reported.append(json.loads(body))
        self.send_response(204)
        self.end_headers()

    def log_message(self, *_arguments: object) -> None: ...


def test_a_seal_is_reported_by_http_until_the_answer_is_success():
    job = Job(("http",))
    with HTTPServer(("127.0.0.1", 0), Listener) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        job.address = f"http://127.0.0.1:{server.server_port}/sealed"
        Listener.reported, Listener.refusals = [], 1
        job.land(END_MS - 5)
        job.clock.advance(4 * 3_600)
        job.land(END_MS + DELAY_MS, date="2026-11-22")
        assert job.loop.tick() is Tick.IDLE
        assert [deferred.action for deferred in job.fold.deferred.values()] == ["http"]
        job.clock.advance(PAUSE_S)
        assert job.loop.tick() is Tick.IDLE
        server.shutdown()
    assert job.fold.deferred == {}
    assert [(each["partition"], each["version"]) for each in Listener.reported] == [(EIGHT, 1)]


def test_a_schema_that_conflicts_is_refused_before_anything_is_written():
    catalog = MemoryCatalog()
    for table in catalog_tables(SPEC, "file:///lake", "other"):
        catalog.ensure_table(table)
    changed = landing(SPEC, schema="date STRING, ts STRING")
    for refuse in (Registrar.check, lambda registrar, spec: registrar.ensure([spec])):
        with pytest.raises(SchemaConflict, match="ts"):
            refuse(Registrar(catalog, "file:///lake", "shop", lambda _: None), changed)
    grown = landing(SPEC, schema="date STRING, ts BIGINT, more STRING")
    Registrar(catalog, "file:///lake", "shop", lambda _: None).ensure([grown])
    assert "more" in catalog.tables[TABLE].table.columns.names


class BrokenCatalog(MemoryCatalog):
    """A metastore that answers, and whose database is away."""

    def check_table(self, table: CatalogTable) -> None:
        self.ensure_table(table)

    def ensure_table(self, table: CatalogTable) -> TableChange:
        raise CatalogError(f"MetaException: {table.full_name}: no database connection")


def test_a_catalog_that_is_not_in_order_stops_no_job_from_starting():
    warnings: list[str] = []
    registrar = Registrar(BrokenCatalog(), "file:///lake", "shop", warnings.append)
    registrar.ensure([SPEC])
    assert "no database connection" in warnings[0]
    for _ in range(3):
        registrar.check(SPEC)
    assert len(warnings) == 2  # a catalog that is away is waited for once
    assert "no database connection" in warnings[1]
    with pytest.raises(CatalogError):  # it stays deferred, and status tells why
        registrar.register(TABLE, [EIGHT])
