"""Fakes for tests, part of the public surface: faults as data, a disk that forgets, a source."""

from ashore.topics.read.record_columns import fetched_batch
from ashore_lab.testing.catalog import FaultyCatalog
from ashore_lab.testing.clock import FakeClock
from ashore_lab.testing.disk import DiskFault, PowerCutPolicy, SimulatedDisk
from ashore_lab.testing.faults import (
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
from ashore_lab.testing.runner import RecordedRow, RecordedRunner, read_rows
from ashore_lab.testing.source import RecordedSource
from ashore_lab.testing.wrapper import WrappedStorage

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
