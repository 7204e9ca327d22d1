"""The protocol of the incident: delete the directory, write, move what a listing shows.

What it is: `OldProtocol`, as small as the committers that people have replaced: each step is right
if every call is applied once, when it is made. It stands here to be broken, and for nothing else.
What it promises: as those did: a task whose file is missing fails and is run again; what a listing
shows becomes readable; nobody counts.
What it must not know: faults.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from ashore.drills.faults.late_delete import LateDeletes
from ashore.errors import BatchFailed, PathMissing
from ashore.protocol import names
from ashore.protocol.positions import OffsetRange
from ashore.sources.base import Source, StreamShard

TABLE = "old.clicks"
ATTEMPTS = 4  # of a task, as Spark has it

Pause = Callable[[str], None]


@dataclass(slots=True)
class OldProtocol:
    """One writer of the old protocol on a lake. `failures`: tasks that missed their file."""

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
                self.storage.move(found.path, final)

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
                self.storage.move(path, names.join(directory, name))
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
