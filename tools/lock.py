"""Write requirements.lock: what `make lock` runs.

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


def main() -> None:
    """Resolve and write, keeping the old lock if resolving fails."""
    fresh = LOCK.with_name(".requirements.lock")
    if LOCK.exists():
        fresh.write_text(LOCK.read_text("utf-8"), "utf-8")
    command = [sys.executable, "-m", "uv", "pip", "compile", "pyproject.toml", "--quiet"]
    command += ["--universal", "--python-version", "3.11", "--extra", "dev", "--generate-hashes"]
    command += ["--no-header", "--no-annotate", "--output-file", fresh.name, *sys.argv[1:]]
    try:
        subprocess.run(command, cwd=ROOT, check=True)
        fresh.write_text(
            f"{HEADER}{MARK}{dependency_digest()}\n\n{fresh.read_text('utf-8')}", "utf-8"
        )
        fresh.replace(LOCK)
    finally:
        fresh.unlink(missing_ok=True)


if __name__ == "__main__":
    main()
