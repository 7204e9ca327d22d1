# What `__init__.py` gives on demand, for type checkers: tests compare the two.
from ashore.control.status import JobStatus as JobStatus
from ashore.control.verify import VerifyResult as VerifyResult
from ashore.errors import AshoreError as AshoreError
from ashore.jobs.events import Landed as Landed
from ashore.library import Job as Job
from ashore.library import RunResult as RunResult
from ashore.protocol.entries import Entry as Entry

__version__: str
__all__ = [
    "AshoreError",
    "Entry",
    "Job",
    "JobStatus",
    "Landed",
    "RunResult",
    "VerifyResult",
    "__version__",
]
