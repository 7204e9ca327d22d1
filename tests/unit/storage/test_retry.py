"""What is repeated, and what never is."""

from collections.abc import Callable
from itertools import islice

import pytest

from ashore.errors import (
    AnswerUnknown,
    InvariantBroken,
    PathExists,
    PathMissing,
    StorageError,
    SyncFailed,
)
from ashore.storage import (
    Backoff,
    LocalStorage,
    MemoryStorage,
    RetryingStorage,
    Storage,
)
from ashore.storage.base import Staged
from ashore_lab.testing import FailBefore, FakeClock, FaultyStorage, LateEffect, SimulatedDisk

Asking = Callable[[Storage], object]
ASKING: dict[str, Asking] = {
    "stat": lambda storage: storage.stat("d/a"),
    "list": lambda storage: storage.list("d"),
    "read": lambda storage: storage.read("d/a"),
}
CHANGING: dict[str, Asking] = {
    "create": lambda storage: storage.create("d/b", b""),
    "open_write": lambda storage: storage.open_write("d/b"),
    "publish": lambda storage: storage.publish(Staged("d/a"), "d/b"),
    "delete": lambda storage: storage.delete("d/a"),
    "sync": lambda storage: storage.sync(["d"]),
}


def filled() -> MemoryStorage:
    memory = MemoryStorage()
    memory.create("d/a", b"content")
    return memory


def retrying(inner: Storage, clock: FakeClock | None = None) -> RetryingStorage:
    backoff = Backoff(first_s=1, max_s=3)
    return RetryingStorage(inner, clock or FakeClock(), attempts=4, backoff=backoff, jitter=max)


@pytest.mark.parametrize("kind", ASKING)
def test_asking_is_repeated_after_growing_delays(kind: str) -> None:
    clock = FakeClock(monotonic_start_s=0)
    faulty = FaultyStorage(filled(), [FailBefore(1), LateEffect(2), FailBefore(3)])
    storage = retrying(faulty, clock)
    assert ASKING[kind](storage) == ASKING[kind](filled()) or kind != "read"
    assert [call.kind for call in faulty.calls] == [kind] * 4
    assert clock.monotonic_s() == 1 + 2 + 3


@pytest.mark.parametrize("kind", ASKING)
def test_the_last_error_is_reported(kind: str) -> None:
    faulty = FaultyStorage(filled(), [FailBefore(1), FailBefore(2), FailBefore(3), LateEffect(4)])
    storage = retrying(faulty)
    with pytest.raises(AnswerUnknown):
        ASKING[kind](storage)
    assert len(faulty.calls) == 4


@pytest.mark.parametrize("kind", CHANGING)
def test_changing_is_never_repeated(kind: str) -> None:
    faulty = FaultyStorage(filled(), [FailBefore(1)])
    with pytest.raises(StorageError):
        CHANGING[kind](retrying(faulty))
    assert [call.kind for call in faulty.calls] == [kind]


def test_answers_and_failed_syncs_are_not_asked_for_again() -> None:
    faulty = FaultyStorage(filled())
    storage = retrying(faulty)
    with pytest.raises(PathMissing):
        storage.read("d/x")
    with pytest.raises(PathExists):
        storage.create("d/a", b"")
    assert len(faulty.calls) == 2

    disk = SimulatedDisk([FailBefore(1, kind="sync_directory")])
    local = FaultyStorage(LocalStorage("/lake", disk))
    with pytest.raises(SyncFailed):
        retrying(local).create("a", b"")
    assert len(local.calls) == 1


def test_delays_double_up_to_the_last() -> None:
    backoff = Backoff(first_s=0.5, max_s=3)
    assert list(islice(backoff.delays_s(max), 5)) == [0.5, 1, 2, 3, 3]
    assert list(islice(backoff.delays_s(min), 3)) == [0.25, 0.5, 1]
    for delay_s, most_s in zip(backoff.delays_s(), [0.5, 1, 2, 3, 3], strict=False):
        assert most_s / 2 <= delay_s <= most_s


def test_delays_that_cannot_grow_are_bugs() -> None:
    for backoff in (Backoff(first_s=0), Backoff(first_s=2, max_s=1)):
        with pytest.raises(InvariantBroken):
            next(backoff.delays_s())
