"""What was measured, as data, and the tables of it.

What it is: one `Measured` for each query, engine and measure, kept in one file; Markdown of it.
What it promises: a new figure takes the place of the one before; each says on how many records, at
which commit and when it was measured. What an engine does not run is in the tables.
What it must not know: how it was measured.
"""

import json
from dataclasses import asdict, dataclass
from pathlib import Path

from bench.machine import Machine, describe_machine
from bench.sql.engines import ENGINES, TITLES
from bench.sql.queries import QUERIES
from bench.sql.settings import REMARKS, SETTINGS
from bench.table import render_table

FORMAT_VERSION = 1
NOTHING = "-"
MEASURES = {
    "rate": (
        ("rate", "thousand records/s", 1e-3, ",.0f"),
        ("cpu_s_per_million", "CPU s per million", 1, ".2f"),
        ("start_cpu_s", "CPU s of a start", 1, ".1f"),
        ("start_s", "start s", 1, ".1f"),
        ("rss_peak_bytes", "peak memory MB", 1e-6, ",.0f"),
        ("checkpoint_bytes", "checkpoint MB", 1e-6, ",.1f"),
    ),
    "latency": (
        ("rate", "thousand records/s", 1e-3, ",.1f"),
        ("p50_s", "p50 s", 1, ".2f"),
        ("p99_s", "p99 s", 1, ".2f"),
    ),
    "recovery": (("next_result_s", "s from SIGKILL to the next result", 1, ".1f"),),
}
HEADINGS = {
    "rate": "To the end of a topic",
    "latency": "Latency at half of the rate, an interval of 1 s",
    "recovery": "After SIGKILL",
}


@dataclass(frozen=True, slots=True)
class Measured:
    """Figures of one engine on one query; or why there are none."""

    query: str
    engine: str
    measure: str
    records: int
    commit: str
    began: str
    load_before: float
    figures: dict[str, float]
    rows: int = 0  # that the query must give
    missing: int = 0
    extra: int = 0
    why_not: str = ""  # nothing was measured

    @property
    def place(self) -> tuple[str, str, str]:
        """What it is of: one of each is kept."""
        return self.query, self.engine, self.measure

    @property
    def verdict(self) -> str:
        """What DuckDB says."""
        if self.why_not:
            return self.why_not
        if self.missing or self.extra:
            return f"of {self.rows:,} rows {self.missing:,} are missing, {self.extra:,} are wrong"
        return f"{self.rows:,}, equal"


@dataclass(frozen=True, slots=True)
class Results:
    """All that is kept, and the machine of the last run."""

    machine: Machine
    measured: tuple[Measured, ...] = ()

    def adding(self, new: Measured) -> "Results":
        """Return these results with another one, in its place."""
        others = (each for each in self.measured if each.place != new.place)
        return Results(self.machine, (*others, new))

    def save(self, target: Path) -> None:
        """Write the file and the page beside it; `target` has no suffix."""
        target.parent.mkdir(parents=True, exist_ok=True)
        content = {"format_version": FORMAT_VERSION, **asdict(self)}
        target.with_suffix(".json").write_text(json.dumps(content, indent=1) + "\n", "utf-8")
        target.with_suffix(".md").write_text(render_page(self), "utf-8")

    @classmethod
    def load(cls, target: Path) -> "Results":
        """Read the file, for this machine. Raises ValueError if it is of another version."""
        path = target.with_suffix(".json")
        if not path.exists():
            return cls(describe_machine())
        content = json.loads(path.read_text("utf-8"))
        if content["format_version"] != FORMAT_VERSION:
            raise ValueError(f"{path.name} is of another version: measure again")
        return cls(describe_machine(), tuple(Measured(**each) for each in content["measured"]))


def render_measure(results: Results, measure: str) -> str:
    """Return the table of one measure, engine by engine of each query."""
    columns = MEASURES[measure]
    known = {each.place: each for each in results.measured}
    rows = []
    for query in QUERIES:
        for engine, title in TITLES.items():
            found = known.get((query.name, engine, measure))
            if found is None:
                continue
            cells = [
                format(found.figures[name] * factor, how) if name in found.figures else NOTHING
                for name, _, factor, how in columns
            ]
            rows.append([f"{query.name} {title}", f"{found.records:,}", *cells, found.verdict])
    header = ["", "records", *(title for _, title, _, _ in columns), "rows, by DuckDB"]
    return render_table(header, rows) if rows else "Not measured.\n"


def render_summary(results: Results) -> str:
    """Return the rates and CPU times of the engines side by side, and Ashore's rate by theirs."""
    rates = {
        (each.query, each.engine): each.figures
        for each in results.measured
        if each.measure == "rate" and each.figures
    }
    rows = []
    for query in QUERIES:
        found = [rates.get((query.name, engine)) for engine in ENGINES]
        if not any(found):
            continue
        cells = [f"{each['rate'] / 1000:,.0f}" if each else NOTHING for each in found]
        cells += [f"{each['cpu_s_per_million']:.2f}" if each else NOTHING for each in found]
        own, *others = found
        cells += [
            f"{own['rate'] / each['rate']:.2f}" if own and each else NOTHING for each in others
        ]
        rows.append([query.title, *cells])
    header = [f"{what}, {TITLES[each]}" for what in ("thousand/s", "CPU s/M") for each in ENGINES]
    header += [f"rate v. {TITLES[each]}" for each in ENGINES[1:]]
    return render_table(["", *header], rows) if rows else "Not measured.\n"


def render_page(results: Results) -> str:
    """Return the page: tables, what differs between the texts of a query, settings."""
    parts = ["# SQL side by side\n", _render_machine(results), render_summary(results)]
    for measure, heading in HEADINGS.items():
        parts += [f"## {heading}\n", render_measure(results, measure)]
    notes = [
        [query.name, query.title, *(query.notes.get(each, "") for each in ("all", *ENGINES))]
        for query in QUERIES
    ]
    names = ["all", *(TITLES[each] for each in ENGINES)]
    settings = [
        [engine, f"`{name}`", str(value)]
        for engine, values in SETTINGS
        for name, value in values.items()
    ]
    parts += ["## Queries\n", render_table(["", "query", *names], notes, align="---")]
    header = ["engine", "setting", "value"]
    parts += ["## Settings\n", REMARKS, render_table(header, settings, align="---")]
    return "\n".join(parts)


def _render_machine(results: Results) -> str:
    machine = results.machine
    versions = ", ".join(f"{name} {number}" for name, number in machine.versions.items())
    commits = ", ".join(sorted({each.commit for each in results.measured})) or NOTHING
    times = sorted(each.began for each in results.measured) or [NOTHING]
    load = max((each.load_before for each in results.measured), default=0.0)
    return (
        f"Measured from {times[0]} to {times[-1]} at {commits} by `make bench-sql` on "
        f"{machine.cores} cores ({machine.cpu}), {machine.memory_gib:.0f} GiB, Linux "
        f"{machine.kernel}; {versions}. Highest load of the machine before a measurement: "
        f"{load:.1f}.\n"
    )
