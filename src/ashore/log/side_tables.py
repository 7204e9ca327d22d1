"""The tables beside a table: late records, and dead letters.

What it is: their names, and the columns and partitions of a dead-letter table.
What it promises: the same for checks of a job file, for writers of rows and for a catalog.
"""

LATE_SUFFIX = "__late"  # of records that the late policy puts aside; their table has the same rows
DEAD_SUFFIX = "__dead"  # of records that are no row

HEADERS_TYPE = "ARRAY<STRUCT<key: STRING, value: BINARY>>"  # as Spark's source for Kafka has it
DEAD_DDL = (
    "value BINARY, key BINARY, topic STRING, partition INT, offset BIGINT, "
    "timestamp TIMESTAMP, reason STRING"
)
DEAD_PARTITION_BY = ("date",)  # of landing: a bad record has no event time


def dead_ddl(*, headers: bool, generation: bool = False) -> str:
    """Return the columns of a dead-letter table.

    Arguments:
        headers: those of records are kept too.
        generation: a letter has the generation of its topic.

    """
    ddl = f"{DEAD_DDL}, generation INT" if generation else DEAD_DDL
    return f"{ddl}, headers {HEADERS_TYPE}" if headers else ddl
