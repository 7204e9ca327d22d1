"""Where and from what something is measured.

What it is: the machine without its name, the versions, the commit.
What it promises: `+` behind a commit tells that files differ from it.
What it must not know: what is measured.
"""

import os
import platform
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

from ashore.jobs.jars import find_java

ROOT = Path(__file__).parent.parent


@dataclass(frozen=True, slots=True)
class Machine:
    """Where it was measured."""

    cpu: str
    cores: int
    memory_gib: float
    kernel: str
    versions: Mapping[str, str]


def describe_machine() -> Machine:
    """Return what the machine is, without its name."""
    memory_bytes = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    cpus = Path("/proc/cpuinfo").read_text("utf-8").splitlines()
    models = [line.partition(":")[2].strip() for line in cpus if line.startswith("model name")]
    return Machine(
        cpu=models[0] if models else platform.machine(),
        cores=len(os.sched_getaffinity(0)),
        memory_gib=round(memory_bytes / (1 << 30), 1),
        kernel=platform.release(),
        versions={
            "Python": platform.python_version(),
            "Spark": version("pyspark"),
            "Flink": "2.3.0",
            "pyarrow": version("pyarrow"),
            "Java": java_version(),
        },
    )


def java_version() -> str:
    """Return the version of the Java on the path."""
    said = subprocess.run([find_java(), "-version"], capture_output=True, text=True, check=True)
    return said.stderr.split('"')[1]


def describe_commit() -> str:
    """Return the commit, with `+` if files differ from it."""
    git = ["git", "-C", str(ROOT)]
    head = subprocess.run(
        [*git, "rev-parse", "--short=12", "HEAD"], capture_output=True, text=True, check=False
    )
    changed = subprocess.run([*git, "diff", "--quiet", "HEAD", "--", "src", "bench"], check=False)
    return (head.stdout.strip() or "unknown") + ("+" if changed.returncode else "")
