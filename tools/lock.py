"""Write requirements.lock and requirements-bench.lock: what `make lock` runs.

What it promises: one pinned version with hashes for each package, for all platforms and Python
versions that pyproject.toml allows; no index host and no path of a machine in the file. Versions
that are locked already stay unless `--upgrade` is given.
"""

import subprocess
import sys

from check_lock import LOCK, MARK, ROOT, dependency_digest

HEADER = """\
# Python packages with hashes. Written by `make lock`, installed by `make setup`.
"""


# What `make bench-peers` and `make bench-sql` need: Flink's jars and DuckDB. They
# have a lock of their own, as they are 250 MB and belong to a directory of their own.
BENCH_LOCK = LOCK.with_name("requirements-bench.lock")
BENCH = "apache-flink-libraries==2.3.0\nduckdb==1.5.3\n"
BENCH_HEADER = """\
# What benchmarks compare with. Written by `make lock`, installed for `make bench-peers`.
"""
COMPILE = (sys.executable, "-m", "uv", "pip", "compile", "--quiet", "--universal")
OPTIONS = ("--python-version", "3.11", "--generate-hashes", "--no-header", "--no-annotate")


def lock_product() -> None:
    """Resolve and write, keeping the old lock if resolving fails."""
    fresh = LOCK.with_name(".requirements.lock")
    if LOCK.exists():
        fresh.write_text(LOCK.read_text("utf-8"), "utf-8")
    command = [*COMPILE, "pyproject.toml", "--extra", "dev", *OPTIONS]
    command += ["--output-file", fresh.name, *sys.argv[1:]]
    try:
        subprocess.run(command, cwd=ROOT, check=True)
        fresh.write_text(
            f"{HEADER}{MARK}{dependency_digest()}\n\n{fresh.read_text('utf-8')}", "utf-8"
        )
        fresh.replace(LOCK)
    finally:
        fresh.unlink(missing_ok=True)


def lock_bench() -> None:
    """Write the hashes of what is compared with; without what it asks for, which nothing needs."""
    command = [*COMPILE, "-", "--no-deps", *OPTIONS]
    found = subprocess.run(
        command, cwd=ROOT, check=True, input=BENCH, capture_output=True, text=True
    )
    BENCH_LOCK.write_text(BENCH_HEADER + "\n" + found.stdout, "utf-8")


def main() -> None:
    """Write both locks."""
    lock_product()
    lock_bench()


if __name__ == "__main__":
    main()
