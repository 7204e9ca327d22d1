"""Which server is asked, and which calls are made again elsewhere."""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

import pytest
from tests.crash.storage_calls import PromptDeadline

from ashore.errors import AnswerUnknown, NotApplied, PathExists, PathMissing, StorageError
from ashore.storage import (
    ActiveServer,
    Backoff,
    DeadlineStorage,
    FailoverStorage,
    FileStat,
    FileWriter,
    MemoryStorage,
    RetryingStorage,
    Storage,
)
from ashore.storage.base import Staged
from ashore_lab.testing import FailAfterEffect, FailBefore, FakeClock, Fault, FaultyStorage, Hang

DEADLINE_S = 30.0  # of calls that do not hang: a slow machine is no fault
Asking = Callable[[Storage], object]
LOOKING: dict[str, Asking] = {
    "stat": lambda storage: storage.stat("d/a"),
    "list": lambda storage: storage.list("d"),
    "read": lambda storage: storage.read("d/a"),
}
CHANGING: dict[str, Asking] = {
    "create": lambda storage: storage.create("d/b", b"new"),
    "publish": lambda storage: storage.publish(Staged("d/a"), "d/b"),
    "delete": lambda storage: storage.delete("d/a"),
}
OPENING: dict[str, Asking] = {"open_write": lambda storage: storage.open_write("d/b").close()}
SYNCING: dict[str, Asking] = {"sync": lambda storage: storage.sync(["d"])}
CALLS = {**LOOKING, **CHANGING, **OPENING, **SYNCING}


class Switch:
    """Which server of a test is active; None: none."""

    def __init__(self, active: int | None = 0) -> None:
        self.active = active


class Server:
    """One server of a lake: turns calls away unless it is active."""

    def __init__(self, lake: Storage, number: int, switch: Switch) -> None:
        self._lake = lake
        self._number = number
        self._switch = switch

    def _serve(self) -> Storage:
        if self._switch.active != self._number:
            raise NotApplied(f"server {self._number} is a standby")
        return self._lake

    def create(self, path: str, data: bytes) -> None:
        self._serve().create(path, data)

    def open_write(self, path: str) -> FileWriter:
        return self._serve().open_write(path)

    def publish(self, staged: Staged, final: str) -> None:
        self._serve().publish(staged, final)

    def stat(self, path: str) -> FileStat | None:
        return self._serve().stat(path)

    def list(self, directory: str) -> list[FileStat]:
        return self._serve().list(directory)

    def read(self, path: str, start: int = 0, length: int | None = None) -> bytes:
        return self._serve().read(path, start, length)

    def delete(self, path: str) -> None:
        self._serve().delete(path)

    def sync(self, directories: Sequence[str]) -> None:
        self._serve().sync(directories)

    def describe(self) -> str:
        return "memory:///"


class Site:
    """Two servers of one lake, and which connections were opened."""

    def __init__(self, *faults: Sequence[Fault], active: int | None = 0) -> None:
        self.lake = MemoryStorage()
        self.lake.create("d/a", b"content")
        self.switch = Switch(active)
        self.faulty = [
            FaultyStorage(Server(self.lake, number, self.switch), each)
            for number, each in enumerate(faults or ((), ()))
        ]
        self.opened: list[int] = []
        self.memory = ActiveServer()
        self.storage = FailoverStorage(
            [self.opener(number) for number in range(len(self.faulty))], self.memory
        )

    def opener(self, number: int) -> Callable[[], Storage]:
        def open_server() -> Storage:
            self.opened.append(number)
            return PromptDeadline(self.faulty[number])

        return open_server

    def asked(self) -> list[int]:
        return [len(faulty.calls) for faulty in self.faulty]


@pytest.mark.parametrize("kind", CALLS)
def test_a_standby_is_passed_over_and_the_active_one_remembered(kind: str) -> None:
    site = Site(active=1)
    CALLS[kind](site.storage)
    assert site.memory.index == 1
    asked = site.asked()
    assert asked[0] == 1
    site.storage.stat("d/a")
    assert site.asked() == [1, asked[1] + 1], "the standby is not asked again"


@pytest.mark.parametrize("kind", CALLS)
def test_no_active_server_means_not_applied(kind: str) -> None:
    site = Site(active=None)
    with pytest.raises(NotApplied, match=r"server 0 .*; server 1 is a standby"):
        CALLS[kind](site.storage)
    assert site.asked() == [1, 1], "each once"
    assert site.lake.read("d/a") == b"content"
    assert site.lake.stat("d/b") is None


