"""From a job file to what its slices do.

What it is: the translation of a `Job` into table specifications, limits and first offsets.
What it promises: a topic that an expression finds later is claimed, joined from its beginning and
landed without a restart.
What it must not know: how batches run.
"""

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from io import BytesIO
from pathlib import Path

from ashore.config import Column, Job, ResolvedTable, load_job, match_topics, select_topics
from ashore.config.section import Key, key_text
from ashore.errors import JobFileInvalid
from ashore.formats import (
    Schema,
    json_slow_columns,
    json_supports,
    make_decoder,
    open_encoder,
    parse_ddl,
    to_arrow,
    type_ddl,
)
from ashore.formats.ddl import Field, Struct, arrow_type
from ashore.landing.definitions import definition_of
from ashore.landing.slice_loop import SlicePlan
from ashore.landing.specs import LandingSpec, LateRule, OutputSpec
from ashore.protocol.effects import Action
from ashore.protocol.names import SliceName
from ashore.protocol.plan_batch import Limits
from ashore.protocol.plan_retire import RetireRule
from ashore.protocol.plan_seal import SealRule
from ashore.protocol.tables import TableDefinition
from ashore.routing import Bucketer, is_event_time
from ashore.sources.base import FirstOffset, Source
from ashore.storage.hdfs_conf import CONF_DIR, DURABILITY
from ashore.storage.open import LakeAddress, lake_address

MAIN = "main"  # the one slice, until a job is told to have more


def load_job_file(path: str | Path) -> Job:
    """Return the job in a file, its schemas checked. Raises JobFileInvalid."""
    return load_job(path, check_schema=columns_of)


def columns_of(ddl: str) -> tuple[Column, ...]:
    """Return the columns of a schema as the checks of a job file know them. Raises DdlError."""
    return tuple(_column(field) for field in parse_ddl(ddl).fields)


def _column(field: Field) -> Column:
    fields = field.type.fields if isinstance(field.type, Struct) else ()
    is_time = is_event_time(arrow_type(field.type))
    inner = tuple(_column(each) for each in fields)
    return Column(field.name, type_ddl(field.type), is_time, inner)


def slow_reasons(resolved: ResolvedTable) -> list[str]:
    """Return why a topic decodes slowly, in words for people; empty: it does not.

    `select` and `where` are Spark SQL, so Spark decodes the topic; maps are rewritten one by one.
    """
    spec = resolved.spec
    reasons = [f"{name} runs in Spark" for name in ("select", "where") if getattr(spec, name)]
    if spec.decode == "json" and not reasons:
        maps = json_slow_columns(parse_ddl(spec.ddl))
        reasons += [f"column {name} holds a MAP" for name in maps]
    return reasons


def check_table(job: Job, resolved: ResolvedTable, spec: LandingSpec) -> None:
    """Raise JobFileInvalid where a table's rows could not be decoded, placed or written."""
    output = spec.output
    try:
        schema = parse_ddl(output.schema)
        _check_columns(spec, schema)
        if not spec.is_decoded_by_spark:
            make_decoder(spec.decode, schema)
        bucketer = Bucketer(output.partition_by, output.timezone, to_arrow(schema))
        open_encoder(output.format, BytesIO(), bucketer.file_schema).abandon()
    except ValueError as error:
        line = job.line_of("tables", resolved.item, "table")
        raise JobFileInvalid(
            f"{job.path}:{line}: tables[{resolved.item}]: {spec.table}: {error}",
            hint="correct the schema or partition_by of this table",
            file=job.path,
            line=line,
            key=f"tables[{resolved.item}]",
        ) from None


def _check_columns(spec: LandingSpec, schema: Schema) -> None:
    refused = json_supports(schema) if spec.decode == "json" else []
    if refused:
        raise ValueError(f"a map in JSON has STRING keys; column {', '.join(refused)} has others")
    if spec.output.event is not None:
        spec.output.event.check(to_arrow(schema))


def landing_spec(resolved: ResolvedTable) -> LandingSpec:
    """Return what an executor needs to know of a topic's table."""
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
        provenance=spec.provenance,
        select=tuple(spec.select or ()),
        where=spec.where,
        decode_schema=spec.ddl,
        idle_after_ms=spec.seal.idle_after_ms,
    )


def tables_of(resolved: Iterable[ResolvedTable]) -> list[str]:
    """Return the tables that topics fill: main, late and dead."""
    tables: set[str] = set()
    for each in resolved:
        tables.add(str(each.table))
        tables |= {str(side.table) for side in (each.dead, each.late) if side}
    return sorted(tables)


