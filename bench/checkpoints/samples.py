"""What is seen from outside, each second.

What it is: `Sampler`, a thread that reads /proc; its samples, their percentiles, their CSV.
What it promises: a sample is what was used since the one before, by the second. Bytes written are
those that the kernel is to bring to disk; bytes into the DataNode are what it writes: what it was
sent, with its checksums.
What it must not know: Spark, HDFS.
"""

import csv
import threading
import time
from collections.abc import Sequence
from dataclasses import astuple, dataclass, fields
from pathlib import Path
from typing import Self

import numpy as np

from bench.processes import read_session

EVERY_S = 1.0
PEAK = 99  # percent of the samples are at or below what is called the peak


@dataclass(frozen=True, slots=True)
class Sample:
    """What one second took."""

    at_s: float  # since the first look
    cpu_s: float  # of the job's processes; a second of both cores is 2
    disk_bytes: float  # that the job's processes wrote to the local disk
    datanode_bytes: float


@dataclass(frozen=True, slots=True)
class Spread:
    """Samples in three numbers."""

    mean: float
    median: float
    peak: float


def spread_of(values: Sequence[float]) -> Spread:
    """Return the mean, the median and the 99th percentile."""
    if not values:
        return Spread(0.0, 0.0, 0.0)
    return Spread(
        float(np.mean(values)), float(np.median(values)), float(np.percentile(values, PEAK))
    )


class Sampler:
    """A context manager that looks each second.

    Arguments:
        session: the job's processes.
        datanode: the process id of the DataNode.

    """

    def __init__(self, session: int, datanode: int) -> None:
        self._session = session
        self._datanode = datanode
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="sampler", daemon=True)
        self.samples: list[Sample] = []

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()

    def _run(self) -> None:
        began_s = time.monotonic()
        before_s, before = began_s, self._look()
        while not self._ended.wait(EVERY_S):
            now_s, now = time.monotonic(), self._look()
            passed_s = now_s - before_s
            rates = [max(0.0, b - a) / passed_s for a, b in zip(before, now, strict=True)]
            self.samples.append(Sample(now_s - began_s, *rates))
            before_s, before = now_s, now

    def _look(self) -> tuple[float, float, float]:
        seen = read_session(self._session)
        written = sum(read_io(pid).get("write_bytes", 0) for pid in seen)
        return (
            sum(each.cpu_s for each in seen.values()),
            written,
            read_io(self._datanode).get("wchar", 0),
        )


def read_io(pid: int) -> dict[str, int]:
    """Return what the kernel counts of a process; nothing if it is gone."""
    try:
        lines = Path(f"/proc/{pid}/io").read_text("utf-8").splitlines()
    except (FileNotFoundError, ProcessLookupError):
        return {}
    return {name: int(count) for name, _, count in (line.partition(":") for line in lines)}


def save_csv(samples: Sequence[Sample], path: Path) -> None:
    """Write raw samples."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(field.name for field in fields(Sample))
        writer.writerows([f"{value:.6g}" for value in astuple(each)] for each in samples)
