# What `__init__.py` gives on demand, for type checkers: tests compare the two.
from ashore.errors import AshoreError as AshoreError
from ashore.jobs.events import Landed as Landed
from ashore.library import Job as Job
from ashore.library import RunResult as RunResult
from ashore.log.entries import Entry as Entry
from ashore.proof.evidence.result import VerifyResult as VerifyResult
from ashore.proof.status.status import JobStatus as JobStatus
from ashore.topics.run.spark.source.data_source import SparkSource as SparkSource

__version__: str
__all__ = [
    "AshoreError",
    "Entry",
    "Job",
    "JobStatus",
    "Landed",
    "RunResult",
    "SparkSource",
    "VerifyResult",
    "__version__",
]
