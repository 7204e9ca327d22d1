"""From an address to a storage."""

from pathlib import Path

import pytest

from ashore.errors import JobFileInvalid
from ashore.storage import open_storage


def test_a_local_lake(tmp_path: Path) -> None:
    storage = open_storage(f"file://{tmp_path}/a lake%20/")
    assert storage.describe() == f"file://{tmp_path}/a lake%20"
    assert list(tmp_path.iterdir()) == [], "opening touches nothing"
    storage.create("x", b"content")
    assert (tmp_path / "a lake%20" / "x").read_bytes() == b"content"


@pytest.mark.parametrize(
    ("uri", "hint"),
    [
        ("hdfs://ashore/lake", "HDFS comes next"),
        ("s3://bucket/lake", "use file:///"),
        ("/data/lake", "write it as file:///data/lake"),
        ("", "file:///data/lake"),
        ("file://data/lake", "three slashes: file:///data/lake"),
        ("file://", "three slashes"),
        ("file:///data/../lake", "write file:///lake"),
    ],
)
def test_an_address_that_cannot_be_used_is_told_with_the_right_one(uri: str, hint: str) -> None:
    with pytest.raises(JobFileInvalid) as caught:
        open_storage(uri)
    assert hint in caught.value.hint
