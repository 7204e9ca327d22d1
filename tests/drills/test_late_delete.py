"""The fault of `delete-before-write` is real: what was given up is applied, long after.

A proxy holds the call, as a network may. The client gives it up, another NameNode becomes active,
the delete is made again there, and files are written. When the first NameNode is active again and
is reached again, it does as it was told.
"""

import threading
from collections.abc import Iterator
from uuid import uuid4

import pytest
from hdfs_native import Client

from ashore.base.clock import SystemClock
from ashore.drills.checkers.exactly_once import find_visible, read_rows
from ashore.drills.faults import Countdown, Moment
from ashore.drills.faults.late_delete import DeleteCalls, LateDeletes
from ashore.drills.old_protocol import TABLE, OldProtocol
from ashore.drills.sites.servers import Servers
from ashore.drills.workloads.numbered import Numbered
from ashore.protocol import names
from ashore.protocol.positions import OffsetRange
from ashore.services.hdfs import Hdfs
from ashore.sources.base import StreamShard
from ashore.storage.base import Storage
from ashore.storage.hdfs_conf import CONF_DIR
from ashore.storage.open import lake_address
from ashore.testing import RecordedSource

GIVEN_UP_S = 2.0
JOIN_S = 60


class HeldDelete(LateDeletes):
    """The storage of a client whose recursive delete is held by the network, and made again."""

    def __init__(self, inner: Storage, hdfs: Hdfs, root: str) -> None:
        super().__init__(inner, DeleteCalls())
        self._hdfs = hdfs
        self._root = root
        self._thread: threading.Thread | None = None
        self.answers: list[bool] = []

    def delete_directory(self, directory: str) -> None:
        path = f"{self._root}/{directory}"
        first, second = (self._client(index) for index in (0, 1))
        first.mkdirs(path, create_parent=True)  # what an earlier attempt has left
        self._hdfs.black_hole(0)
        self._thread = threading.Thread(
            target=lambda: self.answers.append(first.delete(path, recursive=True))
        )
        self._thread.start()
        self._thread.join(GIVEN_UP_S)
        assert self._thread.is_alive(), "nobody answers"
        self._hdfs.switch(1)
        assert second.delete(path, recursive=True), "made again, and applied"

    def deliver(self) -> None:
        """Let the first NameNode be active, and reached, again."""
        assert self._thread is not None
        self._hdfs.switch(0)
        self._hdfs.restore(0)
        self._thread.join(JOIN_S)
        assert self.answers == [True], "it has deleted what is there now"

    def _client(self, index: int) -> Client:
        options = self._hdfs.client_options()
        addresses = [value for key, value in sorted(options.items()) if ".rpc-address." in key]
        return Client(f"hdfs://{addresses[index]}")


@pytest.fixture
def whole(servers: Servers) -> Iterator[Hdfs]:
    """Hand out the drills' HDFS, its first NameNode active, and mend it."""
    hdfs = servers.hdfs()
    if hdfs.active() != 0:
        hdfs.switch(0)
    yield hdfs
    hdfs.restore(0)
    if hdfs.active() != 0:
        hdfs.switch(0)


@pytest.mark.parametrize(("place", "failures", "landed"), [("write", 1, 4), ("list", 0, 0)])
def test_a_held_delete_arrives_after_the_files(
    whole: Hdfs, place: str, failures: int, landed: int
) -> None:
    """Of two tasks the second fails and is run again; the first loses its records in silence."""
    root = f"/old-{uuid4().hex[:10]}"
    lake = lake_address(f"{whole.uri}{root}", 30.0, {CONF_DIR: str(whole.conf_dir)})
    storage = HeldDelete(lake.open(SystemClock()), whole, root)
    workload, source = Numbered("clicks", 1, partitions=2), RecordedSource()
    source.create("clicks", 2)
    shards = {StreamShard("clicks", str(each)): OffsetRange(0, 4) for each in range(2)}
    for shard in shards:
        source.append(shard, *(workload.value(int(shard.shard), n) for n in range(4)))
    old = OldProtocol(source, storage)
    countdown = Countdown(Moment(place, 2 if place == "write" else 1))

    old.land(shards, lambda now: storage.deliver() if countdown.has_come(now) else None)

    found = find_visible(storage, names.table_path(TABLE))
    rows = [row for path in found for row in read_rows(path, storage.read(path))]
    assert len(old.failures) == failures
    assert len(rows) == landed, "nobody has said that any is missing"