class JobStreams:
    """The topics of a job and their tables, looked up again where an expression may find more.

    Called by the threads of slices. `refine` comes first: it may complete what only Spark can tell
    of a table (the columns that `select` makes), or refuse it. `claim` is called for tables before
    anything else is written there, and `ensure`, then, makes a catalog know them.
    """

    def __init__(
        self,
        job: Job,
        source: Source,
        claim: Callable[[Iterable[str]], None],
        refine: Callable[[LandingSpec], LandingSpec] = lambda spec: spec,
        ensure: Callable[[Iterable[LandingSpec]], None] = lambda _specs: None,
    ) -> None:
        self._job = job
        self._source = source
        self._claim = claim
        self._refine = refine
        self._ensure = ensure
        self._has_patterns = any(item.is_pattern for item in job.tables)
        self._specs: dict[str, LandingSpec] = {}
        self._seal_rules: tuple[SealRule, ...] = ()
        self._retire_rules: tuple[RetireRule, ...] = ()
        self._waiting: set[str] = set()
        self._seal_addresses: dict[str, str | None] = {}
        self._claimed: set[str] = set()

    def __call__(self) -> Mapping[str, LandingSpec]:
        """Return each topic's table. Raises JobFileInvalid, TableOwned, SourceError."""
        if self._specs and not self._has_patterns:
            return self._specs
        existing = self._source.list_streams() if self._has_patterns else []
        topics = select_topics(self._job, existing)
        if set(topics) != self._specs.keys():
            resolved = match_topics(self._job, topics)
            specs = {topic: self._refined(each) for topic, each in resolved.items()}
            for topic, spec in specs.items():
                check_table(self._job, resolved[topic], spec)
            new = set(tables_of(resolved.values())) - self._claimed
            self._claim(new)
            self._claimed |= new
            self._ensure(specs.values())
            self._seal_rules = seal_rules(self._job, resolved)
            self._retire_rules = retire_rules(resolved, self._seal_rules)
            self._waiting = waiting_tables(self._job, self._seal_rules)
            self._seal_addresses = {
                str(each.table): each.spec.seal.http for each in resolved.values()
            }
            self._specs = specs
        return self._specs

    def _refined(self, resolved: ResolvedTable) -> LandingSpec:
        try:
            return self._refine(landing_spec(resolved))
        except JobFileInvalid as error:
            part = error.fields.get("part", ())
            key = ("tables", resolved.item, *(part if isinstance(part, tuple) else ()))
            raise located(self._job, key, error) from error

    def tables(self) -> list[str]:
        """Return every table claimed so far."""
        return sorted(self._claimed)

    def definitions(self, known: Mapping[str, TableDefinition]) -> list[TableDefinition]:
        """Return the tables of the topics that were looked up last, as a log is to know them.

        A topic that is gone from the source, and would be read if it came back, still feeds its
        table. Requires: the streams were looked up.
        """
        return define_tables(self._job, self._specs, known)

    def seal_rules(self) -> tuple[SealRule, ...]:
        """Return how tables are sealed: those of the topics that were looked up last."""
        return self._seal_rules

    def retire_rules(self) -> tuple[RetireRule, ...]:
        """Return how old partitions may become: of the topics that were looked up last."""
        return self._retire_rules

    def waits_for_seal(self, table: str) -> bool:
        """Tell whether the partitions of a table come into the catalog by their seals."""
        self._look_once()
        return table in self._waiting

    def seal_address(self, table: str) -> str | None:
        """Return where seals of a table are told by a POST, or None."""
        self._look_once()
        return self._seal_addresses.get(table)

    def _look_once(self) -> None:
        if not self._specs:
            self()  # what the last process left to do comes before the first batch


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
    return [
        definition_of(spec.output, topics[table], provenance=spec.provenance)
        for table, spec in sorted(by_table.items())
    ]


def _feeds(job: Job, topic: str, table: str) -> bool:
    """Tell whether a topic would land in a table if it were there."""
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
    wanted = resolved.spec.seal
    actions = [Action.SUCCESS_FILE] if "success_file" in wanted.actions else []
    if job.catalog.hive and "catalog" in wanted.actions:
        actions += [Action.REGISTER, Action.CATALOG]
    if wanted.http:
        actions.append(Action.HTTP)
    return tuple(actions)


def lake_of(job: Job, deadline_s_max: float = math.inf) -> LakeAddress:
    """Return where a job's lake is and how it is reached. Raises JobFileInvalid."""
    options = {**job.hdfs.options, DURABILITY: job.durability}
    if job.hdfs.conf_dir:
        options[CONF_DIR] = job.hdfs.conf_dir
    try:
        lake = lake_address(job.lake.reveal(), min(job.deadline_ms / 1000, deadline_s_max), options)
        lake.check()
    except JobFileInvalid as error:
        raise located(job, ("lake",), error) from error
    return lake


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


def slice_plan(
    job: Job, lake: LakeAddress, name: SliceName, streams: JobStreams, parallelism: int
) -> SlicePlan:
    """Return the plan of a slice that lands all topics of the job."""
    seals = [item.seal for item in job.tables]
    return SlicePlan(
        lake=lake,
        name=name,
        streams=streams,
        named=frozenset(
            item.topic
            for item in job.tables
            if item.is_landed and item.topic is not None and not item.is_pattern
        ),
        first_of=first_offset_of(job),
        skips_gaps=job.source.gap == "skip",
        limits=Limits(
            records=job.batch.max_records,
            size_bytes=job.batch.max_bytes,
            parallelism=parallelism,
        ),
        remember_ms=max(seal.remember_ms for seal in seals),
        commit_group=job.commit_group,
        definitions=streams.definitions,
    )
