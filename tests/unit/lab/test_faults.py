"""Each fault does what its name says, once, and at the call it names."""

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from ashore.errors import AnswerUnknown, InvariantBroken, PathMissing, StorageError
from ashore.storage import MemoryStorage, Storage
from ashore.storage.base import Staged
from ashore_lab.testing import (
    Call,
    FailAfterEffect,
    FailBefore,
    Fault,
    FaultyStorage,
    Hang,
    LateEffect,
    PendingEffects,
    PowerCut,
    ProcessStopped,
    StopProcess,
)


def test_calls_are_numbered_those_of_writers_too() -> None:
    storage = FaultyStorage(MemoryStorage())
    storage.create("a", b"")
    writer = storage.open_write("b")
    writer.write(b"x")
    writer.close()
    storage.publish(Staged("b"), "c")
    storage.open_write("d").abandon()
    assert storage.calls == [
        Call(1, "create", "a"),
        Call(2, "open_write", "b"),
        Call(3, "write", "b"),
        Call(4, "close", "b"),
        Call(5, "publish", "b", "c"),
        Call(6, "open_write", "d"),
    ]


def test_every_call_of_the_seam_can_fail_before_and_after() -> None:
    def run(storage: FaultyStorage) -> None:
        storage.create("a", b"1")
        writer = storage.open_write("b")
        writer.write(b"2")
        writer.close()
        storage.publish(Staged("b"), "c")
        storage.stat("c")
        storage.list("c")
        storage.read("c")
        storage.delete("c")
        storage.create("d/e", b"")
        storage.sync(["d"])

    whole = FaultyStorage(MemoryStorage())
    run(whole)
    for number in range(1, len(whole.calls) + 1):
        faults: list[Fault] = [FailBefore(number), FailAfterEffect(number), LateEffect(number)]
        for fault in faults:
            storage = FaultyStorage(MemoryStorage(), [fault])
            with pytest.raises(StorageError) as caught:
                run(storage)
            assert isinstance(caught.value, AnswerUnknown) == (not isinstance(fault, FailBefore))
            assert storage.fired == [fault]
            assert len(storage.calls) == number
        for when in ("before", "after"):
            with pytest.raises(ProcessStopped):
                run(FaultyStorage(MemoryStorage(), [StopProcess(number, when=when)]))


def test_fail_before_and_after_effect() -> None:
    memory = MemoryStorage()
    storage = FaultyStorage(memory, [FailBefore(1), FailAfterEffect(2)])
    with pytest.raises(StorageError):
        storage.create("a", b"")
    assert memory.stat("a") is None
    with pytest.raises(AnswerUnknown):
        storage.create("a", b"")
    assert memory.stat("a") is not None


def test_the_answer_that_is_lost_may_be_a_no() -> None:
    storage = FaultyStorage(MemoryStorage(), [FailAfterEffect(1)])
    with pytest.raises(AnswerUnknown):
        storage.read("missing")


def test_faults_by_kind_count_their_kind() -> None:
    storage = FaultyStorage(MemoryStorage(), [FailBefore(2, kind="create")])
    storage.create("a", b"")
    storage.stat("a")
    storage.stat("a")
    with pytest.raises(StorageError):
        storage.create("b", b"")
    storage.create("b", b"")


def test_faults_that_could_never_strike_are_bugs() -> None:
    for fault in (FailBefore(1, kind="rename"), StopProcess(1, kind="Create")):
        with pytest.raises(InvariantBroken):
            FaultyStorage(MemoryStorage(), [fault])
    for build in (
        lambda: FailBefore(0),
        lambda: LateEffect(1, times=3),
        lambda: LateEffect(1, after=0),
        lambda: FaultyStorage(MemoryStorage(), [FailBefore(1), Hang(1)]),
    ):
        with pytest.raises(InvariantBroken):
            build()


@pytest.mark.parametrize("after", [1, 2, 3])
def test_a_late_effect_comes_some_calls_later(after: int) -> None:
    memory = MemoryStorage()
    storage = FaultyStorage(memory, [LateEffect(1, after=after)])
    with pytest.raises(AnswerUnknown):
        storage.create("a", b"")
    for _ in range(after - 1):
        assert storage.stat("a") is None
    assert storage.stat("a") is not None, f"applied just before call {after} after its own"
    assert len(storage.pending) == 0


def test_a_late_effect_comes_twice() -> None:
    memory = MemoryStorage()
    storage = FaultyStorage(memory, [LateEffect(1, after=2, times=2)])
    with pytest.raises(AnswerUnknown):
        storage.create("a", b"")
    storage.list("x")
    storage.list("x")
    storage.delete("a")
    assert storage.stat("a") is not None, "it is back"


def test_a_late_effect_outlives_its_process() -> None:
    memory, pending = MemoryStorage(), PendingEffects()
    memory.create("a", b"")
    dying = FaultyStorage(memory, [LateEffect(1, after=2), StopProcess(2)], pending=pending)
    with pytest.raises(AnswerUnknown):
        dying.publish(Staged("a"), "b")
    with pytest.raises(ProcessStopped):
        dying.stat("a")
    assert memory.stat("b") is None
    following = FaultyStorage(memory, pending=pending)
    assert following.stat("b") is not None


