"""What only comparisons need: jars of `jars.toml`, and the packages of `.venv/bench`.

What it is: `ensure_bench_jars` and `open_duckdb`.
What it promises: a jar has the locked bytes; nothing of Ashore can import these packages.
What it must not know: who uses them.
"""

import importlib
import sys
import tomllib
from pathlib import Path
from typing import Any

from ashore.jobs.jars import Progress, cache_directory, ensure_jars, parse_jar

HERE = Path(__file__).parent
WHEEL = HERE.parent.parent / ".venv" / "bench"  # where `make bench-peers` installs them


def ensure_bench_jars(name: str, progress: Progress = lambda _: None) -> list[Path]:
    """Return the jars of a set, fetching what is missing."""
    locked = tomllib.loads((HERE / "jars.toml").read_text("utf-8"))[name]
    jars = [parse_jar(coordinate, sha256) for coordinate, sha256 in locked.items()]
    return ensure_jars(jars, cache_directory(), progress)


def open_duckdb() -> Any:
    """Return a connection to a DuckDB in memory."""
    sys.path.append(str(WHEEL))
    try:
        return importlib.import_module("duckdb").connect()
    finally:
        sys.path.remove(str(WHEEL))
