"""Whether a text of the logs agrees with those of the batches before and after it.

What it is: `compare_offsets` and `compare_commit`, for a text whose checksum differs;
`find_outliers`, for texts without a checksum.
What it promises: pure. None says that nothing contradicts the text, not that it is what Spark has
written. What a query may change between two batches is compared with both neighbours.
"""

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import NamedTuple, TypeVar

from ashore.queries.state.diagnosis.lineage import kafka_end
from ashore.queries.state.layout import BatchLog, BatchPath, CommitFile, OffsetsFile, Settings
from ashore.queries.state.required_files import parse_log_offset

T = TypeVar("T")

_CLOCK_STEP_MS = 24 * 3600 * 1000  # by which a clock may be set back between two batches


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


# ---- texts without a checksum


def find_outliers(
    offsets: Mapping[int, OffsetsFile], commits: Mapping[int, CommitFile]
) -> dict[BatchPath, str]:
    """Return which texts cannot be what Spark wrote between those of their neighbours, and why.

    Nothing else speaks against these texts, so only what no start of a query does counts. Of two
    texts that contradict each other it is the one that contradicts its other neighbour as well, or
    without which the others agree; both, where that is not known.
    """
    found = _find_outliers(BatchLog.OFFSETS, offsets, _contradict_offsets)
    for path, text in _find_outliers(BatchLog.COMMITS, commits, _contradict_commits).items():
        planned = offsets.get(path.batch + 1)
        is_confirmed = (
            planned is not None
            and planned.settings is not None
            and planned.settings.watermark_ms == commits[path.batch].watermark_ms
        )
        found |= {} if is_confirmed else {path: text}
    for batch, commit in sorted(commits.items()):
        found |= _compare_watermarks(batch, commit, offsets, found)
    return found


def _find_outliers(
    log: BatchLog, texts: Mapping[int, T], contradict: Callable[[T, T], str | None]
) -> dict[BatchPath, str]:
    found = {}
    for batch in texts:
        two_before, before, after, two_after = (texts.get(batch + at) for at in (-2, -1, 1, 2))
        this, other, text = texts[batch], batch - 1, None
        if before is not None:
            text = contradict(before, this)
        if text is None and after is not None:
            text, other = contradict(this, after), batch + 1
        if text is None:
            continue
        if before is not None and after is not None:
            is_outlier = contradict(before, after) is None
        elif before is not None:  # the last one: only its neighbour has another neighbour
            is_outlier = two_before is None or contradict(two_before, before) is None
        elif after is not None:
            is_outlier = two_after is None or contradict(after, two_after) is None
        else:
            is_outlier = False
        if is_outlier:
            found[BatchPath(log, batch)] = f"{text} between it and {_name(log, other)}"
    return found


def _compare_watermarks(
    batch: int,
    commit: CommitFile,
    offsets: Mapping[int, OffsetsFile],
    found: Mapping[BatchPath, str],
) -> dict[BatchPath, str]:
    """Compare a commit with the offsets of its batch, and with those of the next one."""
    path, planned = BatchPath(BatchLog.COMMITS, batch), BatchPath(BatchLog.OFFSETS, batch + 1)
    own, after = offsets.get(batch), offsets.get(batch + 1)
    if path in found or commit.watermark_ms is None:
        return {}
    is_own_sure = BatchPath(BatchLog.OFFSETS, batch) not in found
    if own and own.settings and is_own_sure and commit.watermark_ms < own.settings.watermark_ms:
        return {path: f"its watermark is before that of {_name(BatchLog.OFFSETS, batch)}"}
    if after is None or after.settings is None or planned in found:
        return {}
    if commit.watermark_ms == after.settings.watermark_ms:
        return {}
    return {
        path: f"its watermark is not that of {planned.path}",
        planned: f"its watermark is not that of {path.path}",
    }


def _contradict_offsets(first: OffsetsFile, second: OffsetsFile) -> str | None:
    pair = _Offsets(_of_sources(first, second), second)
    return next(_contradictions(pair, _CLOCK_STEP_MS), None)


def _of_sources(first: OffsetsFile, second: OffsetsFile) -> OffsetsFile:
    """Return offsets without the sources that a query has dropped: those with names may be."""
    if second.version == 1:
        return first
    known = {each.source for each in second.sources}
    return replace(first, sources=tuple(each for each in first.sources if each.source in known))


def _contradict_commits(first: CommitFile, second: CommitFile) -> str | None:
    if first.watermark_ms is None:
        return None
    if second.watermark_ms is None:
        return "the watermark is lost"
    return "the watermark goes back" if second.watermark_ms < first.watermark_ms else None


# ---- shared


def _keys(commit: CommitFile) -> tuple[int, bool, bool, frozenset[str]]:
    has_watermark, has_ids = commit.watermark_ms is not None, commit.store_ids is not None
    return commit.version, has_watermark, has_ids, frozenset(commit.other)


def _contradictions(pair: _Offsets, clock_step_ms: int = 0) -> Iterator[str]:
    first, second = pair
    before, after = first.settings or Settings(), second.settings or Settings()
    if after.watermark_ms < before.watermark_ms:
        yield "the watermark goes back"
    if after.timestamp_ms < before.timestamp_ms - clock_step_ms:
        yield "the time goes back"
    if len(second.sources) < len(first.sources):
        yield "the number of sources goes down"
    ends = {each.source: each.end for each in second.sources}
    for each in first.sources:
        if each.end is not None and not _follows(each.end, ends.get(each.source)):
            yield f"the end of source {each.source} goes back"


def _follows(first: str, second: str | None) -> bool:
    """Return whether an end can come after another: it has the same keys, and is not before it."""
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
