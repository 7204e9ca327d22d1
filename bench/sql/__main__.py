"""`python -m bench.sql` measures; `--table` writes the page again.

    python -m bench.sql --queries filter --engines ashore,spark --measures rate --records 2000000

What it is: the command line of the comparison.
What it promises: what was measured is kept as soon as it is, one query and engine after the other,
and takes the place of what was measured before. A small run keeps nothing. A measurement that fails
does not stop the others, and fails the command. SIGTERM ends everything that was started.
What it must not know: how anything is measured.
"""

import argparse
import os
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Collection
from pathlib import Path
from types import FrameType

from ashore.jobs.class_archive import find_archive
from ashore_lab.services.kafka import BrokerOptions, Kafka
from bench.machine import describe_commit
from bench.peers.compare import RETENTION, rotated
from bench.peers.packages import ensure_bench_jars
from bench.processes import ChildFailed
from bench.sql.engines import ENGINES, TITLES
from bench.sql.measures import Figures, Site, measure_latency, measure_rate, measure_recovery
from bench.sql.order import CORES
from bench.sql.queries import BY_NAME, Query
from bench.sql.results import HEADINGS, MEASURES, Measured, Results, render_measure

TARGET = Path(__file__).parent.parent / "results" / "sql"  # .json and .md
RECORDS, SMALL_RECORDS = 4_000_000, 200_000
RECOVERY_RATE = 2_000
LATENCY_RATE_MAX = 50_000  # at 100,000 producer and broker take one of the two cores
SMALL_RATE = 2_000


def main() -> int:
    """Run a command."""
    parser = argparse.ArgumentParser(prog="python -m bench.sql")
    parser.add_argument("--queries", type=_names(BY_NAME), default=list(BY_NAME))
    parser.add_argument("--engines", type=_names(TITLES), default=list(ENGINES))
    parser.add_argument("--measures", type=_names(MEASURES), default=list(MEASURES))
    parser.add_argument("--records", type=int, help=f"in a topic; {RECORDS:,} without")
    parser.add_argument("--rate", type=int, help="of latency; half of the kept rate without")
    parser.add_argument("--small", action="store_true", help="small topics; nothing is kept")
    parser.add_argument("--save", type=Path, default=TARGET, help="keep results here, no suffix")
    parser.add_argument("--table", action="store_true", help="write the page from what is kept")
    options = parser.parse_args()
    if options.table:
        Results.load(options.save).save(options.save)
        return 0
    if len(os.sched_getaffinity(0)) < CORES:
        raise SystemExit(f"this wants {CORES} cores")
    signal.signal(signal.SIGTERM, _stop)
    ensure_bench_jars("flink", _say)
    if "ashore" in options.engines and find_archive() is None:
        _say("ashore warm-up")
        subprocess.run([Path(sys.executable).with_name("ashore"), "warm-up"], check=True)
    with tempfile.TemporaryDirectory(prefix="ashore-sql-") as name:
        directory = Path(name)
        broker = BrokerOptions(settings=RETENTION, heap="1g")
        with Kafka(directory / "kafka", broker) as kafka:
            return Comparison(options, Site(kafka.bootstrap_servers, directory, _say)).run()


class Comparison:
    """One run of all that is asked for."""

    def __init__(self, options: argparse.Namespace, site: Site) -> None:
        self._options = options
        self._site = site
        self._results = Results.load(options.save)
        self._failed: list[str] = []

    def run(self) -> int:
        """Measure, keep, show. Returns the exit code."""
        for number, name in enumerate(self._options.queries):
            for engine in rotated(self._options.engines, number):
                for measure in self._options.measures:
                    self._measure(BY_NAME[name], engine, measure)
        for measure in self._options.measures:
            print(f"{HEADINGS[measure]}\n\n{render_measure(self._results, measure)}")
        if self._failed:
            _say(f"failed: {', '.join(self._failed)}")
        return 1 if self._failed else 0

    def _measure(self, query: Query, engine: str, measure: str) -> None:
        began = time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime())
        load, name = os.getloadavg()[0], f"{query.name} {engine} {measure}"
        figures, why_not = None, query.cannot.get(measure, "")
        if not why_not:
            try:
                figures = self._figures(query, engine, measure)
            except Exception:  # noqa: BLE001 - whatever it is, it is shown, and the run fails
                traceback.print_exc()
                self._failed.append(name)
                return
        measured = _measured(figures, why_not, (query.name, engine, measure), (began, load))
        values = ", ".join(f"{key} {value:,.4g}" for key, value in measured.figures.items())
        _say(f"{name}: {values}; {measured.verdict}")
        self._results = self._results.adding(measured)
        if not self._options.small:
            self._results.save(self._options.save)

    def _figures(self, query: Query, engine: str, measure: str) -> Figures:
        small = self._options.small
        if measure == "rate":
            count = self._options.records or (SMALL_RECORDS if small else RECORDS)
            return measure_rate(self._site, query, engine, count)
        if measure == "recovery":
            return measure_recovery(self._site, query, engine, RECOVERY_RATE)
        rate = self._options.rate or (SMALL_RATE if small else self._half_rate(query, engine))
        return measure_latency(self._site, query, engine, rate)

    def _half_rate(self, query: Query, engine: str) -> int:
        place = query.name, engine, "rate"
        for each in self._results.measured:
            if each.place == place and each.figures:
                return min(int(each.figures["rate"] / 2), LATENCY_RATE_MAX)
        raise ChildFailed("measure the rate first, or give one by --rate")


def _measured(
    figures: Figures | None, why_not: str, place: tuple[str, str, str], when: tuple[str, float]
) -> Measured:
    query, engine, measure = place
    proof = figures.proof if figures else None
    return Measured(
        query=query,
        engine=engine,
        measure=measure,
        records=figures.records if figures else 0,
        commit=describe_commit(),
        began=when[0],
        load_before=round(when[1], 2),
        figures=figures.values if figures else {},
        rows=proof.rows if proof else 0,
        missing=proof.missing if proof else 0,
        extra=proof.extra if proof else 0,
        why_not=why_not,
    )


def _names(known: Collection[str]) -> Callable[[str], list[str]]:
    """Return what reads names that commas divide."""

    def read(text: str) -> list[str]:
        names = text.split(",")
        if unknown := [each for each in names if each not in known]:
            raise argparse.ArgumentTypeError(
                f"no {', '.join(unknown)}; there are: {', '.join(known)}"
            )
        return names

    return read


def _say(text: str) -> None:
    print(f"{time.strftime('%H:%M:%S')} {text}", file=sys.stderr, flush=True)


def _stop(number: int, _frame: FrameType | None) -> None:
    sys.exit(128 + number)


if __name__ == "__main__":
    sys.exit(main())
