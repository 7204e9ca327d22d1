"""The incident that Ashore was begun for: a delete arrived after the files that were written next.

The committer of those days deleted its directory, wrote there, and moved what a listing showed. A
NameNode failed over; the delete was given up and made again; the files were written; then the first
delete arrived after all. Some tasks failed, for their file was missing. Others did not fail: what
they had written was not in the listing, and no task missed it.

Here the old protocol lives through it again, and beside it, on the same lake, Ashore. It deletes
nothing on its way to a commit; what its janitor has deleted is deleted again in the same moments.
On HDFS the deletes are delayed by a proxy, while one NameNode takes over from the other and back.
"""

import json
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from ashore.errors import BatchFailed, PathMissing
from ashore.log import names
from ashore.log.positions import OffsetRange, StreamShard
from ashore.storage.base import Staged
from ashore.topics.open_job import OpenJob
from ashore.topics.read.source import Source
from ashore_lab.drills.checkers.exactly_once import compare, read_places
from ashore_lab.drills.drill import Drill
from ashore_lab.drills.faults import Countdown, Happens, Kill, Moment
from ashore_lab.drills.faults.late_delete import KIND, DeleteCalls, LateDeletes
from ashore_lab.drills.plan import Length, PlannedFault, Schedule, Server
from ashore_lab.drills.sites.memory import MemorySite
from ashore_lab.drills.sites.site import End, Site, SiteOptions, keep_house
from ashore_lab.drills.stage import Stage
from ashore_lab.drills.verdict import Flight
from ashore_lab.testing import FakeClock

TABLE = "old.clicks"
ATTEMPTS = 4  # of a task, as Spark has it

Pause = Callable[[str], None]


@dataclass(slots=True)
class OldProtocol:
    """One writer of the old protocol on a lake: delete the directory, write, move what is listed.

    As small as the committers that it stands for, and here to be broken: each step is right if
    every call is applied once, when it is made. A task whose file is missing fails and is run
    again; what a listing shows becomes readable. `failures`: tasks that missed their file.
    """

    source: Source
    storage: LateDeletes
    batch: int = 0
    failures: list[str] = field(default_factory=list)

    def land(self, ranges: Mapping[StreamShard, OffsetRange], pause: Pause) -> None:
        """Land one batch, a task a shard. Raises BatchFailed, StorageError.

        `pause` is called with `write` when a task has written, and with `list` when all have.
        """
        self.batch += 1
        directory = names.join(names.table_path(TABLE), "_temporary", str(self.batch))
        self.storage.delete_directory(directory)
        for shard, offsets in ranges.items():
            self._run(directory, shard, self._encode(shard, offsets), pause)
        pause("list")
        for found in self.storage.list(directory):
            if not found.is_directory:
                final = names.join(names.table_path(TABLE), names.leaf(found.path))
                self.storage.publish(Staged(found.path), final)

    def _run(self, directory: str, shard: StreamShard, content: bytes, pause: Pause) -> None:
        """Write a task's file and give it the name that the listing will show."""
        name = f"part-{self.batch}-{shard.shard}.jsonl"
        for attempt in range(ATTEMPTS):
            path = names.join(directory, "attempts", f"{attempt}-{name}")
            writer = self.storage.open_write(path)
            writer.write(content)
            writer.close()
            pause("write")
            try:
                self.storage.publish(Staged(path), names.join(directory, name))
            except PathMissing as error:
                self.failures.append(error.message)
            else:
                return
        raise BatchFailed(f"task {name} failed {ATTEMPTS} times")

    def _encode(self, shard: StreamShard, offsets: OffsetRange) -> bytes:
        lines = []
        for record in self.source.read_again(shard, offsets):
            row = json.loads(record.value or b"{}")
            row |= {"kafka_partition": int(shard.shard), "kafka_offset": record.offset}
            lines.append(json.dumps(row).encode() + b"\n")
        return b"".join(lines)


BATCHES = 2
PARTITIONS = 3
DEADLINE_S = 4.0  # of a storage call; short, for the first NameNode that is asked is cut off
LATER_MS = 48 * 3_600_000  # when everything stale may go
# When the delete arrives: while tasks of the old protocol write, and when its driver lists; while
# Ashore has written and not prepared, and while it has prepared and not moved.
MOMENTS = {"write": "prepare", "list": "move"}


def plan(dice: random.Random, length: Length) -> Schedule:
    """Deliver the deletes once in each round, by turns in the two moments."""
    places = list(MOMENTS)
    return tuple(
        PlannedFault(
            index,
            KIND,
            places[index % len(places)],
            dice.randint(2, PARTITIONS) if index % len(places) == 0 else 1,
        )
        for index in range(length.rounds)
    )


