"""How state is cut, written and kept: the formulas, and what a checkpoint tells them."""

import json
import math
from dataclasses import replace

import pytest

from ashore.queries.spark.sql.assembly import measure_batches, read_partitions
from ashore.queries.spark.sql.settings import (
    KEPT_BATCHES_MIN,
    KEPT_FILES_MAX,
    MAINTENANCE_S,
    PARTITIONS_MAX,
    REPLAY_S,
    SNAPSHOT_BATCHES_MAX,
    Batches,
    Tuning,
    TuningGoals,
    plan_kept,
    plan_partitions,
    plan_snapshots,
    plan_threads,
    tune,
)
from ashore.queries.state.checkpoint import Checkpoint
from ashore.queries.state.replay import REPLAY_BYTES_PER_S, REPLAY_FILE_S
from ashore.storage import MemoryStorage
from ashore_lab.testing import FakeClock

BATCHES = Batches(interval_s=10, changelog_bytes=1e6, snapshot_bytes=40e6, stores=16)


@pytest.mark.parametrize(
    ("cores", "interval_s", "partitions"),
    [
        (2, 10.0, 32),
        (2, 1.0, 16),  # a batch a second has no time for more
        (2, 0.0, 16),
        (64, 1.0, 256),  # four times the cores
        (50, 1.0, 256),  # ... and a power of two
        (128, 10.0, PARTITIONS_MAX),
    ],
)
def test_partitions(cores: int, interval_s: float, partitions: int) -> None:
    assert plan_partitions(cores, interval_s) == partitions


def test_a_snapshot_comes_when_the_changelogs_are_as_large() -> None:
    assert plan_snapshots(10, BATCHES, 4) == 40
    assert plan_snapshots(10, replace(BATCHES, changelog_bytes=2e6), 4) == 20


def test_no_snapshot_is_overtaken_by_the_next() -> None:
    small = replace(BATCHES, snapshot_bytes=1e6)
    assert plan_snapshots(10, small, 2) * 10 >= MAINTENANCE_S
    assert plan_snapshots(1, small, 2) == MAINTENANCE_S
    assert plan_snapshots(90, small, 2) == 2


def test_changelogs_are_few_enough_to_be_replayed_in_time() -> None:
    large = replace(BATCHES, changelog_bytes=2e6, snapshot_bytes=10e9)
    batches = plan_snapshots(10, large, 2)
    replayed_s = batches * (large.changelog_bytes / REPLAY_BYTES_PER_S + 16 * REPLAY_FILE_S) / 2
    assert REPLAY_S * 0.9 < replayed_s <= REPLAY_S
    assert plan_snapshots(10, large, 4) > batches


def test_a_damaged_snapshot_can_be_skipped() -> None:
    slow = replace(BATCHES, changelog_bytes=1e3, snapshot_bytes=10e9, stores=1)
    assert plan_snapshots(10, slow, 64) == SNAPSHOT_BATCHES_MAX
    assert plan_snapshots(0.1, None, 2) == SNAPSHOT_BATCHES_MAX


@pytest.mark.parametrize("batches", [None, replace(BATCHES, changelog_bytes=0)])
def test_without_measured_batches_snapshots_are_as_often_as_spark_makes_them(
    batches: Batches | None,
) -> None:
    assert plan_snapshots(10, batches, 2) == 10


def test_batches_are_kept_by_time() -> None:
    assert plan_kept(10, 1800, 1_000) == 180
    assert plan_kept(7, 1800, 1_000) == 258
    assert plan_kept(600, 1800, 1_000) == KEPT_BATCHES_MIN
    assert plan_kept(1, 1800, 300) == 300
    assert plan_kept(1, 86_400, -5) == KEPT_BATCHES_MIN


@pytest.mark.parametrize("interval_s", [0.5, 1.0, 2.0, 10.0])
@pytest.mark.parametrize(("is_local", "files_each"), [(False, 1), (True, 2)])
@pytest.mark.parametrize("stores", [1, 16, 64, 256])
def test_all_files_of_a_query_are_bounded(
    interval_s: float, is_local: bool, files_each: int, stores: int
) -> None:
    """Counted as Spark leaves them: a changelog of each store, offsets and commits, checksums."""
    goals = TuningGoals(interval_s, 86_400, 2, is_local=is_local)
    tuning = tune(goals, replace(BATCHES, interval_s=interval_s, stores=stores))
    batches = tuning.kept_batches * 1.3 + tuning.snapshot_batches
    files = batches * (stores + 2) * files_each
    assert files <= KEPT_FILES_MAX or tuning.kept_batches == KEPT_BATCHES_MIN
    if tuning.kept_batches * interval_s < 86_400 and tuning.kept_batches > KEPT_BATCHES_MIN:
        assert files > 0.9 * KEPT_FILES_MAX, "as much as there is room for"


def test_threads_are_as_few_as_are_done_in_time() -> None:
    assert [plan_threads(stores) for stores in (1, 16, 64, 1024)] == [1, 1, 3, 35]


