"""A table of a job against what the log knows of it, before anything is written there.

What it is: `plan_define`, from the tables that the log remembers and those that the job has to the
entry that is due; `define`, which refuses, reports and returns that entry; `record`, which appends
it.
What it promises: nothing that readers of a table cannot stand is written there, also where no
catalog is. What they can stand is reported and recorded. A table that the log does not know yet, of
a first start or of an older release, is recorded as it is.
"""

import functools
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from ashore.errors import SchemaConflict
from ashore.log.entries import Define
from ashore.log.tables import TableColumn, TableDefinition
from ashore.tables.ddl import Schema, parse_ddl, type_ddl
from ashore.topics.decode.evolution import Change, Compatibility, compare_schemas
from ashore.topics.write.batch import OutputSpec

if TYPE_CHECKING:  # comparing tables does not load what writes
    from ashore.log.progress import Progress
    from ashore.log.store.entry_writer import EntryWriter

# From the tables that a log knows to those that a job has now.
Definitions = Callable[[Mapping[str, TableDefinition]], Iterable[TableDefinition]]

# From tables that a slice does not know to those of them that another slice of the job does.
Others = Callable[[Collection[str]], Mapping[str, TableDefinition]]

ACCEPT = "--accept-schema"
_NAMED_MAX = 10  # topics in a sentence
_READERS = (
    "readers that infer the schema from one file need the new schema: a schema in Spark and Arrow, "
    "union_by_name in DuckDB"
)


@dataclass(frozen=True, slots=True)
class DefinePlan:
    """How the tables of a job change."""

    tables: tuple[TableDefinition, ...]  # to be recorded: those that are new or differ
    changes: tuple[tuple[str, Change], ...]  # table, what is different
    notes: tuple[str, ...] = ()  # how topics change, and which rows they give, in words

    @property
    def reported(self) -> tuple[str, ...]:
        """What a start reports, in words."""
        return (*self.notes, *self.texts(Compatibility.ALLOWED))

    def texts(self, verdict: Compatibility) -> tuple[str, ...]:
        """Return the changes of a verdict, in words."""
        return tuple(
            f"{table}: {each.text}" for table, each in self.changes if each.verdict is verdict
        )


def no_tables(_known: Mapping[str, TableDefinition]) -> tuple[TableDefinition, ...]:
    """Return none: nothing is compared, nothing recorded."""
    return ()


def no_others(_tables: Collection[str]) -> Mapping[str, TableDefinition]:
    """Return none: no other slice has filled a table."""
    return {}


def definition_of(
    output: OutputSpec,
    topics: Iterable[str] = (),
    *,
    provenance: bool = False,
    headers: bool = False,
    generation: bool = False,
) -> TableDefinition:
    """Return the definition of a table that is written so. Its rules are left out."""
    return TableDefinition(
        table=output.table,
        columns=_columns(output.schema),
        partition_by=output.partition_by,
        zone=output.timezone,
        format=output.format,
        provenance=provenance,
        topics=tuple(sorted(topics)),
        headers=headers or output.headers_aside,
        generation=generation,
    )


@functools.lru_cache(maxsize=4096)  # a job compares its tables at every batch
def _columns(schema: str) -> tuple[TableColumn, ...]:
    return tuple(
        TableColumn(field.name, type_ddl(field.type), field.nullable)
        for field in parse_ddl(schema).fields
    )


def plan_define(
    known: Mapping[str, TableDefinition],
    definitions: Iterable[TableDefinition],
    others: Others = no_others,
) -> DefinePlan:
    """Compare the tables that a job has with those that its log knows.

    A table that the job no longer has is recorded without topics, so that the way back is seen as
    well. `others` is asked for tables that the log does not know: SQL may have written one that a
    topic fills now, or the other way round.
    """
    tables: list[TableDefinition] = []
    changes: list[tuple[str, Change]] = []
    definitions = list(definitions)
    left, notes = _find_left(known, definitions)
    unknown = [each.table for each in definitions if each.table not in known]
    of_others = others(unknown) if unknown else {}
    for each in definitions:
        before = known.get(each.table)
        if before == each:
            continue
        tables.append(each)
        if before is not None:
            changes += [(each.table, change) for change in _compare(before, each)]
            notes += [f"{each.table}: {text}" for text in _compare_rules(before, each)]
        elif each.table in of_others:
            filled = replace(of_others[each.table], topics=each.topics)
            changes += [(each.table, change) for change in _compare(filled, each)]
            notes.append(_describe_taken(each))
    return DefinePlan((*tables, *left), tuple(changes), tuple(notes))


