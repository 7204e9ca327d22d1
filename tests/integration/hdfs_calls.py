"""Calls of every kind that go on while a cluster is broken, and what must be true afterwards."""

import threading
import time
from collections import Counter
from collections.abc import Callable

from ashore.errors import PathExists, StorageError
from ashore.storage import Storage, is_temporary
from ashore.storage.base import Staged

KINDS = ("create", "write", "move", "delete", "stat", "list", "read", "sync")
SIZE = 30_000


def content(kind: str, number: int) -> bytes:
    return f"{kind}-{number:08}".encode() * (SIZE // 16)


class Calls:
    """One thread a call kind, each with paths of its own, until `stop`.

    A call without an answer is settled as the landing loop does: by looking. What is found then
    must be whole: everything or nothing.
    """

    def __init__(self, storage: Storage, kinds: tuple[str, ...] = KINDS) -> None:
        self.storage = storage
        self.done: Counter[str] = Counter()
        self.failed: Counter[str] = Counter()
        self.errors: list[str] = []
        self.longest_s: dict[str, float] = dict.fromkeys(kinds, 0.0)
        self.broken: list[str] = []
        self._landed: list[tuple[str, bytes]] = []
        self._unclear: list[tuple[str, bytes]] = []
        self._stopped = threading.Event()
        storage.create("seen/file", b"seen")
        storage.create("create/before", b"")  # its directory is synced from the beginning on
        self._threads = [
            threading.Thread(target=self._run, args=(kind,), daemon=True) for kind in kinds
        ]
        for thread in self._threads:
            thread.start()

    def wait_for_progress(self, count: int = 3, within_s: float = 30) -> None:
        """Wait until each kind has come through `count` times more."""
        wanted = {kind: self.done[kind] + count for kind in self.longest_s}
        end = time.monotonic() + within_s
        while any(self.done[kind] < number for kind, number in wanted.items()):
            stuck = {kind: self.done[kind] - number + count for kind, number in wanted.items()}
            assert time.monotonic() < end, f"no progress: {stuck}, {self.broken}"
            time.sleep(0.02)

    def stop(self) -> None:
        self._stopped.set()
        for thread in self._threads:
            thread.join(60)
            assert not thread.is_alive(), "a call hangs"

    def check(self) -> None:
        """What was done is there and whole; what is unclear is whole or absent."""
        assert self.broken == [], self.broken
        for path, data in self._landed:
            assert self.storage.read(path) == data, path
        for path, data in self._unclear:
            if self.storage.stat(path) is not None and path.startswith("create/"):
                assert self.storage.read(path) == data, path

    def _run(self, kind: str) -> None:
        number = 0
        while not self._stopped.is_set():
            number += 1
            began = time.monotonic()
            try:
                self._calls[kind](self, number)
            except StorageError as error:
                self._fail(kind, error)
                time.sleep(0.05)
            except BaseException as error:  # noqa: BLE001  # the test looks at it
                self.broken.append(f"{kind} {number}: {error!r}")
                return
            else:
                self.done[kind] += 1
            self.longest_s[kind] = max(self.longest_s[kind], time.monotonic() - began)

    def _fail(self, kind: str, error: StorageError) -> None:
        self.failed[kind] += 1
        self.errors.append(f"{kind}: {error.code}: {error.message}")

    def _create(self, number: int) -> None:
        path, data = f"create/{number:08}", content("create", number)
        while True:
            try:
                self.storage.create(path, data)
            except PathExists:
                break  # ours, by an earlier call: nobody else takes these numbers
            except StorageError as error:
                self._fail("create", error)
                self._unclear.append((path, data))
                if self._stopped.is_set():
                    return
                if self.storage.stat(path) is not None:
                    break
            else:
                break
        self._landed.append((path, data))

    def _write(self, number: int) -> None:
        path, data = f"write/{number:08}", content("write", number)
        writer = self.storage.open_write(path)
        for start in range(0, len(data), 10_000):
            writer.write(data[start : start + 10_000])
        writer.close()
        self._landed.append((path, data))

    def _move(self, number: int) -> None:
        source, target = f"pending/{number:08}", f"final/{number % 7}/{number:08}"
        data = content("move", number)
        writer = self.storage.open_write(source)
        writer.write(data)
        writer.close()
        for _ in range(50):
            try:
                self.storage.publish(Staged(source), target)
            except StorageError as error:
                self._fail("move", error)
                at_source, at_target = self.storage.stat(source), self.storage.stat(target)
                if at_source is None and at_target is None:
                    self.broken.append(f"{source} is lost")
                # What hung is applied late, perhaps between two looks: the source is asked again.
                if at_target is not None and self.storage.stat(source) is not None:
                    self.broken.append(f"{source} is at both ends")
                if at_target is not None:
                    break
                time.sleep(0.05)
            else:
                break
        self._landed.append((target, data))

    def _delete(self, number: int) -> None:
        path = f"old/{number:08}"
        self.storage.create(path, b"old")
        self.storage.delete(path)
        if self.storage.stat(path) is not None:
            self.broken.append(f"{path} is still there")

    def _stat(self, _: int) -> None:
        found = self.storage.stat("seen/file")
        if found is None or found.size != 4:
            self.broken.append(f"stat says {found}")
        time.sleep(0.02)

    def _list(self, _: int) -> None:
        listed = [each.path for each in self.storage.list("seen")]
        found = [path for path in listed if not is_temporary(path)]  # of a create without answer
        if found != ["seen/file"]:
            self.broken.append(f"list says {found}")
        time.sleep(0.02)

    def _read(self, _: int) -> None:
        found = self.storage.read("seen/file")
        if found != b"seen":
            self.broken.append(f"read says {found!r}")
        time.sleep(0.02)

    def _sync(self, _: int) -> None:
        self.storage.sync(["seen", "create"])
        time.sleep(0.02)

    _calls: dict[str, Callable[["Calls", int], None]] = {  # noqa: RUF012  # never changed
        "create": _create,
        "write": _write,
        "move": _move,
        "delete": _delete,
        "stat": _stat,
        "list": _list,
        "read": _read,
        "sync": _sync,
    }
