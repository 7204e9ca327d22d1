"""`python -m bench.peers run [--small]` measures; `python -m bench.peers table` writes the README.

What it is: the command line of the comparison.
What it promises: a small run leaves neither results nor README changed; a stop by SIGTERM or
SIGINT ends everything that was started.
What it must not know: how anything is measured.
"""

import argparse
import signal
import sys
from dataclasses import replace
from pathlib import Path
from types import FrameType

from bench.peers.compare import FULL, PARTS, SMALL_SCALE, compare
from bench.peers.readme import RESULTS, find_stale, write_readme
from bench.peers.report import render_page
from bench.peers.run import PEERS


def main() -> int:
    """Run a command."""
    parser = argparse.ArgumentParser(prog="python -m bench.peers")
    commands = parser.add_subparsers(dest="command", required=True)
    run = commands.add_parser("run", help="measure, write results and the README's table")
    run.add_argument("--small", action="store_true", help="a twentieth, once; nothing is kept")
    run.add_argument("--peer", action="append", choices=PEERS, help="only these; nothing is kept")
    run.add_argument("--part", action="append", choices=PARTS, help="only these; nothing is kept")
    run.add_argument("--save", type=Path, help="keep results here instead, without suffix")
    table = commands.add_parser("table", help="write the README's table from the results")
    table.add_argument("--check", action="store_true", help="only tell whether it is stale")
    options = parser.parse_args()
    if options.command == "table":
        if options.check and find_stale():
            print("README.md is stale; run: python -m bench.peers table", file=sys.stderr)
            return 1
        if not options.check:
            write_readme()
        return 0
    signal.signal(signal.SIGTERM, _stop)
    scale = replace(
        SMALL_SCALE if options.small else FULL,
        peers=tuple(options.peer or PEERS),
        parts=tuple(options.part or PARTS),
    )
    results = compare(scale)
    page = render_page(results)
    print(page)
    target = options.save or (RESULTS if scale == FULL else None)
    if target:
        results.save(target.with_suffix(".json"))
        target.with_suffix(".md").write_text(page, "utf-8")
    if target == RESULTS:
        write_readme()
    return 0


def _stop(number: int, _frame: FrameType | None) -> None:
    sys.exit(128 + number)


if __name__ == "__main__":
    sys.exit(main())
