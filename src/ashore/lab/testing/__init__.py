"""Fakes for tests, part of the public surface: faults as data, a disk that forgets, a source."""

from ashore.lab.testing.catalog import FaultyCatalog
from ashore.lab.testing.clock import FakeClock
from ashore.lab.testing.disk import DiskFault, PowerCutPolicy, SimulatedDisk
from ashore.lab.testing.faults import (
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
from ashore.lab.testing.runner import RecordedRow, RecordedRunner, read_rows
from ashore.lab.testing.source import RecordedSource
from ashore.lab.testing.wrapper import WrappedStorage
from ashore.topics.read.record_columns import fetched_batch

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
