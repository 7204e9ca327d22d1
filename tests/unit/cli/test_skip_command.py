"""`ashore skip`: arguments, answers, exit codes. What it may give up: see its use case."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.unit.cli.test_commands import invoke
from tests.unit.proof.lakes import CLICKS_0, Lake, fill, make_lake

from ashore.cli import decisions
from ashore.log.entries import Commit
from ashore.topics.open_job import OpenJob

WHY = ("--why", "the disk was full")


@pytest.fixture
def lake(monkeypatch: pytest.MonkeyPatch) -> Lake:
    """The lake that every job file names here: it has a gap of 30 offsets."""
    lake = make_lake()
    lake.append(Commit("stop"))
    fill(lake.source, "clicks", 0, 50)
    lake.source.expire(CLICKS_0, 130)

    @contextmanager
    def open_lake(_path: Path) -> Iterator[OpenJob]:
        yield lake.opened()

    monkeypatch.setattr(decisions, "open_job", open_lake)
    return lake


@pytest.mark.usefixtures("lake")
def test_explain_shows_what_is_done_then() -> None:
    skip = ("skip", "job.yaml", "clicks/0", "--to", 130, *WHY)
    assert invoke(*skip, "--explain")[:2] == (0, "would skip 30 offsets: clicks/0 [100, 130)\n")
    code, out, _ = invoke(*skip, "--json")
    assert (code, json.loads(out)) == (
        0,
        {"place": "clicks/0", "skipped": [100, 130], "done": True},
    )
    code, out, _ = invoke(*skip)
    assert (code, out.endswith(": nothing to skip\n")) == (0, True)


@pytest.mark.usefixtures("lake")
@pytest.mark.parametrize(
    ("arguments", "code", "reported"),
    [
        (("clicks/0", "--to", 131, *WHY), 4, "--to 130"),
        (("clicks", "--to", 130, *WHY), 2, "such as clicks/3"),
        (("clicks/0", "--to", 130), 2, "--why"),
        (("clicks/0", "--to", -1, *WHY), 2, "--to"),
    ],
)
def test_what_cannot_be_skipped(arguments: tuple[object, ...], code: int, reported: str) -> None:
    found, _, err = invoke("skip", "job.yaml", *arguments)
    assert found == code
    assert reported in err
