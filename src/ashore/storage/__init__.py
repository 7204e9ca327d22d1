"""Storages: where tables and logs are kept. See `base` for the seam."""

from ashore.storage.base import FileStat, FileWriter, Storage
from ashore.storage.deadline import (
    DeadlineStatistics,
    DeadlineStorage,
    count_calls,
    count_hanging_calls,
)
from ashore.storage.failover import ActiveServer, FailoverStatistics, FailoverStorage
from ashore.storage.local import LocalStorage
from ashore.storage.memory import MemoryStorage
from ashore.storage.open import open_storage
from ashore.storage.paths import is_temporary
from ashore.storage.retry import Backoff, RetryingStorage, RetryStatistics

__all__ = [
    "ActiveServer",
    "Backoff",
    "DeadlineStatistics",
    "DeadlineStorage",
    "FailoverStatistics",
    "FailoverStorage",
    "FileStat",
    "FileWriter",
    "LocalStorage",
    "MemoryStorage",
    "RetryStatistics",
    "RetryingStorage",
    "Storage",
    "count_calls",
    "count_hanging_calls",
    "is_temporary",
    "open_storage",
]
