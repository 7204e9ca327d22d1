"""From an address to a storage."""

import subprocess
import sys
from pathlib import Path

import pytest

from ashore.errors import JobFileInvalid
from ashore.storage import open_storage

WITHOUT_PACKAGE = """
import sys
sys.modules["hdfs_native"] = None
from ashore.errors import NotInstalled
from ashore.storage import open_storage
try:
    open_storage("hdfs://host:8020/lake")
except NotInstalled as error:
    print(error.hint)
"""


def test_a_local_lake(tmp_path: Path) -> None:
    storage = open_storage(f"file://{tmp_path}/a lake%20/")
    assert storage.describe() == f"file://{tmp_path}/a lake%20"
    assert list(tmp_path.iterdir()) == [], "opening touches nothing"
    storage.create("x", b"content")
    assert (tmp_path / "a lake%20" / "x").read_bytes() == b"content"


@pytest.mark.parametrize(
    ("uri", "hint"),
    [
        ("hdfs://ashore/lake", "set HADOOP_CONF_DIR"),
        ("hdfs://ashore/lake", "hdfs://ashore:8020/"),
        ("hdfs:///lake", "write hdfs://NAMESERVICE/lake"),
        ("hdfs://host:8020/a:b", "a colon in a name"),
        ("hdfs://host:8020/a/../b", "write hdfs://host:8020/b"),
        ("s3a://bucket/lake", "use file:///"),
        ("gs:///lake", "write gs://BUCKET/lake"),
        ("abfs://@a.dfs.core.windows.net/x", "write abfs://BUCKET@a.dfs"),
        ("s3:///lake", "write s3://BUCKET/lake"),
        ("s3://bucket/a/../b", "write s3://bucket/b"),
        ("/data/lake", "write it as file:///data/lake"),
        ("", "file:///data/lake"),
        ("file://data/lake", "three slashes: file:///data/lake"),
        ("file://", "three slashes"),
        ("file:///data/../lake", "write file:///lake"),
    ],
)
def test_an_address_that_cannot_be_used_is_reported_with_the_right_one(
    uri: str, hint: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("HADOOP_CONF_DIR", raising=False)
    with pytest.raises(JobFileInvalid) as caught:
        open_storage(uri)
    assert hint in caught.value.hint


@pytest.mark.parametrize(
    ("uri", "address"),
    [
        ("hdfs://host:8020/a lake%20/", "hdfs://host:8020/a lake%20"),
        ("hdfs://host:8020", "hdfs://host:8020"),
        ("hdfs://host:8020//a//b", "hdfs://host:8020/a/b"),
    ],
)
def test_a_lake_on_hdfs_is_opened_without_asking_it(uri: str, address: str) -> None:
    assert open_storage(uri).describe() == address


def test_a_missing_package_is_reported_with_the_line_to_type() -> None:
    answer = subprocess.run(
        [sys.executable, "-c", WITHOUT_PACKAGE], capture_output=True, text=True, check=True
    )
    assert answer.stdout == "pip install 'ashore[hdfs]'\n"
