"""Tables for people: the README's, and the page beside the results.

What it is: Markdown made from results; medians over the repeats.
What it promises: the same results make the same text.
What it must not know: how it was measured.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from bench.peers.peer import CORES
from bench.peers.results import Fresh, Results, Run
from bench.peers.run import LAKEHOUSE
from bench.peers.settings import LAKEHOUSE_SETTINGS, SETTINGS
from bench.peers.shapes import SHAPES
from bench.table import render_table

TITLES = {
    "ashore": "Ashore",
    "ashore-provenance": "Ashore with provenance",
    "ashore-alone": "Ashore without Spark",
    "spark": "Spark, streaming query",
    "flink": "Flink, SQL file sink",
    "ashore-iceberg": "Ashore to Iceberg",
    "connect-iceberg": "Kafka Connect, Iceberg's sink",
    "flink-iceberg": "Flink, Iceberg's sink",
    "ashore-delta": "Ashore to Delta",
    "spark-delta": "Spark, Delta's sink",
}
TERABYTE_MB = 1e6


@dataclass(frozen=True, slots=True)
class Summary:
    """The repeats of one peer on one shape, by their median."""

    peer: str
    rates: tuple[float, ...]  # records a second, of each repeat
    mb_per_s: float
    cpu_s_per_million: float
    rss_peak_mb: float
    files: float
    stored_mb: float
    metadata_kb: float

    @property
    def rate(self) -> float:
        """Records a second."""
        return median(self.rates)


def summarize(peer: str, runs: Sequence[Run]) -> Summary:
    """Return the medians of a peer's runs on one shape."""
    return Summary(
        peer=peer,
        rates=tuple(run.records / run.seconds for run in runs),
        mb_per_s=median(run.value_bytes / run.seconds / 1e6 for run in runs),
        cpu_s_per_million=median(run.cpu_s / run.records * 1e6 for run in runs),
        rss_peak_mb=median(run.rss_peak_bytes / 1e6 for run in runs),
        files=median(run.files for run in runs),
        stored_mb=median(run.stored_bytes / 1e6 for run in runs),
        metadata_kb=median(run.metadata_bytes / 1e3 for run in runs),
    )


def summaries(results: Results, shape: str, cores: int = CORES) -> list[Summary]:
    """Return one summary a peer, in the order of TITLES."""
    found = []
    for peer in TITLES:
        asked = (shape, peer, cores)
        runs = [run for run in results.runs if (run.shape, run.peer, run.cores) == asked]
        if runs:
            found.append(summarize(peer, runs))
    return found


def render_shape(results: Results, shape: str) -> str:
    """Return the table of one shape, with its caption."""
    found = summaries(results, shape)
    first = next(run for run in results.runs if (run.shape, run.cores) == (shape, CORES))
    better = max((each.rate for each in found if not _is_own(each.peer)), default=0.0)
    calls = {each.peer: sum(each.by_kind.values()) / each.files for each in results.calls}
    fresh = {each.peer: each for each in results.fresh if each.interval_s == 1}
    is_lakehouse, has_calls = _is_lakehouse(results), shape == "small" and bool(calls)
    rows = [
        [
            TITLES[each.peer],
            f"{each.rate / 1000:,.0f}",
            f"{each.rate / better:.2f}" if better else "",
            f"{each.rate / CORES / 1000:,.0f}",
            f"{each.mb_per_s / CORES:,.1f}",
            f"{each.cpu_s_per_million:.2f}",
            f"{each.rss_peak_mb:,.0f}",
            f"{each.files:.0f}",
            f"{each.stored_mb:,.1f}",
            *([f"{each.metadata_kb:,.0f}"] if is_lakehouse else []),
            *([f"{calls.get(each.peer, 0):.0f}"] if has_calls else []),
            *([_show_fresh(fresh.get(each.peer))] if shape == "small" else []),
        ]
        for each in found
    ]
    header = ["thousand records/s", "v. better peer", "per core", "MB/s per core"]
    header += ["CPU s per million", "peak memory MB", "files", "MB written"]
    header += ["metadata KB"] if is_lakehouse else []
    header += ["storage calls a file"] if has_calls else []
    header += ["readable after s, p50 / p99"] if shape == "small" else []
    size = first.value_bytes / first.records
    caption = f"{SHAPES[shape].title}: {first.records:,} JSON records of {size:,.0f} bytes"
    return render_table([caption, *header], rows)


def _is_own(peer: str) -> bool:
    return peer.startswith("ashore")


def _is_lakehouse(results: Results) -> bool:
    return any(run.peer in LAKEHOUSE for run in results.runs)


def _show_fresh(fresh: Fresh | None) -> str:
    return f"{fresh.p50_s:.2f} / {fresh.p99_s:.2f}" if fresh else ""


