"""Tell whether requirements.lock belongs to pyproject.toml: what `make check` runs.

What it promises: works offline; fails when a dependency changed and `make lock` was not run.
"""

import hashlib
import json
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).parent.parent
LOCK = ROOT / "requirements.lock"
MARK = "# dependencies of pyproject.toml, sha256: "


def dependency_digest() -> str:
    """Return the SHA-256 over everything in pyproject.toml that the lock depends on."""
    with (ROOT / "pyproject.toml").open("rb") as file:
        pyproject = tomllib.load(file)
    project = pyproject["project"]
    tables = {
        "build": pyproject["build-system"]["requires"],
        "dependencies": project["dependencies"],
        "extras": project["optional-dependencies"],
        "python": project["requires-python"],
    }
    return hashlib.sha256(json.dumps(tables, sort_keys=True).encode()).hexdigest()


def main() -> None:
    """Exit with a message unless the lock is fresh."""
    if MARK + dependency_digest() not in LOCK.read_text("utf-8").splitlines():
        sys.exit(
            "requirements.lock is stale: dependencies in pyproject.toml changed; run: make lock"
        )


if __name__ == "__main__":
    main()
