"""Events of Iceberg's own sink for Kafka Connect, as its control topic has them.

What it is: `read_completed`: how far a task of the sink had read when it handed its files over.
What it promises: total: other bytes give None. An event is Avro with its schema before it, which
names types again where they repeat; pyiceberg's reader does not know such names.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ashore.log.positions import StreamShard

MAGIC = b"\xc2\x01"
SIZE_BYTES = 2  # of the schema, before it
COMPLETED = "DataComplete"  # the name of its payload, perhaps after its package
OFFSETS = "kafka.connect.offsets."  # in a summary, with the control topic and the group: up to
# which of the control topic's offsets the table has the files of events


@dataclass(frozen=True, slots=True)
class Completed:
    """What one task had read when it handed over its files: the next offsets."""

    group: str
    next_of: Mapping[StreamShard, int | None]  # None: nothing new of the partition


def read_completed(value: bytes | None) -> Completed | None:
    """Return the event; None: it is another one, or none at all."""
    if value is None or not value.startswith(MAGIC):
        return None
    start = len(MAGIC) + SIZE_BYTES
    end = start + int.from_bytes(value[len(MAGIC) : start])
    try:
        schema = json.loads(value[start:end])
        (payload,) = (each["type"] for each in schema["fields"] if each["name"] == "payload")
        if str(payload["name"]).rpartition(".")[2] != COMPLETED:
            return None
        event = _Reader(value[end:]).read(schema)
        return Completed(
            str(event["group_id"]),
            {
                StreamShard(str(each["topic"]), str(int(each["partition"]))): each["offset"]
                for each in event["payload"]["assignments"] or ()
            },
        )
    except (ValueError, KeyError, TypeError, IndexError, RecursionError):
        return None


class _Reader:
    """Reads one value of Avro. Raises ValueError, KeyError, TypeError or IndexError."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0
        self._named: dict[str, Any] = {}

    def read(self, kind: Any) -> Any:
        if isinstance(kind, list):
            return self.read(kind[self._long()])
        if isinstance(kind, str):
            return self._plain(kind)
        if "name" in kind:
            self._named[kind["name"]] = kind
        match kind["type"]:
            case "record":
                return {each["name"]: self.read(each["type"]) for each in kind["fields"]}
            case "array":
                return self._array(kind["items"])
            case "fixed":
                return self._take(kind["size"])
            case other:
                return self.read(other)

    def _plain(self, kind: str) -> Any:
        match kind:
            case "null":
                return None
            case "int" | "long":
                return self._long()
            case "boolean":
                return self._take(1) != b"\0"
            case "string":
                return self._take(self._long()).decode()
            case "bytes":
                return self._take(self._long())
            case _:
                return self.read(self._named[kind])

    def _array(self, items: Any) -> list[Any]:
        found: list[Any] = []
        while count := self._long():
            if count < 0:
                self._long()  # the size of the block
            if abs(count) > len(self._data):
                raise ValueError("the event has fewer values than it says")
            found += [self.read(items) for _ in range(abs(count))]
        return found

    def _long(self) -> int:
        value = shift = 0
        while True:
            byte = self._take(1)[0]
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value >> 1 ^ -(value & 1)

    def _take(self, size: int) -> bytes:
        if not 0 <= size <= len(self._data) - self._at:
            raise ValueError("the event ends within a value")
        self._at += size
        return self._data[self._at - size : self._at]
