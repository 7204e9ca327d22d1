"""Compile what the commands import, so that the first one after `make setup` starts quickly.

    python tools/compile.py

Only packages that commands import before their first output: to compile all of PySpark, numpy and
pandas takes longer than any command saves. It is quick where nothing has changed.
"""

import compileall
import sys
from importlib.util import find_spec
from pathlib import Path

PACKAGES = (
    "ashore",
    "ashore_lab",
    "annotated_doc",
    "annotated_types",
    "confluent_kafka",
    "pydantic",
    "pydantic_core",
    "rich",
    "ruamel.yaml",
    "shellingham",
    "typer",
    "typing_extensions",
    "typing_inspection",
)


def main() -> int:
    """Compile the packages, and return 0: what cannot be compiled is compiled when it is run."""
    for name in PACKAGES:
        found = find_spec(name)
        if found is None or found.origin is None:
            continue
        if found.submodule_search_locations is None:
            compileall.compile_file(found.origin, quiet=2)
        else:
            compileall.compile_dir(Path(found.origin).parent, quiet=2, workers=0)
    return 0


if __name__ == "__main__":
    sys.exit(main())
