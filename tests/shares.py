"""A pytest plugin: which share of the cases of exhaustive tests a run plays.

`make test` sets SHARE=third: a commit plays one third, always the same, and three commits in a row
play all; `make test-all` plays all at once. It is a third of the calls that a fault may strike,
where a test asks for `share_of` them or for their numbers, and of the cases of each test with the
mark `thirds`; `thirds("a family")` is a third of the tests that bear the same name.
"""

import itertools
import os
import subprocess
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import TypeVar

import pytest

ROOT = Path(__file__).parents[1]

T = TypeVar("T")


@cache
def share() -> tuple[int, int]:
    """Return the step from one case that is played to the next, and the number of the first."""
    if os.environ.get("SHARE") != "third":
        return 1, 0
    if _git("rev-parse", "--is-shallow-repository") == "false":
        return 3, int(_git("rev-list", "--count", "--first-parent", "HEAD")) % 3
    return 3, int(_git("rev-parse", "--short=8", "HEAD") or "0", 16) % 3


def _git(*arguments: str) -> str:
    answer = subprocess.run(
        ["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=False
    )
    return answer.stdout.strip()


def share_of(cases: Iterable[T]) -> list[T]:
    """Return the cases that this run plays: all where they are fewer than the shares."""
    step, first = share()
    every = list(cases)
    return every[first::step] or every


def numbers_of_calls() -> Iterator[int]:
    """Yield, without an end, the numbers of the calls that this run strikes: the first is 1."""
    step, first = share()
    return itertools.count(1 + first, step)


def family_of(item: pytest.Item) -> str:
    """Return what a test is a case of: what its mark names, or the test without its parameters."""
    mark = item.get_closest_marker("thirds")
    return mark.args[0] if mark and mark.args else item.nodeid.partition("[")[0]


def played(families: Sequence[str], step: int, first: int) -> list[bool]:
    """Return of each case whether it is played, by the families that they are of.

    Of a family with fewer cases than there are shares all are.
    """
    every, seen = Counter(families), Counter[str]()
    found = []
    for family in families:
        found.append(seen[family] % step == first or every[family] < step)
        seen[family] += 1
    return found


@pytest.hookimpl(trylast=True)  # what is not chosen by its marks is no case
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    shared = [item for item in items if item.get_closest_marker("thirds")]
    plays = played([family_of(item) for item in shared], *share())
    left = [item for item, is_played in zip(shared, plays, strict=True) if not is_played]
    if left:
        config.hook.pytest_deselected(items=left)
        gone = set(map(id, left))
        items[:] = [item for item in items if id(item) not in gone]


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    step, first = share()
    if step > 1:
        terminalreporter.write_line(
            f"share {first + 1} of {step} of crash points and of what is marked `thirds`;"
            " the next commits play the others, make test-all plays all"
        )
