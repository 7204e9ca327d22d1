"""What a task counts besides the ledger.

What it is: the names, and what each says. They are summed over tasks and kept in `prepare` entries.
What it promises: every counter of an entry is in this table; one that is zero is left out. A task
that lands lost files again reports none: they were counted the first time.
"""

from collections.abc import Mapping

from ashore.errors import check

COUNTERS: dict[str, str] = {
    "far_future": "rows whose event time is beyond the batch's time plus `future_max`; of a query, "
    "the records that are in no view for it",
    "late": "rows whose event time is more than `after` behind the watermark; of a query, the "
    "records that it has read behind its watermark, whether or not a window is open for them",
    "near_1970": "rows whose event time is in January or February of 1970, as times are that are "
    "read in a wrong unit",
    "no_event_time": "rows without an event time that a calendar holds",
    "overlapping_spans": "spans that hold offsets of another file of their task and target: "
    "such a file, if lost, cannot be landed again",
    "reader_fallbacks": "readings that the native reader gave up on the way, so that librdkafka "
    "continued them; the task's log says why",
    "records_near_1970": "of a query, the records that it has read whose event time is in January "
    "or February of 1970",
    "records_undecodable": "of a query, the records that are in no view, as they cannot be decoded",
    "records_untimed": "of a query, the records that it has read without an event time, from views "
    "with a watermark",
    "rehomed": "rows in the bucket of the batch's time, and not in that of their event time",
    "sent": "rows of a query that went into its topic; rows of an interrupted batch, which are "
    "sent again, are counted once",
    "sided": "rows in the late table",
    "times_out_of_range": "times that no table of that format can hold, and that are null: the "
    "timestamps that Kafka keeps for records, and values that SQL made",
    "tombstones": "records without a value, which are no row",
    "unknown_fields": "rows with a field that the schema does not name; an estimate by samples",
    "unnameable": "records that are no row because a partition value is too long for a directory",
}


def sort_counters(counts: Mapping[str, int]) -> tuple[tuple[str, int], ...]:
    """Return the counters that are not zero, by name."""
    unknown = sorted(counts.keys() - COUNTERS.keys())
    check(not unknown, f"counters without a meaning: {unknown}")
    return tuple(sorted((name, count) for name, count in counts.items() if count))
