"""How much state a change of SQL drops: rows and bytes, from the files of the checkpoint.

What it is: `measure_query`.
What it promises: the checkpoint is only read, also beside a job that runs. Where files do not have
the number of rows, none is reported; where only a snapshot has it, the snapshot is named.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from ashore.base.codec import Malformed
from ashore.errors import AshoreError
from ashore.log.store.reader import read_log
from ashore.plans.change.verdicts import LostState, QueryVerdict, StateVerdict
from ashore.plans.graph import PlanGraph, read_stored
from ashore.plans.operator_graph import describe_graph
from ashore.queries.state.attempts import open_attempts
from ashore.queries.state.layout import CheckpointPath
from ashore.queries.state.outline import try_beside_spark
from ashore.queries.state.required_files import Chain
from ashore.queries.state.survey import Survey, take_survey
from ashore.topics.loop.job import lake_of
from ashore.topics.loop.sinks import find_sink, sink_slice
from ashore.topics.open_job import OpenJob


@dataclass(frozen=True, slots=True)
class Losses:
    """What a query loses.

    `unknown`: why that could not be measured; empty: it was.
    """

    states: tuple[LostState, ...] = ()
    unknown: str = ""


def has_losses(verdict: QueryVerdict) -> bool:
    """Return whether something of a state is dropped."""
    if verdict.why and not verdict.operators:
        return verdict.verdict is StateVerdict.LOST
    return any(each.verdict is StateVerdict.LOST for each in verdict.operators)


def measure_query(opened: OpenJob, query: str, verdict: QueryVerdict) -> Losses:
    """Return how much each operator loses, or the query as a whole where none is judged.

    `query`: the table or topic that the query fills.
    Raises JobFileInvalid, LogDamaged, StorageError.
    """
    job = opened.job
    name = sink_slice(job.job, find_sink(job, query))
    attempts = open_attempts(job, name, lake_of(job), opened.storage, opened.clock)
    fold = read_log(opened.storage, name)
    try:
        newest = attempts.newest()
        if newest is None:
            return Losses(unknown="there is no checkpoint")
        graph = read_stored(fold.plan.document).graph if fold.plan else None
        survey = try_beside_spark(lambda _: take_survey(newest))
        return Losses(tuple(measure_survey(survey, graph, verdict)))
    except (AshoreError, Malformed) as error:
        return Losses(unknown=str(error))


def measure_survey(
    survey: Survey, graph: PlanGraph | None, verdict: QueryVerdict
) -> Iterator[LostState]:
    """Yield how much each operator loses, or all together where none is judged.

    `graph`: of the plan that the state was made by; None: it is not known.
    """
    sizes = {each.of: each.size_bytes for each in survey.required.files}
    if not verdict.operators or graph is None:
        if survey.required.chains:
            yield _sum(None, survey.required.chains, sizes)
        return
    operators = describe_graph(graph).operators
    numbers = {each.id: each.state.operator_id for each in operators if each.state}
    for each in verdict.operators:
        if each.verdict is StateVerdict.LOST and each.old in numbers:
            number = numbers[each.old]
            chains = [one for one in survey.required.chains if one.store.operator == number]
            yield _sum(each.old, chains, sizes)


def _sum(
    old: str | None, chains: Iterable[Chain], sizes: Mapping[CheckpointPath, int]
) -> LostState:
    some = list(chains)
    size_bytes = sum(sizes[path] for each in some for path in each.paths)
    counted = [each.rows for each in some if each.rows is not None]
    if len(counted) < len(some):
        return LostState(old, None, is_estimate=False, size_bytes=size_bytes)
    is_estimate = any(each.changes for each in some)
    return LostState(old, sum(counted), is_estimate, size_bytes)
