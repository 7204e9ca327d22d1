"""Write docs/reference from the code: what `make docs` runs.

What it is: one page each for the job file, the command line, errors, events, counters, Nexmark
and changes of SQL; and the JSON Schema of the job file.
What it promises: the same text for the same code; `--check` writes nothing and fails if a page is
stale. An event, a counter or an error without a meaning is an error.
"""

import importlib
import importlib.util
import inspect
import json
import re
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple, get_args

from ashore.errors import AshoreError, ExitCode
from ashore.jobs.events import SENT
from ashore.jobs.failure import Failed
from ashore.jobs.file import render_reference
from ashore.jobs.file.json_schema import job_schema
from ashore.jobs.metrics.families import FAMILIES, FLEET_FAMILIES
from ashore.queries.state.diagnosis.findings import MEANINGS

ROOT = Path(__file__).resolve().parent.parent
SOURCE = ROOT / "src" / "ashore"
TARGET = ROOT / "docs" / "reference"
SCHEMA = "job-file.schema.json"  # for editors
MARK = "<!-- Written from the code by `make docs`. Do not edit. -->\n\n"

COMMON = 3  # commands that have the same argument or option: from here on it is explained once
COMMAND_LINE_HEAD = """\
Data goes to stdout, messages to stderr. With `--json` stdout is one JSON document; for `run`,
`demo` and `audit --continuous` [one event per line](events.md). An [error](errors.md) ends a
command with its exit code.
"""
ERRORS_HEAD = """\
An error has a stable `code`, a message that names the objects involved, and usually a hint with the
next step. `--json` prints `code`, `message`, `hint`, and more fields for some codes.
"""
FINDINGS_HEAD = """\
Findings of [`ashore checkpoint doctor`](../operate/checkpoints.md#what-is-wrong-with-one). Each
has a stable `code`, the `file`, a `sentence` that describes the finding, and a `repair`: the
content of the repaired copy, or the next step.
"""
EVENTS_HEAD = """\
`ashore run --json` prints one JSON object per line as events occur. `event` is the kind. Releases
may add events and fields; those on this page stay.
"""
EVENTS_TAIL = """\
The command itself adds `talk` (`message`): a line of the job process's stdout that is not an
event.

`ashore demo --json` prints the events of its jobs, its own steps (`demo`: `step`, `killed_at`), and
at the end `verdict` with the output of [`verify --json`](command-line.md).
"""
LOG_COUNTERS_HEAD = """\
`prepare` and `retire` entries have counters. The fold sums them, and `ashore status --json` shows
the sums. A counter of zero is omitted.
"""

PROBLEMS_HEAD = """\
`verify` lists the first 20 of each kind and counts all of them; `audit` lists all open ones. Each
results in exit code 5.
"""

# What `verify` counts for a table, and what it can find wrong.
TALLY = {
    "batches": "`prepare` entries of the table",
    "fetched": "records that these batches fetched",
    "landed": "of these, rows in the main and the late table",
    "dead": "of these, rows in the dead-letter table",
    "filtered": "of these, refused by `where`",
    "dropped": "of these, invalid under `on_invalid: drop`",
    "skipped": "offsets that `skip` entries gave up because Kafka no longer had them",
    "given_up": "rows of lost files that `recover --accept-loss` gave up",
    "retired": "rows of partitions that a `retire` entry dropped",
    "files": "expected files",
    "files_in_flight": "of these, files of an entry that is not closed yet",
    "size_bytes": "their bytes",
    "lost": "records that are missing in all files",
    "duplicated": "records that are in files more than once, also in files without an entry",
    "unlisted": "rows that are only in files without an entry",
    "unprovable": "records that cannot be checked: Kafka no longer has them, or does not answer",
}
PROBLEMS = {
    "ranges": "offset ranges of a topic partition have a hole or overlap",
    "counts": "the counts of an entry do not add up",
    "spans": "offset spans of files contradict each other or their entry",
    "file_missing": "a file of the log is missing",
    "partition_gone": "all files of a table partition are missing: it was dropped by other means",
    "file_size": "the size of a file differs from the log",
    "file_checksum": "the checksum of a file differs from the log",
    "file_rows": "the number of rows of a file differs from the log",
    "file_unreadable": "a file cannot be read as its format",
    "file_unlisted": "a visible file with a name of Ashore is in no entry",
    "file_foreign": "a visible file does not have a name of Ashore",
    "provenance": "the offsets in a file differ from its entry",
    "value": "only with `--values`: a column of a row differs from its record in Kafka",
    "lost": "records are lost",
    "duplicated": "records are duplicated",
    "log_damaged": "only `audit`: a file of the log is damaged; `verify` stops",
    "log_lost": "only `audit`: tables have files from after the end of the log",
    "offsets_gone": "only `audit`: Kafka has deleted offsets that were not landed yet",
    "offsets_went_back": "only `audit`: a partition ends below landed offsets",
    "history_truncated": "only `audit`: a partition was cut below landed offsets and has grown",
    "stream_replaced": "only `audit`: a topic was deleted and created again",
    "success_file_missing": "only `audit`: the success file of a sealed partition is missing",
    "catalog_table": "only `audit`: the catalog lacks the table, or has another one",
    "catalog_lacks": "only `audit`: the catalog lacks partitions that were registered in it",
    "catalog_extra": "only `audit`: the catalog has partitions without a file of the job",
    "catalog_elsewhere": "only `audit`: the catalog has another location for a partition",
}

