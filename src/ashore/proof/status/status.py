"""`status`: where each slice of a job stands, from its logs and its source, with warnings.

What it promises: reads only; works while the job runs, before it ever ran, and when Kafka does
not answer (what only Kafka knows is None then).
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace

from ashore.base.clock import is_ahead
from ashore.base.units import format_duration
from ashore.errors import HistoryTruncated, SourceError
from ashore.jobs.file import Job, ResolvedTable, match_topics, select_sources
from ashore.jobs.file.sql_checks import view_name
from ashore.jobs.file.tables import SealSection
from ashore.jobs.heartbeat import Heartbeat, WorkerBeat
from ashore.jobs.last_writer import read_writers
from ashore.jobs.state import STOPS, JobLogSeen, JobState, believe, judge_state
from ashore.log.fold import Fold, ShardState
from ashore.log.names import SliceName, plain_source
from ashore.log.plan_batch import ShardOffsets, plan_watermarks
from ashore.log.plan_retire import Kept, plan_retire
from ashore.log.plan_seal import Blocked, plan_seal
from ashore.log.positions import BatchTime, OffsetRange, ShardKey, StreamShard
from ashore.log.store.clock_guard import show_time
from ashore.proof.evidence.lost_logs import find_lost_logs, read_current
from ashore.proof.evidence.record_shares import find_warnings
from ashore.proof.status.queries import QueryStatus, count_records, read_query
from ashore.proof.status.recent import (
    EntryStatus,
    TableStatus,
    entry_status,
    rate_of,
    read_recent,
    table_statuses,
)
from ashore.topics.loop.job import landing_spec, retire_rules, seal_rules
from ashore.topics.loop.joins import Histories, history_truncated
from ashore.topics.loop.sinks import find_slices
from ashore.topics.loop.waiting_topics import show_waiting
from ashore.topics.open_job import OpenJob
from ashore.topics.read.source import OpenTransaction, StreamInfo

UNCLOSED_INTERVALS = 10  # an entry that stays unclosed for longer is worth a warning
INTERVAL_MS_MIN = 1_000


@dataclass(frozen=True, slots=True)
class Warned:
    """Something that needs attention."""

    # log_lost | kafka | stopped | held_back | unclosed | deferred | replaced | missing | gap
    # | went_back | truncated | held_up | bad_records | all_filtered | null_column
    kind: str
    subject: str  # what it is about: a slice, a topic, a topic partition
    text: str
    hint: str


@dataclass(frozen=True, slots=True)
class ShardStatus:
    """One topic partition of a current generation."""

    stream: str
    shard: str
    generation: int
    next: int
    earliest: int | None  # None, as the next two: the source did not answer
    end: int | None
    lag: int | None
    fetched: int
    landed: int
    dead: int
    filtered: int
    dropped: int
    skipped: int
    lost: int  # rows of files that were given up


@dataclass(frozen=True, slots=True)
class DeferredStatus:
    """Deferred actions of one kind."""

    action: str  # register | success_file | catalog | http
    effects: int  # how many there are
    tries: int  # that failed, since the last that did not
    failing_ms: int | None  # since the first of them; None, as the next two: there was none
    last_age_ms: int | None  # since the last of them
    error: str | None  # of the last of them


@dataclass(frozen=True, slots=True)
class SliceStatus:
    """One slice."""

    slice: str
    epoch: int
    last: EntryStatus | None
    unclosed: EntryStatus | None
    shards: tuple[ShardStatus, ...]
    lag: int | None  # of all shards; None: of some it is not known
    fetched: int  # as the next: of a query, see `count_records`
    landed: int
    dead: int
    records_per_s: float | None  # over the last batches; None: there are too few
    counters: dict[str, int]
    tables: tuple[TableStatus, ...]
    deferred: tuple[str, ...]  # ids of actions
    deferred_by_action: tuple[DeferredStatus, ...]
    query: QueryStatus | None  # None: the slice lands topics


@dataclass(frozen=True, slots=True)
class JobStatus:
    """A job."""

    job: str
    lake: str
    now_ms: int
    state: JobState
    since_ms: int | None  # when it began, as far as is known
    why: str  # the state is thought to be this one
    is_source_reachable: bool
    slices: tuple[SliceStatus, ...]
    blocked_seals: tuple[Blocked, ...]  # partitions that are over and not sealed, and why
    warnings: tuple[Warned, ...]
    kept: tuple[Kept, ...] = ()  # partitions older than their table's retention, and why they stay
    pid: int | None = None  # of its job process on this machine; None: it has none here
    reader: str | None = None  # `native` or `python` and why, of that process; None: not known

    @property
    def lag(self) -> int | None:
        """Offsets that wait, of all slices; None: of some it is not known, or there are none."""
        return add_lags(each.lag for each in self.slices)

    def to_dict(self) -> dict[str, object]:
        """Return the status as `--json` prints it."""
        return asdict(self)


def add_lags(lags: Iterable[int | None]) -> int | None:
    """Return the sum of lags; None: one of them is not known, or there are none."""
    known = list(lags)
    if not known or any(lag is None for lag in known):
        return None
    return sum(lag or 0 for lag in known)


def read_status(opened: OpenJob, beat: Heartbeat | None = None) -> JobStatus:
    """Return where a job stands. Raises LogDamaged, StorageError.

    `beat`: the last heartbeat of the job on this machine.
    """
    now_ms = opened.clock.now_ms()
    slices: list[SliceStatus] = []
    folds: dict[str, Fold] = {}
    warnings = [
        Warned("log_lost", name.slice, error.message, error.hint)
        for name, error in find_lost_logs(opened)
    ]
    blocked: list[Blocked] = []
    kept: list[Kept] = []
    is_reachable = True
    for name in find_slices(opened.storage, opened.job.job):
        fold = opened.fold(name)
        if fold.end < 0:
            continue  # a directory, and nothing written yet
        folds[name.slice] = fold
        there = _ask(opened, fold) if is_reachable else _UNREACHABLE
        is_reachable = there.error is None
        slices.append(_slice_status(opened, name, fold, there, now_ms))
        warnings += _warn_unclosed(name, slices[-1].unclosed, opened.job)
        warnings += _warn_deferred(name, slices[-1])
        warnings += _warn_ahead(name, fold, now_ms)
        found = find_warnings(opened, name, fold, _explain_letters)
        warnings += (Warned(*each) for each in found)
        warnings += _warn_source(opened.source.name, fold, there, opened.job)
        unsealed, unretired = _find_obstacles(opened.job, fold, there, now_ms)
        blocked += unsealed
        kept += unretired
    seen = _log_seen(slices, now_ms)
    if seen is not None and believe(seen, beat) is None and not seen.is_closed_for_stop:
        dead, is_of_command = read_writers(opened.storage, opened.job.job, folds)
        seen = replace(seen, dead_writer=dead, is_of_command=is_of_command)
    judged = judge_state(seen, beat, now_ms, opened.job.batch.interval_ms)
    believed = believe(seen, beat)
    is_there = believed is not None and believed.ended is None and believed.is_alive
    process = believed if is_there else None
    workers = {each.slice: each for each in believed.workers} if believed else {}
    queries = {name: read_query(folds[name], judged, workers.get(name)) for name in folds}
    slices = [replace(each, query=queries[each.slice]) for each in slices]
    warnings += _warn_stopped(workers.values(), now_ms)
    warnings += _warn_held_back(opened.job, slices, now_ms)
    return JobStatus(
        job=opened.job.job,
        lake=opened.storage.describe(),
        now_ms=now_ms,
        state=judged.state,
        since_ms=judged.since_ms,
        why=judged.why,
        is_source_reachable=is_reachable,
        slices=tuple(slices),
        blocked_seals=tuple(blocked),
        warnings=tuple(warnings),
        kept=tuple(kept),
        pid=process.pid if process else None,
        reader=process.reader if process else None,
    )


def _log_seen(slices: Sequence[SliceStatus], now_ms: int) -> JobLogSeen | None:
    lasts = [each.last for each in slices if each.last is not None]
    if not lasts:
        return None
    return JobLogSeen(
        last_ms=now_ms - min(each.age_ms for each in lasts),
        is_closed_for_stop=all(each.reason in STOPS for each in lasts),
        lag=add_lags(each.lag for each in slices),
    )


def _resolve(job: Job, fold: Fold) -> dict[str, ResolvedTable]:
    topics = sorted({key.stream for key in fold.shards})
    matched = [topic for topic in topics if any(item.matches(topic) for item in job.tables)]
    return match_topics(job, matched)


def _find_obstacles(
    job: Job, fold: Fold, there: "SourceState", now_ms: int
) -> tuple[tuple[Blocked, ...], tuple[Kept, ...]]:
    """Return what keeps partitions that are over from being sealed, and old ones from going.

    What files show is not looked at.
    """
    resolved = _resolve(job, fold)
    waiting = {
        key
        for key, state in fold.current().items()
        if (found := there.offsets.get(StreamShard(key.stream, key.shard)))
        and found.end > state.next
    }
    feeds = {topic: landing_spec(each).feed for topic, each in resolved.items()}
    time = BatchTime(now_ms, plan_watermarks(fold, feeds, now_ms, waiting))
    sealing = seal_rules(job, resolved)
    retiring = retire_rules(resolved, sealing)
    return (
        plan_seal(fold, {}, sealing, time).blocked,
        plan_retire(fold, retiring, dict.fromkeys(fold.partitions, 0)).kept,
    )


# ---- the source


@dataclass(frozen=True, slots=True)
class SourceState:
    """What the source says of the shards of a slice."""

    streams: dict[str, StreamInfo]
    offsets: dict[StreamShard, ShardOffsets]
    transactions: Sequence[OpenTransaction]
    error: SourceError | None  # why it says nothing
    cut: Mapping[ShardKey, HistoryTruncated]  # below what was landed, and grown on since


_UNREACHABLE = SourceState({}, {}, (), SourceError("it did not answer before"), {})


def _ask(opened: OpenJob, fold: Fold) -> SourceState:
    source = opened.source  # a query reads it under a name of its own
    keys = [key for key in fold.current() if plain_source(key.source) == source.name]
    known = {key: (StreamShard(key.stream, key.shard), fold.shards[key].stream_id) for key in keys}
    try:
        # Where nothing was read yet, a source that refuses the topics of the job says why.
        named = () if keys else select_sources(opened.job, ())
        streams, offsets = read_current(source, known.values(), named)
        if not offsets:
            return SourceState(streams, {}, (), None, {})
        transactions = source.find_open_transactions(sorted(offsets))
        there = [key for key in keys if _is_there(fold, key, streams)]
        own = {key: offsets[known[key][0]] for key in there}
        truncated = Histories(source).find((fold.shards[key] for key in there), own)
        cut = {
            state.key: history_truncated(state.key, state.next, reason, len(truncated))
            for state, reason in truncated.items()
        }
    except SourceError as error:
        return SourceState({}, {}, (), error, {})
    return SourceState(streams, offsets, transactions, None, cut)


def _is_there(fold: Fold, key: ShardKey, streams: dict[str, StreamInfo]) -> bool:
    info = streams.get(key.stream)
    if info is None or info.stream_id != fold.shards[key].stream_id:
        return False
    return key.shard in info.shards


# ---- one slice


def _unclosed(fold: Fold, now_ms: int) -> EntryStatus | None:
    unclosed = fold.unclosed
    if unclosed is None:
        return None
    return EntryStatus(unclosed.number, unclosed.body.kind, max(0, now_ms - unclosed.written_ms))


def _slice_status(
    opened: OpenJob, name: SliceName, fold: Fold, there: SourceState, now_ms: int
) -> SliceStatus:
    notes = list(read_recent(opened, name, fold))
    batches = [(each.written_ms, each.fetched) for each in notes if each.fetched is not None]
    shards = [_shard_status(state, there) for _, state in sorted(fold.current().items())]
    fetched, landed = count_records(fold)
    return SliceStatus(
        slice=name.slice,
        epoch=fold.epoch,
        last=entry_status(notes[0], now_ms) if notes else None,
        unclosed=_unclosed(fold, now_ms),
        shards=tuple(shards),
        lag=add_lags(shard.lag for shard in shards),
        fetched=fetched,
        landed=landed,
        dead=sum(state.dead for state in fold.shards.values()),
        records_per_s=rate_of(batches),
        counters=dict(fold.counters),
        tables=table_statuses(fold, notes, now_ms),
        deferred=tuple(sorted(fold.deferred)),
        deferred_by_action=_deferred(fold, now_ms),
        query=None,
    )


def _shard_status(state: ShardState, there: SourceState) -> ShardStatus:
    key = state.key
    offsets = there.offsets.get(StreamShard(key.stream, key.shard))
    return ShardStatus(
        stream=key.stream,
        shard=key.shard,
        generation=key.generation,
        next=state.next,
        earliest=offsets.earliest if offsets else None,
        end=offsets.end if offsets else None,
        lag=max(0, offsets.end - state.next) if offsets else None,
        fetched=state.fetched,
        landed=state.landed,
        dead=state.dead,
        filtered=state.filtered,
        dropped=state.dropped,
        skipped=state.skipped,
        lost=state.lost,
    )


def _deferred(fold: Fold, now_ms: int) -> tuple[DeferredStatus, ...]:
    found = []
    for action, effects in sorted(Counter(each.action for each in fold.deferred.values()).items()):
        tries: tuple[int, int | None, int | None, str | None] = (0, None, None, None)
        if failing := fold.failing.get(action):
            ages_ms = (max(0, now_ms - failing.since_ms), max(0, now_ms - failing.last_ms))
            tries = (failing.times, *ages_ms, failing.error)
        found.append(DeferredStatus(action, effects, *tries))
    return tuple(found)


# ---- warnings


def _warn_stopped(workers: Iterable[WorkerBeat], now_ms: int) -> Iterator[Warned]:
    for each in workers:
        if each.stopped is not None:
            age = format_duration(max(0, now_ms - each.since_ms))
            hint = "the rest of the job continues without it until the job is started again"
            yield Warned("stopped", each.slice, f"stopped {age} ago: {each.stopped}", hint)


def _warn_unclosed(name: SliceName, unclosed: EntryStatus | None, job: Job) -> Iterator[Warned]:
    interval_ms = max(job.batch.interval_ms, INTERVAL_MS_MIN)
    if unclosed is None or unclosed.age_ms <= UNCLOSED_INTERVALS * interval_ms:
        return
    age = format_duration(unclosed.age_ms)
    yield Warned(
        "unclosed",
        name.slice,
        f"entry {unclosed.number} ({unclosed.kind}) is unclosed for {age}: "
        "its files may not be in their tables",
        "if the job does not run, start it, or run: ashore recover JOB.yaml",
    )


def _warn_held_back(job: Job, slices: Iterable[SliceStatus], now_ms: int) -> Iterator[Warned]:
    patience_ms = {view_name(item.table): item.seal.idle_after_ms for item in job.tables}
    for each in slices:
        query = each.query
        if query is None or query.held_by is None or query.held_since_ms is None:
            continue
        silent_ms = now_ms - query.held_since_ms
        if silent_ms > patience_ms.get(query.held_by, SealSection().idle_after_ms):
            yield Warned(
                "held_back",
                each.slice,
                f"{query.held_by} has had no record for {format_duration(silent_ms)}: it holds "
                "back the watermark, and rows that wait for it",
                "a job that keeps running continues without it with the next batch; one that runs "
                "with --available-now does not: send it a record with the current time as event "
                "time",
            )


def _warn_deferred(name: SliceName, status: SliceStatus) -> Iterator[Warned]:
    for each in status.deferred_by_action:
        if each.failing_ms is None or each.last_age_ms is None:
            continue
        yield Warned(
            "deferred",
            name.slice,
            f"{each.effects:,} x {each.action} deferred: failing for "
            f"{format_duration(each.failing_ms)}, tried {each.tries:,} times, the last "
            f"{format_duration(each.last_age_ms)} ago: {each.error}",
            "landing continues; a running job retries every half minute",
        )


def _explain_letters(opened: OpenJob, table: str) -> str:
    from ashore.proof.evidence.dead_letters import explain_letters  # noqa: PLC0415 - loads Arrow

    return explain_letters(opened, table)


def _warn_ahead(name: SliceName, fold: Fold, now_ms: int) -> Iterator[Warned]:
    if is_ahead(fold.latest_ms, now_ms):
        text = f"the log has the time {show_time(fold.latest_ms)}: a clock was ahead, or this one "
        text += "is behind; no batch is planned"
        hint = "if a clock was ahead: ashore reset-clock JOB.yaml --explain"
        yield Warned("log_ahead", name.slice, text, hint)


@dataclass(frozen=True, slots=True)
class Waiting:
    """Which topics of a job wait where one of them cannot be landed: it ends their sentences.

    The words are those of the error that stops the job, so that no view repeats it.
    """

    topics: frozenset[str]  # that the job lands and its log knows
    patterns: frozenset[str]  # those of them that only an expression matches
    skips_gaps: bool

    @classmethod
    def of(cls, job: Job, source: str, fold: Fold) -> "Waiting":
        """Return which topics of a slice wait for each other."""
        known = {key.stream for key in fold.current() if key.source == source}
        items = [item for item in job.tables if item.is_landed]
        topics = {topic for topic in known if any(item.matches(topic) for item in items)}
        named = {item.topic for item in items if not item.is_pattern}
        return cls(frozenset(topics), frozenset(topics - named), job.source.gap == "skip")

    def for_gap(self, topic: str) -> str:
        """Return the end of a sentence about offsets that Kafka no longer has."""
        return "" if self.skips_gaps else self.for_topic(topic)

    def for_missing(self, topic: str) -> str:
        """Return the end of a sentence about a topic that does not exist."""
        return "" if topic in self.patterns else self.for_topic(topic)

    def for_topic(self, topic: str) -> str:
        """Return the end of a sentence about a topic that cannot be landed."""
        return show_waiting(sorted(self.topics - {topic})) if topic in self.topics else ""


def _warn_source(source: str, fold: Fold, there: SourceState, job: Job) -> list[Warned]:
    if there.error is not None:
        hint = there.error.hint or "check `bootstrap_servers`, the network and the brokers"
        return [Warned("kafka", source, f"lag is not known: {there.error.message}", hint)]
    waiting = Waiting.of(job, source, fold)
    warnings = [
        Warned("truncated", str(key), f"{error.message}{waiting.for_topic(key.stream)}", error.hint)
        for key, error in sorted(there.cut.items())
    ]
    seen: set[str] = set()
    for key, state in sorted(fold.current().items()):
        if key.source != source:
            continue
        if _is_there(fold, key, there.streams):
            offsets = there.offsets[StreamShard(key.stream, key.shard)]
            warnings += _warn_offsets(key, state, offsets, waiting)
        else:
            info = there.streams.get(key.stream)
            warned = _warn_absent(key, state, info, waiting)
            if warned.subject not in seen:
                seen.add(warned.subject)
                warnings.append(warned)
    for each in there.transactions:
        place = f"{each.shard.stream}/{each.shard.shard}"
        text = f"an open transaction ({each.transaction}) blocks {place} at {each.stable_end}: "
        text += f"{each.newest - each.stable_end} offsets wait"
        hint = "it ends when its producer commits, aborts or times out: kafka-transactions.sh"
        warnings.append(Warned("held_up", place, text, hint))
    return warnings


def _warn_absent(
    key: ShardKey, state: ShardState, info: StreamInfo | None, waiting: Waiting
) -> Warned:
    others = waiting.for_topic(key.stream)
    if info is None:
        hint = "create it again and run: ashore rejoin JOB.yaml " + key.stream
        text = f"topic {key.stream} does not exist{waiting.for_missing(key.stream)}"
        return Warned("missing", key.stream, text, hint)
    if info.stream_id != state.stream_id:
        text = f"topic {key.stream} was deleted and created again: the log knows "
        text += f"{state.stream_id}, Kafka has {info.stream_id}{others}"
        hint = f"to continue with the new topic: ashore rejoin JOB.yaml {key.stream}"
        return Warned("replaced", key.stream, text, hint)
    text = f"topic {key.stream} no longer has partition {key.shard}{others}"
    return Warned("missing", str(key), text, "was the topic restored from a backup?")


def _warn_offsets(
    key: ShardKey, state: ShardState, offsets: ShardOffsets, waiting: Waiting
) -> Iterator[Warned]:
    if offsets.end < state.next:
        text = f"{key} ends at {offsets.end}, but records are landed up to {state.next}"
        text += waiting.for_topic(key.stream)
        hint = "nothing is read; was the topic restored, or were records lost in a failover?"
        yield Warned("went_back", str(key), text, hint)
    elif offsets.earliest > state.next:
        gap = OffsetRange(state.next, offsets.earliest)
        hint = "to continue without them, write `gap: skip` under `source`: it is recorded"
        text = f"Kafka no longer has {key} {gap}{waiting.for_gap(key.stream)}"
        yield Warned("gap", str(key), text, hint)
