"""Topics that a broker compacts while a test waits."""

import time

from tests.spark.site import Site, events

WAIT_S = 60.0
SETTINGS = {
    "cleanup.policy": "compact",
    "segment.bytes": "1048576",
    "segment.ms": "100",
    "min.cleanable.dirty.ratio": "0.001",
    "max.compaction.lag.ms": "100",
}


def produce_compacted(site: Site, topic: str, start: int, count: int) -> int:
    """Produce records of seven keys and wait until few are left; return the next id.

    The topic has the SETTINGS. Records go on coming while it waits: they begin new segments.
    """
    keys = [b"key-%d" % (number % 7) for number in range(count)]
    before = len(site.committed(topic))
    site.produce_keyed(topic, keys, events(start, count))
    deadline_s, number = time.monotonic() + WAIT_S, start + count
    while len(site.committed(topic)) > before + number - start - count * 3 // 4:
        assert time.monotonic() < deadline_s, "the broker does not compact"
        site.produce_keyed(topic, [b"tick"], events(number, 1))
        number += 1
        time.sleep(0.3)
    return number
