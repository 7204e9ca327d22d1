"""Retention: what is old goes by itself, as the manual command would drop it, and nothing else."""

import json
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from ashore.base.unique import unique
from ashore.errors import LogAhead
from ashore.jobs.file import parse_job
from ashore.log import names
from ashore.log.entries import Retire
from ashore.log.names import SliceName
from ashore.log.positions import StreamShard
from ashore.log.progress import PartitionsRetired, Quiet
from ashore.log.store.reader import read_history, read_log
from ashore.proof.verify.job import verify_job
from ashore.storage.memory import MemoryStorage
from ashore.storage.open import LakeAddress
from ashore.topics.loop import retention as retirer_module
from ashore.topics.loop.assembly import Environment, JobAssembly
from ashore.topics.loop.slice_loop import SliceLoop
from ashore.topics.loop.worker import Tick
from ashore.topics.open_job import OpenJob
from ashore_lab.drills.sites.memory import TaskRunner
from ashore_lab.testing import FailBefore, FakeClock, FaultyStorage, RecordedSource
from ashore_lab.testing.memory_catalog import MemoryCatalog

NAME = SliceName("clicks", "main")
TABLE, DEAD = "ods.clicks", "ods.clicks__dead"
CLICKS, OTHER = StreamShard("clicks", "0"), StreamShard("clicks", "1")
HOUR_S, DAY_S = 3_600, 86_400
JOB = """\
job: clicks
lake: file:///lake
source: {{kafka: {{bootstrap_servers: "127.0.0.1:9092"}}, first_start: {{default: earliest}}}}
tables:
  - topic: clicks
    table: ods.clicks
    schema: "country STRING, ts BIGINT"
    event_time: {{column: ts}}
    partition_by: [{columns}]
    late: {{after: 2h, policy: {policy}, future_max: 1h}}
    seal: {{delay: 10m, idle_after: 30m, {seal}}}
    format: jsonl
    {retention}
catalog: {{hive: {{uri: "thrift://127.0.0.1:9083"}}}}
"""


class Reported(Quiet):
    """Keeps what it is told."""

    def __init__(self) -> None:
        self.events: list[PartitionsRetired] = []
        self.warnings: list[str] = []

    def retired(self, slice_name: str, retired: PartitionsRetired) -> None:
        self.events.append(retired)

    def warn(self, slice_name: str, message: str) -> None:
        self.warnings.append(message)


class Lake:
    """A job with a retention of two days, on servers with clocks of their own."""

    def __init__(
        self,
        *,
        columns: str = "date, hour",
        policy: str = "rehome",
        seal: str = "remember: 30d",
        retention: str = "retention: 2d",
        has_servers: bool = True,
    ) -> None:
        self.clock = FakeClock(monotonic_start_s=0.0)
        self.servers = self.clock.server() if has_servers else self.clock
        self.machine = MemoryStorage(self.servers)
        self.storage = FaultyStorage(self.machine)
        self.source = RecordedSource("kafka", self.servers)
        self.source.create("clicks", 2)
        self.catalog = MemoryCatalog()
        self.reported = Reported()
        text = JOB.format(columns=columns, policy=policy, seal=seal, retention=retention)
        self.job = parse_job(text)
        self.loop = self.start()

    def start(self) -> SliceLoop:
        """Start a process of the job, in the place of the one before."""
        around = Environment(
            LakeAddress("memory:"),
            self.storage,
            self.source,
            self.catalog,
            self.clock,
            self.reported,
        )
        runner = TaskRunner(self.source, self.storage, unique)
        self.loop = JobAssembly(self.job, around).slice(runner, 1)
        return self.loop

    def land(self, *ages_s: float, country: str = "DE") -> None:
        """Land a record of now in each topic partition, and one of each age."""
        now_ms = self.servers.now_ms()
        for age_s in ages_s:
            value = {"ts": now_ms - round(1000 * age_s), "country": country}
            self.source.append(CLICKS, json.dumps(value).encode())
        for shard in (CLICKS, OTHER):
            value = {"ts": now_ms, "country": country}
            self.source.append(shard, json.dumps(value).encode())
        assert self.loop.tick() is Tick.LANDED

    def pass_time(self, seconds: float) -> None:
        self.clock.advance(seconds)

    def retires(self) -> list[Retire]:
        bodies = [entry.body for entry in read_history(self.machine, NAME)]
        return [body for body in bodies if isinstance(body, Retire)]

    def retired(self) -> list[str]:
        return [each.partition for body in self.retires() for each in body.partitions]

    def partitions(self, table: str = TABLE) -> set[str]:
        """Return the partitions in which readers see files."""
        return {names.parent(path).removeprefix(f"{names.table_path(table)}/")
                for path in walk(self.machine, names.table_path(table))
                if names.is_visible(path)}  # fmt: skip

    def registered(self) -> set[str]:
        return set(self.catalog.tables[TABLE].partitions)

    def verify(self):
        return verify_job(OpenJob(self.job, self.machine, self.source, self.clock))


