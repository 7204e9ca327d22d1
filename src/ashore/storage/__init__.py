"""Storages: where tables and logs are kept. See `base` for the seam."""

from ashore.storage.base import FileStat, FileWriter, Storage, is_temporary
from ashore.storage.deadline import (
    DeadlineStatistics,
    DeadlineStorage,
    count_calls,
    count_hanging_calls,
)
from ashore.storage.failover import ActiveServer, FailoverStorage
from ashore.storage.local import LocalStorage
from ashore.storage.memory import MemoryStorage
from ashore.storage.open import open_storage
from ashore.storage.retry import Backoff, RetryingStorage

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