def _find_left(
    known: Mapping[str, TableDefinition], definitions: Sequence[TableDefinition]
) -> tuple[list[TableDefinition], list[str]]:
    """Return the tables that lose all their topics, as they are from now on; it in words.

    A table that keeps topics, and loses others, is a risky change of that table.
    """
    new = {
        topic: each.table
        for each in definitions
        for topic in each.topics
        if each.table not in known or topic not in known[each.table].topics
    }
    fed = {each.table for each in definitions if each.topics}
    recorded = {each.table for each in definitions}
    left, notes = list[TableDefinition](), list[str]()
    for name in sorted(known.keys() - fed):
        old = known[name]
        by_table: dict[str | None, list[str]] = {}
        for topic in old.topics:
            by_table.setdefault(new.get(topic), []).append(topic)
        notes += [_describe_left(topics, name, table) for table, topics in by_table.items()]
        notes += [
            f"{each.table}, compared with {name}: {text}"
            for each in definitions
            if each.table in by_table
            for text in _compare_rules(old, each)
        ]
        if old.topics and name not in recorded:
            left.append(replace(old, topics=()))
    return left, notes


def _describe_left(topics: Sequence[str], table: str, taken_by: str | None) -> str:
    """Return how topics that were landed in `table` change, in words."""
    listed = ", ".join(topics[:_NAMED_MAX])
    if len(topics) > _NAMED_MAX:
        listed += f" and {len(topics) - _NAMED_MAX:,} more"
    now = f"is landed in {taken_by} from now on" if taken_by else "is no longer landed by this job"
    return f"topic {listed} was landed in {table} and {now}; earlier rows stay in {table}"


def _describe_taken(table: TableDefinition) -> str:
    """Return that a table gets its rows from SQL now, or no longer."""
    was, now = "was landed from a topic", "is written by SQL"
    if table.topics:
        was, now = "was written by SQL", f"is landed from topic {', '.join(table.topics)}"
    return f"{table.table} {was} and {now} from now on; its earlier rows stay"


def _compare_rules(before: TableDefinition, after: TableDefinition) -> Iterator[str]:
    """Yield what differs in the rows that topics give. Where one of both is not known, nothing."""
    if not before.rules or not after.rules:
        return
    old, new = dict(before.rules), dict(after.rules)
    for key in sorted(old.keys() | new.keys()):
        there, here = (f"`{each[key]}`" if key in each else "none" for each in (old, new))
        if there != here:
            yield f"{key} changed from {there} to {here}; it applies to records read from now on"


def define(plan: DefinePlan, report: Callable[[str], None], accepted_by: str = "") -> Define | None:
    """Return the entry that is due, having reported what it changes; None: none is.

    `report` gets each change, in words; `accepted_by`: empty: risky changes are refused.

    Raises SchemaConflict.
    """
    require_readable(plan, accepted_by)
    for text in plan.notes:
        report(text)
    for text in plan.texts(Compatibility.ALLOWED):
        report(f"{text}; {_READERS}")
    risky = plan.texts(Compatibility.RISKY)
    for text in risky:
        report(f"{text}; accepted by {accepted_by}")
    if not plan.tables:
        return None
    return Define(plan.tables, risky, accepted_by if risky else "", plan.reported)


def record(
    plan: DefinePlan, entries: "EntryWriter", progress: "Progress", accepted_by: str
) -> None:
    """Append what `define` returns, before anything is written there. Raises SchemaConflict."""
    name = entries.log.name.slice
    due = define(plan, lambda text: progress.note(name, text), accepted_by)
    if due is not None:
        entries.append(due)


