"""What the benchmarks answer, as one table.

What it is: rows, one an answer, their Markdown, and the page in `bench/results/`.
What it promises: the same rows make the same text; a figure that misses its aim says so.
What it must not know: how anything was measured.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from bench.machine import Machine

HEADER = ("Benchmark", "question", "figure", "aim")
VERSIONS = ("Python", "Spark", "pyarrow", "Java")


@dataclass(frozen=True, slots=True)
class Row:
    """One answer: a ratio, or a rate or size with its unit. The aims are the issue's."""

    question: str
    figure: float
    unit: str = ""  # without: a ratio
    at_most: float | None = None
    at_least: float | None = None

    @property
    def is_missed(self) -> bool:
        """Tell whether there is an aim that the figure, as it is shown, does not reach."""
        shown = float(f"{self.figure:.3g}")
        return (self.at_most is not None and shown > self.at_most) or (
            self.at_least is not None and shown < self.at_least
        )

    @property
    def aim(self) -> str:
        """The aim in words; empty where there is none."""
        bounds = (("at most", self.at_most), ("at least", self.at_least))
        text = " and ".join(f"{word} {bound:g}" for word, bound in bounds if bound is not None)
        return f"{text}: MISSED" if self.is_missed else text


@dataclass(frozen=True, slots=True)
class Origin:
    """Where, when and from what figures are."""

    commit: str
    began: str
    machine: Machine
    load_before: float | None  # others were at work if it is not low; None: it was not noted

    def describe(self) -> str:
        """Return it in a line."""
        machine = self.machine
        versions = ", ".join(f"{name} {machine.versions[name]}" for name in VERSIONS)
        load = "" if self.load_before is None else f"; load before: {self.load_before:.1f}"
        return (
            f"commit {self.commit}, {self.began}, {machine.cores} cores ({machine.cpu}), "
            f"{machine.memory_gib:.0f} GiB, Linux {machine.kernel}; {versions}{load}"
        )


@dataclass(frozen=True, slots=True)
class Answers:
    """What one benchmark answered."""

    benchmark: str
    rows: tuple[Row, ...]
    origin: Origin


def render_table(
    header: Sequence[str], rows: Iterable[Sequence[str]], *, align: str = "--:"
) -> str:
    """Return a Markdown table; all columns but the first are numbers, unless `align` differs."""
    lines = [header, ["---", *[align] * (len(header) - 1)], *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def render_answers(answers: Sequence[Answers]) -> str:
    """Return all rows as one Markdown table."""
    return render_table(
        HEADER,
        (
            (f"`{each.benchmark}`", row.question, _show(row), row.aim)
            for each in answers
            for row in each.rows
        ),
    )


def render_page(answers: Sequence[Answers]) -> str:
    """Return the page in `bench/results/`."""
    origins = "".join(f"- `{each.benchmark}`: {each.origin.describe()}\n" for each in answers)
    return (
        "# Benchmarks\n\n"
        "Figures without a unit are ratios of two things measured in the same run. `make bench` "
        "measures all, `python -m bench NAME` one.\n\n"
        f"{render_answers(answers)}\n## Where and when\n\n{origins}"
    )


def _show(row: Row) -> str:
    # Not plain `g`, which would drop the zeros that tell how exact a figure is.
    layout = ",.0f" if abs(row.figure) >= 100 else "#.3g"
    number = f"{row.figure:{layout}}".rstrip(".")
    return f"{number} {row.unit}".rstrip()
