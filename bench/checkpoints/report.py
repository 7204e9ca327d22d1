"""Tables for people: the page beside the results.

What it is: Markdown made from results.
What it promises: the same results make the same text. Where Ashore's figure is worse it says so:
no figure is left out.
What it must not know: how it was measured.
"""

from collections.abc import Sequence

from bench.checkpoints.modes import FIFTH, MODES, UPDATES_PER_S
from bench.checkpoints.results import Cut, Record, Results, Steady, When
from bench.checkpoints.samples import Spread
from bench.table import render_table

SNAPSHOT, OURS = "snapshot", "ashore"
# What log-based checkpoints with tiered storage are published to have gained, in one company's
# jobs. "Less" is of peaks.
PUBLISHED_LESS = {"CPU": 40, "disk written": 29, "bytes to the DataNode": 61}
PUBLISHED_INTERVALS = ("10 min", "10 s")
MEGA = 1e6


def render_page(results: Results) -> str:
    """Return the page: one table a part, then where it was measured."""
    parts = [
        ("A steady rate", render_steady(results)),
        ("Beside what is published", render_gains(results)),
        ("The shortest interval", render_shortest(results)),
        ("From produced to readable", render_fresh(results)),
        ("How many partitions", render_cuts(results)),
        ("Where and when", render_origin(results)),
    ]
    sections = "\n".join(f"## {title}\n\n{text}" for title, text in parts)
    return f"# Checkpoints\n\n{_describe()}\n{sections}"


def render_steady(results: Results) -> str:
    """Return what each case took at its steady rate."""
    if not results.steady:
        return _not_measured("steady")
    rows = [
        [
            MODES[each.case.mode],
            f"{each.case.keys:,}",
            each.case.updates,
            f"{each.case.interval_s:g}",
            _pair(each.cpu_s, 1),
            _pair(each.disk_bytes, 1 / MEGA),
            _pair(each.datanode_bytes, 1 / MEGA),
            f"{each.trigger_ms.median:,.0f} / {each.trigger_ms.peak:,.0f}",
            f"{each.commit_ms.median:,.0f} / {each.commit_ms.peak:,.0f}",
            f"{each.files_per_min:,.0f}",
            f"{each.bytes_per_min / MEGA:,.1f}",
            f"{each.stored_files:,} / {each.stored_bytes / MEGA:,.0f}",
            " ".join(f"{seconds:.0f}" for seconds in each.caught_up_s),
            f"{each.replay_files:,} / {each.replay_bytes / MEGA:,.1f}",
            " ".join(f"{passed_ms:,.0f}" for passed_ms in each.first_batch_ms),
        ]
        for each in _in_order(results.steady)
    ]
    header = ["Mode", "keys", "updates", "interval s", "CPU s/s, mean / peak"]
    header += ["disk MB/s, mean / peak", "to the DataNode MB/s, mean / peak"]
    header += ["batch ms, p50 / p99", "state commit ms, p50 / p99", "files/min", "MB/min"]
    header += [
        "left: files / MB",
        "SIGKILL to caught up s",
        "changelogs to read then: files / MB",
        "first batch then ms",
    ]
    return render_table(header, rows)


def render_gains(results: Results) -> str:
    """Return by how much Ashore's peaks are lower, beside the published figures."""
    steady = {_place(each): each for each in results.steady}
    rows = []
    for each in _in_order(results.steady):
        snapshot = steady.get((SNAPSHOT, *_place(each)[1:]))
        if each.case.mode != OURS or snapshot is None:
            continue
        rows.append(
            [
                f"{each.case.keys:,} keys, {each.case.updates}, {each.case.interval_s:g} s",
                _less(snapshot.cpu_s.peak, each.cpu_s.peak),
                _less(snapshot.disk_bytes.peak, each.disk_bytes.peak),
                _less(snapshot.datanode_bytes.peak, each.datanode_bytes.peak),
                _less(snapshot.commit_ms.median, each.commit_ms.median),
            ]
        )
    if not rows:
        return _not_measured("steady")
    published = [f"-{share} %" for share in PUBLISHED_LESS.values()]
    header = ["Ashore's defaults v. a snapshot with each batch", *PUBLISHED_LESS, "state commit"]
    reported = (
        "Peaks, the 99th percentile of samples of one second, by how much they are lower (-) or "
        "higher (+); the commit by its median.\n\n"
    )
    return reported + render_table(header, [["published", *published, ""], *rows])