def play(stage: Stage) -> None:
    """Land each round with both protocols; compare what became of the records."""
    options = SiteOptions(
        partitions=PARTITIONS,
        batch_records=max(1, stage.length.records // 2 // BATCHES),
        lake="hdfs",
        sections={"deadline": f"{DEADLINE_S:g}s"},
    )
    site = stage.site(options)
    with site.opened() as opened:
        calls, olds = site.late_deletes(opened.storage), site.late_deletes(opened.storage)
        old = OldProtocol(opened.source, LateDeletes(opened.storage, olds))
        for planned in stage.schedule:
            before = tuple(site.produced.counts)
            _land(stage, site, opened, calls, planned)
            _land_as_before(stage, site, old, planned, before)
        stage.drain(site)
        stage.require_proof(len(calls) > 0, "Ashore's janitor has deleted nothing")
        stage.notes.append(f"{len(calls)} deletes of Ashore's janitor came again")
        _report(stage, site, opened, old)


def _land(
    stage: Stage, site: Site, opened: OpenJob, calls: DeleteCalls, planned: PlannedFault
) -> None:
    """Land a round with Ashore: what a killed process left is deleted, and later deleted again."""
    site.produce(stage.length.records // 2)
    _live(site, calls, Kill(Moment("prepare")))
    end = _live(site, calls)
    stage.require(end.code == 0, f"after a kill the job ended with {end.code}: {end.message}")
    later = FakeClock(opened.clock.now_ms() + LATER_MS)
    keep_house(replace(opened, storage=LateDeletes(opened.storage, calls), clock=later))
    site.produce(stage.length.records - stage.length.records // 2)
    arrives = Happens(Moment(MOMENTS[planned.place]), KIND, calls.deliver)
    end = _live(site, calls, arrives)
    stage.require(end.code == 0, f"{arrives}: the job ended with {end.code}: {end.message}")
    calls.deliver()  # once more, when no writer is left


def _live(site: Site, calls: DeleteCalls, *faults: Happens | Kill) -> End:
    """Run a process. In memory all its deletes come again; a real one makes none but its own."""
    if isinstance(site, MemorySite):
        return site.live(*faults, wrap=lambda _storage: LateDeletes(site.machine, calls))
    return site.live(*faults)


def _land_as_before(
    stage: Stage, site: Site, old: OldProtocol, planned: PlannedFault, before: tuple[int, ...]
) -> None:
    """Land a round with the old protocol, while its own delete arrives again."""
    topic = site.produced.workload.topic
    ranges = {
        StreamShard(topic, str(partition)): OffsetRange(start, end)
        for partition, (start, end) in enumerate(zip(before, site.produced.counts, strict=True))
    }
    old.land(ranges, _arriving(stage, old, planned))


def _arriving(stage: Stage, old: OldProtocol, planned: PlannedFault) -> Pause:
    countdown = Countdown(Moment(planned.place, planned.number))

    def pause(place: str) -> None:
        if countdown.has_come(place):
            removed = old.storage.calls.deliver()
            lost = Flight(f"{removed} files that are gone now", is_proof=removed > 0)
            stage.recorder.fault(KIND, f"the old protocol's, at {place}", lost)

    return pause


def _report(stage: Stage, site: Site, opened: OpenJob, old: OldProtocol) -> None:
    """Say what the old protocol has lost. It must have lost something, or nothing was shown."""
    workload = site.produced.workload
    account = compare(site.produced, *read_places(opened.storage, workload, TABLE))
    failed = len(old.failures)
    stage.notes.append(
        f"the old protocol: {failed} tasks failed on a missing file; it ended well, and lost "
        f"{account.lost:,} of {account.produced:,} records"
    )
    stage.require_proof(failed > 0, "no task of the old protocol missed its file")
    stage.require_proof(account.lost > 0, "the old protocol lost nothing")


DRILL = Drill(
    name="delete-before-write",
    title="A delete arrives after the files that were written next",
    shows="nothing on the way to a commit can be undone by a call that comes late",
    short=Length(
        rounds=4,
        records=900,
        text="4 deliveries, 900 records each, in memory; at length on HDFS, with real processes",
    ),
    long=Length(
        rounds=6,
        records=30_000,
        text="6 deliveries, 30,000 records each, on HDFS",
        is_real=True,
        rounds_per_minute=1,
    ),
    plan=plan,
    play=play,
    needs=frozenset({Server.HDFS}),
)
