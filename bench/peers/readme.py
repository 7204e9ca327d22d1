"""Tables in documents, kept in step with the results.

What it is: the text between two markers of README.md, made from `bench/results/peers.json`, and of
the page on performance, made from `peers-wide.json` and `peers-lakehouse.json`.
What it promises: nothing outside of the markers is touched.
What it must not know: how it was measured.
"""

from collections.abc import Callable
from pathlib import Path

from bench.peers.report import render_cores, render_summary, render_terabyte
from bench.peers.results import Results

ROOT = Path(__file__).parent.parent.parent
README = ROOT / "README.md"
PERFORMANCE = ROOT / "docs" / "internals" / "performance.md"
RESULTS = ROOT / "bench" / "results" / "peers"  # .json and .md
WIDE_RESULTS = ROOT / "bench" / "results" / "peers-wide"
LAKEHOUSE_RESULTS = ROOT / "bench" / "results" / "peers-lakehouse"
BEGIN = "<!-- Written from bench/results by `python -m bench.peers table`. Do not edit. -->\n"
END = "<!-- End of what is written from bench/results. -->\n"
NOT_MEASURED = "Not measured yet: `make bench-peers`.\n"


def render_readme(text: str) -> str:
    """Return the README with the table of the results. Raises ValueError without markers."""
    return _render(text, _render_results(RESULTS))


def render_performance(text: str) -> str:
    """Return the page on performance with its tables. Raises ValueError without markers."""
    measured = [_load(path) for path in (RESULTS, WIDE_RESULTS)]
    known = [each for each in measured if each is not None]
    narrow, wide = measured
    parts = [
        "### Cores\n",
        render_cores(wide, narrow) if wide and narrow else NOT_MEASURED,
        "### A terabyte an hour\n",
        render_terabyte(known),
        "### Lakehouse tables\n",
        _render_results(LAKEHOUSE_RESULTS),
    ]
    return _render(text, "\n".join(parts))


def _load(results: Path) -> Results | None:
    path = results.with_suffix(".json")
    return Results.load(path) if path.exists() else None


def _render_results(results: Path) -> str:
    found = _load(results)
    return render_summary(found) if found is not None else NOT_MEASURED


def _render(text: str, table: str) -> str:
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError("the document has no markers for the table")
    return f"{before}{BEGIN}\n{table}\n{END}{after}"


def _documents() -> tuple[tuple[Path, Callable[[str], str]], ...]:
    return (README, render_readme), (PERFORMANCE, render_performance)


def find_stale() -> list[str]:
    """Return the documents that are not what the results make of them."""
    texts = ((path, path.read_text("utf-8"), render) for path, render in _documents())
    return [path.name for path, text, render in texts if render(text) != text]


def write_readme() -> None:
    """Write the tables into the documents."""
    for path, render in _documents():
        path.write_text(render(path.read_text("utf-8")), "utf-8")
