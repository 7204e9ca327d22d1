"""`python -m bench.checkpoints run [--part ...]` measures; `... table` writes the page again.

What it is: the command line of the comparison of checkpoints.
What it promises: what was measured is kept as soon as it is, case by case, so that a run which is
stopped has lost one case. A small run keeps nothing. SIGTERM ends everything that was started.
What it must not know: how anything is measured.
"""

import argparse
import itertools
import os
import signal
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import FrameType

from bench.checkpoints.fresh import measure_fresh
from bench.checkpoints.modes import CORES, KEYS, MODES, Case
from bench.checkpoints.report import render_page
from bench.checkpoints.results import Record, Results
from bench.checkpoints.run import (
    FULL,
    SMALL,
    Site,
    find_shortest,
    measure_cut,
    measure_steady,
)
from bench.machine import describe_machine

RESULTS = Path(__file__).parent.parent / "results" / "checkpoints"  # .json, .md, and a folder
# The first tells the others at which interval each mode is to be measured as well.
PARTS = ("shortest", "steady", "fresh", "partitions")
UPDATES = ("uniform", "skewed")
INTERVAL_S = 5.0
CUTS = (16, 64, 256, 1024)
CUT_INTERVAL_S = 10.0
ONE_MILLION = 1_000_000


def main() -> int:
    """Run a command."""
    parser = argparse.ArgumentParser(prog="python -m bench.checkpoints")
    commands = parser.add_subparsers(dest="command", required=True)
    run = commands.add_parser("run", help="measure, and add to the results")
    run.add_argument("--part", action="append", choices=PARTS, help="only these")
    run.add_argument("--mode", action="append", choices=list(MODES), help="only these")
    run.add_argument("--keys", action="append", type=int, help=f"only these: {KEYS} by default")
    run.add_argument("--updates", action="append", choices=UPDATES, help="only these")
    run.add_argument("--partitions", action="append", type=int, help=f"of {CUTS}, only these")
    run.add_argument(
        "--interval", type=float, help="seconds between batches of part steady; without: 5, and "
        "for a million uniform keys also the shortest that each mode holds",
    )  # fmt: skip
    run.add_argument("--kills", type=int, help="of part steady, how often each job is killed")
    run.add_argument("--small", action="store_true", help="seconds only; nothing is kept")
    run.add_argument("--save", type=Path, help="keep results here instead, without suffix")
    commands.add_parser("table", help="write the page from the results")
    options = parser.parse_args()
    if options.command == "table":
        write_page(Results.read(RESULTS.with_suffix(".json")), RESULTS)
        return 0
    signal.signal(signal.SIGTERM, _stop)
    if len(os.sched_getaffinity(0)) < CORES:
        raise SystemExit(f"this wants {CORES} cores")
    measure(options, options.save or (None if options.small else RESULTS))
    return 0


def measure(options: argparse.Namespace, target: Path | None) -> None:
    """Measure what is asked for, one case after the other."""
    machine, began_s = describe_machine(), time.monotonic()
    results = Results.load(target.with_suffix(".json"), machine) if target else Results(machine)

    def say(text: str) -> None:
        passed_s = round(time.monotonic() - began_s)
        print(f"{passed_s // 60:02d}:{passed_s % 60:02d} {text}", file=sys.stderr, flush=True)

    lengths = SMALL if options.small else FULL
    lengths = replace(lengths, kills=options.kills or lengths.kills)
    with (
        tempfile.TemporaryDirectory(prefix="ashore-checkpoints-") as name,
        Site(Path(name), lengths) as site,
    ):
        for part in options.part or PARTS:
            for case in list(_cases(part, options, results)):
                say(f"{part}: {case.name}")
                try:
                    record = _measure_one(part, site, case, target)
                finally:
                    site.forget(case)
                say(f"  {_summary(record)}")
                results = results.adding(record)
                if target:
                    results.save(target.with_suffix(".json"))
                    write_page(results, target)
    print(render_page(results))


def write_page(results: Results, target: Path) -> None:
    """Write the page beside the results."""
    target.with_suffix(".md").write_text(render_page(results), "utf-8")


def _measure_one(part: str, site: Site, case: Case, target: Path | None) -> Record:
    match part:
        case "steady":
            return measure_steady(site, case, target / f"{case.name}.csv" if target else None)
        case "shortest":
            return find_shortest(site, case)
        case "fresh":
            return measure_fresh(site, case)
        case _:
            return measure_cut(site, case)


def _cases(part: str, options: argparse.Namespace, results: Results) -> Iterator[Case]:
    modes = options.mode or list(MODES)
    keys = (options.keys or [ONE_MILLION])[0]
    if part == "partitions":
        for partitions in options.partitions or CUTS:
            yield Case("ashore", keys, "uniform", CUT_INTERVAL_S, partitions)
    elif part == "steady":
        every = itertools.product(options.keys or KEYS, options.updates or UPDATES, modes)
        for each_keys, updates, mode in every:
            for interval_s in _intervals(mode, each_keys, updates, options, results):
                yield Case(mode, each_keys, updates, interval_s)
    else:
        for mode in modes:
            own = _intervals(mode, ONE_MILLION, "uniform", options, results)
            yield Case(mode, keys, "uniform", own[0] if part == "fresh" else INTERVAL_S)


def _intervals(
    mode: str, keys: int, updates: str, options: argparse.Namespace, results: Results
) -> list[float]:
    """Return the shortest that the mode holds, where that is known, and the one of all."""
    if options.interval:
        return [options.interval]
    own = [
        each.case.interval_s
        for each in results.shortest
        if (each.case.mode, keys, updates) == (mode, ONE_MILLION, "uniform")
    ]
    return list(dict.fromkeys([*own, INTERVAL_S]))


def _summary(record: Record) -> str:
    shown = {
        name: getattr(record, name)
        for name in ("holds", "commit_ms", "trigger_ms", "caught_up_s", "p50_s", "p99_s")
        if hasattr(record, name)
    }
    return ", ".join(f"{name} {value}" for name, value in shown.items())


def _stop(number: int, _frame: FrameType | None) -> None:
    sys.exit(128 + number)


if __name__ == "__main__":
    sys.exit(main())
