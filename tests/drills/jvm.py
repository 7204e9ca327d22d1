"""What a JVM holds, told by the tools of the JDK from outside.

What it is: `collect`, which has a JVM collect its garbage and counts what is left by class; and
`rises`, what there is more of than before.
What it promises: what is counted is reached: garbage is not.
"""

import re
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import psutil

from ashore.jobs.jars import find_java

COLLECTIONS = 3  # a batch under way reaches some megabytes
_CLASS = re.compile(r"\s*\d+:\s+(\d+)\s+(\d+)\s+(\S+)")
_AREA = re.compile(r"-\s+(.+?) \(reserved=\d+KB, committed=(\d+)KB")


@dataclass(frozen=True, slots=True)
class Heap:
    """What a JVM reaches: bytes by class, and what it has taken of the system, by purpose."""

    classes: Mapping[str, int]
    native_kb: Mapping[str, int]  # empty where -XX:NativeMemoryTracking is off

    @property
    def live_mb(self) -> float:
        """What all objects take that are reached."""
        return sum(self.classes.values()) / 1e6


def collect(pid: int) -> Heap:
    """Collect all garbage of a JVM and count what is left, in between two batches if it can be.

    Raises psutil.NoSuchProcess.
    """
    return min((_collect(pid) for _ in range(COLLECTIONS)), key=lambda heap: heap.live_mb)


def _collect(pid: int) -> Heap:
    return Heap(
        {name: int(size) for _, size, name in _CLASS.findall(_ask(pid, "GC.class_histogram"))},
        {name: int(kb) for name, kb in _AREA.findall(_ask(pid, "VM.native_memory", "summary"))},
    )


def rises(first: Heap, last: Heap, count: int = 12) -> Iterator[str]:
    """Yield in words what rose most from one collection to a later one."""
    for title, before, after, unit in (
        ("heap", first.classes, last.classes, 1e3),
        ("native", first.native_kb, last.native_kb, 1.0),
    ):
        by_rise = sorted(after, key=lambda name: before.get(name, 0) - after[name])
        for name in by_rise[:count]:
            rise = (after[name] - before.get(name, 0)) / unit
            if rise >= 1:
                yield f"{title}: {rise:+,.0f} kB, now {after[name] / unit:,.0f} kB: {name}"


def _ask(pid: int, *command: str) -> str:
    jcmd = find_java().resolve().parent / "jcmd"
    answer = subprocess.run(
        [str(jcmd), str(pid), *command], capture_output=True, text=True, check=False, timeout=120
    )
    if answer.returncode:
        raise psutil.NoSuchProcess(pid, msg=answer.stderr)
    return answer.stdout
