"""What a query is at a start, as a version of its job.

What it is: `describe_version`, and the parts in which versions differ.
What it promises: reads only; no query runs. What was measured of a checkpoint plays no part, so
that two starts of the same job are one version.
"""

from collections.abc import Mapping

from ashore import __version__
from ashore.log.names import SliceName
from ashore.plans.operator_graph import describe_graph
from ashore.plans.version import JobVersion, NamedOperator, Releases, StateForm
from ashore.queries.spark.sql.frames import PlannedFrame, QueryPlan, name_planner
from ashore.queries.spark.sql.settings import FORMAT, JOIN_FORMAT
from ashore.queries.state.layout import PARTITIONS, Settings


def name_releases(spark_version: str) -> Releases:
    """Return by what a query is run here."""
    return Releases(__version__, spark_version, name_planner(spark_version))


def state_form(settings: Mapping[str, str]) -> StateForm:
    """Return in which form a query with these settings writes its state."""
    return StateForm(
        format=int(settings[FORMAT]),
        provider=Settings(conf=settings).provider,
        partitions=int(settings[PARTITIONS]),
        join_format=settings.get(JOIN_FORMAT, ""),
    )


def describe_version(plan: QueryPlan, name: SliceName, planned: PlannedFrame) -> JobVersion:
    """Return what a query is.

    Arguments:
        plan: of the query.
        name: of its slice.
        planned: what it selects.

    Raises SparkUnknown.

    """
    operators = describe_graph(planned.graph).operators
    stateful = [(each.state.operator_id, each) for each in operators if each.state is not None]
    return JobVersion(
        job=name.job,
        slice=name.slice,
        releases=name_releases(planned.frame.sparkSession.version),
        sql=plan.written,
        settings=plan.job_settings,
        state=state_form(plan.settings),
        operators=tuple(
            NamedOperator(number, each.id, each.name)
            for number, each in sorted(stateful, key=lambda pair: pair[0])
        ),
        graph=planned.graph,
    )
