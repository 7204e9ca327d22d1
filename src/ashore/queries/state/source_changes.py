"""The offsets of a checkpoint for a query whose sources have changed.

What it is: `plan_sources`, what `offsets` and `sources` are to hold for the new query, and
`lay_out_sources`, which writes it into another checkpoint.
What it promises: pure but for reading; the checkpoint is not changed. A source that is kept
continues at the offset where its last batch ended, whatever its place; a new one begins where the
log says that its topic was read to, or where the caller says. What would leave a gap in the log,
or read a record twice, is refused.

Spark 4.2 knows a source by its place alone: a line in each file of `offsets`, and a directory in
`sources` with the offsets that it began with, which is read only where there is no line yet.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from ashore.errors import CheckpointUnfit
from ashore.log.fold import Fold
from ashore.log.names import SliceName, query_source
from ashore.log.positions import StreamShard
from ashore.plans.change.verdicts import SourceVerdict
from ashore.queries.state.checkpoint import Checkpoint
from ashore.queries.state.layout import (
    BatchLog,
    BatchPath,
    KafkaEnd,
    OffsetsFile,
    SourceEnd,
    SourcePath,
    write_kafka,
)

Firsts = Mapping[str, Mapping[str, int]]  # topic, topic partition: where reading is to begin

_HINT = "keep the order of the readings of this topic, or drop one of them at a time"


@dataclass(frozen=True, slots=True)
class SourcesPlan:
    """What is written of the sources of a query.

    Arguments:
        batch: the last one that is done.
        offsets: of it and of the one before, by batch.
        files: of sources: where each is, and where it is to be.
        begins: where new sources and topics begin, by topic; a topic that is not in it begins with
            the earliest record that Kafka has.

    """

    batch: int
    offsets: Mapping[int, OffsetsFile]
    files: Mapping[SourcePath, SourcePath]
    begins: Firsts


def plan_sources(
    source: Checkpoint,
    name: SliceName,
    fold: Fold,
    sources: Sequence[SourceVerdict],
    firsts: Firsts | None = None,
) -> SourcesPlan:
    """Return what a checkpoint is to hold of the sources of a new query. Nothing is written.

    Requires: the last batch that is planned is done, and it is the last one in the log.

    Arguments:
        source: of the old query.
        name: of the query's slice.
        fold: of its log.
        sources: how each changes; none of them is refused.
        firsts: where topics begin that are new to the log.

    Raises CheckpointUnfit where the log would have a gap, or records twice; StorageError.

    """
    batch = source.read_position().planned
    place = f"{source.place}/{BatchPath(BatchLog.OFFSETS, batch).path}"
    done = source.read_offsets(batch)
    ends = done.kafka_ends(place)
    planner = _Planner(place, name, fold, firsts or {})
    after = planner.plan(sources, ends)
    offsets = {batch: _with_lines(done, after)}
    if batch:
        previous = source.read_offsets(batch - 1)
        earlier = previous.kafka_ends(place)
        offsets[batch - 1] = _with_lines(previous, _earlier(sources, earlier, after))
    files = _move_files(source, sources, len(done.sources))
    return SourcesPlan(batch, offsets, files, planner.begins)


def lay_out_sources(source: Checkpoint, target: Checkpoint, plan: SourcesPlan) -> None:
    """Write what a plan says. Requires: none of these files is in the target.

    If interrupted: a part of them is there. Raises StorageError.
    """
    for old, new in plan.files.items():
        target.create(new.path, source.read(old.path))
    for batch, offsets in sorted(plan.offsets.items()):
        target.plan(batch, offsets)


def read_begun(checkpoint: Checkpoint) -> dict[StreamShard, int]:
    """Return the offsets that a query continues from, by what they are of.

    A topic that the log does not know stands there where a migration has said that it begins.
    Raises StorageError, CheckpointUnfit.
    """
    ends = checkpoint.read_ends(checkpoint.read_position().committed)
    return {
        StreamShard(topic, shard): offset
        for topics in ends.values()
        for topic, shards in topics.items()
        for shard, offset in shards.items()
    }


class _Planner:
    def __init__(self, place: str, name: SliceName, fold: Fold, firsts: Firsts) -> None:
        self.begins: dict[str, dict[str, int]] = {}
        self._place, self._name, self._firsts = place, name, firsts
        self._readings: Counter[str] = Counter()
        self._next: dict[tuple[str, str], dict[str, int]] = {}
        for key, state in fold.current().items():
            self._next.setdefault((key.source, key.stream), {})[key.shard] = state.next

    def plan(
        self, sources: Sequence[SourceVerdict], ends: Mapping[int, KafkaEnd]
    ) -> list[KafkaEnd | None]:
        """Return where the batch ends in each source of the new query; None: it has no offset."""
        return [
            self._end(each, {} if each.old is None else ends.get(each.old, {}))
            for each in sources
            if each.new is not None
        ]

    def _end(self, source: SourceVerdict, known: KafkaEnd) -> KafkaEnd | None:
        found: dict[str, Mapping[str, int]] = {}
        for topic in source.name.split(","):
            self._readings[topic] += 1
            key = query_source(self._name, self._readings[topic])
            logged = self._next.get((key, topic), {})
            if topic in known:
                self._require_followed(topic, known[topic], logged)
                found[topic] = known[topic]
            elif begin := self._begin(topic, logged):
                found[topic] = self.begins[topic] = begin
        return found or None

    def _begin(self, topic: str, logged: Mapping[str, int]) -> dict[str, int]:
        """Return where a topic begins that the checkpoint does not read; empty: it is not said."""
        firsts = self._firsts.get(topic, {})
        for shard, offset in firsts.items():
            if logged.get(shard, offset) != offset:
                raise CheckpointUnfit(
                    f"{topic}/{shard} is to begin at offset {offset}, but the log has read it up "
                    f"to {logged[shard]}; nothing was changed",
                    hint="omit the offset: reading continues where it ended",
                    why="other_offset",
                )
        return {**firsts, **logged}

    def _require_followed(
        self, topic: str, known: Mapping[str, int], logged: Mapping[str, int]
    ) -> None:
        """Raise where a reading would not continue where the log says: it was of another one."""
        for shard, offset in known.items():
            if logged.get(shard, offset) != offset:
                raise CheckpointUnfit(
                    f"{self._place}: reading {self._readings[topic]} of {topic}/{shard} would "
                    f"continue at offset {offset}, but the log has read it up to "
                    f"{logged[shard]}; nothing was changed",
                    hint=_HINT,
                    why="readings",
                )


def _earlier(
    sources: Sequence[SourceVerdict],
    ends: Mapping[int, KafkaEnd],
    after: Sequence[KafkaEnd | None],
) -> list[KafkaEnd | None]:
    """Return where the batch before ended; what is new stands there as after it."""
    kept = [each for each in sources if each.new is not None]
    found: list[KafkaEnd | None] = []
    for source, end in zip(kept, after, strict=True):
        before = {} if source.old is None else ends.get(source.old, {})
        found.append(end and {topic: before.get(topic, shards) for topic, shards in end.items()})
    return found


def _with_lines(offsets: OffsetsFile, ends: Sequence[KafkaEnd | None]) -> OffsetsFile:
    lines = (None if each is None else write_kafka(each) for each in ends)
    return replace(
        offsets, sources=tuple(SourceEnd(str(at), each) for at, each in enumerate(lines))
    )


def _move_files(
    source: Checkpoint, sources: Sequence[SourceVerdict], lines: int
) -> dict[SourcePath, SourcePath]:
    """Return where the files of sources go.

    Spark gives two uses of one stream a directory together. Where there may be such, directories
    and lines do not have the same numbers: all are left out, as each source has a line.
    """
    found = [each.of for each in source.list_files() if isinstance(each.of, SourcePath)]
    topics = [each.name for each in sources if each.new is not None]
    if len({each.source for each in found}) != lines or len(set(topics)) < len(topics):
        return {}
    became = {str(each.old): str(each.new) for each in sources if None not in {each.old, each.new}}
    return {
        each: replace(each, source=became[each.source]) for each in found if each.source in became
    }
