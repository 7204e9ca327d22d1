"""What Ashore's readers set of librdkafka, below the options of a job file.

What it is: a table for each reader. `Cluster.open_client` adds the job's options (`options`) and
refuses those that are Ashore's own.
"""

READING = {
    "enable.auto.commit": "false",
    "auto.offset.reset": "error",
    "isolation.level": "read_committed",
    "enable.partition.eof": "true",
}

# Lands ranges of offsets: `reading`.
RANGES = {
    **READING,
    "group.id": "ashore",  # the client requires one; nothing is committed
    "enable.auto.offset.store": "false",
    "fetch.wait.max.ms": "20",  # the range is all there: nothing to wait for
    "fetch.queue.backoff.ms": "10",  # the default, a second at a full queue, is 7 times slower
    "queued.max.messages.kbytes": f"{16 << 10}",  # fetched ahead: what a range's end throws away
}

# Reads the first record after an offset: `histories`.
HISTORIES = {
    **READING,
    "group.id": "ashore-histories",
    # A first record, or the end, is answer enough: what comes with it is dropped. A broker returns
    # a batch that is larger than this of the first partition of a fetch only, so that partitions
    # that have answered are not fetched again.
    "queued.min.messages": "1",
    "fetch.message.max.bytes": f"{64 << 10}",
    "fetch.queue.backoff.ms": "10",
}

# Reads ranges again, message by message, to compare them: `kafka.PlainReader`.
VERIFICATION = {
    **READING,
    "group.id": "ashore-verify",
    # Ranges are short, and what is fetched beyond their ends is fetched for nothing.
    "queued.min.messages": "1000",
    "queued.max.messages.kbytes": "4096",
}
