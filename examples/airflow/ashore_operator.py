# ruff: noqa: INP001
"""An Airflow operator that lands what is in Kafka by now: `AshoreOperator(job_file=...)`.

Each run begins where the log of the job ends, so that a task which is tried again, or runs twice,
lands nothing twice. A task that is stopped ends the job in order.
"""

from typing import Any

from airflow.exceptions import AirflowFailException
from airflow.models import BaseOperator

import ashore


class AshoreOperator(BaseOperator):
    """Lands the topics of a job, verifies if it is told to, and returns how many rows came."""

    template_fields = ("job_file",)

    def __init__(self, *, job_file: str, verify: bool = False, **more: Any) -> None:
        super().__init__(**more)
        self.job_file = job_file
        self.verify = verify

    def execute(self, context: Any) -> int:  # noqa: ARG002 - Airflow names it
        """Run the job until everything that is there has landed."""
        try:
            job = ashore.Job.load(self.job_file)
            landed = job.run(on_landed=lambda batch: self.log.info("%s rows", batch.rows))
        except ashore.AshoreError as error:
            if error.exit_code in {1, 7}:  # another try may succeed
                raise
            raise AirflowFailException(f"{error.code}: {error}. {error.hint}") from error
        if self.verify and (checked := job.verify()).exit_code:
            raise AirflowFailException(checked.summary)
        return landed.rows
