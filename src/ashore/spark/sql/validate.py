"""What the queries of a job would be, without starting one.

What it promises: the plans that a start would make, and what Spark would refuse. No topic is read,
nothing is written.
What it must not know: terminals.
"""

from dataclasses import asdict

from ashore.config.tables import Table
from ashore.landing.fed import Fed, fed_output, fed_slice
from ashore.plans.operators import describe_operators
from ashore.protocol.fold import EMPTY
from ashore.spark.internals import read_plan
from ashore.spark.sql.assembly import SqlParts, plan_queries
from ashore.spark.sql.frames import open_frame, output_ddl

APPEND = "each row at least once: those of a batch that was cut short come again"
UPSERT = (
    "each row at least once; repeats end with the same newest row of a key, and no record says "
    "that a key is gone"
)


def describe_queries(parts: SqlParts) -> list[dict[str, object]]:
    """Return each query of the job as plain data. Raises QueryRefused, JobFileInvalid."""
    described: list[dict[str, object]] = []
    for item, plan in plan_queries(parts, parts.assembly.rhythm(until_drained=True)):
        name = fed_slice(parts.job.job, item)
        frame = open_frame(parts.spark, parts.kafka, plan, name, EMPTY)
        graph = read_plan(frame)
        described.append(
            {
                **_describe_target(item, output_ddl(frame)),
                "slice": name.slice,
                "columns": output_ddl(frame),
                "checkpoint": plan.roots.uri,
                "sources": [asdict(each) for each in graph.sources],
                "operators": [asdict(each) for each in describe_operators(graph)],
            }
        )
    return described


def _describe_target(item: Fed, columns: str) -> dict[str, object]:
    """Return where rows go, and how often: what is promised of the one is not of the other."""
    if isinstance(item, Table):
        output = fed_output(item, columns)
        return {
            "table": output.table,
            "partition_by": list(output.partition_by),
            "guarantee": "each row once",
        }
    is_upsert = item.mode == "upsert"
    return {
        "topic": item.topic,
        "mode": item.mode,
        "key": list(item.key),
        "guarantee": UPSERT if is_upsert else APPEND,
    }
