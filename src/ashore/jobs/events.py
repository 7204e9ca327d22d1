"""The events of a job process: typed, one JSON object per line.

What it is: one frozen value per event. The reference page is written from here: the docstring is
the meaning. `BatchSteps` puts the steps of a batch together.
What it promises: `decode_event(encode_event(event))` is the event; events and fields
are added, never removed.
"""

from dataclasses import dataclass, field
from typing import ClassVar, Protocol

from ashore.base import codec
from ashore.base.codec import Malformed
from ashore.jobs.failure import KIND, Failed
from ashore.log.progress import MEASURES, QueryProgress, StateWork, Step
from ashore.plans.query import DescribedQuery, PlannedQuery, read_queries, write_queries


class Event(Protocol):
    """A message of a job process: one of EVENTS, or Talk."""

    kind: ClassVar[str]


@dataclass(frozen=True, slots=True)
class Starting:
    """The job file is read and Spark is being started."""

    kind: ClassVar[str] = "starting"
    job: str
    lake: str


@dataclass(frozen=True, slots=True)
class ClockSteered:
    """The job takes its time from the file `path`: ASHORE_CLOCK is set, for a drill."""

    kind: ClassVar[str] = "steered_clock"
    path: str


@dataclass(frozen=True, slots=True)
class Started:
    """The job is about to open its logs.

    `reader`: `native` or `python`, with its version or the reason.
    """

    kind: ClassVar[str] = "started"
    job: str
    reader: str | None = codec.added(None)


@dataclass(frozen=True, slots=True)
class StepBegun:
    """A slice begins a step.

    One of `open`, `plan`, `write`, `prepare`, `move`, `seal`, `retire` and `idle`. `before` is the
    previous step, and `took_ms` its duration; of a failed one until the next try.
    """

    kind: ClassVar[str] = "step"
    slice: str
    step: Step
    before: Step | None = codec.added(None)  # noqa: RUF009 - it makes a field
    took_ms: int | None = codec.added(None)


@dataclass(frozen=True, slots=True)
class Landed:
    """A batch is readable: rows in main and late tables, files in all tables.

    `lag` is the number of offsets that wait; `hanging`, the number of abandoned calls to the lake
    that have not returned; `tables`, the tables of the files, or the topic that a query writes.
    """

    kind: ClassVar[str] = "landed"
    slice: str
    rows: int
    files: int
    lag: int
    hanging: int
    batch: int | None = codec.added(None)  # its number within the slice
    entry: int | None = codec.added(None)  # of the log, that made it count
    tables: tuple[str, ...] = codec.added(())


@dataclass(frozen=True, slots=True)
class Retired:
    """Partitions of `tables` older than their `retention` are dropped.

    `entry` is that of the log; `files`, how many are deleted.
    """

    kind: ClassVar[str] = "retired"
    slice: str
    entry: int
    partitions: int
    files: int
    tables: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class PartitionsSealed:
    """Entry `entry` of the log seals `partitions` table partitions; `names` has the first ones."""

    kind: ClassVar[str] = "sealed"
    slice: str
    entry: int
    partitions: int
    names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class PartitionsRegistered:
    """`partitions` table partitions are registered; `names` has the first ones."""

    kind: ClassVar[str] = "registered"
    slice: str
    partitions: int
    names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Recovered:
    """A slice works again after `tries` failures, the first one `after_ms` ago."""

    kind: ClassVar[str] = "recovered"
    slice: str
    after_ms: int
    tries: int


@dataclass(frozen=True, slots=True)
class QueryProgressed:
    """A query has finished a batch. Not shown as a line.

    `progress` has `batch` (Spark's number), `watermark_ms`, `state_rows`, `state_bytes`,
    `commit_ms`, `lag` (offsets after the batch), and `dropped`: late rows that stateful operators
    have dropped since the start of the query, one per group and task for aggregates. `held_by` is
    the silent view that holds the watermark back, `held_since_ms` its last record or the start,
    `behind` the topic partition that the others wait for.
    """

    kind: ClassVar[str] = "query"
    slice: str
    progress: QueryProgress


@dataclass(frozen=True, slots=True)
class Beat:
    """The job process lives: sent each second to its parent, not shown."""

    kind: ClassVar[str] = "beat"


@dataclass(frozen=True, slots=True)
class WarningEvent:
    """Something failed and the job continues; or a slice stopped, and `error` follows."""

    kind: ClassVar[str] = "warning"
    slice: str
    message: str


