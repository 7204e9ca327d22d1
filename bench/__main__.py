"""`python -m bench [NAME ...]`: each question has a file of its own; without names all are run."""

import importlib
import pkgutil
import sys
import time
from pathlib import Path


def names() -> list[str]:
    folder = str(Path(__file__).parent)
    found = pkgutil.iter_modules([folder])  # a package is a command of its own: bench.peers
    return sorted(each.name for each in found if not each.ispkg and each.name != "__main__")


def main(wanted: list[str]) -> int:
    known = names()
    unknown = sorted(set(wanted) - set(known))
    if unknown:
        print(f"no benchmark {', '.join(unknown)}; there are: {', '.join(known)}", file=sys.stderr)
        return 2
    for name in wanted or known:
        module = importlib.import_module(f"bench.{name}")
        print(f"== {name}: {(module.__doc__ or '').strip().splitlines()[0]}", flush=True)
        began_s = time.monotonic()
        module.main()
        print(f"   ({time.monotonic() - began_s:.0f} s)\n", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
