"""No bytes from outside end a process by a signal, hang it, or raise what nobody expects."""

import os
from pathlib import Path

import pytest
from tests import fuzz

SOME = [("json", 250), ("files", 400)]
DIES_AT = 107
DYING = """
import os, signal
from ashore.topics.decode import json
decode = json.JsonDecoder.decode
def dying(self, values):
    if values.to_pylist() == {values!r}:
        {how}
    return decode(self, values)
json.JsonDecoder.decode = dying
"""


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "count"), SOME)
def test_some_inputs(kind: str, count: int) -> None:
    fuzz.fuzz(kind, 0, count)


@pytest.mark.long
@pytest.mark.timeout(1_800)
@pytest.mark.parametrize(("kind", "count"), [("json", 40_000), ("files", 60_000)])
def test_many_inputs(kind: str, count: int) -> None:
    fuzz.fuzz(kind, 1_000_000, count)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("how", "reported"),
    [
        ("os.kill(os.getpid(), signal.SIGSEGV)", "ended by SIGSEGV"),
        ("signal.raise_signal(signal.SIGALRM)", "ended by SIGALRM"),  # as where one hangs
        ("raise KeyError('odd')", "exit code 1"),
    ],
)
def test_what_ends_the_process_is_reported_with_its_input(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str, reported: str
) -> None:
    # By its values and not by a count: how often a decoder is called depends on how many there are.
    _, values = fuzz._json(DIES_AT)
    (tmp_path / "sitecustomize.py").write_text(DYING.format(values=values, how=how))
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=os.pathsep)

    with pytest.raises(fuzz.Died) as died:
        fuzz.fuzz("json", 100, 50)

    assert (died.value.number, died.value.how) == (DIES_AT, reported)
    message = str(died.value)
    assert f"python -m tests.fuzz json {DIES_AT} 1" in message
    assert fuzz.make_input("json", DIES_AT)[:200] in message