# What `audit --continuous --json` prints.
AUDIT_EVENTS = {
    "raised": "A problem since this interval, as in [counters](counters.md), with `first_seen_ms`.",
    "cleared": "The problem is solved: the same, with `cleared_ms`.",
    "looked": "The end of each interval: `gauge` (`lag`, `unaccounted`, `unprovable`), `entries` "
    "read of each slice, `unproven` ones, how many `findings` are open, how far the rounds "
    "`listing` and `reading` are, since when `kafka`, the `lake` or the `catalog` is away, and "
    "`activity`: when the newest entry was written, and since when there is work and the log "
    "has not grown.",
    "error": "The last line if it failed: the error as in [errors](errors.md).",
    "ended": "The last line, with the exit code.",
}


# --- the command line --------------------------------------------------------------------------


class Row(NamedTuple):
    """An argument or an option."""

    name: str
    default: str
    meaning: str


def render_command_line() -> str:
    """Return every command with its arguments and options."""
    from ashore.cli.app import load_all  # noqa: PLC0415 - only this page needs all commands

    root = load_all()
    commands = dict(_commands(root, "ashore"))
    counts = Counter(row for command in commands.values() for row in _rows(command))
    common: dict[str, Row] = {}
    for row, times in counts.most_common():
        if times >= COMMON:  # of two meanings of a name the one that more commands have
            common.setdefault(row.name, row)
    parts = ["# The command line\n", f"{root.help}\n", COMMAND_LINE_HEAD, "## `ashore`\n"]
    parts.append(_list([row for row in _rows(root) if "-completion" not in row.name]))
    parts.append("## Common arguments and options\n")
    parts.append(_list(list(common.values())))
    first = dict.fromkeys(common.values(), "")  # where an argument or option is explained
    for path, command in commands.items():
        parts += _command(path, command, first)
    parts.append(_exit_codes())
    return "\n".join(parts)


def _commands(group: object, path: str) -> Iterator[tuple[str, Any]]:
    for name, command in vars(group)["commands"].items():
        if "commands" in vars(command):
            yield from _commands(command, f"{path} {name}")
        else:
            yield f"{path} {name}", command


def _command(path: str, command: Any, first: dict[Row, str]) -> Iterator[str]:
    """Yield a section; of what an earlier one or the common one explains, only the names."""
    arguments = " ".join(_argument(each) for each in command.params if _is_argument(each))
    yield f"## `{path}`\n"
    yield f"    {path} {arguments}".rstrip() + " [OPTIONS]\n"
    yield f"{inspect.cleandoc(command.help or '')}\n"
    rows = list(_rows(command))
    if own := [row for row in rows if first.setdefault(row, path) == path]:
        yield _list(own)
    explained = defaultdict(list)
    for row in rows:
        explained[first[row]].append(row.name)
    for place in sorted(explained.keys() - {path}, reverse=True):
        title = f"As of `{place}`" if place else "Common"
        yield f"{title}: {', '.join(explained[place])}.\n"


def _rows(command: object) -> Iterator[Row]:
    for each in vars(command)["params"]:
        names = [_argument(each)] if _is_argument(each) else each.opts
        default = "required" if each.required else _default(each.default)
        yield Row(", ".join(f"`{name}`" for name in names), default, each.help)


def _list(rows: list[Row]) -> str:
    shown = (f" ({row.default})" if row.default else "" for row in rows)
    return "".join(
        f"- {row.name}{each}: {row.meaning}\n" for row, each in zip(rows, shown, strict=True)
    )


