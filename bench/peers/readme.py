"""The README's table, kept in step with the results.

What it is: the text between two markers of README.md, made from `bench/results/peers.json`.
What it promises: nothing outside of the markers is touched.
What it must not know: how it was measured.
"""

from pathlib import Path

from bench.peers.report import render_summary
from bench.peers.results import Results

ROOT = Path(__file__).parent.parent.parent
README = ROOT / "README.md"
RESULTS = ROOT / "bench" / "results" / "peers"  # .json and .md
BEGIN = "<!-- Written from bench/results by `python -m bench.peers table`. Do not edit. -->\n"
END = "<!-- End of what is written from bench/results. -->\n"
NOT_MEASURED = "Not measured yet: `make bench-peers`.\n"


def render_readme(text: str) -> str:
    """Return the README with the table of the results. Raises ValueError without markers."""
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError("README.md has no markers for the table")
    path = RESULTS.with_suffix(".json")
    table = render_summary(Results.load(path)) if path.exists() else NOT_MEASURED
    return f"{before}{BEGIN}\n{table}\n{END}{after}"


def find_stale() -> bool:
    """Tell whether the README is not what the results make of it."""
    text = README.read_text("utf-8")
    return render_readme(text) != text


def write_readme() -> None:
    """Write the table into the README."""
    README.write_text(render_readme(README.read_text("utf-8")), "utf-8")