@pytest.mark.parametrize("fault", [Hang(1), FailAfterEffect(1)], ids=["hang", "answer lost"])
@pytest.mark.parametrize("kind", [*CHANGING, *SYNCING])
def test_a_change_without_an_answer_is_not_made_elsewhere(kind: str, fault: Fault) -> None:
    site = Site([fault], [], active=0)
    with pytest.raises(AnswerUnknown):
        CALLS[kind](site.storage)
    assert site.asked() == [1, 0]
    assert site.memory.index == 1, "the next call asks the other first"
    site.faulty[0].release_hangs()


@pytest.mark.parametrize("kind", [*LOOKING, *OPENING])
def test_what_harms_nobody_is_asked_of_the_next_server(kind: str) -> None:
    site = Site([Hang(1)], [], active=1)
    CALLS[kind](site.storage)
    assert site.asked()[0] == 1
    assert site.memory.index == 1
    assert site.opened == [0, 1]
    site.faulty[0].release_hangs()


@pytest.mark.parametrize("kind", LOOKING)
def test_looking_without_any_answer_has_changed_nothing(kind: str) -> None:
    site = Site([Hang(1)], [], active=None)
    with pytest.raises(NotApplied, match="no answer within"):
        LOOKING[kind](site.storage)
    site.faulty[0].release_hangs()


def test_an_opening_without_an_answer_stays_unclear() -> None:
    site = Site([Hang(1)], [], active=None)
    with pytest.raises(AnswerUnknown):
        site.storage.open_write("d/b")
    site.faulty[0].release_hangs()


def test_a_server_that_gave_no_answer_gets_a_new_connection() -> None:
    site = Site([Hang(1)], [], active=0)
    with pytest.raises(NotApplied):
        site.storage.stat("d/a")  # the standby takes nothing
    assert site.storage.stat("d/a") is not None
    assert site.opened == [0, 1, 0]
    site.faulty[0].release_hangs()


@pytest.mark.parametrize(
    ("attempt", "error"),
    [
        (lambda storage: storage.create("d/a", b""), PathExists),
        (lambda storage: storage.read("d/x"), PathMissing),
        (lambda storage: storage.read("d"), StorageError),
    ],
)
def test_an_error_is_an_answer(attempt: Asking, error: type[StorageError]) -> None:
    site = Site(active=1)
    with pytest.raises(error):
        attempt(site.storage)
    assert site.asked() == [1, 1]
    assert site.memory.index == 1


def test_many_threads_agree_on_the_active_server() -> None:
    site = Site(active=1)
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda _: site.storage.stat("d/a"), range(200)))
    assert all(found)
    assert site.memory.index == 1
    assert site.asked()[0] <= 8, "at most once a thread"


def test_another_storage_of_the_process_begins_with_the_active_server() -> None:
    site = Site(active=1)
    site.storage.stat("d/a")
    FailoverStorage([site.opener(0), site.opener(1)], site.memory).stat("d/a")
    assert site.opened == [0, 1, 1]


@pytest.mark.parametrize("kind", CALLS)
def test_both_servers_are_away_for_a_while(kind: str) -> None:
    class ReturningClock(FakeClock):
        def sleep(self, seconds: float) -> None:
            super().sleep(seconds)
            if self.monotonic_s() >= 20:
                site.switch.active = 1

    site = Site(active=None)
    clock = ReturningClock(monotonic_start_s=0)
    storage = RetryingStorage(site.storage, clock, backoff=Backoff(max_s=2, within_s=60))
    CALLS[kind](storage)
    assert 20 <= clock.monotonic_s() < 25


def test_a_file_that_an_unanswered_call_has_made_is_not_called_anothers() -> None:
    lake = MemoryStorage()
    servers = [lambda: FaultyStorage(lake, [FailAfterEffect(1)]), lambda: lake]
    storage = FailoverStorage(servers)
    with pytest.raises(AnswerUnknown, match="call that timed") as caught:
        storage.open_write("a")
    assert isinstance(caught.value.__cause__, PathExists)
    storage.open_write("b").close()
    with pytest.raises(PathExists):
        storage.open_write("b")


@pytest.mark.parametrize("kind", CALLS)
def test_both_servers_are_away_for_good(kind: str) -> None:
    site = Site(active=None)
    clock = FakeClock(monotonic_start_s=0)
    storage = RetryingStorage(site.storage, clock, backoff=Backoff(max_s=2, within_s=60))
    with pytest.raises(NotApplied):
        CALLS[kind](storage)
    assert 60 <= clock.monotonic_s() < 63