def require_readable(plan: DefinePlan, accepted_by: str = "") -> None:
    """Raise SchemaConflict where a change is refused, or risky and not accepted."""
    refused, risky = plan.texts(Compatibility.REFUSED), plan.texts(Compatibility.RISKY)
    if refused or (risky and not accepted_by):
        also = f", or run it once with {ACCEPT}: readers may then see wrong values"
        raise SchemaConflict(
            f"the table differs from the one in the log: {'; '.join((*refused, *risky))}",
            hint=f"revert the change, or write to another table{'' if refused else also}",
            tables=sorted({table for table, _ in plan.changes}),
            conflicts=[*refused, *risky],
        )


def _compare(before: TableDefinition, after: TableDefinition) -> Iterator[Change]:
    if before.format != after.format:
        yield Change(
            Compatibility.REFUSED,
            f"its files are {before.format}, new files would be {after.format}",
        )
    if before.partition_by != after.partition_by:
        there, here = (f"({', '.join(each.partition_by)})" for each in (before, after))
        yield Change(
            Compatibility.REFUSED, f"it is partitioned by {there}, new files would be by {here}"
        )
    if before.zone != after.zone:
        text = f"its partitions are in time zone {before.zone}, new ones would be in {after.zone}"
        yield Change(Compatibility.RISKY, text)
    yield from _compare_provenance(before, after)
    yield from _compare_topics(before, after)
    yield from compare_schemas(schema_of(before), schema_of(after), after.format)


def _compare_provenance(before: TableDefinition, after: TableDefinition) -> Iterator[Change]:
    if before.provenance and not after.provenance:
        yield Change(Compatibility.RISKY, "new rows would lack the columns of `provenance`")
    elif after.provenance and not before.provenance:
        yield Change(
            Compatibility.ALLOWED, "the columns of `provenance` are added: older rows have null"
        )
    elif before.headers and not after.headers:
        what = "new rows would lack the column kafka_headers"
        if not before.provenance:
            what = "new dead letters would lack the column headers"
        yield Change(Compatibility.RISKY, what)
    elif after.headers and not before.headers:
        text = "the column kafka_headers is added, and headers to its dead letters"
        if not after.provenance:
            text = "the column headers is added to its dead letters"
        yield Change(Compatibility.ALLOWED, f"{text}: older rows have null")
    yield from _compare_generation(before, after)


def _compare_generation(before: TableDefinition, after: TableDefinition) -> Iterator[Change]:
    has_rows = before.provenance and after.provenance
    if before.generation and not after.generation:
        what = "new rows would lack the column kafka_generation"
        if not has_rows:
            what = "new dead letters would lack the column generation"
        yield Change(Compatibility.RISKY, what)
    elif after.generation and not before.generation:
        text = "the column kafka_generation is added, and generation to its dead letters"
        if not has_rows:
            text = "the column generation is added to its dead letters"
        yield Change(Compatibility.ALLOWED, f"{text}: older rows have null")


def _compare_topics(before: TableDefinition, after: TableDefinition) -> Iterator[Change]:
    if not after.topics:
        return  # they move to another table, which is reported as that
    removed = sorted(set(before.topics) - set(after.topics))
    come = sorted(set(after.topics) - set(before.topics))
    if removed:
        text = f"it has rows of topic {', '.join(removed)}, which no longer lands in it"
        yield Change(
            Compatibility.RISKY, f"{text}; {', '.join(come)} would land in it" if come else text
        )
    elif come:
        yield Change(Compatibility.ALLOWED, f"topic {', '.join(come)} lands in it too")


def schema_of(definition: TableDefinition) -> Schema:
    """Return the columns of a table, without those of the provenance."""
    text = ", ".join(
        f"`{each.name.replace('`', '``')}` {each.type}{'' if each.nullable else ' NOT NULL'}"
        for each in definition.columns
    )
    return parse_ddl(text)