def walk(storage, directory: str) -> list[str]:
    found = []
    for each in storage.list(directory):
        found += walk(storage, each.path) if each.is_directory else [each.path]
    return found


def landed_days(lake: Lake, days: int) -> None:
    """Let a job run for days, with two records each six hours, and idle turns between."""
    for _ in range(4 * days):
        lake.land()
        lake.pass_time(HOUR_S)
        assert lake.loop.tick() is Tick.IDLE
        lake.pass_time(5 * HOUR_S)


def test_what_is_old_goes_by_itself_and_verification_is_green():
    lake = Lake()
    landed_days(lake, 6)
    lake.land()
    now_ms = lake.servers.now_ms()
    kept = sorted(lake.partitions())
    assert 8 <= len(kept) <= 10, "two days of it"
    assert lake.registered() == set(kept)
    assert set(lake.retired()).isdisjoint(kept)
    assert len(lake.retired()) == len(set(lake.retired())) > 12
    result = lake.verify()
    assert (result.exit_code, result.totals.lost, result.totals.duplicated) == (0, 0, 0)
    assert result.totals.retired == 2 * len(lake.retired())
    assert {(body.by, body.why) for body in lake.retires()} == {("job", "retention")}
    assert min(kept) > f"date={day_of(now_ms - 2 * 1000 * DAY_S - 7 * 3_600_000)}"


def day_of(time_ms: int) -> str:
    return f"{datetime.fromtimestamp(time_ms / 1000, UTC):%Y-%m-%d}"


def test_without_a_retention_nothing_goes():
    lake = Lake(retention="")
    landed_days(lake, 6)
    assert lake.retired() == []
    assert lake.loop.parts.retirer is None


def test_it_is_reported_and_counted():
    lake = Lake()
    landed_days(lake, 4)
    partitions = len(lake.retired())
    counters = read_log(lake.machine, NAME).counters
    assert counters["retired_partitions"] == partitions > 0
    assert (
        counters["retired_files"] == sum(each.files for each in lake.reported.events) > partitions
    )
    assert sum(each.partitions for each in lake.reported.events) == partitions
    assert {each.tables for each in lake.reported.events} == {(TABLE,)}
    assert lake.reported.warnings == []


# ---- what stays


def look_again(lake: Lake, **record: str) -> None:
    """Let the next look come, by whose batch the watermark has followed the one before."""
    lake.land(**record)
    lake.pass_time(retirer_module.EVERY_S)
    lake.land(**record)


def old_lake(**settings) -> Lake:
    """Return a lake with one old hour, two records in it, and the hour of now."""
    lake = Lake(**settings)
    lake.land()
    lake.pass_time(3 * DAY_S)
    return lake


def test_a_table_that_nothing_comes_to_keeps_what_it_has():
    lake = old_lake()
    for _ in range(3):
        assert lake.loop.tick() is Tick.IDLE
        lake.pass_time(30 * DAY_S)
    assert lake.retired() == []
    look_again(lake)
    assert len(lake.retired()) == 1


