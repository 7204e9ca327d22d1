"""The search that the models share: every state, breadth first.

What it promises: a counterexample is a shortest one.
What it must not know: what a state is.
"""

# ruff: noqa: INP001, T201

import gc
from collections import deque
from collections.abc import Callable, Hashable, Iterable, Iterator
from contextlib import contextmanager
from typing import TypeVar

State = TypeVar("State", bound=Hashable)
Found = tuple[int, str | None, list[str]]  # states, what is wrong in the last, the way to it


def search(
    first: State,
    moves: Callable[[State], Iterable[tuple[str, State]]],
    find_wrong: Callable[[State], str | None],
) -> Found:
    """Visit each state that `moves` reach from the first; stop at the first that is wrong."""
    reached: dict[State, tuple[str, State] | None] = {first: None}
    waiting = deque([first])
    with _without_collection():
        while waiting:
            state = waiting.popleft()
            if wrong := find_wrong(state):
                return len(reached), wrong, _trace(reached, state)
            for label, after in moves(state):
                if after not in reached:
                    reached[after] = (label, state)
                    waiting.append(after)
    return len(reached), None, []


@contextmanager
def _without_collection() -> Iterator[None]:
    """Collect no garbage: all that is reached stays, and looking through it costs a sixth."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def _trace(reached: dict[State, tuple[str, State] | None], state: State) -> list[str]:
    labels: list[str] = []
    while (before := reached[state]) is not None:
        label, state = before
        labels.append(label)
    return labels[::-1]


def report(runs: Iterable[tuple[str, Found]]) -> int:
    """Print what searches found, by mutation; the protocol's own name is empty.

    Returns 0 where the protocol holds and each mutation has a counterexample.
    """
    is_good = True
    for mutation, (states, wrong, labels) in runs:
        print(f"{mutation or 'the protocol'}: {states} states: {wrong or 'holds'}")
        for label in labels:
            print(f"    {label}")
        is_good &= bool(wrong) == bool(mutation)
    return 0 if is_good else 1
