"""What the benchmarks have answered, as data: the file that the page in `bench/results/` is of.

What it is: the last answers of each benchmark, each with its origin, in JSON.
What it promises: what is saved can be loaded. Answers are replaced benchmark by benchmark, so that
one that fails, or is asked alone, costs none of the others.
What it must not know: how anything was measured, how it is shown.
"""

import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path

from bench.machine import Machine
from bench.table import Answers, Origin, Row

FORMAT_VERSION = 1


def load(path: Path) -> dict[str, Answers]:
    """Return what is kept, by benchmark; nothing where there is no file.

    Raises ValueError if the file is of another version.
    """
    if not path.exists():
        return {}
    content = json.loads(path.read_text("utf-8"))
    if content["format_version"] != FORMAT_VERSION:
        raise ValueError(f"{path.name} is of another version: measure again")
    return {each["benchmark"]: _read(each) for each in content["answers"]}


def save(path: Path, answers: Mapping[str, Answers]) -> None:
    """Write the file anew, sorted by benchmark."""
    path.parent.mkdir(parents=True, exist_ok=True)
    kept = [asdict(answers[name]) for name in sorted(answers)]
    content = {"format_version": FORMAT_VERSION, "answers": kept}
    path.write_text(json.dumps(content, indent=1) + "\n", "utf-8")


def _read(found: dict[str, object]) -> Answers:
    rows, origin = found["rows"], found["origin"]
    assert isinstance(rows, list)
    assert isinstance(origin, dict)
    return Answers(
        str(found["benchmark"]),
        tuple(Row(**each) for each in rows),
        Origin(**{**origin, "machine": Machine(**origin["machine"])}),
    )