def _is_argument(parameter: object) -> bool:
    return type(parameter).__name__ == "TyperArgument"


def _argument(parameter: object) -> str:
    found = vars(parameter)
    name = found["metavar"] or found["name"].upper()
    if found["nargs"] == -1:
        name += "..."
    return str(name) if found["required"] else f"[{name}]"


def _default(value: object) -> str:
    return "" if value in (None, False, "") or callable(value) else f"default `{value}`"


# --- errors ------------------------------------------------------------------------------------


def render_errors() -> str:
    """Return for each error its code, exit code and meaning."""
    parts = [
        "# Errors\n",
        ERRORS_HEAD,
        _exit_codes(),
        "## Each error\n",
    ]
    for kind in error_classes():
        parts.append(f"### `{kind.code}`\n")
        meaning = " ".join((kind.__doc__ or "").split("\n\n", maxsplit=1)[0].split())
        if kind is AshoreError:
            meaning = "An error that has no code of its own."
        parts.append(f"{meaning} `{kind.__name__}`, exit code {kind.exit_code}.\n")
    return "\n".join(parts)


def error_classes(kind: type[AshoreError] = AshoreError) -> list[type[AshoreError]]:
    """Return a class and all below it, in the order of the tree."""
    below = [found for each in kind.__subclasses__() for found in error_classes(each)]
    return [kind, *(each for each in below if each.__module__ == "ashore.errors")]


def _exit_codes() -> str:
    rows = [f"| {each} | {each.meaning} |" for each in ExitCode]
    return "## Exit codes\n\n" + _table(("Code", "Meaning"), rows)


# --- findings ----------------------------------------------------------------------------------


def render_findings() -> str:
    """Return what `ashore checkpoint doctor` can find."""
    parts = ["# Findings\n", FINDINGS_HEAD]
    for code, meaning in MEANINGS.items():
        parts.append(f"### `{code}`\n")
        parts.append(f"{meaning.means}\n\nRepair: {meaning.repair}\n")
    return "\n".join(parts)


# --- events ------------------------------------------------------------------------------------


def render_events() -> str:
    """Return the events of a job process with their fields."""
    rows = [f"- `{each.kind}` ({_event_fields(each)}): {_meaning(each)}\n" for each in SENT]
    return "\n".join(
        [
            "# Events\n",
            EVENTS_HEAD,
            "".join(rows).replace(" ():", ":"),
            EVENTS_TAIL,
            "## Of `ashore audit --continuous --json`\n",
            _meanings(AUDIT_EVENTS),
        ]
    )


def _event_fields(kind: type) -> str:
    names = [each.name for each in fields(kind)]
    if kind is Failed:  # its last field stands for those that an error has of its own
        names = names[:-1]
        return ", ".join([*(f"`{name}`" for name in names), "more, by code"])
    return ", ".join(f"`{name}`" for name in names)


def _meaning(kind: type) -> str:
    return " ".join(inspect.cleandoc(kind.__doc__ or "").split())


# --- shared ------------------------------------------------------------------------------------


def explain_all(what: str, found: set[str], meanings: Mapping[str, str]) -> None:
    """Stop unless exactly what was found in the code has a meaning here."""
    odd = sorted(found ^ meanings.keys())
    if odd:
        raise SystemExit(f"{what} without a meaning, or the other way round: {', '.join(odd)}")


def _meanings(meanings: Mapping[str, str]) -> str:
    return "".join(f"- `{name}`: {meaning}\n" for name, meaning in meanings.items())


def _table(titles: tuple[str, ...], rows: list[str]) -> str:
    head = [f"| {' | '.join(titles)} |", "|" + "---|" * len(titles)]
    return "\n".join([*head, *rows]) + "\n"


def render_counters() -> str:
    """Return the counters of the log, and what `verify` counts and finds."""
    from ashore.proof.evidence.result import ProblemKind, Tally  # noqa: PLC0415 - loads Arrow
    from ashore.topics.write.batch import COUNTERS  # noqa: PLC0415

    explain_all("counts of verify", {each.name for each in fields(Tally)}, TALLY)
    explain_all("problems of verify", {each.value for each in ProblemKind}, PROBLEMS)
    from ashore.topics.loop import retention  # noqa: PLC0415

    every = {**COUNTERS, **retention.COUNTERS}
    return "\n".join(
        [
            "# Counters\n",
            "## In the landing log\n",
            LOG_COUNTERS_HEAD,
            _meanings(dict(sorted(every.items()))),
            "## Of `ashore verify`\n",
            "`ashore verify --json` prints these for each table, and summed up as `totals`.\n",
            _meanings(TALLY),
            "## Problems that `ashore verify` and `ashore audit` name\n",
            PROBLEMS_HEAD,
            _meanings(PROBLEMS),
        ]
    )


