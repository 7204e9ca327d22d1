"""What the queries of a job would be, without starting one.

What it promises: the plans that a start would make, and what Spark would refuse. No topic is read,
nothing is written.
What it must not know: terminals.
"""

from dataclasses import asdict

from ashore.config import Job
from ashore.landing.fed import fed_slice, fed_spec
from ashore.protocol.fold import EMPTY
from ashore.spark.internals import describe_operators, describe_sources
from ashore.spark.sql.assembly import Shared, plan_queries
from ashore.spark.sql.frames import open_frame, output_ddl


def describe_queries(job: Job, shared: Shared, patience_s: float) -> list[dict[str, object]]:
    """Return each query of the job as plain data. Raises QueryRefused, JobFileInvalid."""
    described: list[dict[str, object]] = []
    for item, plan in plan_queries(job, shared, patience_s):
        name = fed_slice(job.job, item)
        frame = open_frame(shared.spark, shared.kafka, plan, name, EMPTY)
        spec = fed_spec(item, output_ddl(frame))
        described.append(
            {
                "table": spec.table,
                "slice": name.slice,
                "columns": spec.schema,
                "partition_by": list(spec.partition_by),
                "checkpoint": plan.checkpoint.uri,
                "sources": [asdict(each) for each in describe_sources(frame)],
                "operators": [asdict(each) for each in describe_operators(frame)],
            }
        )
    return described
