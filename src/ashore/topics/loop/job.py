"""From a job file to what its slices do.

What it is: the translation of a `Job` into table specifications, limits and first offsets.
What it promises: no Arrow is loaded, for commands that only look; what rows need to be decoded and
written is checked by `table_checks`.
"""

import math
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from ashore.base.units import format_duration
from ashore.errors import JobFileInvalid
from ashore.jobs.file import Column, Job, ResolvedTable, Table, load_job
from ashore.jobs.file.naming import TOPIC_PLACE
from ashore.jobs.file.section import Key, key_text
from ashore.jobs.file.tables import GENERATION_COLUMN
from ashore.jobs.heartbeat import Heartbeat
from ashore.jobs.lake_mailbox import LakeMailbox
from ashore.log.fold import EMPTY, Action, Fold
from ashore.log.plan_compact import CompactRule
from ashore.log.plan_retire import RetireRule
from ashore.log.plan_seal import SealRule
from ashore.log.tables import DELTA, ICEBERG, TableDefinition
from ashore.storage.bucket_conf import find_store
from ashore.storage.hdfs_conf import CONF_DIR, DURABILITY
from ashore.storage.open import LakeAddress, lake_address
from ashore.tables.ddl import (
    Atom,
    Field,
    Struct,
    has_text_keys,
    json_slow_columns,
    parse_ddl,
    type_ddl,
)
from ashore.tables.masks import format_mask
from ashore.topics.loop.definitions import definition_of
from ashore.topics.read.source import FirstOffset
from ashore.topics.write.batch import LandingSpec, LateRule, OutputSpec

Rules = tuple[tuple[str, str], ...]

# The types whose values can be the time of a record: what `is_event_time` says of Arrow's.
_TIMES = frozenset(
    {
        *(Atom.TINYINT, Atom.SMALLINT, Atom.INT, Atom.BIGINT, Atom.FLOAT, Atom.DOUBLE),
        *(Atom.TIMESTAMP, Atom.TIMESTAMP_NTZ),
    }
)
MAIN = "main"  # the one slice, until a job is configured to have more


def load_job_file(path: str | Path) -> Job:
    """Return the job in a file, its schemas checked. Raises JobFileInvalid."""
    return load_job(path, check_schema=columns_of)


def columns_of(ddl: str) -> tuple[Column, ...]:
    """Return the columns of a schema as the checks of a job file know them. Raises DdlError."""
    return tuple(_column(field) for field in parse_ddl(ddl).fields)


def _column(field: Field) -> Column:
    fields = field.type.fields if isinstance(field.type, Struct) else ()
    is_time = field.type in _TIMES
    inner = tuple(_column(each) for each in fields)
    return Column(field.name, type_ddl(field.type), is_time, inner, has_text_keys(field.type))


def slow_reasons(resolved: ResolvedTable, *, is_native: bool) -> list[str]:
    """Return why a topic decodes slowly, in words for people; empty: it does not.

    `select` and `where` are Spark SQL: records pass through the JVM. Without the native module maps
    are rewritten one by one.
    """
    spec = resolved.spec
    reasons = [f"{name} runs in Spark" for name in ("select", "where") if getattr(spec, name)]
    if spec.is_json and not reasons and not is_native:
        maps = json_slow_columns(parse_ddl(spec.ddl))
        reasons += [f"column {name} holds a MAP" for name in maps]
    return reasons


def landing_spec(resolved: ResolvedTable, fold: Fold = EMPTY) -> LandingSpec:
    """Return what an executor needs to know of a topic's table. `fold`: of the log of topics."""
    spec = resolved.spec
    output = OutputSpec(
        table=str(resolved.table),
        schema=spec.ddl,
        partition_by=tuple(spec.partition_by),
        timezone=str(spec.timezone),
        event_column=spec.event_time.column if spec.event_time else None,
        event_unit=spec.event_time.unit if spec.event_time else "ms",
        format=spec.format,
        roll_bytes=spec.roll.size_bytes,
        event_format=(spec.event_time.format or "") if spec.event_time else "",
        sort_by=spec.compact.sort_by if spec.compact else (),
    )
    return LandingSpec(
        output=output,
        decode=spec.decode,
        late=LateRule(
            spec.late.after_ms,
            spec.late.policy,
            spec.late.future_max_ms,
            # What would come to a partition that may be retired by then goes aside.
            min(spec.seal.remember_ms, spec.retention_ms or spec.seal.remember_ms),
        ),
        on_invalid=spec.on_invalid,
        provenance=bool(spec.provenance),
        headers=spec.provenance == "headers",
        generation=_has_generation(resolved, fold),
        select=tuple(spec.select or ()),
        where=spec.where,
        decode_schema=spec.ddl,
        idle_after_ms=spec.seal.idle_after_ms,
        mask=tuple(sorted(spec.mask.items())),
    )


