"""Which rows the topics of a table give, in words, for the log.

What it is: the keys of a job file that decide what becomes of a record, each with its value.
What it promises: equal rules give equal rows of equal records; what only decides how rows are put
into files (`roll`, `shuffle`), or when a partition is complete (`seal`), is no rule.
What it must not know: topics, logs; which change matters.
"""

from collections.abc import Sequence

from ashore.base.units import format_duration
from ashore.config import Table

Rules = tuple[tuple[str, str], ...]


def rules_of(items: Sequence[Table]) -> Rules:
    """Return the rules of a table, sorted. Where its items differ in a key, it names the topic."""
    known = [(str(item.topic), _describe_item(item)) for item in items]
    rules: dict[str, str] = {}
    for key in {key for _, each in known for key in each}:
        if len({each.get(key) for _, each in known}) == 1:
            rules[key] = known[0][1][key]
        else:
            rules |= {f"{key} of topic {topic}": each[key] for topic, each in known if key in each}
    return tuple(sorted(rules.items()))


def _describe_item(item: Table) -> dict[str, str]:
    late = item.late
    rules = {
        "decode": item.decode,
        "event_time": _describe_event_time(item),
        "late": f"{late.policy}, after {format_duration(late.after_ms)}, "
        f"future_max {format_duration(late.future_max_ms)}",
        "on_invalid": item.on_invalid,
    }
    if item.select is not None:
        rules["select"] = ", ".join(item.select)
    if item.where is not None:
        rules["where"] = item.where
    if item.retention_ms is not None:
        rules["retention"] = format_duration(item.retention_ms)
    return rules


def _describe_event_time(item: Table) -> str:
    time = item.event_time
    if time is None:
        return "the timestamp of the record in Kafka"
    return f"{time.column}, format {time.format}" if time.format else f"{time.column}, {time.unit}"