@dataclass(frozen=True, slots=True)
class Note:
    """Worth knowing, and not a failure: a table gets another column."""

    kind: ClassVar[str] = "note"
    slice: str
    message: str


@dataclass(frozen=True, slots=True)
class Validated:
    """`validate` is done: what the job's queries would be."""

    kind: ClassVar[str] = "validated"
    queries: tuple[DescribedQuery, ...]


@dataclass(frozen=True, slots=True)
class QueriesPlanned:
    """`plan` is done: what the job's queries would do. Nothing was compared with what is there."""

    kind: ClassVar[str] = "queries_planned"
    queries: tuple[PlannedQuery, ...]


@dataclass(frozen=True, slots=True)
class Reading:
    """`sql` reads this many offsets of these topics; not each offset needs to hold a record."""

    kind: ClassVar[str] = "reading"
    topics: tuple[str, ...]
    offsets: int


@dataclass(frozen=True, slots=True)
class Answered:
    """`sql` is done: the names of the columns, and each row as the text of a JSON object.

    `has_more`: there are more rows than the limit.
    """

    kind: ClassVar[str] = "answered"
    columns: tuple[str, ...]
    rows: tuple[str, ...]
    has_more: bool


@dataclass(frozen=True, slots=True)
class CaseEnded:
    """A case of `test` has ended: its name, place and duration.

    `problems`: why it failed; empty if it passed.
    """

    kind: ClassVar[str] = "case"
    name: str
    place: str
    took_ms: int
    problems: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class StateStep:
    """A checkpoint tool begins with the stores of an operator.

    `work` is one of `count`, `write`, `compare`, `sample`, `load` and `read`; `stores` has Spark's
    names. `load` is of all operators together, and names the first.
    """

    kind: ClassVar[str] = "state_step"
    work: StateWork
    operator: int
    stores: str


@dataclass(frozen=True, slots=True)
class StoreRows:
    """How many rows the stores of a name hold in all partitions, by column family."""

    operator: int
    stores: str
    family: str
    rows: int


@dataclass(frozen=True, slots=True)
class Rescaled:
    """The state is written in other partitions, and compared: `stores` hold the same rows."""

    kind: ClassVar[str] = "rescaled"
    stores: tuple[StoreRows, ...]


@dataclass(frozen=True, slots=True)
class StateLoaded:
    """Spark has loaded each store of a checkpoint, and read all of its rows."""

    kind: ClassVar[str] = "state_loaded"
    stores: tuple[StoreRows, ...]


@dataclass(frozen=True, slots=True)
class MovedStores:
    """The stores of a name of an operator, in all partitions, after a rewriting for other SQL.

    `rewrite`: what they are made of, see `RewriteKind`. `old`: the number of the operator that
    their rows are from; `before` and `after`: how many rows it had, and how many they have. None:
    no row was read; they are those of the old operator, byte for byte.
    """

    operator: int
    stores: str
    rewrite: str
    old: int | None
    before: int | None
    after: int | None
    files: int
    size_bytes: int


@dataclass(frozen=True, slots=True)
class DroppedStores:
    """The stores of a name of an operator that other SQL does not have, in all partitions."""

    operator: int
    stores: str
    rows: int


@dataclass(frozen=True, slots=True)
class StateMigrated:
    """The state is rewritten for other SQL, and its batch is committed in the new checkpoint."""

    kind: ClassVar[str] = "state_migrated"
    stores: tuple[MovedStores, ...]
    dropped: tuple[DroppedStores, ...]


@dataclass(frozen=True, slots=True)
class StateRows:
    """Rows of an operator's state, each as the text of a JSON object.

    A row has `partition`, `key` and `value`. `keys` and `values` are their columns; `is_named`:
    with names of the SQL, not of Spark. `has_more`: there are more rows than the limit.
    `written`: how many went to a file instead.
    """

    kind: ClassVar[str] = "state_rows"
    operator: int
    operator_name: str
    table: str
    keys: tuple[str, ...]
    values: tuple[str, ...]
    is_named: bool
    rows: tuple[str, ...]
    has_more: bool
    written: int | None = codec.added(None)


@dataclass(frozen=True, slots=True)
class StateChanges:
    """How the state of an operator at two batches differs: counts, and rows as in `state_rows`.

    Each row has `change`: `added`, `removed`, or `changed` with the earlier value in `before`. A
    table that `is_bag` may have several rows of a key: a changed row is one removed and one added.
    """

    kind: ClassVar[str] = "state_changes"
    added: int
    removed: int
    changed: int
    is_bag: bool
    shown: StateRows


