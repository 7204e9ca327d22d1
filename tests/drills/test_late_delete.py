"""The fault of `delete-before-write` is real: what was given up is applied, long after.

A proxy holds the call, as a network may. The client gives it up, another NameNode becomes active,
the delete is made again there, and files are written. When the first NameNode is active again and
is reached again, it does as it was told. What strikes the old protocol so strikes an Ashore that
deletes before it writes, and not Ashore as it is.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from uuid import uuid4

import pytest
from tests.unit.lab.mutants import delete_before_write

from ashore.base.clock import SystemClock
from ashore.log import names
from ashore.log.positions import OffsetRange, StreamShard
from ashore.storage.base import Storage
from ashore.storage.hdfs_conf import CONF_DIR
from ashore.storage.open import lake_address
from ashore_lab.drills import DrillOrder, Verdict, run_drill
from ashore_lab.drills.checkers.exactly_once import find_visible, read_rows
from ashore_lab.drills.faults import Countdown, Moment
from ashore_lab.drills.faults.late_delete import LateDeletes
from ashore_lab.drills.recorder import Recorder
from ashore_lab.drills.scenarios.delete_before_write import DRILL, TABLE, OldProtocol
from ashore_lab.drills.sites.delayed_deletes import DelayedDeletes
from ashore_lab.drills.sites.memory import MemorySite
from ashore_lab.drills.sites.servers import Servers
from ashore_lab.drills.sites.site import SiteOptions
from ashore_lab.drills.workloads.numbers import Numbered
from ashore_lab.services.hdfs import Hdfs
from ashore_lab.testing import FakeClock, RecordedSource

DEADLINE_S = 10.0  # of a storage call; the first NameNode that is asked is cut off
CLOCK = SystemClock()
pytestmark = pytest.mark.breaks("hdfs")


@dataclass(frozen=True, slots=True)
class Lake:
    """A directory of its own on the drills' HDFS."""

    hdfs: Hdfs
    root: str

    @classmethod
    def new(cls, hdfs: Hdfs) -> "Lake":
        return cls(hdfs, f"/late-{uuid4().hex[:10]}")

    def open(self) -> Storage:
        options = {CONF_DIR: str(self.hdfs.conf_dir)}
        return lake_address(f"{self.hdfs.uri}{self.root}", DEADLINE_S, options).open(CLOCK)


@pytest.fixture
def whole(servers: Servers) -> Iterator[Hdfs]:
    """Hand out the drills' HDFS, and mend it."""
    hdfs = servers.hdfs()
    yield hdfs
    for index in range(hdfs.options.namenodes):
        hdfs.restore(index)


@pytest.mark.parametrize(("place", "failures", "landed"), [("write", 1, 4), ("list", 0, 0)])
def test_a_held_delete_arrives_after_the_files(
    whole: Hdfs, place: str, failures: int, landed: int
) -> None:
    """Of two tasks the second fails and is run again; the first loses its records in silence."""
    lake = Lake.new(whole)
    storage = lake.open()
    calls = DelayedDeletes(whole, lake.root, storage)
    workload, source = Numbered("clicks", 1, partitions=2), RecordedSource()
    source.create("clicks", 2)
    shards = {StreamShard("clicks", str(each)): OffsetRange(0, 4) for each in range(2)}
    for shard in shards:
        source.append(shard, *(workload.value(int(shard.shard), n) for n in range(4)))
    old = OldProtocol(source, LateDeletes(storage, calls))
    countdown = Countdown(Moment(place, 2 if place == "write" else 1))

    old.land(shards, lambda now: calls.deliver() if countdown.has_come(now) else None)

    found = find_visible(storage, names.table_path(TABLE))
    rows = [row for path in found for row in read_rows(path, storage.read(path))]
    assert len(old.failures) == failures
    assert len(rows) == landed, "nobody has said that any is missing"


class SiteOnHdfs(MemorySite):
    """Ashore in this process, all of whose deletes are held, on a real HDFS."""

    def __init__(self, seed: int, options: SiteOptions, recorder: Recorder, lake: Lake) -> None:
        super().__init__(seed, options, FakeClock(CLOCK.now_ms()), recorder, lake.open())
        self._lake = lake
        self._delayed: list[DelayedDeletes] = []

    def late_deletes(self, storage: Storage) -> DelayedDeletes:
        self._delayed.append(DelayedDeletes(self._lake.hdfs, self._lake.root, storage))
        return self._delayed[-1]

    def mend(self) -> None:
        super().mend()
        for calls in self._delayed:
            calls.deliver()


def play(hdfs: Hdfs) -> Verdict:
    length = replace(DRILL.short, rounds=2, records=72, is_real=True)
    return run_drill(
        DrillOrder(DRILL, 1, length),
        real_sites=lambda seed, options, recorder: SiteOnHdfs(
            seed, options, recorder, Lake.new(hdfs)
        ),
    )


@pytest.mark.long  # every day in memory: the short form of the drill
def test_ashore_is_untouched_by_what_strikes_the_old_protocol(whole: Hdfs) -> None:
    verdict = play(whole)
    assert verdict.exit_code == 0, (verdict.problems, verdict.doubts)
    assert any("lost" in note and "tasks failed" in note for note in verdict.notes)


@pytest.mark.long
def test_ashore_with_a_delete_before_each_write_is_not(
    whole: Hdfs, monkeypatch: pytest.MonkeyPatch
) -> None:
    delete_before_write(monkeypatch)
    verdict = play(whole)
    assert verdict.exit_code == 5
    assert verdict.figures.lost > 0
