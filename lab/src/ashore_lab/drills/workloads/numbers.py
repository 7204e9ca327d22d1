"""Records with a number: what was produced can be computed again from a seed.

What it is: `Numbered`, the records of one topic, and `Produced`, how many there are.
What it promises: record n of a partition is always the same bytes; its number is its offset, for
nothing else is produced to the topic (once it is created again, offsets begin again, and numbers
continue). Poisoned records are invalid in one of many forms.
"""

import json
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from hashlib import shake_128

COUNTRIES = ("CN", "DE", "IN")
SCHEMA = "id BIGINT, ts BIGINT, country STRING, text STRING"
START_MS = 1_795_000_000_000  # where a FakeClock begins
# Of records with a spacing: so long ago that none of them is of the future.
LONG_AGO_MS = START_MS - 5_000 * 86_400_000
Row = tuple[int, int, str, str]  # id, ts, country, text


@dataclass(frozen=True, slots=True)
class Numbered:
    """The records of one topic.

    `poison_every`: one in this many is no row of the table; 0: none. `countries_every`: after this
    many records they are of other countries, so that new table partitions come; 0: never.
    `restarts`: the numbers at which offsets began again at 0, partition by partition, each time
    that the topic was created again.
    """

    topic: str
    seed: int
    partitions: int = 3
    poison_every: int = 0
    countries_every: int = 0
    restarts: tuple[tuple[int, ...], ...] = ()
    spacing_ms: int = 0  # from one event time to the next; 0: a millisecond, and now
    padding_bytes: int = 0  # of each text, which codecs make half as many of

    def find_number(self, partition: int, offset: int, record: object) -> int:
        """Return the number of the record at an offset, of the topics that have had the name.

        `record`: the number that the row there has. Where it fits none, the first topic is meant.
        """
        if not self.restarts:
            return offset
        numbers = [offset, *(starts[partition] + offset for starts in self.restarts)]
        same = [each for each in numbers if self.row(partition, each)[0] == record]
        return same[0] if same else offset

    def row(self, partition: int, number: int) -> Row:
        """Return the row that a record becomes."""
        record = number * self.partitions + partition
        own = b"%d %d" % (self.seed, record)
        text = f"{zlib.crc32(own):08x}{shake_128(own).hexdigest(self.padding_bytes // 2)}"
        country = COUNTRIES[record % len(COUNTRIES)]
        if self.countries_every:
            country += str(record // self.countries_every)
        return record, self.time_ms(record), country, text

    def time_ms(self, record: int) -> int:
        """Return the event time of a record."""
        if not self.spacing_ms:
            return START_MS + record
        return LONG_AGO_MS + record * self.spacing_ms

    def partition_of(self, partition: int, number: int) -> str:
        """Return the partition by date and country that a record belongs in."""
        _, ts_ms, country, _ = self.row(partition, number)
        return f"date={datetime.fromtimestamp(ts_ms / 1000, UTC):%Y-%m-%d}/country={country}"

    def value(self, partition: int, number: int) -> bytes:
        """Return the bytes of a record."""
        record, ts_ms, country, text = self.row(partition, number)
        value = b'{"id": %d, "ts": %d, "country": "%b", "text": "%b"}' % (
            record,
            ts_ms,
            country.encode(),
            text.encode(),
        )
        return poison(value, record) if self.is_poisoned(partition, number) else value

    def is_poisoned(self, partition: int, number: int) -> bool:
        """Return whether a record is invalid."""
        if not self.poison_every:
            return False
        return (number * self.partitions + partition) % self.poison_every == 0


@dataclass(slots=True)
class Produced:
    """How many records of a workload each partition has had; `gone`: which no job could read."""

    workload: Numbered
    counts: list[int] = field(default_factory=list)
    gone: set[tuple[int, int]] = field(default_factory=set)  # partition, number

    def __post_init__(self) -> None:
        self.counts = [0] * self.workload.partitions

    @property
    def total(self) -> int:
        """How many records there are to land."""
        return sum(self.counts) - len(self.gone)

    def lose(self, partition: int, numbers: Iterable[int]) -> None:
        """Take down that records went away before they were read: no table may have them."""
        self.gone |= {(partition, number) for number in numbers}

    def count_partitions(self) -> Counter[str]:
        """Return how many rows belong in each partition by date and country."""
        workload = self.workload
        return Counter(
            workload.partition_of(partition, number)
            for partition, count in enumerate(self.counts)
            for number in range(count)
            if (partition, number) not in self.gone and not workload.is_poisoned(partition, number)
        )

    def begin_again(self) -> None:
        """Take down that the topic was created again: offsets begin at 0."""
        restarts = (*self.workload.restarts, tuple(self.counts))
        self.workload = replace(self.workload, restarts=restarts)

    def deal(self, records: int) -> Iterator[tuple[int, bytes]]:
        """Yield partition and value of the next records, and count each once it is taken."""
        for turn in range(records):
            partition = turn % self.workload.partitions
            yield partition, self.workload.value(partition, self.counts[partition])
            self.counts[partition] += 1


def poison(value: bytes, record: int) -> bytes:
    """Return bytes that are no row of SCHEMA: one of the forms that topics really hold."""
    document = json.loads(value)
    forms = (
        value[: len(value) // 2],  # cut off
        b"",
        b"\x00" + record.to_bytes(4, "big") + value,  # framed by a schema registry
        value + b"}",
        b"[%b]" % value,
        json.dumps({**document, "id": "many"}).encode(),
        json.dumps({**document, "ts": {"ms": 1}}).encode(),
        value.replace(b'"text"', b"\xff\xfe"),  # no UTF-8
        b'{"id": %d' % record + b"0" * 30 + b"}",  # beyond 64 bits
        b"null",
    )
    return forms[record // 10 % len(forms)]