# --- Nexmark -----------------------------------------------------------------------------------

NEXMARK_HEAD = """\
The 23 queries of [Nexmark](../../examples/nexmark/README.md). Spark's streaming runs some as they
are, some rewritten, and refuses the rest. A test runs each over Kafka and compares the result with
a batch run over the whole input; another checks each refusal.

- *Table*: the job fills a table ([`nexmark.sql`](../../examples/nexmark/nexmark.sql)).
- *Updates*: rows change later, which needs a sink with updates by key: the job writes a topic
  ([`updates.sql`](../../examples/nexmark/updates.sql)).
- *Grows*: state is never cleaned, as no watermark covers its key.

Spark accepts joins bounded by a column without a watermark, as in q4 and q9
(`b.date_time <= a.expires`), and loses rows; Ashore refuses them.

The original text of rewritten queries is in
[`as_written.sql`](../../examples/nexmark/as_written.sql).
"""


def render_nexmark() -> str:
    """Return how each query of Nexmark runs."""
    path = ROOT / "examples" / "nexmark" / "queries.py"
    spec = importlib.util.spec_from_file_location("nexmark_queries", path)
    if spec is None or spec.loader is None:
        raise SystemExit(f"{path} cannot be read")
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    by_number = defaultdict(list)
    for query in module.load_queries():
        by_number[query.number].append(query)
    rows = [_nexmark_row(module, queries) for _, queries in sorted(by_number.items())]
    return "\n".join(["# Nexmark\n", NEXMARK_HEAD, "\n".join(rows)])


def _nexmark_row(module: ModuleType, queries: list[Any]) -> str:
    """Return one row: a query as it is written, where that is another text, and as it runs."""
    written = next((each for each in queries if each.file == module.AS_WRITTEN), None)
    runs = next((each for each in queries if each.file != module.AS_WRITTEN), None)
    if written is None:
        verdict = "runs"
    else:
        verdict = f"refused: {written.refused}" if written.refused else "runs, and grows"
    verdict = "" if written is None else f" As written: {verdict}."
    if runs is None:
        return f"- {queries[0].name}: {queries[0].title}{verdict}"
    kind = "table" if runs.file == module.TABLES else "updates"
    grows = ", grows" if runs.grows else ""
    rewritten = f": {runs.rewritten}" if runs.rewritten else ""
    return f"- {runs.name}: {runs.title}{verdict} Runs as {kind}{grows}{rewritten}."


def render_compatibility() -> str:
    """Return the verdict on each change that the tests try."""
    if str(ROOT) not in sys.path:
        sys.path.insert(0, str(ROOT))
    return str(importlib.import_module("tests.spark.compatibility.page").render())


# --- metrics -----------------------------------------------------------------------------------

METRICS_HEAD = """\
Set [`metrics`](job-file.md) in the job file: `{port: 9464}` for Prometheus,
`{file: /path/clicks.prom}` for the textfile collector of the node exporter. `ashore run` serves
the metrics outside its job process, so it can report a frozen one
([why](../decisions/0029-who-serves-metrics.md)).

All metrics have the label `ashore_job`. Counters start at 0 with each `ashore run`; permanent
counts are in the landing log (`ashore status`).
[Rules and a dashboard](../../examples/monitoring/README.md);
[what to do about each alert](../operate/at-3am.md#an-alert).
"""


SERVER_HEAD = "`ashore serve` exports them at `/metrics`, with a token.\n"


def render_metrics() -> str:
    """Return the metrics of a job."""
    rows = [_metric_row(each) for each in FAMILIES]
    of_server = [_metric_row(each) for each in FLEET_FAMILIES]
    parts = [METRICS_HEAD, "".join(rows), "## Of a server\n", SERVER_HEAD, "".join(of_server)]
    return "\n".join(["# Metrics\n", *parts])


def _metric_row(family: Any) -> str:
    labels = ", ".join(f"`{label}`" for label in family.labels)
    by = f" by {labels}" if labels else ""
    return f"- `{family.name}` ({family.kind}{by}): {family.meaning}\n"


# --- the library -------------------------------------------------------------------------------

