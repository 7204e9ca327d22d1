"""Ashore lands Kafka topics in lake tables, each record exactly once.

What it is: all that is public of Ashore as a library; the rest may change with any release. What is
named here is imported when it is asked for: a command that needs none of it does not wait for it.
What it must not know: how a job works.
"""

from importlib import import_module
from typing import Any

__version__ = "0.1.0"

_HOMES = {
    "AshoreError": "ashore.errors",
    "Entry": "ashore.log.entries",
    "Job": "ashore.library",
    "JobStatus": "ashore.proof.status.status",
    "Landed": "ashore.jobs.events",
    "RunResult": "ashore.library",
    "SparkSource": "ashore.topics.run.spark.source.data_source",
    "VerifyResult": "ashore.proof.evidence.result",
}
__all__ = [*_HOMES, "__version__"]  # noqa: PLE0604 - names are keys


def __getattr__(name: str) -> Any:
    """Import what is public, when it is asked for."""
    if name not in _HOMES:
        raise AttributeError(f"module 'ashore' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return list(__all__)
