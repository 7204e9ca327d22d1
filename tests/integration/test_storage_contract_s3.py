"""What every storage promises, on a real server of S3.

A test that stands here under the name of one of the suite replaces it: objects have no directories,
and no identity that a copy keeps.
"""

import uuid

import pytest
from tests.contract.test_storage_contract import *  # noqa: F403  # the suite
from tests.contract.test_storage_contract import names, write
from tests.refusals import refusals_of

from ashore.errors import InvariantBroken, PathExists, PathMissing, StorageError
from ashore.storage import Storage, open_storage
from ashore.storage.base import Staged
from ashore.storage.objects import PART_BYTES, ObjectStorage
from ashore.storage.s3_conf import load_conf
from ashore_lab.services.s3 import BUCKET, S3


@pytest.fixture(params=["bare", "wrapped"])
def storage(request: pytest.FixtureRequest, s3: S3) -> Storage:
    root, options = f"contract/{uuid.uuid4().hex}", s3.client_options()
    if request.param == "wrapped":
        return open_storage(f"{s3.uri}/{root}", options=options)
    return ObjectStorage(load_conf(BUCKET, root, options), timeout_s=30)


def test_create_over_a_directory(storage: Storage) -> None:
    """Some servers refuse it; names of Ashore never ask for it."""
    storage.create("a/b", b"")
    try:
        storage.create("a", b"")
    except StorageError:
        assert storage.read("a/b") == b""


def test_a_file_is_no_parent(storage: Storage) -> None:
    """What a server answers about a name below a file is its own."""
    storage.create("a", b"x")
    assert storage.list("a") == []


@pytest.mark.parametrize("target", ["new/y", "old/y", "old/taken"])
def test_move_of_what_is_missing(storage: Storage, target: str) -> None:
    """Of the suite without a name below a file, which servers answer each in its own way."""
    storage.create("old/taken", b"target")
    for source in ("absent", "absent/x", "old/x"):
        with pytest.raises(PathMissing):
            storage.publish(Staged(source), target)
    assert storage.read("old/taken") == b"target"


def test_open_write_never_overwrites(storage: Storage) -> None:
    """The end finds that the name is taken: to look before is a request more."""
    storage.create("a/x", b"first")
    writer = storage.open_write("a/x")
    writer.write(b"second")
    with pytest.raises(PathExists):
        writer.close()
    with pytest.raises(PathExists):
        write(storage, "a/x", b"x" * (PART_BYTES + 1))
    assert storage.read("a/x") == b"first"


def test_a_writer_follows_its_file_when_that_is_moved(storage: Storage) -> None:
    """Before its end there is nothing to be moved."""
    for size in (1, PART_BYTES + 1):
        writer = storage.open_write("a")
        writer.write(b"x" * size)
        assert storage.stat("a") is None
        with pytest.raises(PathMissing):
            storage.publish(Staged("a"), "b")
        writer.abandon()
    assert names(storage, "a") == []


def test_move_of_equal_content_is_no_halfway_state(storage: Storage) -> None:
    """Here it is one: content is all that tells a copy from another file, and none is lost."""
    storage.create("a/x", b"same")
    storage.create("b/y", b"same")
    storage.publish(Staged("a/x"), "b/y")
    assert storage.stat("a/x") is None
    assert storage.read("b/y") == b"same"


def test_read_of_what_is_not_a_file(storage: Storage) -> None:
    storage.create("d/a", b"")
    for path in ("d", "d/b", "x/y"):
        with pytest.raises(PathMissing):
            storage.read(path)


def test_only_an_empty_directory_is_deleted(storage: Storage) -> None:
    """An empty one is none."""
    storage.create("d/e/a", b"kept")
    for full in ("d", "d/e"):
        with pytest.raises(StorageError) as caught:
            storage.delete(full)
        assert not isinstance(caught.value, PathMissing)
    assert storage.read("d/e/a") == b"kept"
    storage.delete("d/e/a")
    assert storage.stat("d/e") is None
    with pytest.raises(PathMissing):
        storage.delete("d/e")


def test_sync(storage: Storage) -> None:
    """Names are durable; a directory from which the last file was moved is not missing."""
    storage.sync(["a/b", "a/b"])
    with pytest.raises(InvariantBroken):
        storage.sync(["a/../b"])


@pytest.mark.parametrize(
    "name", ["with space", "country=%2F%25", "100%", "städte", "🚢", "b?c#d&e"]
)
def test_odd_names(storage: Storage, name: str) -> None:
    storage.create(f"{name}/{name}", b"content")
    assert names(storage, name) == [f"{name}/{name}"]
    storage.publish(Staged(f"{name}/{name}"), f"{name}/moved")
    assert storage.read(f"{name}/moved") == b"content"
    storage.delete(f"{name}/moved")
    assert storage.list(name) == []


def test_a_name_that_the_client_refuses_changes_nothing(storage: Storage) -> None:
    """Partitions spell such characters with %."""
    with pytest.raises(StorageError):
        storage.create("new\nline", b"")


def test_a_large_file_is_written_in_parts(storage: Storage) -> None:
    content = bytes(range(256)) * (3 * PART_BYTES // 256) + b"end"
    writer = storage.open_write("t/large")
    for start in range(0, len(content), 5_000_000):
        writer.write(content[start : start + 5_000_000])
    writer.close()
    storage.publish(Staged("t/large"), "t/moved")
    assert storage.read("t/moved") == content
    assert storage.read("t/moved", PART_BYTES, 10) == content[PART_BYTES : PART_BYTES + 10]


def test_more_files_than_a_page_are_listed(storage: Storage) -> None:
    for number in range(1_003):
        storage.create(f"d/{number:04}", b"")
    assert len(names(storage, "d")) == 1_003


def test_a_file_too_large_to_be_moved_is_refused(
    storage: Storage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ashore.storage.objects.OBJECT_BYTES_MAX", 3)
    writer = storage.open_write("a")
    with pytest.raises(StorageError, match="5 GB"):
        writer.write(b"four")
    writer.abandon()


@pytest.mark.parametrize("of", ["bucket", "key"])
def test_what_is_wrong_is_said(s3: S3, of: str) -> None:
    options = s3.client_options()
    bucket = "none-such" if of == "bucket" else BUCKET
    if of == "key":
        options["secret_access_key"] = "wrong-secret"
    storage = open_storage(f"s3://{bucket}/x", options=options)
    for error in refusals_of(storage):
        assert "wrong-secret" not in str(error)
        assert error.hint
