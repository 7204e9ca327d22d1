"""From topics to the tables that they fill.

What it is: the match of topics and items, and the side tables that come with a table.
What it promises: each topic has exactly one table, or the job does not start.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from ashore.jobs.file.model import Job
from ashore.jobs.file.naming import TOPIC_PLACE, TableName
from ashore.jobs.file.problems import JobFileProblem, invalid
from ashore.jobs.file.section import Key, key_text
from ashore.jobs.file.sql_checks import view_name
from ashore.jobs.file.tables import Table
from ashore.jobs.file.values import ValueRefused
from ashore.log.tables import DEAD_PARTITION_BY, dead_ddl


@dataclass(frozen=True, slots=True)
class SideTable:
    """A table that takes what its main table cannot."""

    table: TableName
    ddl: str
    partition_by: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ResolvedTable:
    """How one topic is landed. `item` is its place in `tables`."""

    topic: str
    item: int
    table: TableName
    spec: Table
    dead: SideTable | None
    late: SideTable | None


def select_topics(job: Job, existing: Iterable[str]) -> tuple[str, ...]:
    """Return the topics that land: all that the job names, and those its expressions match."""
    return _select([item for item in job.tables if item.is_landed], existing)


def select_sources(job: Job, existing: Iterable[str]) -> tuple[str, ...]:
    """Return the topics that `sql` may read: those that land and those that do not."""
    return _select([item for item in job.tables if item.topic is not None], existing)


def _select(items: Sequence[Table], existing: Iterable[str]) -> tuple[str, ...]:
    named = {item.topic for item in items if item.topic is not None and not item.is_pattern}
    matched = {topic for topic in existing if any(item.matches(topic) for item in items)}
    return tuple(sorted(named | matched))


def match_topics(job: Job, topics: Iterable[str]) -> dict[str, ResolvedTable]:
    """Return the table of each topic.

    Raises JobFileInvalid, with all problems, where a topic is matched by no item or by two, where
    a topic makes no table name, and where two topics collide in one table.
    """
    problems: list[JobFileProblem] = []
    resolved: dict[str, ResolvedTable] = {}
    for topic in sorted(set(topics)):
        items = [index for index, item in enumerate(job.tables) if item.matches(topic)]
        if len(items) == 1:
            try:
                resolved[topic] = _resolve(job.tables[items[0]], items[0], topic)
            except ValueRefused as refused:
                key: Key = ("tables", items[0], "table")
                message = f"no table name can be made from the topic {topic}: {refused.message}"
                problems.append(_problem(job, key, message, "give the topic an item of its own"))
        elif items:
            lines = " and ".join(str(job.line_of("tables", index, "topic")) for index in items)
            message = f"the topic {topic} is matched in lines {lines}"
            place: Key = ("tables", items[1], "topic")
            problems.append(_problem(job, place, message, "each topic matches exactly one item"))
        else:
            message = f"the topic {topic} is matched by no item"
            problems.append(_problem(job, ("tables",), message, "add an item for it"))
    problems.extend(_collisions(job, list(resolved.values())))
    if problems:
        raise invalid(job.path, sorted(problems))
    return resolved


def _resolve(spec: Table, item: int, topic: str) -> ResolvedTable:
    table = spec.table_of(topic)
    dead = late = None
    if spec.on_invalid == "dead_letter":
        has_headers, has_generation = spec.provenance == "headers", bool(spec.generation)
        ddl = dead_ddl(headers=has_headers, generation=has_generation)
        dead = SideTable(table.dead, ddl, DEAD_PARTITION_BY)
    if spec.late.policy in {"side", "keep"}:  # `keep` does not reach back for ever
        late = SideTable(table.late, spec.ddl, spec.partition_by)
    return ResolvedTable(topic, item, table, spec, dead, late)


def _collisions(job: Job, resolved: list[ResolvedTable]) -> Iterator[JobFileProblem]:
    """Yield tables that are one by accident, or another's side table.

    Items whose tables are named outright were compared when the job was loaded.
    """
    sinks = {
        table.casefold(): table
        for item in job.tables
        if item.topic is None
        for table in item.sink_tables
    }
    first: dict[str, ResolvedTable] = {}
    for each in resolved:
        before = first.setdefault(str(each.table).casefold(), each)
        if before is not each and TOPIC_PLACE in before.spec.table + each.spec.table:
            message = f"the topics {before.topic} and {each.topic} both become {each.table}"
            yield _collision(job, each, message)
    for each in resolved:
        if str(each.table).casefold() in sinks:
            message = f"the topic {each.topic} becomes {each.table}, which SQL writes"
            yield _collision(job, each, message)
        for side in (each.table.dead, each.table.late):
            if str(side).casefold() in sinks:
                message = (
                    f"{sinks[str(side).casefold()]}, which SQL writes, is reserved for {each.table}"
                )
                yield _collision(job, each, message)
            taken = first.get(str(side).casefold())
            if taken is not None:
                message = f"{taken.table}, of the topic {taken.topic}, is reserved for {each.table}"
                yield _collision(job, taken, message)


def check_views(job: Job, resolved: Iterable[ResolvedTable]) -> None:
    """Raise JobFileInvalid where SQL would know two tables by one name; case does not count."""
    first: dict[str, ResolvedTable] = {}
    problems: list[JobFileProblem] = []
    for each in resolved:
        before = first.setdefault(view_name(str(each.table)).casefold(), each)
        if before.table != each.table:
            message = f"in SQL {before.table} and {each.table} would both be {each.table.name}"
            problems.append(_collision(job, each, message))
    if problems:
        raise invalid(job.path, sorted(problems))


def _collision(job: Job, resolved: ResolvedTable, message: str) -> JobFileProblem:
    instead = "give one of them an item and a table of its own"
    return _problem(job, ("tables", resolved.item, "table"), message, instead)


def _problem(job: Job, key: Key, message: str, instead: str) -> JobFileProblem:
    return JobFileProblem(job.path, job.line_of(*key), key_text(key), message, instead)
