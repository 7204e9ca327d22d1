"""Shared savepoints: each one that is listed restores, whatever call is struck or comes between."""

import itertools
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field

import pytest
from tests.checkpoint_files import list_paths, opened, unpack
from tests.crash.test_checkpoint_attempts import STRIKES
from tests.marks import but
from tests.shares import numbers_of_calls

from ashore.errors import CheckpointUnfit, StorageError
from ashore.queries.state import files
from ashore.queries.state.checkpoint import Checkpoint
from ashore.queries.state.files import CheckpointStore
from ashore.queries.state.savepoints import pool as pools
from ashore.queries.state.savepoints import save as saving
from ashore.queries.state.savepoints import store, sweep, transfer
from ashore.queries.state.savepoints.manifest import Manifest, SavepointKind
from ashore.queries.state.savepoints.pool import Pool
from ashore.queries.state.savepoints.restore import restore
from ashore.queries.state.savepoints.save import Shelf, save
from ashore.queries.state.savepoints.store import Savepoint, list_savepoints
from ashore.queries.state.savepoints.sweep import remove_savepoint
from ashore.queries.state.survey import take_survey
from ashore.queries.tools.clean_checkpoint import delete_unneeded, find_left_lists, find_unneeded
from ashore.storage import MemoryStorage, Storage
from ashore_lab.testing import FakeClock, FaultyStorage, ProcessStopped

EVERY_DAY = ("a deletion", "stops before")
FIRST, SECOND = 3, 4  # batches: the second has the files of the first, and some more
FAR_MS = 1 << 60  # nothing is too young

Contents = Mapping[int, Mapping[str, bytes]]  # of a savepoint of each batch
Act = Callable[[Storage], object]


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Contents:
    """The files that two batches need of a checkpoint that Spark wrote."""
    root = unpack("no-keys", tmp_path_factory.mktemp("whole"))
    found = {}
    for batch in (FIRST, SECOND):
        needed = {each.path for each in take_survey(opened(root), batch).required.files}
        found[batch] = {
            path: (root / path).read_bytes() for path in list_paths(root) if path in needed
        }
    return found


@pytest.fixture(autouse=True)
def _one_call_after_another(monkeypatch: pytest.MonkeyPatch) -> None:
    """A call has the same number in every run."""
    for module in (files, pools, saving, store, sweep, transfer):
        monkeypatch.setattr(module, "WORKERS", 1)


def begun(source: Contents) -> MemoryStorage:
    storage = MemoryStorage(FakeClock())
    for path, data in {**source[FIRST], **source[SECOND]}.items():
        storage.create(f"live/{path}", data)
    return storage


def at(storage: Storage, path: str) -> Checkpoint:
    return Checkpoint(storage, path, f"memory:{path}")


def pool_in(storage: Storage) -> Pool:
    return Pool.beside(CheckpointStore(storage, "saved", "memory:saved"))


@dataclass
class Digits:
    """Never the same twice, whoever asks."""

    numbers: Iterator[int] = field(default_factory=itertools.count)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def __call__(self) -> str:
        with self.lock:
            return f"{next(self.numbers):016x}"


def silent(_done: int, _total: int) -> None:
    """Show no progress."""


@dataclass
class World:
    """A storage with a checkpoint and savepoints, and what can be done there."""

    source: Contents
    storage: MemoryStorage = field(init=False)
    digits: Digits = field(default_factory=Digits)

    def __post_init__(self) -> None:
        self.storage = begun(self.source)

    def save(self, storage: Storage, batch: int) -> Savepoint:
        shelf = Shelf(storage, "saved", "memory:saved", self.digits, kind=SavepointKind.SHARED)
        return save(at(storage, "live"), batch, shelf, FakeClock(), silent).savepoint

    def delete(self, storage: Storage, savepoint: Savepoint) -> None:
        remove_savepoint(Savepoint(storage, savepoint.path, savepoint.uri), self.digits)

    def delete_unfinished(self, storage: Storage) -> None:
        for each in list_savepoints(CheckpointStore(storage, "saved", "memory:saved")):
            if each.manifest is None:
                self.delete(storage, each.savepoint)

    def clean(self, storage: Storage) -> None:
        pool = pool_in(storage)
        found, left = find_unneeded(pool, FAR_MS), find_left_lists(pool, FAR_MS)
        list(delete_unneeded(pool, found, left, self.digits))

    def listed(self) -> dict[Savepoint, Manifest]:
        found = list_savepoints(CheckpointStore(self.storage, "saved", "memory:saved"))
        return {each.savepoint: each.manifest for each in found if each.manifest is not None}

    def check(self) -> None:
        """Each listed savepoint restores to what its batch needs, and none is called full."""
        live = {**self.source[FIRST], **self.source[SECOND]}
        assert contents(at(self.storage, "live")) == live
        for savepoint, manifest in self.listed().items():
            assert manifest.kind is SavepointKind.SHARED
            target = at(MemoryStorage(FakeClock()), "back")
            restore(savepoint, target, FakeClock(), silent)
            assert contents(target) == self.source[manifest.batch]

    def check_end(self) -> None:
        """What is left can be deleted, one after another, and then nothing is left."""
        self.check()
        self.delete_unfinished(self.storage)
        self.clean(self.storage)
        named = {
            f"saved/pool/{each.pool}/{each.path}"
            for manifest in self.listed().values()
            for each in manifest.files
        }
        assert set(walk_files(self.storage, "saved/pool")) == named
        for each in self.listed():
            self.delete(self.storage, each)
            self.check()
        assert set(walk_files(self.storage, "saved")) == set()


def contents(checkpoint: Checkpoint) -> dict[str, bytes]:
    return {
        each.path: checkpoint.storage.read(f"{checkpoint.path}/{each.path}")
        for each in checkpoint.list_files()
    }


