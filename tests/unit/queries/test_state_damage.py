"""Why state could not be read: from what Spark says to the file that a person knows."""

from pathlib import Path

import pytest

from ashore.jobs.requests import CheckpointAddress, StateBatch, StateTable
from ashore.queries.spark.state.rows import explain_damage

TABLE = StateTable(0, "stateStoreSave", "default", ())
WHOLE = "state/0/1/4.zip"
TABLE_FILE = "state/0/1/SSTs/000008-5eae60.sst"
FILES = ("state/0/0/5.changelog", "state/0/1/5.changelog", WHOLE, TABLE_FILE)


@pytest.fixture
def state(tmp_path: Path) -> StateBatch:
    for path in FILES:
        (tmp_path / "now" / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "now" / path).touch()
    return StateBatch(CheckpointAddress(f"file://{tmp_path}/now", ()), 4, "/data/clicks")


@pytest.mark.parametrize(
    ("says", "named"),
    [
        ("Checksum error: file:{copy}/state/0/1/5.changelog at 0", "state/0/1/5.changelog cannot"),
        # Spark looks for older files where it cannot read a snapshot.
        ("File file:{copy}/state/0/1/1.changelog does not exist", f"{WHOLE} cannot"),
        ("Corruption: block checksum mismatch in /tmp/x/000008.sst offset 0", TABLE_FILE),
        ("StateStoreId(opId=0,partId=0,name=default): bad", "one of /data/clicks/state/0/0/5.c"),
        ("Stream is corrupted", f"one of /data/clicks/{FILES[0]}, /data/clicks/{WHOLE}"),
    ],
)
def test_a_file_is_named_as_it_is_in_the_checkpoint(
    state: StateBatch, tmp_path: Path, says: str, named: str
) -> None:
    text = f"Job aborted\nCaused by: java.io.IOException: {says.format(copy=tmp_path / 'now')}"
    found = explain_damage(RuntimeError(text), TABLE, [state])
    assert named in found.message
    assert "/data/clicks" in found.message
    assert str(tmp_path) not in found.message
    assert found.fields["why"] == "damaged"


def test_what_sparks_reader_refuses_is_no_damage(state: StateBatch) -> None:
    error = RuntimeError("[STDS_REQUIRED_OPTION_UNSPECIFIED] 'stateVarName' must be specified")
    found = explain_damage(error, TABLE, [state])
    assert found.message.startswith("/data/clicks: Spark does not")
    assert "operator 0" in found.message
    assert found.fields["why"] == "not_read"