def render_shortest(results: Results) -> str:
    """Return the shortest interval that each mode holds."""
    if not results.shortest:
        return _not_measured("shortest")
    rows = [
        [
            MODES[each.case.mode],
            f"{each.case.interval_s:g} s" if any(each.holds.values()) else "none",
            ", ".join(
                f"{interval_s} s {'yes' if holds else 'no'}"
                for interval_s, holds in sorted(each.holds.items(), key=lambda item: float(item[0]))
            ),
        ]
        for each in sorted(results.shortest, key=lambda one: list(MODES).index(one.case.mode))
    ]
    before, after = PUBLISHED_INTERVALS
    reported = (
        "All of 20 batches in a row done within the interval; 1,000,000 keys, uniform. Published: "
        f"from {before} to {after}, for states of many gigabytes on remote storage that is slow "
        "for large uploads. One machine with state that fits its disk cache cannot show that.\n\n"
    )
    return reported + render_table(["Mode", "shortest", "tried"], rows, align="---")


def render_fresh(results: Results) -> str:
    """Return how soon records can be read."""
    if not results.fresh:
        return _not_measured("fresh")
    rows = [
        [
            MODES[each.case.mode],
            f"{each.case.interval_s:g}",
            f"{each.records:,}",
            f"{each.p50_s:.2f}",
            f"{each.p99_s:.2f}",
        ]
        for each in sorted(results.fresh, key=lambda one: list(MODES).index(one.case.mode))
    ]
    return render_table(["Mode", "interval s", "records", "p50 s", "p99 s"], rows)


def render_cuts(results: Results) -> str:
    """Return what more partitions cost, and what one of them does."""
    if not results.cuts:
        return _not_measured("partitions")
    cuts = sorted(results.cuts, key=lambda each: each.case.partitions)
    first = cuts[0]
    rows = [
        [
            f"{each.case.partitions:,}",
            str(each.batches),
            f"{each.trigger_ms.median:,.0f} / {each.trigger_ms.peak:,.0f}",
            f"{each.commit_ms.median:,.0f}",
            f"{each.rss_peak_bytes / MEGA:,.0f}",
            f"{_each_ms(first, each):.1f}" if each is not first else "",
        ]
        for each in cuts
    ]
    header = ["Partitions", "batches", "batch ms, p50 / p99", "state commit ms", "peak memory MB"]
    return render_table([*header, f"ms each adds to those of {first.case.partitions}"], rows)


def render_origin(results: Results) -> str:
    """Return the machine, and when each figure was measured."""
    machine = results.machine
    versions = ", ".join(f"{name} {machine.versions[name]}" for name in ("Python", "Spark", "Java"))
    records: tuple[Record, ...] = (
        *results.steady,
        *results.shortest,
        *results.fresh,
        *results.cuts,
    )
    rows = [[each.case.name, *_when(each.when)] for each in records]
    return (
        f"{machine.cores} cores ({machine.cpu}), {machine.memory_gib:.0f} GiB, Linux "
        f"{machine.kernel}; {versions}.\n\n"
        + render_table(["Case", "measured", "commit", "load before"], rows, align="---")
    )


def _describe() -> str:
    return (
        f"One aggregation by key, {UPDATES_PER_S:,} updates a second from Spark's `rate` source, "
        "RocksDB, checkpoints on an HDFS with one DataNode on the same machine and disk. Skewed: a "
        f"fifth of the keys gets four fifths of the updates (a power of {FIFTH:.2f}). CPU and disk "
        "are those of the job's processes, without HDFS; commit times are Spark's own, all "
        "partitions added up; a batch that is late begins the next one late. All three "
        "close files of HDFS as soon as can be, by Ashore's setting: without it, Spark would wait "
        "for 0.4 s where the one DataNode reports a block too late, which is with most files.\n"
    )


def _not_measured(part: str) -> str:
    return f"Not measured yet: `python -m bench.checkpoints run --part {part}`.\n"


def _in_order(steady: Sequence[Steady]) -> list[Steady]:
    modes = list(MODES)
    return sorted(
        steady,
        key=lambda one: (
            one.case.keys,
            one.case.updates != "uniform",
            one.case.interval_s,
            modes.index(one.case.mode),
        ),
    )


def _place(each: Steady) -> tuple[str, int, str, float, int]:
    case = each.case
    return case.mode, case.keys, case.updates, case.interval_s, case.partitions


def _pair(spread: Spread, scale: float) -> str:
    return f"{spread.mean * scale:.2f} / {spread.peak * scale:.2f}"


def _less(before: float, after: float) -> str:
    return f"{(after / before - 1) * 100:+.0f} %" if before else ""


def _each_ms(first: Cut, other: Cut) -> float:
    more = other.case.partitions - first.case.partitions
    return (other.trigger_ms.median - first.trigger_ms.median) / more


def _when(when: When) -> list[str]:
    return [when.began, when.commit, f"{when.load_before:.1f}"]
