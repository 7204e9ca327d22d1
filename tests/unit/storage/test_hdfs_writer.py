"""When a file of HDFS is synced. What the library does with it, a real HDFS tells."""

import pytest

from ashore.errors import AnswerUnknown, StorageError
from ashore.storage.hdfs import HdfsWriter

STANDBY = 'RPCError("org.apache.hadoop.ipc.StandbyException", "not supported in state standby")'


class RecordingFile:
    """What a writer does, in words."""

    def __init__(self, error: Exception | None = None) -> None:
        self.calls: list[str] = []
        self._error = error

    def write(self, buf: memoryview) -> int:
        self.calls.append(f"write {len(buf)}")
        if self._error:
            raise self._error
        return len(buf)

    def hsync(self) -> None:
        self.calls.append("hsync")

    def close(self) -> None:
        self.calls.append("close")


@pytest.mark.parametrize(
    ("pieces", "block_size", "calls"),
    [
        ([5, 5], None, ["write 5", "write 5", "close"]),
        ([], 10, ["close"]),
        ([5, 4], 10, ["write 5", "write 4", "hsync", "close"]),
        ([10], 10, ["write 10", "hsync", "close"]),
        ([7, 7], 10, ["write 7", "write 3", "hsync", "write 4", "hsync", "close"]),
        ([25], 10, ["write 10", "hsync", "write 10", "hsync", "write 5", "hsync", "close"]),
    ],
)
def test_each_block_is_synced_before_the_next_begins(
    pieces: list[int], block_size: int | None, calls: list[str]
) -> None:
    file = RecordingFile()
    writer = HdfsWriter(file, "a", block_size)
    for size in pieces:
        writer.write(b"x" * size)
    writer.close()
    assert file.calls == calls


def test_an_abandoned_file_is_not_closed() -> None:
    file = RecordingFile()
    writer = HdfsWriter(file, "a", 10)
    writer.write(b"x")
    writer.abandon()
    with pytest.raises(StorageError):
        writer.close()
    assert file.calls == ["write 1"]


def test_a_file_is_not_gone_on_with_after_any_error() -> None:
    file = RecordingFile(RuntimeError(STANDBY))
    writer = HdfsWriter(file, "a", None)
    with pytest.raises(AnswerUnknown, match=r"cannot write a: .*standby"):
        writer.write(b"x")
    with pytest.raises(StorageError):
        writer.close()
    assert file.calls == ["write 1"]
