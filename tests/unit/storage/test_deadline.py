"""Calls that do not come back in time."""

import threading
import time
from collections.abc import Callable

import pytest
from tests.prompt_deadline import PromptDeadline

from ashore.errors import AnswerUnknown, CallsHang, PathExists, PathMissing, StorageError
from ashore.storage import (
    DeadlineStatistics,
    DeadlineStorage,
    FileWriter,
    LocalStorage,
    MemoryStorage,
    count_hanging_calls,
)
from ashore.storage.base import GuardedWriter
from ashore_lab.testing import FaultyStorage, Hang, ProcessStopped, SimulatedDisk, StopProcess

SHORT_S = 0.5  # long enough to open a file in, on a busy machine too


def wait_until(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < end, "the condition never came true"
        time.sleep(0.001)


def test_a_hanging_call_becomes_unknown_and_may_still_be_applied() -> None:
    memory = MemoryStorage()
    faulty = FaultyStorage(memory, [Hang(1)])
    storage = PromptDeadline(faulty)
    with pytest.raises(AnswerUnknown, match="create a"):
        storage.create("a", b"content")
    assert memory.stat("a") is None
    assert storage.statistics() == DeadlineStatistics(abandoned=1, answered_late=0)

    storage.create("b", b"goes on meanwhile")
    faulty.release_hangs()
    wait_until(lambda: storage.statistics().answered_late == 1)
    assert memory.read("a") == b"content"


class SlowStorage(MemoryStorage):
    """Looks at what it is to write when `go_on` is set."""

    def __init__(self) -> None:
        super().__init__()
        self.go_on = threading.Event()

    def open_write(self, path: str) -> FileWriter:
        return SlowWriter(super().open_write(path), path, self.go_on)


class SlowWriter(GuardedWriter):
    def __init__(self, inner: FileWriter, path: str, go_on: threading.Event) -> None:
        super().__init__(path)
        self._inner = inner
        self._go_on = go_on

    def _append(self, data: memoryview) -> None:
        self._go_on.wait()
        self._inner.write(bytes(data))

    def _finish(self) -> None:
        self._inner.close()

    def _release(self) -> None:
        self._inner.abandon()


def finish(writer: FileWriter) -> None:
    writer.write(b"content")
    writer.close()


@pytest.mark.parametrize("kind", ["write", "close"])
def test_a_writer_that_hung_is_of_no_use(kind: str) -> None:
    disk = SimulatedDisk()
    faulty = FaultyStorage(LocalStorage("/lake", disk), [Hang(1, kind=kind)])
    storage = PromptDeadline(faulty)
    writer = storage.open_write("a")
    with pytest.raises(AnswerUnknown):
        finish(writer)
    with pytest.raises(StorageError):
        writer.close()
    writer.abandon()
    assert disk.open_files == 1, "the late call may still use the descriptor"
    faulty.release_hangs()
    wait_until(lambda: disk.open_files == 0)


def test_a_file_opened_too_late_is_let_go() -> None:
    disk = SimulatedDisk()
    faulty = FaultyStorage(LocalStorage("/lake", disk), [Hang(1)])
    storage = PromptDeadline(faulty)
    with pytest.raises(AnswerUnknown):
        storage.open_write("a")
    faulty.release_hangs()
    wait_until(lambda: any(call.kind == "close" for call in disk.calls))
    assert disk.open_files == 0


def test_a_late_write_uses_the_bytes_it_was_given() -> None:
    slow = SlowStorage()
    writer = DeadlineStorage(slow, SHORT_S).open_write("a")
    buffer = bytearray(b"first")
    with pytest.raises(AnswerUnknown):
        writer.write(buffer)  # type: ignore[arg-type]
    buffer[:] = b"other"
    slow.go_on.set()
    wait_until(lambda: len(slow.read("a")) == 5)
    assert slow.read("a") == b"first"


def test_errors_and_stops_pass_through() -> None:
    memory = MemoryStorage()
    memory.create("a", b"")
    storage = DeadlineStorage(FaultyStorage(memory, [StopProcess(3)]), 60)
    with pytest.raises(PathExists):
        storage.create("a", b"")
    with pytest.raises(PathMissing):
        storage.read("b")
    with pytest.raises(ProcessStopped):
        storage.stat("a")


def test_threads_are_used_again_also_by_another_storage() -> None:
    DeadlineStorage(MemoryStorage(), 60).list("warm")
    before = threading.active_count()
    for number in range(100):
        DeadlineStorage(MemoryStorage(), 60).create(f"{number}", b"")
    assert threading.active_count() == before


def test_an_abandoned_thread_ends_when_its_call_does() -> None:
    DeadlineStorage(MemoryStorage(), 60).list("warm")
    before = threading.active_count()
    faulty = FaultyStorage(MemoryStorage(), [Hang(1)])
    storage = PromptDeadline(faulty)
    with pytest.raises(AnswerUnknown):
        storage.stat("a")
    faulty.release_hangs()
    wait_until(lambda: threading.active_count() < before)


def test_a_process_with_too_many_hanging_calls_makes_no_more() -> None:
    before = count_hanging_calls()
    faulty = FaultyStorage(MemoryStorage(), [Hang(1), Hang(2)])
    for _ in range(2):  # each task opens its own storage
        with pytest.raises(AnswerUnknown):
            PromptDeadline(faulty).create("a", b"")
    assert count_hanging_calls() == before + 2
    storage = PromptDeadline(faulty, hanging_max=before + 2)
    with pytest.raises(CallsHang, match="hang: look at a "):
        storage.stat("a")
    assert len(faulty.calls) == 2

    faulty.release_hangs()
    wait_until(lambda: count_hanging_calls() == before)
    storage.stat("a")
