"""Operations as processes: what becomes of a command that succeeds, that answers, that fails."""

import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from tests.checkpoint_files import unpack

from ashore.fleet.operate.operations import Operations, OperationState, OperationView
from ashore.fleet.records.server_files import OperationRequest
from ashore.fleet.server.models import OperationDocument

WITHIN_S = 60.0
CASE = "rocksdb-changelog"


@pytest.fixture
def operations(tmp_path: Path) -> Iterator[Operations]:
    directory = tmp_path / "operations"
    directory.mkdir()
    made = Operations(directory, tmp_path)
    made.start()
    yield made
    made.end()


def ended(operations: Operations, command: str, *line: str) -> OperationView:
    made = operations.ask((command, "", "test"), [*command.split(), "--json", *line], is_json=True)
    deadline_s = time.monotonic() + WITHIN_S
    while not (found := operations.get(made)).is_final:
        assert time.monotonic() < deadline_s, found
        time.sleep(0.05)
    return found


@pytest.mark.slow
def test_what_was_found_is_an_answer_and_what_could_not_be_looked_at_a_failure(
    operations: Operations, tmp_path: Path
) -> None:
    root = unpack(CASE, tmp_path)
    good = ended(operations, "checkpoint doctor", str(root))
    assert (good.state, good.end and good.end.code) == (OperationState.DONE, 0)

    max((root / "commits").glob("[0-9]*"), key=lambda path: int(path.name)).write_bytes(b"")
    found = ended(operations, "checkpoint doctor", str(root))
    assert (found.state, found.end and found.end.code) == (OperationState.ANSWERED, 4)
    document = OperationDocument.of(found, operations.result(found))
    assert (document.answer, document.exit_code) == ("findings", 4)
    assert document.result["findings"]
    assert document.outcome == found.outcome == "answered: findings"

    failed = ended(operations, "checkpoint doctor", str(tmp_path / "nothing"))
    assert failed.state is OperationState.FAILED
    assert (failed.end and failed.end.answer, failed.outcome) == ("", "failed")


def test_a_drain_is_called_one() -> None:
    line = ("ashore", "stop", "clicks.yaml")
    stop = OperationRequest("1", "stop", "clicks", line, "ann", 1, is_json=True)
    drain = replace(stop, line=(*line, "--drain"))
    assert (stop.title, drain.title) == ("stop", "drain")
