"""What every storage promises, on a double of Google's store, and the conditions of each write.

A test that stands here under the name of one of the suite of buckets replaces it.
"""

import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.gcs_double import BUCKET, GcsDouble
from tests.integration.test_storage_contract_s3 import *  # noqa: F403  # the suite of buckets
from tests.refusals import refusals_of

from ashore.errors import JobFileInvalid
from ashore.storage import Storage, open_storage
from ashore.storage.base import Staged
from ashore.storage.gcs_conf import load_conf
from ashore.storage.objects import PART_BYTES, ObjectStorage

del test_more_files_than_a_page_are_listed  # noqa: F821  # the double has no pages


@pytest.fixture
def gcs() -> Iterator[GcsDouble]:
    with GcsDouble() as double:
        yield double


@pytest.fixture
def options(gcs: GcsDouble, tmp_path: Path) -> dict[str, str]:
    path = tmp_path / "key.json"
    path.write_text(gcs.key())
    return {"service_account_file": str(path), "endpoint": gcs.endpoint}


@pytest.fixture(params=["bare", "wrapped"])
def storage(request: pytest.FixtureRequest, options: dict[str, str]) -> Storage:
    root = f"contract/{uuid.uuid4().hex}"
    if request.param == "wrapped":
        return open_storage(f"gs://{BUCKET}/{root}", options=options)
    return ObjectStorage(load_conf(BUCKET, root, options), timeout_s=30)


def test_every_write_has_a_condition(storage: Storage, gcs: GcsDouble) -> None:
    """Of an entry, of a file of one request, of its move, and of the move of a large one."""
    storage.create("log/1", b"entry")
    for size in (1, PART_BYTES + 1):
        writer = storage.open_write(f"t/{size}")
        writer.write(b"x" * size)
        writer.close()
        storage.publish(Staged(f"t/{size}"), f"final/{size}")
    assert [name.partition("/")[2].partition("/")[2] for name, _ in gcs.conditions] == [
        "log/1",
        "t/1",
        "final/1",
        f"final/{PART_BYTES + 1}",
    ]
    assert {condition for _, condition in gcs.conditions} == {"0"}


def test_what_is_wrong_is_said(options: dict[str, str]) -> None:
    storage = open_storage("gs://none-such/x", options=options)
    for error in refusals_of(storage):
        assert "create the bucket" in error.hint


def test_a_key_that_cannot_be_used_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "key.json"
    path.write_text('{"type": "external_account", "private_key": "hunter2hunter2"}')
    with pytest.raises(JobFileInvalid) as caught:
        open_storage("gs://lake/x", options={"service_account_file": str(path)})
    assert "`gcs`" in caught.value.hint
    assert "hunter2" not in str(caught.value)
