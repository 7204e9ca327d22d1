"""`python -m bench [NAME ...]`: each question has a file of its own; without names all are run.

All answers end in one table. The last ones of each benchmark are kept in `bench/results/bench.json`
as soon as they are there, and shown in `bench.md` beside it.
"""

import importlib
import os
import pkgutil
import sys
import time
import traceback
from pathlib import Path

from bench import kept
from bench.machine import describe_commit, describe_machine
from bench.table import Answers, Origin, render_answers, render_page

HELPERS = {"__main__", "kept", "machine", "marks", "processes", "table", "tasks"}
PAGE = Path(__file__).parent / "results" / "bench.md"


def names() -> list[str]:
    folder = str(Path(__file__).parent)
    found = pkgutil.iter_modules([folder])  # a package is a command of its own: bench.peers
    return sorted(each.name for each in found if not each.ispkg and each.name not in HELPERS)


def answer(name: str) -> Answers | None:
    """Run one benchmark. None if it fails: what the others found is not lost with it."""
    module = importlib.import_module(f"bench.{name}")
    print(f"== {name}: {(module.__doc__ or '').strip().splitlines()[0]}", flush=True)
    began_s = time.monotonic()
    origin = Origin(
        commit=describe_commit(),
        began=time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime()),
        machine=describe_machine(),
        load_before=os.getloadavg()[0],
    )
    try:
        rows = tuple(module.main())
    except Exception:  # noqa: BLE001 - whatever it is, it is shown, and the run fails
        traceback.print_exc()
        return None
    print(f"   ({time.monotonic() - began_s:.0f} s)\n", flush=True)
    return Answers(name, rows, origin)


def keep(answers: Answers) -> None:
    """Add answers to those that are kept, in place of earlier ones of the same benchmark."""
    known = kept.load(PAGE.with_suffix(".json")) | {answers.benchmark: answers}
    kept.save(PAGE.with_suffix(".json"), known)
    PAGE.write_text(render_page([known[name] for name in sorted(known)]), "utf-8")


def main(wanted: list[str]) -> int:
    known = names()
    unknown = sorted(set(wanted) - set(known))
    if unknown:
        print(f"no benchmark {', '.join(unknown)}; there are: {', '.join(known)}", file=sys.stderr)
        return 2
    good, failed = list[Answers](), list[str]()
    for name in wanted or known:
        found = answer(name)
        if found is None:
            failed.append(name)
            continue
        good.append(found)
        keep(found)
    print(render_answers(good))
    print(f"kept in bench/results/{PAGE.name}", file=sys.stderr)
    if failed:
        print(f"failed: {', '.join(failed)}", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
