"""A copy of a checkpoint that has none of the findings.

What it is: `plan_repair`, which decides what the copy has, and `write_repair`, which makes it.
What it promises: the original is only read, and shares no file that anybody edits. The copy is at a
batch that was found whole, with no file that this batch does not need, so that leftovers stay
behind. `metadata` comes last: until then Spark refuses the directory.
"""

import contextlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import TypeVar

from ashore.errors import AshoreError, PathExists, StorageError, check
from ashore.queries.state.checkpoint import Checkpoint
from ashore.queries.state.contents import local_sum_path, sum_as_hadoop
from ashore.queries.state.diagnosis.diagnose import actual_provider, count_sources, is_recreated
from ashore.queries.state.diagnosis.findings import CheckpointFinding, Code
from ashore.queries.state.diagnosis.lineage import kafka_end, topic_ends
from ashore.queries.state.diagnosis.observation import Observed, TopicEnds
from ashore.queries.state.files import WORKERS, CheckpointFile, link_between
from ashore.queries.state.layout import (
    PROVIDER,
    BatchLog,
    BatchPath,
    CheckpointPath,
    OffsetsFile,
    OperatorFile,
    OperatorPath,
    QueryPath,
    SourceEnd,
    StatePath,
    TablePath,
    write_kafka,
)
from ashore.queries.state.required_files import Required
from ashore.queries.state.savepoints.transfer import (
    Advance,
    ExpectedFile,
    read_whole,
    transfer_files,
)

T = TypeVar("T")

# Their planned batch is what is wrong, or was planned with what is.
_UNPLANS = {Code.HALF_DONE_REPARTITION, Code.TOPIC_RECREATED}


@dataclass(frozen=True, slots=True)
class RepairPlan:
    """A copy that can be made.

    Arguments:
        batch: the last one that is done in it.
        is_back: whether the original has newer ones.
        codes: what it repairs.
        copied: files that are taken as they are.
        offsets: those that are written anew, by batch.
        operators: what operators say, with the number of partitions that there are.
        proven: paths of the files that a checksum of the original was compared with; the copy has
            checksums of them, and of no other: that would make a doubtful file look proven.

    """

    batch: int
    is_back: bool
    codes: tuple[Code, ...]
    copied: tuple[CheckpointFile, ...]
    offsets: Mapping[int, OffsetsFile]
    operators: Mapping[OperatorPath, OperatorFile]
    proven: frozenset[str] = frozenset()

    @property
    def paths(self) -> frozenset[str]:
        """The files that the copy has."""
        offsets = (batch_path(batch).path for batch in self.offsets)
        operators = (each.path for each in self.operators)
        return frozenset([*(each.path for each in self.copied), *offsets, *operators])


def plan_repair(observed: Observed, findings: list[CheckpointFinding]) -> RepairPlan | None:
    """Return how a copy is made; None where nothing was found, or something cannot be repaired."""
    if observed.good is None or not findings or not all(each.is_repairable for each in findings):
        return None
    codes = tuple(dict.fromkeys(each.code for each in findings))
    unplanned = BatchPath(BatchLog.OFFSETS, observed.good.batch + 1)
    excluded = {unplanned} if _UNPLANS & set(codes) else set()
    offsets = _edit_offsets(observed, observed.good, codes)
    operators = _edit_operators(observed.good) if Code.STALE_PARTITIONS in codes else {}
    edited: set[CheckpointPath] = {
        *(BatchPath(BatchLog.OFFSETS, batch) for batch in offsets),
        *operators,
    }
    return RepairPlan(
        batch=observed.good.batch,
        is_back=observed.good.batch < max([observed.done, *observed.batches[BatchLog.COMMITS]]),
        codes=codes,
        copied=tuple(each for each in observed.good.files if each.of not in {*excluded, *edited}),
        offsets={
            batch: each for batch, each in offsets.items() if batch_path(batch) not in excluded
        },
        operators=operators,
        proven=frozenset(_list_proven(observed, observed.good)),
    )


def _list_proven(observed: Observed, good: Required) -> Iterator[str]:
    """Yield the files that a checksum was compared with: Hadoop's, Spark's, or their own."""
    there = {each.path for each in observed.files}
    for each in good.files:
        has_own = isinstance(each.of, StatePath | TablePath) and each.of not in observed.doubted
        if has_own or local_sum_path(each.path) in there:
            yield each.path


def batch_path(batch: int) -> BatchPath:
    """Return where a batch's offsets are."""
    return BatchPath(BatchLog.OFFSETS, batch)


