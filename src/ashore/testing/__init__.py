"""Fakes for tests, part of the public surface: faults as data, a disk that forgets, a clock."""

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

__all__ = [
    "Call",
    "DiskFault",
    "FailAfterEffect",
    "FailBefore",
    "FakeClock",
    "Fault",
    "FaultyStorage",
    "Hang",
    "LateEffect",
    "PendingEffects",
    "PowerCut",
    "PowerCutPolicy",
    "ProcessStopped",
    "SimulatedDisk",
    "StopProcess",
]
