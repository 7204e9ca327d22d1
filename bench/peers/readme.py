"""Tables in documents, kept in step with the results.

What it is: the text between two markers of README.md, made from `bench/results/peers.json`, and of
the page on performance, made from `peers-wide.json`.
What it promises: nothing outside of the markers is touched.
What it must not know: how it was measured.
"""

from pathlib import Path

from bench.peers.report import render_summary
from bench.peers.results import Results

ROOT = Path(__file__).parent.parent.parent
README = ROOT / "README.md"
PERFORMANCE = ROOT / "docs" / "concepts" / "performance.md"
RESULTS = ROOT / "bench" / "results" / "peers"  # .json and .md
WIDE_RESULTS = ROOT / "bench" / "results" / "peers-wide"
BEGIN = "<!-- Written from bench/results by `python -m bench.peers table`. Do not edit. -->\n"
END = "<!-- End of what is written from bench/results. -->\n"
NOT_MEASURED = "Not measured yet: `make bench-peers`.\n"


def render_readme(text: str) -> str:
    """Return the README with the table of the results. Raises ValueError without markers."""
    return _render(text, RESULTS)


def _render(text: str, results: Path) -> str:
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError("the document has no markers for the table")
    path = results.with_suffix(".json")
    table = render_summary(Results.load(path)) if path.exists() else NOT_MEASURED
    return f"{before}{BEGIN}\n{table}\n{END}{after}"


def _documents() -> tuple[tuple[Path, Path], ...]:
    return (README, RESULTS), (PERFORMANCE, WIDE_RESULTS)


def find_stale() -> list[str]:
    """Return the documents that are not what the results make of them."""
    texts = ((path, path.read_text("utf-8"), results) for path, results in _documents())
    return [path.name for path, text, results in texts if _render(text, results) != text]


def write_readme() -> None:
    """Write the tables into the documents."""
    for path, results in _documents():
        path.write_text(_render(path.read_text("utf-8"), results), "utf-8")