@dataclass(frozen=True, slots=True)
class StateProgress:
    """How many tasks of the current step of a checkpoint tool are done, and of how many.

    `rows` and `bytes`: received from other tasks so far.
    """

    kind: ClassVar[str] = "state_progress"
    done: int
    total: int
    rows: int = codec.added(0)
    bytes: int = codec.added(0)


@dataclass(frozen=True, slots=True)
class Relanded:
    """`recover --reland` is done: rows and lost files that were read again."""

    kind: ClassVar[str] = "relanded"
    rows: int
    files: int


@dataclass(frozen=True, slots=True)
class SavepointTaken:
    """`run --savepoint`: the job has stopped, and a query has this savepoint.

    `query` is the table or topic that the query fills; `batch`, Spark's number of its last batch.
    """

    kind: ClassVar[str] = "savepoint"
    query: str
    path: str
    batch: int
    files: int
    bytes: int
    took_ms: int


@dataclass(frozen=True, slots=True)
class Ended:
    """The last event of a job that stopped gracefully, except for its savepoints."""

    kind: ClassVar[str] = "ended"


@dataclass(frozen=True, slots=True)
class Talk:
    """A line of the job process's stdout that is no event."""

    kind: ClassVar[str] = "talk"
    message: str


SENT = (
    *(Starting, ClockSteered, Started, StepBegun, Landed, Retired, QueryProgressed, Beat),
    *(PartitionsSealed, PartitionsRegistered, Recovered),
    *MEASURES,
    *(WarningEvent, Note, Validated, QueriesPlanned, Reading, Answered, CaseEnded),
    *(StateStep, Rescaled, StateLoaded, StateMigrated, Relanded, SavepointTaken),
    *(StateRows, StateChanges, StateProgress),
    *(Failed, Ended),
)
EVENTS: dict[str, type[Event]] = {each.kind: each for each in SENT}


def moment_of(event: Event) -> str:
    """Return the step that an event begins, else its kind: what faults and tests wait for."""
    return str(event.step) if isinstance(event, StepBegun) else event.kind


def encode_event(event: Event) -> dict[str, object]:
    """Return an event as a JSON object."""
    match event:
        case Failed():
            return event.to_dict()
        case Validated():
            return {KIND: event.kind, "queries": write_queries(event.queries)}
        case _:
            return {KIND: event.kind, **codec.encode_object(event)}  # type: ignore[arg-type]


def decode_event(document: object) -> Event | None:
    """Return the event that an object stands for; None: it is none that this release knows."""
    if not isinstance(document, dict):
        return None
    kind, own = document.get(KIND), {name: document[name] for name in document if name != KIND}
    event = EVENTS.get(kind) if isinstance(kind, str) else None
    try:
        if event is Failed:
            return Failed.read(own)
        if event is Validated:
            return Validated(read_queries(own["queries"]))
        return None if event is None else codec.decode(event, own)
    except (Malformed, KeyError):
        return None


_BETWEEN = (Step.IDLE, Step.PLAN)


@dataclass(frozen=True, slots=True)
class EndedBatch:
    """A batch that became readable, and how long each of its steps took, in milliseconds."""

    landed: Landed
    steps: tuple[tuple[Step, int], ...]


@dataclass
class BatchSteps:
    """The steps of the batch that a slice is at."""

    steps: list[tuple[Step, int]] = field(default_factory=list)
    _landed: Landed | None = None

    @property
    def took_ms(self) -> int:
        """How long the batch has taken until its last step ended."""
        return sum(took_ms for _, took_ms in self.steps)

    def land(self, event: Landed) -> None:
        """Take in that the batch is readable; steps of it may follow."""
        self._landed = event

    def begin(self, event: StepBegun) -> EndedBatch | None:
        """Take in that a step begins; return the batch that ended with the step before."""
        ended = None
        if event.before is not None and event.took_ms is not None and event.before != Step.IDLE:
            self.steps.append((event.before, event.took_ms))
        if event.step in _BETWEEN and event.before not in _BETWEEN:
            if self._landed is not None:
                ended = EndedBatch(self._landed, tuple(self.steps))
            self._landed = None
            self.steps.clear()
        if event.step is Step.PLAN and event.before in _BETWEEN:
            self.steps.clear()  # nothing came of the plan before
        return ended