def test_late_effects_are_released_by_the_test_once_each_time() -> None:
    memory = MemoryStorage()
    storage = FaultyStorage(memory, [LateEffect(1, after=None, times=2)])
    with pytest.raises(AnswerUnknown):
        storage.create("a", b"")
    assert storage.stat("a") is None
    storage.pending.release()
    storage.delete("a")
    storage.pending.release()
    assert storage.stat("a") is not None
    assert len(storage.pending) == 0


def test_late_effects_are_released_after_a_call_that_matches() -> None:
    memory, pending = MemoryStorage(), PendingEffects()
    memory.create("a", b"")
    first = FaultyStorage(memory, [LateEffect(1, after=None)], pending=pending)
    with pytest.raises(AnswerUnknown):
        first.delete("a")
    pending.release_after(lambda call: call.kind == "create" and "/log/" in call.path)
    second = FaultyStorage(memory, pending=pending)
    second.create("x", b"")
    assert second.stat("a") is not None
    second.create("s/log/1", b"")
    assert second.stat("a") is None


def test_a_late_effect_that_is_refused_is_nobodys_business() -> None:
    memory = MemoryStorage()
    memory.create("a", b"")
    storage = FaultyStorage(memory, [LateEffect(1, times=2)])
    with pytest.raises(AnswerUnknown):
        storage.publish(Staged("a"), "b")
    storage.list("x")
    storage.list("x")
    assert memory.stat("b") is not None


def write(storage: Storage, path: str, data: bytes) -> None:
    writer = storage.open_write(path)
    try:
        writer.write(data)
        writer.close()
    except AnswerUnknown:
        with pytest.raises(StorageError):
            writer.close()
        raise


@pytest.mark.parametrize("kind", ["open_write", "write", "close"])
def test_late_effects_of_a_writer(kind: str) -> None:
    memory = MemoryStorage()
    storage = FaultyStorage(memory, [LateEffect(1, kind=kind, after=None, times=2)])
    with pytest.raises(AnswerUnknown):
        write(storage, "a", b"content")
    storage.pending.release()
    expected = {"open_write": b"", "write": b"content", "close": b"content"}
    assert memory.read("a") == expected[kind]
    storage.pending.release()


@pytest.mark.parametrize(("when", "applied"), [("before", False), ("after", True)])
def test_nothing_runs_after_a_stop(when: str, applied: bool) -> None:
    memory = MemoryStorage()
    storage = FaultyStorage(memory, [StopProcess(2, when=when)])  # type: ignore[arg-type]
    writer = storage.open_write("w")
    with pytest.raises(ProcessStopped):
        storage.create("a", b"")
    assert (memory.stat("a") is not None) == applied
    assert storage.is_stopped
    for attempt in (lambda: storage.create("b", b""), lambda: writer.write(b"x"), writer.close):
        with pytest.raises(ProcessStopped):
            attempt()
    assert memory.stat("b") is None
    assert memory.read("w") == b""
    assert len(storage.calls) == 2


def test_a_stop_after_a_refused_call_is_a_stop() -> None:
    with pytest.raises(ProcessStopped):
        FaultyStorage(MemoryStorage(), [StopProcess(1, when="after")]).read("missing")


def test_a_power_cut_stops_the_process_and_tells_the_test() -> None:
    cuts: list[str] = []
    storage = FaultyStorage(
        MemoryStorage(), [PowerCut(1)], on_power_cut=lambda: cuts.append("dark")
    )
    for _ in range(2):
        with pytest.raises(ProcessStopped):
            storage.stat("a")
    assert cuts == ["dark"]


def test_a_hang_is_applied_when_it_is_released() -> None:
    memory = MemoryStorage()
    storage = FaultyStorage(memory, [Hang(1)])
    thread = threading.Thread(target=lambda: storage.create("a", b""), daemon=True)
    thread.start()
    thread.join(0.02)
    assert thread.is_alive()
    assert memory.stat("a") is None
    storage.release_hangs()
    thread.join(5)
    assert memory.stat("a") is not None


@pytest.mark.parametrize("path", ["present", "missing"])
def test_a_call_under_way_when_the_process_stops_gets_no_answer(path: str) -> None:
    memory = MemoryStorage()
    memory.create("present", b"")
    storage = FaultyStorage(memory, [Hang(1), StopProcess(2)])
    with ThreadPoolExecutor(1) as pool:
        hanging = pool.submit(storage.read, path)
        while not storage.calls:
            pass
        with pytest.raises(ProcessStopped):
            storage.stat("a")
        storage.release_hangs()
        assert isinstance(hanging.exception(5), ProcessStopped)


def test_numbers_are_not_given_twice() -> None:
    storage = FaultyStorage(MemoryStorage())
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda number: storage.create(f"{number}", b""), range(400)))
    assert [call.number for call in storage.calls] == list(range(1, 401))
    assert len({call.path for call in storage.calls}) == 400


def test_without_faults_answers_are_the_inner_ones() -> None:
    with pytest.raises(PathMissing):
        FaultyStorage(MemoryStorage()).delete("missing")
