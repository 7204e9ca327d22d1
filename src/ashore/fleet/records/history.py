"""What a job did over the last week, for charts: a line of JSON each half minute.

What it is: `JobSample`; `SampleMaker`, which makes them of what a run reports; how they are kept.
What it promises: at most twice `HISTORY_BYTES` per job on the disk, and a week of one that runs all
the time. A file that is missing, or a line that is damaged, gives fewer samples and no error.
"""

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from itertools import pairwise
from pathlib import Path
from typing import cast

from ashore.base import codec
from ashore.fleet.records.store import append_line, read_lines

SAMPLE_EVERY_MS = 30_000
HISTORY_BYTES = 2_500_000  # of the newest file, and of the one before it
_GAP = 3  # times the usual distance: longer than that nothing was running


@dataclass(frozen=True, slots=True)
class JobSample:
    """What a job did since the sample before.

    Arguments:
        at_ms: when it ended.
        lag: offsets that waited then; None: not known.
        landed: records that became readable, in tables or topics.
        late: records in late tables.
        dead: dead letters.
        batch_ms: the longest batch that ended; None: none did.

    """

    at_ms: int
    lag: int | None
    landed: int
    late: int
    dead: int
    batch_ms: int | None


class SampleMaker:
    """Counts from one sample to the next. Used by one thread."""

    def __init__(self) -> None:
        self._counts = Counter[str]()
        self._batch_ms: int | None = None
        self._taken_ms = 0

    def count(self, outcome: str, records: int) -> None:
        """Count records of an outcome, such as `landed`."""
        self._counts["landed" if outcome == "sent" else outcome] += records

    def end_batch(self, took_ms: int) -> None:
        """Take a batch that has ended."""
        self._batch_ms = max(self._batch_ms or 0, took_ms)

    def is_due(self, now_ms: int) -> bool:
        """Return whether the last sample is old. A clock that was set back does not stop them."""
        return not 0 <= now_ms - self._taken_ms < SAMPLE_EVERY_MS

    def take(self, now_ms: int, lag: int | None) -> JobSample:
        """Return the sample of now, and count from 0 on."""
        landed, late, dead = (self._counts[each] for each in ("landed", "late", "dead"))
        sample = JobSample(now_ms, lag, landed, late, dead, self._batch_ms)
        self._counts.clear()
        self._batch_ms, self._taken_ms = None, now_ms
        return sample


def write_sample(path: Path, sample: JobSample) -> None:
    """Append a sample. Raises OSError."""
    append_line(path, asdict(sample), HISTORY_BYTES, 1)


def read_history(path: Path, since_ms: int) -> tuple[JobSample, ...]:
    """Return the samples since a time, the oldest first."""
    older = path.with_name(f"{path.name}.1")
    lines = (line for each in (older, path) for line in read_lines(each, HISTORY_BYTES * 2))
    found = []
    for line in lines:
        with suppress(ValueError, TypeError, KeyError):
            sample = codec.decode(JobSample, cast("codec.Json", line))
            if sample.at_ms >= since_ms:
                found.append(sample)
    return tuple(sorted(found, key=lambda each: each.at_ms))


def thin(samples: Sequence[JobSample], count: int) -> tuple[JobSample, ...]:
    """Return at most `count` samples of equal spans: counts added, the highest lag and batch."""
    if len(samples) <= count:
        return tuple(samples)
    first, span = samples[0].at_ms, samples[-1].at_ms + 1 - samples[0].at_ms
    ends = [first + span * (number + 1) // count for number in range(count)]
    parts: dict[int, list[JobSample]] = {}
    for each in samples:
        parts.setdefault(bisect_right(ends, each.at_ms), []).append(each)
    return tuple(_join(part) for part in parts.values())


def _join(part: Sequence[JobSample]) -> JobSample:
    lags = [each.lag for each in part if each.lag is not None]
    batches = [each.batch_ms for each in part if each.batch_ms is not None]
    return JobSample(
        part[-1].at_ms,
        max(lags, default=None),
        sum(each.landed for each in part),
        sum(each.late for each in part),
        sum(each.dead for each in part),
        max(batches, default=None),
    )


def split_at_gaps(samples: Sequence[JobSample]) -> Iterator[tuple[int, JobSample | None]]:
    """Yield samples with their times, and None within each time in which the job did not run."""
    times = [each.at_ms for each in samples]
    steps = sorted(after - before for before, after in pairwise(times))
    usual_ms = steps[len(steps) // 2] if steps else 0
    for number, each in enumerate(samples):
        if number and each.at_ms - times[number - 1] > _GAP * max(usual_ms, SAMPLE_EVERY_MS):
            yield times[number - 1] + 1, None
            yield each.at_ms - 1, None
        yield each.at_ms, each
