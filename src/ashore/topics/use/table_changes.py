"""What the next start of a job changes in tables, before it is started.

What it is: `check_tables`, the tables of topics against the log, and `find_pending`, all of it in
words.
What it promises: reads only. What a start refuses is said as well, where nothing may be raised.
"""

from collections.abc import Mapping
from dataclasses import replace
from functools import partial

from ashore.errors import SchemaConflict
from ashore.jobs.file import Job, ResolvedTable
from ashore.log.fold import Fold
from ashore.topics.loop.definitions import (
    DefinePlan,
    Others,
    no_others,
    plan_define,
    require_readable,
)
from ashore.topics.loop.job import define_tables, landing_spec
from ashore.topics.loop.sinks import find_removed, read_others
from ashore.topics.open_job import OpenJob


def check_table_changes(
    job: Job,
    resolved: Mapping[str, ResolvedTable],
    known: Fold,
    accepted_by: str = "",
    others: Others = no_others,
) -> DefinePlan:
    """Return what a start changes in the tables of topics.

    `known`: what its log says; `others`: what is known of tables that the log does not know.

    Raises SchemaConflict where readers of a table could not stand what the job would write now. The
    job compares again, with what only Spark knows: the columns of `select` and of queries.
    """
    specs = {topic: landing_spec(each, known) for topic, each in resolved.items()}
    of_spark = {spec.table for spec in specs.values() if spec.select}
    defined = [
        replace(each, columns=known.tables[each.table].columns)
        if each.table in of_spark & known.tables.keys()
        else each
        for each in define_tables(job, specs, known.tables)
    ]
    planned = plan_define(known.tables, defined, others)
    require_readable(planned, accepted_by)
    return planned


def find_pending(opened: OpenJob, resolved: Mapping[str, ResolvedTable]) -> tuple[str, ...]:
    """Return what the next start reports of tables and INSERTs. Raises as `check_tables`."""
    job, storage = opened.job, opened.storage
    others = partial(read_others, storage, opened.name)
    planned = check_table_changes(job, resolved, opened.fold(opened.name), others=others)
    return (*planned.reported, *find_removed(storage, job))


def describe_pending(opened: OpenJob) -> tuple[str, ...]:
    """Return the same; what a start refuses is the one sentence then."""
    try:
        return find_pending(opened, opened.known_topics())
    except SchemaConflict as error:
        return (f"a start is refused: {error.message}",)
