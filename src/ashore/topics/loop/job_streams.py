"""The topics of a job as its slice of topics sees them, batch for batch.

What it is: `JobStreams`, and the plan of the slice that lands them.
What it promises: a topic that an expression finds later is claimed, joined from its beginning and
landed without a restart.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace

from ashore.errors import JobFileInvalid
from ashore.jobs.file import Job, ResolvedTable, match_topics, select_topics
from ashore.log.fold import EMPTY, Fold
from ashore.log.names import SliceName
from ashore.log.plan_batch import Limits
from ashore.log.plan_compact import CompactRule
from ashore.log.plan_retire import RetireRule
from ashore.log.plan_seal import SealRule
from ashore.log.tables import TableDefinition
from ashore.storage.open import LakeAddress
from ashore.topics.loop.job import (
    compact_rules,
    define_tables,
    first_offset_of,
    landing_spec,
    located,
    retire_rules,
    seal_rules,
    tables_of,
    waiting_tables,
)
from ashore.topics.loop.slice_loop import SlicePlan
from ashore.topics.loop.table_checks import check_table
from ashore.topics.read.source import Source
from ashore.topics.write.batch import LandingSpec


class JobStreams:
    """The topics of a job and their tables, looked up again where an expression may find more.

    Called by the threads of slices. `refine` comes first: it may complete what only Spark knows
    of a table (the columns that `select` makes), or refuse it. `claim` is called for tables before
    anything else is written there, and then `ensure` makes a catalog know them. `read_log` returns
    the log of topics.
    """

    def __init__(
        self,
        job: Job,
        source: Source,
        claim: Callable[[Iterable[str]], None],
        *,
        refine: Callable[[LandingSpec], LandingSpec] = lambda spec: spec,
        ensure: Callable[[Iterable[LandingSpec]], None] = lambda _specs: None,
        read_log: Callable[[], Fold] = lambda: EMPTY,
    ) -> None:
        self._job = job
        self._source = source
        self._claim = claim
        self._refine = refine
        self._ensure = ensure
        self._read_log = read_log
        self._has_patterns = any(item.is_pattern for item in job.tables)
        self._specs: dict[str, LandingSpec] = {}
        self._seal_rules: tuple[SealRule, ...] = ()
        self._retire_rules: tuple[RetireRule, ...] = ()
        self._compact_rules: dict[str, CompactRule] = {}
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
            fold = self._read_log()
            specs = {topic: self._refined(each, fold) for topic, each in resolved.items()}
            for topic, spec in specs.items():
                check_table(self._job, resolved[topic], spec)
            new = set(tables_of(resolved.values())) - self._claimed
            self._claim(new)
            self._claimed |= new
            self._ensure(specs.values())
            self._seal_rules = seal_rules(self._job, resolved)
            self._retire_rules = retire_rules(resolved, self._seal_rules)
            self._compact_rules = compact_rules(
                (str(side.table), each.spec)
                for each in resolved.values()
                for side in (each, each.dead, each.late)
                if side is not None
            )
            self._waiting = waiting_tables(self._job, self._seal_rules)
            self._seal_addresses = {
                str(each.table): each.spec.seal.http for each in resolved.values()
            }
            self._specs = specs
        return self._specs

    def _refined(self, resolved: ResolvedTable, fold: Fold) -> LandingSpec:
        try:
            spec = replace(landing_spec(resolved, fold), reader=self._job.reader)
            return self._refine(spec)
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

    def compact_rules(self) -> Mapping[str, CompactRule]:
        """Return how tables are compacted: of the topics that were looked up last."""
        return self._compact_rules

    def waits_for_seal(self, table: str) -> bool:
        """Return whether the partitions of a table come into the catalog by their seals."""
        self._look_once()
        return table in self._waiting

    def seal_address(self, table: str) -> str | None:
        """Return the address that gets a POST for seals of a table, or None."""
        self._look_once()
        return self._seal_addresses.get(table)

    def _look_once(self) -> None:
        if not self._specs:
            self()  # what the last process left to do comes before the first batch


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
        skips_large=job.limits.on_too_large == "skip",
        limits=Limits(
            records=job.batch.max_records,
            size_bytes=job.batch.max_bytes,
            parallelism=parallelism,
        ),
        remember_ms=max(seal.remember_ms for seal in seals),
        commit_group=job.commit_group,
        definitions=streams.definitions,
        bad_of=job.health.records,
        bad_share=job.health.max_share,
    )