@pytest.mark.parametrize("kind", [*CHANGING, *OPENING])
def test_an_unclear_change_is_not_repeated_by_waiting(kind: str) -> None:
    site = Site([FailBefore(1)], [FailBefore(1)], active=0)
    with pytest.raises(StorageError):
        CALLS[kind](RetryingStorage(site.storage, FakeClock()))
    assert sum(site.asked()) == 1


class Zombie(Server):
    """A server that was replaced and does not know: it tells what it had, and changes nothing."""

    def __init__(self, had: Storage, number: int, switch: Switch) -> None:
        super().__init__(had, number, switch)
        self.is_awake = True

    def _serve(self) -> Storage:
        if not self.is_awake:
            raise NotApplied("no process listens")
        return self._lake

    def confirm(self, path: str) -> None:
        self.is_awake = False
        raise AnswerUnknown(f"the connection broke: {path}")


class Confirmed(Server):
    """A server that says whether it is the active one."""

    def __init__(self, lake: Storage, number: int, switch: Switch) -> None:
        super().__init__(lake, number, switch)
        self.confirmations = 0

    def confirm(self, path: str) -> None:
        self._serve()
        self.confirmations += 1


@pytest.fixture
def replaced() -> tuple[FailoverStorage, ActiveServer, Confirmed]:
    """A lake on which `d/a` became `d/b`, and what a zombie asked first tells: neither."""
    lake, had = MemoryStorage(), MemoryStorage()
    lake.create("d/b", b"content")
    had.create("d/a", b"content")
    zombie, real = Zombie(had, 0, Switch(0)), Confirmed(lake, 1, Switch(1))
    memory = ActiveServer()
    servers = [
        lambda: DeadlineStorage(zombie, DEADLINE_S),
        lambda: DeadlineStorage(real, DEADLINE_S),
    ]
    return FailoverStorage(servers, memory), memory, real


def test_what_a_replaced_server_tells_does_not_count_after_a_failure(
    replaced: tuple[FailoverStorage, ActiveServer, Confirmed],
) -> None:
    storage, memory, real = replaced
    memory.fail()
    assert storage.stat("d/a") is None
    assert storage.stat("d/b") is not None
    assert memory.doubt is None
    assert real.confirmations == 1, "once a doubt"


def test_that_a_replaced_server_misses_something_does_not_count_either(
    replaced: tuple[FailoverStorage, ActiveServer, Confirmed],
) -> None:
    storage, memory, _ = replaced
    memory.fail()
    assert storage.read("d/b") == b"content"


def test_no_server_is_asked_to_confirm_while_no_call_fails() -> None:
    lake = MemoryStorage()
    server = Confirmed(lake, 0, Switch(0))
    storage = FailoverStorage([lambda: DeadlineStorage(server, DEADLINE_S)])
    storage.create("d/a", b"")
    assert storage.stat("d/a") is not None
    assert server.confirmations == 0


def test_servers_of_which_none_may_change_anything_are_each_asked_once() -> None:
    """In safe mode a NameNode answers looks, and refuses changes for seconds."""

    class Safe(Confirmed):
        def confirm(self, path: str) -> None:
            super().confirm(path)
            raise NotApplied(f"safe mode: {path}")

    lake, memory = MemoryStorage(), ActiveServer()
    lake.create("d/a", b"")
    server = Safe(lake, 0, Switch(0))
    memory.fail()
    storage = FailoverStorage([lambda: DeadlineStorage(server, DEADLINE_S)], memory)
    with pytest.raises(NotApplied, match="safe mode"):
        storage.stat("d/a")
    assert server.confirmations == 1


def test_who_may_not_change_the_lake_reads_all_the_same() -> None:
    class ReadOnly(Server):
        def confirm(self, path: str) -> None:
            raise StorageError(f"permission denied: {path}")

    memory = ActiveServer()
    memory.fail()
    lake = MemoryStorage()
    lake.create("d/a", b"")
    opened = DeadlineStorage(ReadOnly(lake, 0, Switch(0)), DEADLINE_S)
    assert FailoverStorage([lambda: opened], memory).stat("d/a") is not None


class Locked(MemoryStorage):
    """A server that this process cannot log in to."""

    def stat(self, path: str) -> FileStat | None:
        raise AnswerUnknown(f"cannot look at {path}: no ticket", hint="kinit")


def test_the_next_step_is_that_of_a_server_that_has_one() -> None:
    storage = FailoverStorage([Locked, Locked])
    with pytest.raises(NotApplied, match="no ticket") as caught:
        storage.stat("d/a")
    assert caught.value.hint == "kinit"
    assert "is active" not in caught.value.message
