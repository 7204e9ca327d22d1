"""Whether a text of the logs agrees with those of the batches before and after it.

What it is: `compare_offsets` and `compare_commit`: for a text whose checksum differs.
What it promises: pure. None says that nothing contradicts the text, not that it is what Spark has
written. What a query may change between two batches is compared with both neighbours.
What it must not know: files.
"""

import json
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from ashore.checkpoints.diagnosis.lineage import kafka_end
from ashore.checkpoints.layout import BatchLog, BatchPath, CommitFile, OffsetsFile, Settings
from ashore.checkpoints.required import parse_log_offset


class _Offsets(NamedTuple):
    """An earlier text and a later one, and what messages call them."""

    first: OffsetsFile
    second: OffsetsFile


def compare_offsets(
    batch: int, offsets: Mapping[int, OffsetsFile], commits: Mapping[int, CommitFile]
) -> str | None:
    """Return how the offsets of a batch contradict their neighbours."""
    this, before, after = offsets[batch], offsets.get(batch - 1), offsets.get(batch + 1)
    for other, pair in (
        (batch - 1, before and _Offsets(before, this)),
        (batch + 1, after and _Offsets(this, after)),
    ):
        found = pair and next(_contradictions(pair), None)
        if found:
            return f"{found} between it and {_name(BatchLog.OFFSETS, other)}"
    commit = commits.get(batch - 1)
    if commit and this.settings and commit.watermark_ms not in {None, this.settings.watermark_ms}:
        return f"its watermark is not that of {_name(BatchLog.COMMITS, batch - 1)}"
    near = [each.settings or Settings() for each in (before, after) if each is not None]
    return _compare_settings(this.settings or Settings(), near)


def compare_commit(
    batch: int, offsets: Mapping[int, OffsetsFile], commits: Mapping[int, CommitFile]
) -> str | None:
    """Return how the commit of a batch contradicts its neighbours."""
    this, planned = commits[batch], offsets.get(batch + 1)
    if planned and planned.settings and this.watermark_ms != planned.settings.watermark_ms:
        return f"its watermark is not that of {_name(BatchLog.OFFSETS, batch + 1)}"
    before, after = commits.get(batch - 1), commits.get(batch + 1)
    if before and (this.watermark_ms or 0) < (before.watermark_ms or 0):
        return f"the watermark goes back between it and {_name(BatchLog.COMMITS, batch - 1)}"
    if after and (after.watermark_ms or 0) < (this.watermark_ms or 0):
        return f"the watermark goes back between it and {_name(BatchLog.COMMITS, batch + 1)}"
    near = [each for each in (before, after) if each is not None]
    if near and all(_keys(this) != _keys(each) for each in near):
        return "it has other keys than its neighbours"
    return None


def _keys(commit: CommitFile) -> tuple[int, bool, bool, frozenset[str]]:
    has_watermark, has_ids = commit.watermark_ms is not None, commit.store_ids is not None
    return commit.version, has_watermark, has_ids, frozenset(commit.other)


def _contradictions(pair: _Offsets) -> Iterator[str]:
    first, second = pair
    before, after = first.settings or Settings(), second.settings or Settings()
    if after.watermark_ms < before.watermark_ms:
        yield "the watermark goes back"
    if after.timestamp_ms < before.timestamp_ms:
        yield "the time goes back"
    if len(second.sources) < len(first.sources):
        yield "the number of sources goes down"
    ends = {each.source: each.end for each in second.sources}
    for each in first.sources:
        if each.end is not None and not _follows(each.end, ends.get(each.source)):
            yield f"the end of source {each.source} goes back"


def _follows(first: str, second: str | None) -> bool:
    """Tell whether an end can come after another: it has the same keys, and is not before it."""
    if second is None:
        return False
    before, after = kafka_end(first), kafka_end(second)
    if before is not None and after is not None:
        return all(
            after.get(topic, {}).get(name, -1) >= offset
            for topic, partitions in before.items()
            for name, offset in partitions.items()
        )
    try:
        then, now = json.loads(first), json.loads(second)
    except (ValueError, RecursionError):
        return True  # the text that is not JSON is judged itself
    if not isinstance(then, dict) or not isinstance(now, dict):
        return type(then) is type(now)
    if then.keys() != now.keys():
        return False
    start, end = parse_log_offset(first), parse_log_offset(second)
    return start is None or (end is not None and start <= end)


def _compare_settings(this: Settings, near: list[Settings]) -> str | None:
    if near and all(this.other.keys() != each.other.keys() for each in near):
        return "its settings have other keys than those of its neighbours"
    for key in sorted({key for each in (this, *near) for key in each.conf}):
        if near and all(this.conf.get(key) != each.conf.get(key) for each in near):
            return f"{key} is {this.conf.get(key)!r}, its neighbours say {near[0].conf.get(key)!r}"
    return None


def _name(log: BatchLog, batch: int) -> str:
    return BatchPath(log, batch).path
