import hashlib

import pytest

from ashore.errors import InvariantBroken, StorageError
from ashore.storage.memory import MemoryStorage
from ashore.topics.write import data_files
from ashore.topics.write.data_files import DigestWriter
from ashore_lab.testing import FailBefore, FaultyStorage


def test_size_and_checksum_are_those_of_what_the_storage_holds(monkeypatch):
    monkeypatch.setattr(data_files, "PIECE_BYTES", 10)
    storage = MemoryStorage()
    writer = DigestWriter(lambda: storage.open_write("d/file"))
    parts = [b"abc", memoryview(b"defghijkl"), bytearray(b"m"), b""]
    assert [writer.write(part) for part in parts] == [3, 9, 1, 0]
    writer.close()
    writer.close()
    content = storage.read("d/file")
    assert content == b"abcdefghijklm"
    assert writer.size_bytes == 13
    assert writer.checksum == hashlib.blake2b(content, digest_size=8).hexdigest()


def test_the_storage_is_called_seldom(monkeypatch):
    monkeypatch.setattr(data_files, "PIECE_BYTES", 100)
    storage = FaultyStorage(MemoryStorage())
    writer = DigestWriter(lambda: storage.open_write("d/file"))
    for _ in range(25):
        writer.write(b"0123456789")
    writer.close()
    assert [call.kind for call in storage.calls] == ["open_write", *["write"] * 3, "close"]


@pytest.mark.parametrize("kind", ["write", "close"])
def test_a_failure_is_not_forgotten(kind):
    storage = FaultyStorage(MemoryStorage(), [FailBefore(1, kind)])
    writer = DigestWriter(lambda: storage.open_write("d/file"))
    writer.write(b"abc")
    for _ in range(2):
        with pytest.raises(StorageError):
            writer.close()


def test_an_abandoned_file_gets_no_more_bytes():
    storage = MemoryStorage()
    writer = DigestWriter(lambda: storage.open_write("d/file"))
    writer.write(b"abc")
    writer.pass_on()
    writer.write(b"def")
    writer.abandon()
    with pytest.raises(StorageError):
        writer.close()
    assert storage.read("d/file") == b"abc"


def test_a_file_is_begun_with_its_first_bytes():
    storage = MemoryStorage()
    writer = DigestWriter(lambda: storage.open_write("d/file"))
    writer.write(b"abc")
    assert (writer.is_begun, writer.held_bytes, writer.closed) == (False, 3, False)
    writer.abandon()
    assert writer.closed
    with pytest.raises(InvariantBroken):
        writer.close()
    assert storage.list("d") == []
