"""Look for Java and fetch all locked jars: what `make setup` runs.

With `--java-only` it looks for Java only, and needs nothing but a Python: so that a machine without
Java hears of it before packages are downloaded.
"""

import sys

from ashore.errors import AshoreError
from ashore.jobs.jars import find_java


def main() -> None:
    """Exit with one sentence and a hint if something is missing."""
    try:
        find_java()
        if "--java-only" not in sys.argv:
            fetch_jars()
    except AshoreError as error:
        print(f"{error.message}\n{error.hint}", file=sys.stderr)
        sys.exit(error.exit_code)


def fetch_jars() -> None:
    """Fetch the jars of every lock that are not in the cache yet."""
    from ashore.jobs.jars import jar_paths, load_lock  # noqa: PLC0415 - of packages, not there yet

    for name in load_lock():
        jar_paths(name, progress=lambda text: print(text, file=sys.stderr))


if __name__ == "__main__":
    main()