def test_a_clock_that_was_wrong_from_the_start_drops_nothing():
    lake = Lake(has_servers=False)
    lake.land()
    now_ms = lake.clock.now_ms()
    lake.clock.advance(10 * 365 * DAY_S)
    lake.start()
    for _ in range(3):
        lake.source.append(CLICKS, json.dumps({"ts": now_ms, "country": "DE"}).encode())
        assert lake.loop.tick() is Tick.LANDED
        lake.pass_time(2 * HOUR_S)
        assert lake.loop.tick() is Tick.IDLE
    assert lake.retired() == []


def test_a_log_that_is_ahead_retires_nothing():
    lake = old_lake()
    lake.land()
    lake.pass_time(retirer_module.EVERY_S)
    retirer = lake.loop.parts.retirer
    assert retirer is not None
    lake.source.append(CLICKS, json.dumps({"ts": lake.servers.now_ms()}).encode())
    lake.loop.parts = replace(lake.loop.parts, retirer=None)
    assert lake.loop.tick() is Tick.LANDED
    lake.loop.parts = replace(lake.loop.parts, retirer=retirer)
    lake.clock.jump_wall(-2 * HOUR_S)  # the log was ahead, as it seems now
    lake.servers = lake.clock
    lake.machine._clock = lake.clock
    lake.start()
    with pytest.raises(LogAhead):
        lake.loop.tick()
    assert lake.retired() == []


def test_a_partition_that_records_may_come_to_stays():
    lake = old_lake()
    for _ in range(3):  # the other topic partition brings records of old: the watermark stays
        now_ms = lake.servers.now_ms()
        for shard, ts_ms in ((CLICKS, now_ms), (OTHER, now_ms - 3 * 1000 * DAY_S)):
            lake.source.append(shard, json.dumps({"ts": ts_ms, "country": "DE"}).encode())
        assert lake.loop.tick() is Tick.LANDED
        lake.pass_time(retirer_module.EVERY_S)
    assert lake.retired() == []
    look_again(lake)
    assert len(lake.retired()) > 1


def test_a_partition_that_is_not_sealed_stays():
    lake = old_lake()
    sealer = lake.loop.parts.sealer
    assert sealer is not None
    lake.loop.parts = replace(lake.loop.parts, sealer=None)
    look_again(lake)
    assert lake.retired() == []
    lake.loop.parts = replace(lake.loop.parts, sealer=sealer)
    lake.pass_time(retirer_module.EVERY_S)
    lake.land()
    assert len(lake.retired()) == 1


def test_a_table_that_is_never_sealed_loses_its_old_partitions_too():
    lake = old_lake(seal="actions: []")
    lake.land()
    lake.pass_time(retirer_module.EVERY_S)
    lake.land()
    assert len(lake.retired()) == 1


def test_a_partition_with_files_of_others_stays_as_a_whole_and_that_is_reported_once():
    lake = old_lake()
    (old,) = lake.partitions()
    directory = f"{names.table_path(TABLE)}/{old}"
    lake.machine.create(f"{directory}/part-0.jsonl", b"{}")
    for _ in range(3):
        lake.land()
        lake.pass_time(retirer_module.EVERY_S)
    assert lake.retired() == []
    assert old in lake.registered()
    (reported,) = lake.reported.warnings
    assert f"{TABLE} {old} is kept: " in reported
    lake.machine.delete(f"{directory}/part-0.jsonl")
    lake.land()
    assert lake.retired()[:1] == [old]


def test_what_the_job_has_never_filled_is_left_alone():
    lake = old_lake()
    foreign = f"{names.table_path(TABLE)}/date=2001-01-01/hour=00"
    lake.machine.create(f"{foreign}/_SUCCESS", b"")
    other = names.FinalName("other", 1, 1, 1, "0" * 16, "jsonl")
    lake.machine.create(
        f"{names.table_path(TABLE)}/date=2001-01-01/hour=01/{names.final_name(other)}", b""
    )
    look_again(lake)
    assert len(lake.retired()) == 1
    assert len(walk(lake.machine, f"{names.table_path(TABLE)}/date=2001-01-01")) == 2


# ---- what comes later


@pytest.mark.parametrize("policy", ["rehome", "keep", "side"])
def test_a_record_for_a_retired_partition_is_filed_elsewhere(policy: str):
    lake = old_lake(policy=policy)
    (old,) = lake.partitions()
    look_again(lake)
    assert lake.retired() == [old]
    lake.land(3 * DAY_S)
    assert old not in lake.partitions()
    late = lake.partitions(f"{TABLE}__late")
    assert bool(late) == (policy != "rehome")
    assert lake.verify().exit_code == 0