def walk_files(storage: Storage, path: str) -> Iterator[str]:
    store = CheckpointStore(storage, path, "")
    return (store.full_path(each.path) for each in store.walk() if not each.is_directory)


# ---- one is struck


def save_second(world: World, storage: Storage) -> None:
    world.save(storage, SECOND)


def delete_first(world: World, storage: Storage) -> None:
    (first,) = (each for each, manifest in world.listed().items() if manifest.batch == FIRST)
    world.delete(storage, first)


def clean(world: World, storage: Storage) -> None:
    world.clean(storage)


ACTS: dict[str, Callable[[World, Storage], None]] = {
    "a second one": save_second,
    "a deletion": delete_first,
    "a clean": clean,
}
SAVED: dict[str, tuple[int, ...]] = {
    "a second one": (FIRST,),
    "a deletion": (FIRST, SECOND),
    "a clean": (SECOND,),
}
CALLS = {"a second one": 60, "a deletion": 25, "a clean": 8}
KINDS = [(act, strike) for act in ACTS for strike in STRIKES]


def prepared(act: str, source: Contents) -> World:
    world = World(source)
    for batch in SAVED[act]:
        world.save(world.storage, batch)
    if act == "a clean":
        world.storage.create(f"saved/pool/{'f' * 16}/state/0/0/1.changelog", b"left")
        world.storage.create(f"saved/pool/{'e' * 16}/metadata", b"left")
    return world


@pytest.mark.parametrize(
    ("act", "strike"), but(pytest.mark.slow, KINDS, lambda *case: case == EVERY_DAY)
)
def test_whatever_call_is_struck_each_listed_savepoint_restores(
    act: str, strike: str, source: Contents
) -> None:
    for number in numbers_of_calls():
        world = prepared(act, source)
        before = len(world.listed())
        faulty = FaultyStorage(world.storage, [STRIKES[strike](number)])
        is_done = False
        with suppress(StorageError, CheckpointUnfit, ProcessStopped):
            ACTS[act](world, faulty)
            is_done = True
        world.check()
        faulty.pending.release()
        faulty.pending.release()
        world.check()
        change = {"a second one": 1, "a deletion": -1, "a clean": 0}[act]
        assert len(world.listed()) == before + change or not is_done
        world.check_end()
        if not faulty.fired:
            assert number > CALLS[act]
            return


# ---- two at a time


class Turns(FaultyStorage):
    """A process that lets another one have its turn before the call of a number."""

    def __init__(self, inner: Storage, number: int, turn: Callable[[], object]) -> None:
        super().__init__(inner)
        self._left, self._turn = number, turn

    def apply(self, asked, effect, late=None):
        """Take the turn, once."""
        self._left -= 1
        if self._left == 0:
            self._turn()
        return super().apply(asked, effect, late)

    @property
    def has_turned(self) -> bool:
        return self._left <= 0


@dataclass
class Other:
    """Another process: it goes to its call of a number, waits there, and later goes to its end."""

    world: World
    act: Callable[[World, Storage], None]
    upto: int
    reached: threading.Event = field(default_factory=threading.Event)
    released: threading.Event = field(default_factory=threading.Event)
    thread: threading.Thread | None = None
    has_waited: bool = False
    failed: list[BaseException] = field(default_factory=list)

    def start(self) -> None:
        """Go to the call of the number, or to the end."""
        self.thread = threading.Thread(target=self._run)
        self.thread.start()
        assert self.reached.wait(60)

    def finish(self) -> None:
        """Go to the end."""
        self.released.set()
        if self.thread is not None:
            self.thread.join(60)
            assert not self.thread.is_alive()
        assert not self.failed, self.failed

    def _run(self) -> None:
        try:
            self.act(self.world, Turns(self.world.storage, self.upto, self._wait))
        except (StorageError, CheckpointUnfit, ValueError):
            pass  # another one was faster
        except BaseException as error:  # noqa: BLE001 - it is shown by the test
            self.failed.append(error)
        finally:
            self.reached.set()

    def _wait(self) -> None:
        self.has_waited = True
        self.reached.set()
        assert self.released.wait(60)


def delete_unfinished(world: World, storage: Storage) -> None:
    world.delete_unfinished(storage)


BESIDE = {**ACTS, "a deletion of the unfinished": delete_unfinished}
PAIRS = [
    ("a second one", "a deletion"),
    ("a deletion", "a second one"),
    ("a second one", "a deletion of the unfinished"),
    ("a second one", "a second one"),
    ("a second one", "a clean"),
    ("a clean", "a second one"),
    ("a deletion", "a clean"),
]
STEPS = {False: (17, 11), True: (1, 1)}  # of every so manieth call of either


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("whole", [False, pytest.param(True, marks=pytest.mark.long)])
@pytest.mark.parametrize(("one", "other"), PAIRS)
def test_whatever_comes_between_each_listed_savepoint_restores(
    one: str, other: str, source: Contents, *, whole: bool
) -> None:
    """One stops before a call, the other goes to one of its calls, one ends, the other ends."""
    steps = STEPS[whole]
    for number in itertools.count(1, steps[0]):
        has_turned = False
        for upto in itertools.count(1, steps[1]):
            world = World(source)
            world.save(world.storage, FIRST)
            if one == "a deletion" and other == "a clean":
                world.save(world.storage, SECOND)
            beside = Other(world, BESIDE[other], upto)
            storage = Turns(world.storage, number, beside.start)
            with suppress(StorageError, CheckpointUnfit, ValueError):
                BESIDE[one](world, storage)
            beside.finish()
            world.check_end()
            has_turned = storage.has_turned
            if not beside.has_waited:
                break
        if not has_turned:
            assert number > 7  # a clean that finds nothing makes seven calls
            return