def _has_generation(resolved: ResolvedTable, fold: Fold) -> bool:
    """Return whether rows have the generation of their topic.

    What a table has is not changed by an upgrade: by default only a table that is new has it.
    """
    declared = resolved.spec.generation
    if declared is not None:
        return declared
    known = fold.tables.get(str(resolved.table))
    if known is not None:
        return known.generation
    names = {name.casefold() for name in parse_ddl(resolved.spec.ddl).names}
    is_of_earlier_release = bool(fold.shards) and not fold.tables  # which defined no tables
    return not is_of_earlier_release and GENERATION_COLUMN not in names


def tables_of(resolved: Iterable[ResolvedTable]) -> list[str]:
    """Return the tables that topics fill: main, late and dead."""
    tables: set[str] = set()
    for each in resolved:
        tables.add(str(each.table))
        tables |= {str(side.table) for side in (each.dead, each.late) if side}
    return sorted(tables)


def define_tables(
    job: Job, specs: Mapping[str, LandingSpec], known: Mapping[str, TableDefinition]
) -> list[TableDefinition]:
    """Return the tables of topics as a log is to know them. `known`: those that it does."""
    topics: dict[str, set[str]] = defaultdict(set)
    for topic, spec in specs.items():
        topics[spec.table].add(topic)
    for table in topics.keys() & known.keys():
        topics[table] |= {each for each in known[table].topics if _feeds(job, each, table)}
    by_table = {spec.table: spec for spec in specs.values()}
    items = _items_of(job, specs)
    defined = [
        replace(
            definition_of(
                spec.output,
                topics[table],
                provenance=spec.provenance,
                headers=spec.headers,
                generation=spec.generation,
            ),
            rules=rules_of(items[table]),
        )
        for table, spec in sorted(by_table.items())
    ]
    return [*defined, *_waiting(job, known, by_table.keys())]


def _waiting(
    job: Job, known: Mapping[str, TableDefinition], defined: Collection[str]
) -> list[TableDefinition]:
    """Return known tables whose topics are gone for now: they would be landed if they came back."""
    waiting = []
    for table in sorted(known.keys() - defined):
        topics = tuple(each for each in known[table].topics if _feeds(job, each, table))
        if topics:
            waiting.append(replace(known[table], topics=topics))
    return waiting


def _items_of(job: Job, specs: Mapping[str, LandingSpec]) -> dict[str, list[Table]]:
    """Return the items of each table that topics fill."""
    items: dict[str, list[Table]] = defaultdict(list)
    landed = [item for item in job.tables if item.is_landed]
    for item in landed:
        if TOPIC_PLACE not in item.table:
            items[item.table].append(item)
    templates = [item for item in landed if TOPIC_PLACE in item.table]
    for topic, spec in specs.items() if templates else ():
        items[spec.table] += [
            item for item in templates if item.matches(topic) and item not in items[spec.table]
        ]
    return items


def _feeds(job: Job, topic: str, table: str) -> bool:
    """Return whether a topic would land in a table if it were there."""
    return any(
        item.is_landed and item.matches(topic) and str(item.table_of(topic)) == table
        for item in job.tables
    )


def first_offset_of(job: Job) -> Callable[[str, bool], FirstOffset]:
    """Return where the first read of a topic begins, by the job's `first_start`."""
    named = {item.topic for item in job.tables if not item.is_pattern}

    def first_of(topic: str, is_first_start: bool) -> FirstOffset:
        if topic not in named and not is_first_start:
            return FirstOffset("earliest")  # an expression found it later
        start = job.source.start_of(topic)
        return FirstOffset(start.policy, start.timestamp_ms)

    return first_of


def seal_rules(job: Job, resolved: Mapping[str, ResolvedTable]) -> tuple[SealRule, ...]:
    """Return how the main tables are sealed: those that have partitions of time, and an action."""
    rules = {}
    for each in resolved.values():
        table, spec, actions = str(each.table), each.spec, seal_actions(job, each)
        if actions and "date" in spec.partition_by:
            rules[table] = SealRule(table, str(spec.timezone), spec.seal.delay_ms, actions)
    return tuple(rules[table] for table in sorted(rules))


def compact_rules(tables: Iterable[tuple[str, Table]]) -> dict[str, CompactRule]:
    """Return how tables, each with its item, are compacted while the job runs."""
    return {
        table: CompactRule(
            item.compact.target_bytes,
            item.compact.files_min,
            item.compact.every_s,
            item.compact.sort_by,
        )
        for table, item in tables
        if item.compact is not None
    }


def retire_rules(
    resolved: Mapping[str, ResolvedTable], sealing: Iterable[SealRule]
) -> tuple[RetireRule, ...]:
    """Return how old the partitions of tables may become, of their late and dead tables too.

    `sealing`: how the same tables are sealed.
    """
    sealed = {rule.table for rule in sealing}
    streams: dict[str, set[str]] = defaultdict(set)
    for topic, each in resolved.items():
        streams[str(each.table)].add(topic)
    rules = {}
    for each in resolved.values():
        spec, main = each.spec, str(each.table)
        if spec.retention_ms is None:
            continue
        sides = [(str(side.table), side.partition_by) for side in (each.dead, each.late) if side]
        for table, columns in ((main, spec.partition_by), *sides):
            rules[table] = RetireRule(
                table=table,
                main=main,
                streams=frozenset(streams[main]),
                columns=columns,
                timezone=str(spec.timezone),
                retention_ms=spec.retention_ms,
                late_ms=spec.late.after_ms,
                is_sealed=table in sealed,
            )
    return tuple(rules[table] for table in sorted(rules))