def test_keep_reaches_back_no_further_than_the_retention():
    lake = Lake(policy="keep")
    lake.land(DAY_S, 2 * DAY_S - 60, 2 * DAY_S + 60)
    days = {each.split("/")[0] for each in lake.partitions()}
    late = lake.partitions(f"{TABLE}__late")
    assert len(days) == 3, "its own day, for what is not older than that"
    assert len(late) == 1


def test_dead_letters_go_by_the_day_that_they_came_on():
    lake = Lake()
    lake.source.append(CLICKS, b"no json")
    lake.land()
    assert len(lake.partitions(DEAD)) == 1
    lake.pass_time(4 * DAY_S)
    look_again(lake)
    assert lake.partitions(DEAD) == set()
    assert {each.table for body in lake.retires() for each in body.partitions} == {TABLE, DEAD}


def test_partitions_of_time_below_others_go_too():
    lake = Lake(columns="country, date")
    lake.land()
    lake.pass_time(4 * DAY_S)
    look_again(lake, country="FR")
    assert [each.partition("/")[0] for each in lake.retired()] == ["country=DE"]


# ---- what fails


def test_a_catalog_that_is_away_puts_it_off_and_stops_nothing():
    lake = old_lake()
    (old,) = lake.partitions()
    lake.catalog.is_reachable = False
    look_again(lake)
    assert lake.retired() == [old]
    assert old in lake.partitions(), "files go last"
    assert any("retention deferred" in each for each in lake.reported.warnings)
    lake.pass_time(retirer_module.PAUSE_S)
    lake.land()
    assert old in lake.partitions()
    lake.catalog.is_reachable = True
    lake.pass_time(retirer_module.PAUSE_S)
    lake.land()
    assert old not in lake.partitions()
    assert old not in lake.registered()
    assert lake.retired() == [old], "one entry is enough"


def test_what_a_process_has_left_the_next_one_finishes():
    lake = old_lake()
    (old,) = lake.partitions()
    lake.storage = FaultyStorage(lake.machine, [FailBefore(1, "delete")])
    lake.start()
    look_again(lake)
    assert (lake.retired(), old in lake.partitions()) == ([old], True)
    assert lake.verify().exit_code == 0, "nobody asks for what is left"
    lake.storage = FaultyStorage(lake.machine)
    lake.start()
    lake.land()
    assert old not in lake.partitions()
    assert walk(lake.machine, f"{names.table_path(TABLE)}/{old}") == []


def test_a_partition_that_somebody_else_has_dropped_is_retired():
    lake = old_lake()
    (old,) = lake.partitions()
    for path in walk(lake.machine, f"{names.table_path(TABLE)}/{old}"):
        lake.machine.delete(path)
    assert lake.verify().exit_code == 5
    look_again(lake)
    assert lake.retired() == [old]
    assert old not in lake.registered()
    assert lake.verify().exit_code == 0
    assert walk(lake.machine, f"{names.table_path(TABLE)}/{old}") == [], "nor a success file"


def test_what_is_owed_to_it_is_owed_no_more():
    lake = Lake()
    lake.catalog.is_reachable = False
    lake.land()
    lake.pass_time(3 * DAY_S)
    look_again(lake)
    gone = set(lake.retired())
    assert len(gone) == 1
    deferred = lake.loop.log.fold.deferred.values()
    assert deferred
    assert not [each for each in deferred if each.partition in gone]


def test_directories_are_listed_once_an_hour():
    lake = old_lake()
    lake.land()
    before = len(lake.storage.calls)
    for _ in range(5):
        lake.pass_time(60)
        lake.loop.tick()
    listed = [each.path for each in lake.storage.calls[before:] if each.kind == "list"]
    assert names.table_path(TABLE) not in listed
    lake.pass_time(retirer_module.EVERY_S)
    lake.loop.tick()
    assert names.table_path(TABLE) in [each.path for each in lake.storage.calls[before:]]
