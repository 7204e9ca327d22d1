"""What grows in a job process that runs for long, told from samples.

What it is: `Sample`, what a job held at a moment, and `find_growth`, which judges those of a life.
What it promises: pure. A gauge that rises in the second half of a life as well as in the first is
growth; one that rises and stays where it is has found its size. What is noise is said gauge by
gauge. Where a gauge follows the rate of batches, what the rate explains is taken out first.
"""

from collections.abc import Callable, Sequence
from itertools import pairwise
from statistics import median
from typing import NamedTuple

import numpy as np

WARM_UP = 0.2  # of a life: caches fill, the JVM compiles
PARTS = 4  # that the rest of a life is cut into
LOOK = 0.8  # of a part
SAMPLES_MIN = 24
RATE_OVER_S = 60.0  # as long as a pool of the JVM keeps a thread that has nothing to do
RATE_SPREAD_MIN = 0.1  # of the median: below it a rate explains nothing


class Sample(NamedTuple):
    """What a life of a job held at a moment."""

    at_s: float
    job_mb: float  # resident, of the job process
    workers_mb: float  # of what it has started, but for the JVM
    jvm_mb: float  # 0: there is none
    live_mb: float  # of the JVM's heap, once all garbage is collected; 0: not looked at
    threads: int  # of the job process
    jvm_threads: int
    descriptors: int  # of all its processes
    processes: int
    staged: int  # files in staging directories
    strange: int  # files in private directories that are of no kind that is meant to be there
    temporary: int  # files in the temporary directory of its processes
    log: int  # files of the landing log
    batches: int  # that this life has landed so far


class Gauge(NamedTuple):
    """A thing that is to stay as it is, and what of its change is noise."""

    name: str
    unit: str
    read: Callable[[Sample], float]
    noise: float
    noise_share: float = 0.0  # of what there was
    is_rare: bool = False  # looked at once in a part: see `plan_looks`
    follows_rate: bool = False  # of batches: see `without_rate`


GAUGES = (
    Gauge("memory of the job process", "MB", lambda each: each.job_mb, 12, 0.05),
    Gauge("memory of its workers", "MB", lambda each: each.workers_mb, 24, 0.08),
    Gauge("memory of the JVM", "MB", lambda each: each.jvm_mb, 16, 0.04),
    Gauge("heap that is reached", "MB", lambda each: each.live_mb, 4, 0.05, is_rare=True),
    Gauge("threads of the job process", "", lambda each: each.threads, 6),
    Gauge("threads of the JVM", "", lambda each: each.jvm_threads, 10, follows_rate=True),
    Gauge("descriptors", "", lambda each: each.descriptors, 16),
    Gauge("processes", "", lambda each: each.processes, 3),
    Gauge("staged files", "", lambda each: each.staged, 60),
    Gauge("strange files", "", lambda each: each.strange, 4),
    Gauge("temporary files", "", lambda each: each.temporary, 40),
    Gauge("files of the log", "", lambda each: each.log, 2_500),
)


class Course(NamedTuple):
    """How a gauge went in a life: its level in each part, in their order."""

    gauge: Gauge
    levels: tuple[float, ...]

    @property
    def noise(self) -> float:
        """What a change may come to that means nothing."""
        return max(self.gauge.noise, self.gauge.noise_share * self.levels[0])

    @property
    def grows(self) -> bool:
        """Whether it has risen over the life, and was still rising in its second half."""
        middle = self.levels[len(self.levels) // 2 - 1]
        rise, late = self.levels[-1] - self.levels[0], self.levels[-1] - middle
        return rise > self.noise and late > self.noise / 2

    def __str__(self) -> str:
        """Return it in words."""
        levels = " > ".join(f"{level:,.0f}" for level in self.levels)
        return f"{self.gauge.name}: {levels} {self.gauge.unit}".rstrip()


def plan_looks() -> list[float]:
    """Return when in a life to look at what costs too much to look at often, as shares of it.

    Late in each part, but not so late that a look that has to wait falls into the next.
    """
    return [WARM_UP + (1 - WARM_UP) * (part + LOOK) / PARTS for part in range(PARTS)]


def read_course(gauge: Gauge, samples: Sequence[Sample]) -> Course:
    """Return how a gauge went. Requires: a life of SAMPLES_MIN samples or more."""
    if len(samples) < SAMPLES_MIN:
        raise ValueError(f"{len(samples)} samples tell nothing of growth")
    start = int(len(samples) * WARM_UP)
    values = [float(gauge.read(each)) for each in samples[start:]]
    if gauge.follows_rate:
        values = without_rate(values, samples[start:], batch_rates(samples)[start:])
    ends = [round(len(values) * part / PARTS) for part in range(PARTS + 1)]
    parts = [values[start:end] for start, end in pairwise(ends)]
    level = max if gauge.is_rare else median
    return Course(gauge, tuple(level(part) for part in parts))


def batch_rates(samples: Sequence[Sample]) -> list[float]:
    """Return the batches per second before each sample, over RATE_OVER_S; of the first, 0."""
    rates, first = [], 0
    for each in samples:
        while samples[first].at_s < each.at_s - RATE_OVER_S:
            first += 1
        spent_s = each.at_s - samples[first].at_s
        rates.append((each.batches - samples[first].batches) / spent_s if spent_s > 0 else 0.0)
    return rates


def without_rate(
    values: Sequence[float], samples: Sequence[Sample], rates: Sequence[float]
) -> list[float]:
    """Return values as they would be at the mean rate of batches.

    How much a batch per second adds is fitted together with what each second and each batch adds:
    a leak goes on at the same rate, so that it is never counted as what the rate explains. Where
    a rate only rises with time, both are the same, and a part of the rise stays: that is red.
    """
    low, middle, high = np.quantile(rates, [0.1, 0.5, 0.9])
    if high - low <= RATE_SPREAD_MIN * middle:
        return list(values)
    columns = [rates, [each.at_s for each in samples], [each.batches for each in samples]]
    causes = np.array([np.asarray(each, float) - np.mean(each) for each in columns]).T
    scales = causes.std(axis=0)
    scales[scales == 0] = 1.0
    fitted, *_ = np.linalg.lstsq(causes / scales, np.array(values) - np.mean(values), rcond=1e-6)
    adds = max(0.0, float(fitted[0]))  # more batches never need fewer threads
    shares = (causes / scales)[:, 0]
    return [float(value - adds * share) for value, share in zip(values, shares, strict=True)]


def find_growth(samples: Sequence[Sample]) -> list[Course]:
    """Return the gauges that grow in a life. Requires: as `read_course`."""
    return [course for gauge in GAUGES if (course := read_course(gauge, samples)).grows]