def waiting_tables(job: Job, rules: Iterable[SealRule]) -> set[str]:
    """Return the tables whose partitions come into the catalog by their seals only."""
    if job.catalog.hive is None or job.catalog.hive.strategy != "seal":
        return set()
    return {rule.table for rule in rules if Action.REGISTER in rule.actions}


def seal_actions(job: Job, resolved: ResolvedTable) -> tuple[Action, ...]:
    """Return the actions of a sealed partition of a table. Empty: it is not sealed."""
    seal = resolved.spec.seal
    actions = [Action.SUCCESS_FILE] if "success_file" in seal.actions else []
    if job.catalog.hive and "catalog" in seal.actions:
        actions += [Action.REGISTER, Action.CATALOG]
    if seal.http:
        actions.append(Action.HTTP)
    return tuple(actions)


def iceberg_catalog(job: Job) -> dict[str, str] | None:
    """Return the properties of a job's Iceberg catalog, with its `name`; None: it has no table."""
    if all(item.format != ICEBERG for item in job.tables):
        return None
    section = job.catalog.iceberg
    if section is None:
        return {"type": "sql"}
    uri = {"uri": section.uri.reveal()} if section.uri else {}
    return {"name": section.name, "type": section.type, **uri, **section.properties}


def uses_delta(job: Job) -> bool:
    """Return whether a table of the job is a Delta table."""
    return any(item.format == DELTA for item in job.tables)


def storage_options(job: Job, uri: str) -> dict[str, str]:
    """Return the options of a job for a storage of the kind that `uri` names."""
    buckets = {"s3": job.s3, "azure": job.azure, "gcs": job.gcs}
    store = find_store(uri)
    if store is not None:
        return buckets[store].to_options()
    options = {**job.hdfs.options, DURABILITY: job.durability}
    if job.hdfs.conf_dir:
        options[CONF_DIR] = job.hdfs.conf_dir
    return options


def lake_of(job: Job, deadline_s_max: float = math.inf) -> LakeAddress:
    """Return where a job's lake is and how it is reached. Raises JobFileInvalid."""
    uri = job.lake.reveal()
    try:
        deadline_s = min(job.deadline_ms / 1000, deadline_s_max)
        lake = lake_address(uri, deadline_s, storage_options(job, uri))
        lake.check()
    except JobFileInvalid as error:
        raise located(job, ("lake",), error) from error
    return lake


def mailbox_in_lake(job: Job, own: Heartbeat | None = None) -> LakeMailbox | None:
    """Return the mailbox of a job in its lake, if it has one. `own`: see LakeMailbox."""
    return LakeMailbox(lake_of(job).open(), job.job, own) if job.requests == "lake" else None


def located(job: Job, key: Key, error: JobFileInvalid) -> JobFileInvalid:
    """Return the error with the file, the line and the key that it is about."""
    line, name = job.line_of(*key), key_text(key)
    return JobFileInvalid(
        f"{job.path}:{line}: {name}: {error.message}",
        hint=error.hint,
        file=job.path,
        line=line,
        key=name,
    )


def rules_of(items: Sequence[Table]) -> Rules:
    """Return the keys of a job file that decide how a record is landed, with values, sorted.

    Equal rules give equal rows of equal records. What only decides how rows are put into files
    (`roll`, `shuffle`), or when a partition is complete (`seal`), is no rule. Where the items of
    the table differ in a key, it names the topic.
    """
    known = [(str(item.topic), _describe_item(item)) for item in items]
    rules: dict[str, str] = {}
    for key in {key for _, each in known for key in each}:
        if len({each.get(key) for _, each in known}) == 1:
            rules[key] = known[0][1][key]
        else:
            rules |= {f"{key} of topic {topic}": each[key] for topic, each in known if key in each}
    return tuple(sorted(rules.items()))


def _describe_item(item: Table) -> dict[str, str]:
    late = item.late
    rules = {
        "decode": item.decode,
        "event_time": _describe_event_time(item),
        "late": f"{late.policy}, after {format_duration(late.after_ms)}, "
        f"future_max {format_duration(late.future_max_ms)}",
        "on_invalid": item.on_invalid,
    }
    if item.mask:
        rules["mask"] = format_mask(sorted(item.mask.items()))
    if item.select is not None:
        rules["select"] = ", ".join(item.select)
    if item.where is not None:
        rules["where"] = item.where
    if item.retention_ms is not None:
        rules["retention"] = format_duration(item.retention_ms)
    return rules


def _describe_event_time(item: Table) -> str:
    time = item.event_time
    if time is None:
        return "the timestamp of the record in Kafka"
    return f"{time.column}, format {time.format}" if time.format else f"{time.column}, {time.unit}"
