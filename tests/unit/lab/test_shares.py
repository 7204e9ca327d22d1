"""What a commit leaves out of exhaustive tests, the next two play."""

from itertools import islice

import pytest
from tests import shares

CASES = ["one"] * 7 + ["two"] * 3 + ["one"] * 2
FEW = ["few"] * 2


@pytest.fixture(params=range(3))
def turn(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    monkeypatch.setattr(shares, "share", lambda: (3, request.param))
    return int(request.param)


def test_three_turns_play_each_case_once_and_some_of_each_test() -> None:
    turns = [shares.played(CASES, 3, first) for first in range(3)]
    assert [sum(each) for each in zip(*turns, strict=True)] == [1] * len(CASES)
    for plays in turns:
        some = {name for name, is_played in zip(CASES, plays, strict=True) if is_played}
        assert some == {"one", "two"}


def test_of_fewer_cases_than_turns_each_turn_plays_all() -> None:
    assert shares.played([*CASES, *FEW], 3, 2)[-2:] == [True, True]


def test_a_turn_is_every_third_case(turn: int) -> None:
    assert shares.share_of(range(8)) == [*range(8)][turn::3]
    assert shares.share_of([5]) == [5], "no turn is without a case"
    assert [*islice(shares.numbers_of_calls(), 3)] == [turn + 1, turn + 4, turn + 7]


def test_without_a_share_all_is_played(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SHARE", raising=False)
    monkeypatch.setattr(shares, "share", shares.share.__wrapped__)
    assert shares.share_of(range(8)) == [*range(8)]
    assert all(shares.played(CASES, *shares.share()))


def test_the_next_commit_plays_the_next_share(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHARE", "third")
    found = []
    for count in range(10, 13):
        answers = {"rev-parse": "false", "rev-list": str(count)}
        monkeypatch.setattr(shares, "_git", lambda command, *_, answers=answers: answers[command])
        found.append(shares.share.__wrapped__())
    assert {step for step, _ in found} == {3}
    assert sorted(first for _, first in found) == [0, 1, 2]
    # A shallow clone does not know how many commits there are.
    monkeypatch.setattr(
        shares, "_git", lambda _, option, *__: "true" if "shallow" in option else "0000000b"
    )
    assert shares.share.__wrapped__() == (3, 2)
