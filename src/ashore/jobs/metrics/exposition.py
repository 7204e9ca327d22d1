"""Prometheus's text format, written and merged from files of several jobs.

What it promises: each metric has HELP and TYPE once; a line that is no sample is left out; each job
has at most the allowed number of samples.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from ashore.jobs.metrics.families import Family

SAMPLES_MAX = 2_000  # of one job
_SAMPLE = re.compile(r"([a-zA-Z_:][\w:]*)(\{[^\n]*\})? (\S+)")
_SUFFIXES = ("_bucket", "_sum", "_count")


@dataclass(slots=True)
class _Metric:
    kind: str = ""
    help: str = ""
    samples: list[str] = field(default_factory=list)


def write_families(values: Iterable[tuple[Family, Mapping[tuple[str, ...], float]]]) -> str:
    """Return metrics as text. Values are by the values of the labels, in their order."""
    lines = []
    for family, samples in values:
        name = family.name
        lines += [f"# HELP {name} {_escape_help(family.meaning)}", f"# TYPE {name} {family.kind}"]
        for labels, value in sorted(samples.items()):
            lines.append(f"{name}{_labels(family.labels, labels)} {_number(value)}")
    return "".join(f"{line}\n" for line in lines)


def merge_expositions(
    texts: Mapping[str, str], kept_max: int = SAMPLES_MAX
) -> tuple[str, dict[str, int]]:
    """Return the metrics of several jobs as one text, and how many samples each has too many.

    Arguments:
        texts: what each job has written, by its name.
        kept_max: how many samples of a job are kept.

    """
    metrics: dict[str, _Metric] = {}
    left_out: dict[str, int] = {}
    for job, text in texts.items():
        count = 0
        for name, part, line in _parse(text):
            metric = metrics.setdefault(name, _Metric())
            if part == "HELP":
                metric.help = metric.help or line
            elif part == "TYPE":
                metric.kind = metric.kind or line
            elif count < kept_max:
                metric.samples.append(line)
                count += 1
            else:
                left_out[job] = left_out.get(job, 0) + 1
    parts = []
    for name in sorted(metrics):
        metric = metrics[name]
        if metric.samples:
            parts.append(f"# HELP {name} {metric.help}\n# TYPE {name} {metric.kind or 'untyped'}\n")
            parts += [f"{line}\n" for line in metric.samples]
    return "".join(parts), left_out


def _parse(text: str) -> Iterator[tuple[str, str, str]]:
    histograms: set[str] = set()
    for line in text.splitlines():
        if line.startswith("# "):
            words = line.split(" ", 3)
            if len(words) == 4 and words[1] in {"HELP", "TYPE"}:
                yield words[2], words[1], words[3]
                if words[1] == "TYPE" and words[3] == "histogram":
                    histograms.add(words[2])
            continue
        found = _SAMPLE.fullmatch(line)
        if found is None:
            continue
        name = found[1]
        base = next((name.removesuffix(each) for each in _SUFFIXES if name.endswith(each)), name)
        yield base if base in histograms else name, "", line


def _labels(names: tuple[str, ...], values: tuple[str, ...]) -> str:
    pairs = [f'{name}="{_escape(value)}"' for name, value in zip(names, values, strict=True)]
    return f"{{{','.join(pairs)}}}" if pairs else ""


def _escape(value: str) -> str:
    return value.replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"")


def _escape_help(text: str) -> str:
    return text.replace("\\", r"\\").replace("\n", r"\n")


def _number(value: float) -> str:
    return str(int(value)) if value == int(value) else repr(value)
