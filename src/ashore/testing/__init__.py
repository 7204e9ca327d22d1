"""Fakes for tests, part of the public surface: faults as data, a disk that forgets, a source."""

from ashore.sources.fetched import fetched_batch
from ashore.testing.catalog import FaultyCatalog
from ashore.testing.clock import FakeClock
from ashore.testing.disk import DiskFault, PowerCutPolicy, SimulatedDisk
from ashore.testing.faults import (
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
from ashore.testing.runner import RecordedRow, RecordedRunner, read_rows
from ashore.testing.source import RecordedSource
from ashore.testing.wrapped import WrappedStorage

__all__ = [
    "Call",
    "DiskFault",
    "FailAfterEffect",
    "FailBefore",
    "FakeClock",
    "Fault",
    "FaultyCatalog",
    "FaultyStorage",
    "Hang",
    "LateEffect",
    "PendingEffects",
    "PowerCut",
    "PowerCutPolicy",
    "ProcessStopped",
    "RecordedRow",
    "RecordedRunner",
    "RecordedSource",
    "SimulatedDisk",
    "StopProcess",
    "WrappedStorage",
    "fetched_batch",
    "read_rows",
]
