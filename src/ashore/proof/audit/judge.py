"""What is a finding, given what was observed.

What it is: `Book` holds the last statement about each subject and reports what has changed;
functions make statements of observations; `ActivityWatch` judges whether a job runs.
What it promises: pure, and the same observations give the same findings. A finding is raised
once and cleared once.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple

from ashore.errors import HistoryTruncated
from ashore.log import names
from ashore.log.plan_batch import ShardOffsets
from ashore.log.positions import ShardKey, StreamShard
from ashore.proof.audit.result import Activity, AuditFinding
from ashore.proof.evidence.ledger import LoggedFile
from ashore.proof.evidence.result import Problem, ProblemKind
from ashore.proof.evidence.stored_files import FileLook
from ashore.proof.verify.offset_evidence import judge_file
from ashore.storage.base import FileStat
from ashore.topics.read.source import StreamInfo

Subject = tuple[str, str]
"""What a statement is about: `("file", path)`, `("entry", "main/7")`, `("ranges", "")` ..."""


@dataclass(frozen=True, slots=True)
class Observation:
    """What was found of a subject when it was last looked at."""

    problems: tuple[Problem, ...] = ()
    unaccounted: int = 0  # offsets
    unprovable: int = 0


ALL_IS_WELL = Observation()


class Book:
    """The last statement about each subject. Used by one thread."""

    def __init__(self) -> None:
        self._statements: dict[Subject, Observation] = {}
        self._open: dict[Problem, AuditFinding] = {}

    def say(self, subject: Subject, statement: Observation) -> None:
        """Replace what was said of a subject."""
        if statement == ALL_IS_WELL:
            self._statements.pop(subject, None)
        else:
            self._statements[subject] = statement

    def has(self, subject: Subject) -> bool:
        """Return whether something is wrong with a subject."""
        return subject in self._statements

    def add(self, subject: Subject, problems: Iterable[Problem]) -> None:
        """Add to what was said: for what never changes, as an entry of the log."""
        before = self._statements.get(subject, ALL_IS_WELL)
        added = dict.fromkeys((*before.problems, *problems))
        self.say(subject, replace(before, problems=tuple(added)))

    def turn(self, now_ms: int) -> tuple[tuple[AuditFinding, ...], tuple[AuditFinding, ...]]:
        """Return what is raised and what is cleared since the last call."""
        found = dict.fromkeys(
            each for state in self._statements.values() for each in state.problems
        )
        closed = [finding for problem, finding in self._open.items() if problem not in found]
        raised = [AuditFinding(problem, now_ms) for problem in found if problem not in self._open]
        for finding in closed:
            del self._open[finding.problem]
        self._open.update({finding.problem: finding for finding in raised})
        return tuple(raised), tuple(replace(each, cleared_ms=now_ms) for each in closed)

    @property
    def findings(self) -> tuple[AuditFinding, ...]:
        """What is open, the oldest first."""
        return tuple(self._open.values())

    @property
    def unaccounted(self) -> int:
        """Offsets that are unaccounted for."""
        return sum(each.unaccounted for each in self._statements.values())

    @property
    def unprovable(self) -> int:
        """Offsets of which nothing can be proved any more."""
        return sum(each.unprovable for each in self._statements.values())


def state_file(file: LoggedFile, look: FileLook, *, is_counted: bool) -> Observation:
    """Say what is wrong with a file. `is_counted`: its rows count as unaccounted for elsewhere."""
    problems = tuple(judge_file(file, look))
    is_whole = look.path is not None and look.error is None
    return Observation(problems, 0 if is_whole or is_counted else file.file.rows)


@dataclass(frozen=True, slots=True)
class Listing:
    """What a directory holds."""

    files: dict[str, FileStat]  # that readers see, by path
    success: frozenset[str]  # paths of success files
    below: tuple[str, ...]  # directories that readers see


def split_listing(found: Iterable[FileStat]) -> Listing:
    """Return what a listing of a directory says."""
    by_name = {names.leaf(each.path): each for each in found}
    visible = [each for name, each in by_name.items() if names.is_visible(name)]
    return Listing(
        {each.path: each for each in visible if not each.is_directory},
        frozenset(each.path for name, each in by_name.items() if names.is_success_name(name)),
        tuple(each.path for each in visible if each.is_directory),
    )


@dataclass(frozen=True, slots=True)
class SourceAnswers:
    """The answers of the source between two readings of the log."""

    before: Mapping[ShardKey, int]  # next offsets, read before the source was asked
    streams: Mapping[str, StreamInfo]
    offsets: Mapping[StreamShard, ShardOffsets]
    cut: Mapping[ShardKey, HistoryTruncated]  # below what was landed, and grown on


@dataclass(frozen=True, slots=True)
class ShardLog:
    """What the log says of one shard of a current generation."""

    key: ShardKey
    stream_id: str
    next: int
    table: str
    leader_epoch: int | None = None  # of the leader that reported `next`; None: not known

    @property
    def shard(self) -> StreamShard:
        """Its name in the source."""
        return StreamShard(self.key.stream, self.key.shard)

    @property
    def is_of_query(self) -> bool:
        """Whether a query reads it: its checkpoint shows how far that is, and what it lacks."""
        return names.parse_query_source(self.key.source) is not None


def judge_source(shards: Iterable[ShardLog], seen: SourceAnswers) -> tuple[Observation, int | None]:
    """Say where log and source contradict each other, and the lag.

    A topic that does not exist is not a finding: what it contained is unknown, and so is the lag.
    """
    problems: dict[Problem, None] = {}
    lag = dropped = 0
    is_lag_known = True
    for shard in shards:
        info = seen.streams.get(shard.key.stream)
        if info is not None and info.stream_id != shard.stream_id:
            if shard.is_of_query:
                continue
            text = "the topic was deleted and created again"
            kind = ProblemKind.STREAM_REPLACED
            problems[Problem(kind, shard.table, shard.key.stream, text)] = None
            continue
        offsets = seen.offsets.get(StreamShard(shard.key.stream, shard.key.shard))
        if offsets is None:
            is_lag_known = is_lag_known and shard.is_of_query
            continue
        if not shard.is_of_query:
            lag += max(0, offsets.end - max(shard.next, offsets.earliest))
            dropped += max(0, offsets.earliest - shard.next)
            problems.update(dict.fromkeys(_judge_offsets(shard, seen.before, offsets)))
        if (error := seen.cut.get(shard.key)) is not None:
            text = f"{error.message}. {error.hint}"
            kind = ProblemKind.HISTORY_TRUNCATED
            problems[Problem(kind, shard.table, str(shard.key), text)] = None
    return Observation(tuple(problems), dropped), lag if is_lag_known else None


def _judge_offsets(
    shard: ShardLog, before: Mapping[ShardKey, int], offsets: ShardOffsets
) -> Iterator[Problem]:
    place = str(shard.key)
    if offsets.earliest > shard.next:
        text = f"the source has dropped offsets from {shard.next} on that were not landed"
        yield Problem(ProblemKind.OFFSETS_GONE, shard.table, place, text, (shard.next,))
    landed = before.get(shard.key, 0)
    if offsets.end < landed:
        text = f"the source ends below offset {landed}, up to which it has landed"
        yield Problem(ProblemKind.OFFSETS_WENT_BACK, shard.table, place, text)


class LogProgress(NamedTuple):
    """How far the logs of all slices are."""

    entries: int
    last_ms: int | None  # when the newest entry was written, by its writer's clock
    has_unclosed: bool


class ActivityWatch:
    """Knows since when a job should have written, and has not."""

    def __init__(self, patience_ms: int) -> None:
        self._patience_ms = patience_ms
        self._entries: int | None = None
        self._due_since_ms: int | None = None

    def look(self, seen: LogProgress, lag: int | None, now_ms: int) -> Activity:
        """Take in one look. `lag`: offsets that wait; None: not known."""
        is_first, has_grown = self._entries is None, seen.entries != self._entries
        self._entries = seen.entries
        if not lag and not seen.has_unclosed:
            self._due_since_ms = None
        elif is_first and seen.has_unclosed:
            self._due_since_ms = seen.last_ms  # a job at work would have closed it
        elif has_grown or self._due_since_ms is None:
            self._due_since_ms = now_ms
        since_ms = self._due_since_ms
        is_silent = since_ms is not None and now_ms - since_ms >= self._patience_ms
        return Activity(seen.last_ms, since_ms if is_silent else None)

    def look_away(self, last_ms: int | None) -> Activity:
        """Take in that the log cannot be read: a job cannot write there either."""
        self._due_since_ms = None
        return Activity(last_ms, None)