LIBRARY_HEAD = """\
For notebooks and schedulers. Names on this page are public; all others may change with any
release. [An operator for Airflow](../../examples/airflow/ashore_operator.py).

```python
import ashore

job = ashore.Job.load("clicks.yaml")
print(job.run().rows, "rows")
print(job.status().lag, "offsets wait")
assert job.verify().exit_code == 0
kinds = [entry.kind for entry in job.read_log()]
```
"""


def render_library() -> str:
    """Return what is public of the package."""
    import ashore  # noqa: PLC0415 - loads what is public

    parts = ["# As a library\n", LIBRARY_HEAD]
    for name in ashore.__all__:
        found = getattr(ashore, name)
        if isinstance(found, type):
            parts.append(f"## `ashore.{name}`\n\n{_doc(found)}\n")
            parts += _members(found)
    return "\n".join(parts)


def _members(found: type) -> Iterator[str]:
    """Yield the fields of a value, and the methods of a class."""
    if is_dataclass(found):
        shown = (f"`{each.name}`: {_annotation(each.type)}" for each in fields(found))
        yield f"Fields: {'; '.join(shown)}.\n"
    for name, member in vars(found).items():
        if name.startswith("_"):
            continue
        if isinstance(member, property):
            yield f"### `{found.__name__}.{name}`\n\n{_doc(member)}\n"
        elif callable(member) or isinstance(member, classmethod):
            signature = _signature(getattr(found, name))
            yield f"### `{found.__name__}.{name}{signature}`\n\n{_doc(member)}\n"


def _signature(function: Any) -> str:
    """Return the parameters of a method with their defaults."""
    signature = inspect.signature(function)
    own = [each for name, each in signature.parameters.items() if name != "self"]
    shown = [each.replace(annotation=inspect.Parameter.empty) for each in own]
    return str(signature.replace(parameters=shown, return_annotation=inspect.Signature.empty))


def _annotation(kind: object) -> str:
    text = kind.__name__ if isinstance(kind, type) and not get_args(kind) else str(kind)
    return "`" + re.sub(r"\b(?:\w+\.)+(?=\w)", "", text) + "`"


def _doc(of: object) -> str:
    """Return a docstring, its arguments as a list."""
    text = inspect.cleandoc(inspect.getdoc(of) or "")
    before, found, after = text.partition("Arguments:\n")
    if not found:
        return text.strip()
    items, _, rest = after.partition("\n\n")
    listed = re.sub(r"^    (?! )(\w+): ", r"- `\1`: ", items, flags=re.MULTILINE)
    listed = re.sub(r"^ {8}", "  ", listed, flags=re.MULTILINE)
    return f"{before.strip()}\n\n{listed}\n\n{rest}".strip()


PAGES = {
    "library.md": render_library,
    "metrics.md": render_metrics,
    "nexmark.md": render_nexmark,
    "compatibility.md": render_compatibility,
    "job-file.md": render_reference,
    "command-line.md": render_command_line,
    "errors.md": render_errors,
    "findings.md": render_findings,
    "events.md": render_events,
    "counters.md": render_counters,
}


def render_pages() -> dict[str, str]:
    """Return the text of every page of the reference."""
    pages = {name: MARK + render().rstrip() + "\n" for name, render in PAGES.items()}
    rest = load_tool("rest").render_files()
    return {**pages, **rest, SCHEMA: json.dumps(job_schema(), indent=2) + "\n"}


def load_tool(name: str) -> ModuleType:
    """Return another script of this directory, as a module."""
    sys.path.insert(0, str(Path(__file__).parent))
    return importlib.import_module(name)


def find_stale(target: Path) -> list[str]:
    """Return the pages in `target` that are not what the code says, or should not be there."""
    pages = render_pages()
    found = [*target.glob("*.md"), *target.glob("*.json")]
    there = {path.name: path.read_text("utf-8") for path in found}
    return sorted(
        name for name in pages.keys() | there.keys() if pages.get(name) != there.get(name)
    )


def main() -> int:
    """Write the pages; with `--check` only tell which are stale."""
    stale = find_stale(TARGET)
    if "--check" in sys.argv[1:]:
        for name in stale:
            print(f"docs/reference/{name} is stale; run: make docs", file=sys.stderr)
        return 1 if stale else 0
    pages = render_pages()
    for name in stale:
        if name in pages:
            (TARGET / name).write_text(pages[name], "utf-8")
            print(f"wrote docs/reference/{name}")
        else:
            print(f"docs/reference/{name} is not made from the code; remove it", file=sys.stderr)
    load_tool("messages").main()
    return 0


if __name__ == "__main__":
    sys.exit(main())
