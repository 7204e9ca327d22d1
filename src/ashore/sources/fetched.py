"""The columns in which every reader delivers records.

What it is: one schema: of Spark's Kafka source, of ours, of recorded sources in tests.
What it promises: a record's bytes as they are; its time in microseconds, as Kafka has it.
What it must not know: who reads.
"""

import pyarrow as pa

FETCHED = pa.schema(
    [
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("timestamp", pa.timestamp("us", "UTC")),
        ("key", pa.binary()),
        ("value", pa.binary()),
    ]
)
