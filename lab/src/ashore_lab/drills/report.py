"""What a drill leaves behind: a JSON document, a page, and a log.

What it promises: a directory of its own for each run, which is never written to again.
"""

import json
import logging
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from ashore_lab.drills.verdict import Verdict


@dataclass(frozen=True, slots=True)
class DrillReport:
    """Where a verdict was written."""

    json_path: Path
    page_path: Path


def drills_directory() -> Path:
    """Return where runs go: $ASHORE_HOME/drills, else ~/.local/state/ashore/drills."""
    own = os.environ.get("ASHORE_HOME")
    return (Path(own) if own else Path.home() / ".local" / "state" / "ashore") / "drills"


def make_run_directory(name: str, began_ms: int, directory: Path | None = None) -> Path:
    """Make a directory for one run and return it."""
    began = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime(began_ms / 1000))
    root = directory or drills_directory()
    for number in range(1_000):
        path = root / (f"{name}-{began}" + (f"-{number}" if number else ""))
        try:
            path.mkdir(parents=True)
        except FileExistsError:
            continue
        return path
    raise FileExistsError(f"{root} is full of runs of {name} at {began}")


@contextmanager
def logged(directory: Path) -> Iterator[None]:
    """Let what Ashore logs while inside go to `drill.log`, and not over a live view."""
    log = logging.getLogger("ashore")
    handler = logging.FileHandler(directory / "drill.log", encoding="utf-8", delay=True)
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s %(message)s"))
    log.addHandler(handler)
    did_propagate, log.propagate = log.propagate, False
    try:
        yield
    finally:
        log.propagate = did_propagate
        log.removeHandler(handler)
        handler.close()


def write_report(verdict: Verdict, directory: Path) -> DrillReport:
    """Write the verdict as JSON and as a page."""
    from ashore_lab.drills.page import render_page  # noqa: PLC0415 - loads jinja2, for the end

    report = DrillReport(directory / "verdict.json", directory / "page.html")
    document = json.dumps(verdict.to_dict(), indent=1)
    report.json_path.write_text(document + "\n", "utf-8")
    report.page_path.write_text(render_page(verdict), "utf-8")
    return report
