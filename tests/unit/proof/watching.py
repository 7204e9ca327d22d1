"""An auditor of a small lake, interval by interval, and a lake that may be away."""

from collections.abc import Callable
from dataclasses import replace

from tests.unit.proof.lakes import Lake

from ashore.errors import StorageError
from ashore.proof.audit.auditor import Auditor
from ashore.proof.audit.result import AuditReport, Pace
from ashore.storage.base import FileStat
from ashore.storage.memory import MemoryStorage

INTERVAL_S = 10.0


class Gate:
    """A storage that is away while its gate is closed: what an auditor calls, and nothing else."""

    is_open = True

    def __init__(self, storage: MemoryStorage) -> None:
        self._storage = storage

        self.closed_for: str | None = None
        self.before_table: Callable[[], None] | None = None

    def _inside(self) -> MemoryStorage:
        if not self.is_open:
            raise StorageError("nobody is there")
        return self._storage

    def list(self, directory: str) -> list[FileStat]:
        if directory == self.closed_for:
            raise StorageError("nobody is there")
        if directory.startswith("ods.db/") and self.before_table is not None:
            self.before_table()
        return self._inside().list(directory)

    def stat(self, path: str) -> FileStat | None:
        return self._inside().stat(path)

    def read(self, path: str, start: int = 0, length: int | None = None) -> bytes:
        return self._inside().read(path, start, length)


class Watch:
    """An auditor of a lake, whose intervals a test goes through one by one."""

    def __init__(self, lake: Lake, pace: Pace | None = None, storage: object = None) -> None:
        self.lake = lake
        opened = replace(lake.opened(), storage=storage or lake.storage)
        self.auditor = Auditor(opened, pace or Pace(INTERVAL_S))
        self.first = self.tick()

    def tick(self) -> AuditReport:
        self.lake.clock.advance(INTERVAL_S)
        return self.auditor.tick()