def render_machine(results: Results) -> str:
    """Return where, when and from what the figures are."""
    machine = results.machine
    repeats = 1 + max((run.repeat for run in results.runs), default=0)
    versions = ", ".join(f"{name} {number}" for name, number in machine.versions.items())
    kept = f" Measured before: {results.kept}." if results.kept else ""
    return (
        f"Measured {results.began} at commit {results.commit} by `{results.command}` on "
        f"{machine.cores} cores ({machine.cpu}), {machine.memory_gib:.0f} GiB, Linux "
        f"{machine.kernel}; {versions}. Medians of {repeats}; load of the machine before: "
        f"{results.load_before:.1f}.{kept}\n"
    )


def measured_shapes(results: Results) -> list[str]:
    """Return the shapes that were measured, in their order."""
    known = {run.shape for run in results.runs if run.cores == CORES}
    return [shape for shape in SHAPES if shape in known]


def render_summary(results: Results) -> str:
    """Return a table for each shape, and where it was measured: what the README shows."""
    shapes = measured_shapes(results)
    tables = "\n".join(render_shape(results, shape) for shape in shapes)
    return f"{tables}\n{render_machine(results)}"


def render_cores(one: Results, two: Results) -> str:
    """Return the rates with one core beside those with two; nothing where one is not measured."""
    by_peer = {each.peer: each for each in summaries(two, "small")}
    rows = [
        [
            TITLES[each.peer],
            f"{each.rate / 1000:,.0f}",
            f"{by_peer[each.peer].rate / 1000:,.0f}",
            f"{by_peer[each.peer].rate / each.rate:.2f}",
            f"{each.cpu_s_per_million:.2f}",
            f"{by_peer[each.peer].cpu_s_per_million:.2f}",
        ]
        for each in summaries(one, "small", 1)
        if each.peer in by_peer
    ]
    header = ["Small records, thousand/s", "1 core", "2 cores", "times", "CPU s per million, 1"]
    return render_table([*header, "2"], rows) if rows else "Not measured yet.\n"


def render_terabyte(measured: Sequence[Results]) -> str:
    """Return how many cores a terabyte of values an hour would need, computed from the rates."""
    rows = []
    for results in measured:
        for shape in measured_shapes(results):
            for each in summaries(results, shape):
                if each.peer == "ashore":
                    per_core = each.mb_per_s / CORES
                    cores = math.ceil(TERABYTE_MB / 3600 / per_core)
                    rows.append([SHAPES[shape].title, f"{per_core:,.1f}", f"{cores:,}"])
    header = ["", "MB/s per core, measured", "cores for 1 TB an hour, computed"]
    return render_table(header, rows) if rows else "Not measured yet.\n"


def render_page(results: Results) -> str:
    """Return the page beside the results: tables, spread, calls by kind, settings."""
    spread = [
        [
            f"{shape} {TITLES[each.peer]}",
            *(f"{rate / 1000:,.0f}" for rate in each.rates),
        ]
        for shape in measured_shapes(results)
        for each in summaries(results, shape)
    ]
    repeats = max((len(row) - 1 for row in spread), default=0)
    used = (*SETTINGS, *LAKEHOUSE_SETTINGS) if _is_lakehouse(results) else SETTINGS
    settings = [[TITLES[each.peer], *each[1:]] for each in used]
    parts = [
        "# Peers\n",
        render_summary(results),
        "## Each repeat, thousand records/s\n",
        render_table(["", *(str(number + 1) for number in range(repeats))], spread),
        "## A steady stream\n",
        _render_fresh(results),
        "## Storage calls\n",
        _render_calls(results),
        "## Settings, and who advises them\n",
        render_table(["Peer", "setting", "value", "why", "document"], settings, align="---"),
    ]
    return "\n".join(parts)


def _render_fresh(results: Results) -> str:
    if not results.fresh:
        return "Not measured.\n"
    rows = [
        [
            TITLES[each.peer],
            f"{each.interval_s:g}",
            f"{each.p50_s:.2f}",
            f"{each.p99_s:.2f}",
            f"{each.between_s:.2f}" if each.between_s else "",
        ]
        for each in results.fresh
    ]
    header = ["", "interval s", "half readable after s", "99 % after s", "between two batches s"]
    return render_table(header, rows)


def _render_calls(results: Results) -> str:
    if not results.calls:
        return "Not counted: no strace on the machine.\n"
    kinds = sorted({kind for each in results.calls for kind in each.by_kind})
    rows = [
        [TITLES[each.peer], str(each.files), *(str(each.by_kind.get(kind, 0)) for kind in kinds)]
        for each in results.calls
    ]
    reported = (
        "System calls by strace with a path below what the peer wrote: its table, and its log, "
        "metadata or checkpoints; reading and writing bytes left out. Counted while "
        f"{results.calls[0].records:,} small records arrive at a steady rate and every peer "
        "writes each second. A directory on this machine's disk: other storage is asked "
        "otherwise.\n\n"
    )
    return reported + render_table(["", "files", *kinds], rows)
