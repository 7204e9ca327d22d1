"""What runs on executors: fetched records in, closed and synced data files out.

What it is: step 2 of a batch, for one task.
What it promises: each record ends in exactly one place; memory and open files are bounded; nothing
is listed, deleted or overwritten. A task that fails leaves in-progress files, which no log names.
What it must not know: Spark, Kafka, the landing log.
"""

from ashore.landing.writer.environment import TASK_ENVIRONMENT
from ashore.landing.writer.letters import write_letters
from ashore.landing.writer.probe import write_probes
from ashore.landing.writer.rows import check_rows, write_rows
from ashore.landing.writer.task import write_task

__all__ = [
    "TASK_ENVIRONMENT",
    "check_rows",
    "write_letters",
    "write_probes",
    "write_rows",
    "write_task",
]
