"""What a drill leaves behind: a JSON document and a page.

What it promises: a directory of its own for each run, which is never written to again.
What it must not know: terminals.
"""

import json
import os
import time
from dataclasses import dataclass
from pathlib import Path

from ashore.drills.drill import Verdict
from ashore.drills.page import render_page


@dataclass(frozen=True, slots=True)
class Report:
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


def write_report(verdict: Verdict, directory: Path) -> Report:
    """Write the verdict as JSON and as a page."""
    report = Report(directory / "verdict.json", directory / "page.html")
    document = json.dumps(verdict.to_dict(), indent=1)
    report.json_path.write_text(document + "\n", "utf-8")
    report.page_path.write_text(render_page(verdict), "utf-8")
    return report