def _edit_offsets(
    observed: Observed, good: Required, codes: tuple[Code, ...]
) -> dict[int, OffsetsFile]:
    """Return the offsets that the copy has instead, of the batches whose offsets it has."""
    needed = [
        each.of.batch
        for each in good.files
        if isinstance(each.of, BatchPath) and each.of.log is BatchLog.OFFSETS
    ]
    edited, began = {}, _list_begun(observed, good) if Code.TOPIC_RECREATED in codes else {}
    for batch in needed:
        before = after = observed.offsets[batch]
        if Code.MISSING_LINE in codes:
            after = _add_lines(after, count_sources(observed))
        if Code.WRONG_FORMAT in codes:
            after = _name_provider(after, actual_provider(observed))
        if Code.TOPIC_RECREATED in codes:
            after = _begin_topics(after, began)
        if after != before:
            edited[batch] = after
    return edited


def _add_lines(offsets: OffsetsFile, count: int) -> OffsetsFile:
    there = len(offsets.sources)
    added = [SourceEnd(str(at), None) for at in range(there, count)]
    return replace(offsets, sources=(*offsets.sources, *added))


def _name_provider(offsets: OffsetsFile, provider: str | None) -> OffsetsFile:
    settings = offsets.settings
    if settings is None or provider is None or PROVIDER not in settings.conf:
        return offsets
    conf = {**settings.conf, PROVIDER: provider}
    return replace(offsets, settings=replace(settings, conf=conf))


def _list_begun(observed: Observed, good: Required) -> dict[str, TopicEnds]:
    """Return the topics that were created again, from the last batch: for all batches."""
    topics = observed.topics or {}
    return {
        topic: topics[topic]
        for topic, partitions in topic_ends(good.offsets).items()
        if topic in topics and is_recreated(partitions, topics[topic])
    }


def _begin_topics(offsets: OffsetsFile, began: Mapping[str, TopicEnds]) -> OffsetsFile:
    sources = []
    for each in offsets.sources:
        end = kafka_end(each.end)
        if end is not None:
            begun = {
                topic: began[topic].first if topic in began else partitions
                for topic, partitions in end.items()
            }
            sources.append(each if begun == end else SourceEnd(each.source, write_kafka(begun)))
        else:
            sources.append(each)
    return replace(offsets, sources=tuple(sources))


def _edit_operators(good: Required) -> dict[OperatorPath, OperatorFile]:
    partitions = good.offsets.partitions
    check(partitions is not None, "stale partitions are found by what the batch says")
    paths = [each.of for each in good.files if isinstance(each.of, OperatorPath)]
    return {path: good.operators[path.operator].cut(partitions or 0) for path in paths}


def write_repair(
    source: Checkpoint,
    target: Checkpoint,
    plan: RepairPlan,
    advance: Advance,
    judge: Callable[[], T],
) -> T:
    """Make the copy, and return what `judge` says of it.

    `judge`: is called where only `metadata` is left to write; what it raises refuses the copy.

    Requires: nothing is at the target, and no other process writes there.
    If interrupted: files may be at the target, without `metadata`; delete them.

    Raises CheckpointUnfit where a file changes meanwhile; StorageError; what `judge` raises. Then
    what was written is deleted again, as far as the storage lets it. Nothing is deleted where
    another process writes to the target (PathExists), and where only `metadata` failed.
    """
    files = [ExpectedFile(each.path, each.size_bytes) for each in plan.copied]
    last = [each for each in files if each.path == QueryPath().path]
    others = [each for each in files if each not in last]
    try:
        transfer_files(others, source, target, link_between(source, target), advance)
        _write_edited(target, plan)
        if target.has_checksum_files:
            _write_sums(target, sorted((plan.proven & plan.paths) - {each.path for each in last}))
        judged = judge()
    except PathExists:
        raise  # another process writes there: what is deleted might be theirs
    except AshoreError:
        with contextlib.suppress(StorageError):
            target.delete_all()
        raise
    for each in last:
        data = read_whole(source, each)
        if target.has_checksum_files and each.path in plan.proven:
            target.create(local_sum_path(each.path), sum_as_hadoop([data]))
        target.create(each.path, data)
    return judged


def _write_sums(target: Checkpoint, files: Iterable[str]) -> None:
    """Write the checksums that Hadoop would have kept of files, before Spark reads them."""

    def write(file: str) -> None:
        target.create(local_sum_path(file), sum_as_hadoop(target.read_pieces(file)))

    with ThreadPoolExecutor(WORKERS) as pool:
        for _done in pool.map(write, files):
            pass


def _write_edited(target: Checkpoint, plan: RepairPlan) -> None:
    written: dict[CheckpointPath, bytes] = {
        **{batch_path(batch): each.write() for batch, each in plan.offsets.items()},
        **{path: each.move_to(target.uri).write() for path, each in plan.operators.items()},
    }
    for path, data in written.items():
        target.create(path.path, data)
    target.sync(path.path for path in written)
