"""`python -m bench.peers run [--small]` measures; `python -m bench.peers table` writes documents.

`run` alone measures what the README shows; `--shape NAME`, or `--shape wide` for all of them, the
shapes of the page on performance; `--shape lakehouse` Iceberg and Delta tables.

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

from bench.peers.compare import (
    FULL,
    FULL_LAKEHOUSE,
    FULL_WIDE,
    PARTS,
    SMALL_SCALE,
    WIDE_PARTS,
    Scale,
    compare,
)
from bench.peers.readme import (
    LAKEHOUSE_RESULTS,
    RESULTS,
    WIDE_RESULTS,
    find_stale,
    write_readme,
)
from bench.peers.report import render_page
from bench.peers.results import Results
from bench.peers.run import LAKEHOUSE, PEERS


def main() -> int:
    """Run a command."""
    parser = argparse.ArgumentParser(prog="python -m bench.peers")
    commands = parser.add_subparsers(dest="command", required=True)
    run = commands.add_parser("run", help="measure, write results and the README's table")
    run.add_argument("--small", action="store_true", help="a twentieth, once; nothing is kept")
    run.add_argument(
        "--peer", action="append", choices=(*PEERS, *LAKEHOUSE), help="only these; nothing is kept"
    )
    shapes = ("lakehouse", "wide", *WIDE_PARTS)
    run.add_argument("--shape", action="append", choices=shapes, help="these shapes only")
    run.add_argument("--part", action="append", choices=PARTS, help="only these; nothing is kept")
    run.add_argument("--save", type=Path, help="keep results here instead, without suffix")
    table = commands.add_parser("table", help="write tables of documents from the results")
    table.add_argument("--check", action="store_true", help="only tell whether it is stale")
    options = parser.parse_args()
    if options.command == "table":
        if options.check and (stale := find_stale()):
            names = ", ".join(stale)
            print(f"{names} is stale; run: python -m bench.peers table", file=sys.stderr)
            return 1
        if not options.check:
            write_readme()
        return 0
    signal.signal(signal.SIGTERM, _stop)
    scale = _scale(options)
    results = compare(scale)
    target = options.save or _target(options)
    if target and target == WIDE_RESULTS and target.with_suffix(".json").exists():
        results = results.with_others(Results.load(target.with_suffix(".json")))
    page = render_page(results)
    print(page)
    if target:
        results.save(target.with_suffix(".json"))
        target.with_suffix(".md").write_text(page, "utf-8")
    if target in (RESULTS, WIDE_RESULTS, LAKEHOUSE_RESULTS):
        write_readme()
    return 0


def _scale(options: argparse.Namespace) -> Scale:
    if options.shape == ["lakehouse"]:
        full = (
            replace(FULL_LAKEHOUSE, divisor=40, broker_s=1.0) if options.small else FULL_LAKEHOUSE
        )
        parts = tuple(options.part or full.parts)
        return replace(full, peers=tuple(options.peer or full.peers), parts=parts)
    wide: tuple[str, ...] = ()
    if options.shape:
        wide = WIDE_PARTS if "wide" in options.shape else tuple(options.shape)
    full = FULL_WIDE if wide else FULL
    scale = SMALL_SCALE if options.small else full
    peers, parts = tuple(options.peer or full.peers), wide or tuple(options.part or PARTS)
    return replace(scale, peers=peers, parts=parts)


def _target(options: argparse.Namespace) -> Path | None:
    """Return where results are kept, without suffix; None: they are no whole comparison."""
    if options.small or options.peer or options.part:
        return None
    if options.shape == ["lakehouse"]:
        return LAKEHOUSE_RESULTS
    return WIDE_RESULTS if options.shape else RESULTS


def _stop(number: int, _frame: FrameType | None) -> None:
    sys.exit(128 + number)


if __name__ == "__main__":
    sys.exit(main())