def test_the_measured_interval_counts_where_it_is_longer() -> None:
    goals = TuningGoals(interval_s=1, keep_s=600, cores=2)
    first = tune(goals, None)
    assert first == Tuning(16, 60, 600, 1)
    slow = tune(goals, replace(BATCHES, interval_s=5))
    assert slow.kept_batches == 120
    idle = tune(replace(goals, interval_s=10), replace(BATCHES, interval_s=0.2))
    assert idle.kept_batches == 60


def test_the_stores_that_are_there_count_and_the_number_that_is_named() -> None:
    tuning = tune(TuningGoals(10, 1800, 2, partitions=5), replace(BATCHES, stores=256))
    kept = math.floor((KEPT_FILES_MAX / 258 - tuning.snapshot_batches) / 1.3)
    assert (tuning.partitions, tuning.kept_batches, tuning.maintenance_threads) == (5, kept, 9)


# ---- what a checkpoint tells


class Site:
    """A checkpoint in memory whose files have the times that a test says."""

    def __init__(self) -> None:
        self.clock = FakeClock()
        self.storage = MemoryStorage(self.clock)
        self.checkpoint = Checkpoint(self.storage, "ck", "memory:ck")

    def batch(self, number: int, *, after_s: float, stores: dict[str, int]) -> None:
        """Begin a batch `after_s` after the one before; a changelog of each store."""
        self.clock.advance(after_s)
        settings = {"conf": {"spark.sql.shuffle.partitions": "7"}}
        self.write(f"offsets/{number}", "\n".join(["v1", json.dumps(settings), "{}"]).encode())
        for store, size in stores.items():
            self.write(f"state/{store}/{number + 1}.changelog", bytes(size))

    def snapshot(self, store: str, number: int, size: int) -> None:
        self.write(f"state/{store}/SSTs/{number}-u.sst", bytes(size))
        self.clock.advance(0.1)
        self.write(f"state/{store}/{number}.zip", bytes(10))
        self.clock.advance(0.1)

    def write(self, path: str, data: bytes) -> None:
        self.storage.create(f"ck/{path}", data)


def test_nothing_is_reported_before_two_batches_and_a_store() -> None:
    site = Site()
    assert (measure_batches(site.checkpoint), read_partitions(site.checkpoint)) == (None, None)
    site.batch(0, after_s=1, stores={"0/0": 10})
    assert measure_batches(site.checkpoint) is None
    assert read_partitions(site.checkpoint) == 7


def test_a_query_without_state() -> None:
    site = Site()
    for number in range(3):
        site.batch(number, after_s=1, stores={})
    assert measure_batches(site.checkpoint) is None


def test_batches_by_their_median() -> None:
    site = Site()
    site.batch(0, after_s=1, stores={"0/0": 9000, "0/1": 9000})
    for number in range(1, 6):
        site.batch(number, after_s=100 if number == 3 else 5, stores={"0/0": 100, "0/1": 200})
    site.write("state/0/_metadata/metadata", b"{}")
    site.write("state/0/0/_metadata/schema", b"{}")
    assert measure_batches(site.checkpoint) == Batches(5.0, 300.0, 0.0, 2)


def test_a_snapshot_is_what_it_added() -> None:
    site = Site()
    for number in range(3):
        site.batch(number, after_s=5, stores={"0/0": 100})
    site.snapshot("0/0", 1, 50_000)
    first = measure_batches(site.checkpoint)
    assert first is not None
    assert first.snapshot_bytes == 50_000  # there is no other to tell by
    site.snapshot("0/0", 2, 3_000)
    site.snapshot("0/0", 3, 5_000)
    later = measure_batches(site.checkpoint)
    assert later is not None
    assert later.snapshot_bytes == 4_000


def test_stores_with_names_and_operators_add_up() -> None:
    site = Site()
    stores = {f"0/{partition}/{side}": 10 for partition in range(2) for side in ("left", "right")}
    for number in range(3):
        site.batch(number, after_s=5, stores={**stores, "1/0": 1, "1/1": 1})
    assert measure_batches(site.checkpoint) == Batches(5.0, 42.0, 0.0, 6)


def test_of_many_partitions_some_are_looked_at() -> None:
    site = Site()
    for number in range(2):
        site.batch(number, after_s=5, stores={f"0/{each}": 10 for each in range(64)})
    seen: list[str] = []
    listing = site.storage.list

    class Watched(MemoryStorage):
        def list(self, directory):
            seen.append(directory)
            return listing(directory)

    found = measure_batches(replace(site.checkpoint, storage=Watched()))
    assert found == Batches(5.0, 640.0, 0.0, 64)
    assert len(seen) < 16


@pytest.mark.parametrize("text", ["", "v1", "v1\n{}", 'v1\n{"conf":{}}', "v1\n[]"])
def test_offsets_that_do_not_tell_the_partitions(text: str) -> None:
    site = Site()
    site.write("offsets/3", text.encode())
    assert read_partitions(site.checkpoint) is None
