"""Storages: where tables and logs are kept. See `base` for the seam."""

from ashore.storage.base import FileStat, FileWriter, Storage, is_temporary
from ashore.storage.calls import (
    Backoff,
    DeadlineStatistics,
    DeadlineStorage,
    RetryingStorage,
    count_calls,
    count_hanging_calls,
)
from ashore.storage.failover import ActiveServer, FailoverStorage
from ashore.storage.local import LocalStorage
from ashore.storage.memory import MemoryStorage
from ashore.storage.open import open_storage

__all__ = [
    "ActiveServer",
    "Backoff",
    "DeadlineStatistics",
    "DeadlineStorage",
    "FailoverStorage",
    "FileStat",
    "FileWriter",
    "LocalStorage",
    "MemoryStorage",
    "RetryingStorage",
    "Storage",
    "count_calls",
    "count_hanging_calls",
    "is_temporary",
    "open_storage",
]
