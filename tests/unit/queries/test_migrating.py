"""Which checkpoints can be rewritten for other SQL."""

from pathlib import Path

import pytest
from tests.checkpoint_files import opened, unpack

from ashore.errors import CheckpointUnfit
from ashore.queries.state.layout import UNSAFE_ROW
from ashore.queries.state.migration import require_rewritable

REFUSED = {
    "hdfs-backed": ("", "", "provider", "its state is in HDFSBackedStateStoreProvider"),
    "rocksdb": (UNSAFE_ROW, "avro", "encoding", "encoded as avro"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_state_that_spark_cannot_write_is_refused(tmp_path: Path, case: str) -> None:
    before, after, why, told = REFUSED[case]
    root = unpack(case, tmp_path)
    for each in (root / "offsets").glob("[0-9]*"):
        text = each.read_text("utf-8")
        assert before in text
        each.write_text(text.replace(before, after) if before else text, "utf-8")
    checkpoint = opened(root)
    with pytest.raises(CheckpointUnfit, match=told) as refused:
        require_rewritable(checkpoint, checkpoint.read_position().committed)
    assert refused.value.fields["why"] == why


def test_state_in_rocksdb_is_not_refused(tmp_path: Path) -> None:
    checkpoint = opened(unpack("rocksdb", tmp_path))
    settings = require_rewritable(checkpoint, checkpoint.read_position().committed)
    assert settings.partitions
