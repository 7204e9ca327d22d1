"""What is wrong with a checkpoint, from what was seen of it.

What it is: `diagnose`: one function a kind of finding.
What it promises: pure. Each function looks at all that was seen, so that several findings may have
one cause; none is left out because of another.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import pairwise

from ashore.log.plan_query import NO_BATCH
from ashore.queries.state.contents import local_sum_path
from ashore.queries.state.diagnosis.findings import CheckpointFinding, Code
from ashore.queries.state.diagnosis.lineage import find_break, topic_ends
from ashore.queries.state.diagnosis.observation import BadFile, Flaw, Observed, TopicEnds
from ashore.queries.state.layout import (
    PROVIDER,
    BatchLog,
    BatchPath,
    OffsetsFile,
    OperatorPath,
    StateKind,
    StatePath,
    is_number,
)
from ashore.queries.state.required_files import Required

_PACKAGE = "org.apache.spark.sql.execution.streaming.state"
PROVIDERS = {
    StateKind.CHANGELOG: f"{_PACKAGE}.RocksDBStateStoreProvider",
    StateKind.ROCKSDB_SNAPSHOT: f"{_PACKAGE}.RocksDBStateStoreProvider",
    StateKind.DELTA: f"{_PACKAGE}.HDFSBackedStateStoreProvider",
    StateKind.SNAPSHOT: f"{_PACKAGE}.HDFSBackedStateStoreProvider",
}
_NO_GOOD = "restore a savepoint: no batch that is kept is complete"


def diagnose(observed: Observed) -> list[CheckpointFinding]:
    """Return all that is wrong, in the order of the codes."""
    return [finding for find in _FINDERS for finding in find(observed)]


# ---- the logs


def _find_half_done_repartition(observed: Observed) -> Iterator[CheckpointFinding]:
    done, planned = observed.offsets.get(observed.done), observed.offsets.get(observed.done + 1)
    if done is None or planned is None or observed.done + 1 in observed.commits:
        return
    before, after = done.partitions, planned.partitions
    if before is None or after is None or before == after:
        return
    file = BatchPath(BatchLog.OFFSETS, observed.done + 1).path
    yield CheckpointFinding(
        Code.HALF_DONE_REPARTITION,
        file,
        f"{file} plans {after} state partitions, batch {observed.done} has {before}: a repartition "
        "was started and not finished",
        f"the copy ends with {_end(observed)}, and does not plan that one",
        observed.good is not None,
    )


def _find_missing_line(observed: Observed) -> Iterator[CheckpointFinding]:
    done = observed.offsets.get(observed.done)
    if done is None or done.version != 1:
        return
    expected, lines = count_sources(observed), len(done.sources)
    if expected <= lines:
        return
    file = BatchPath(BatchLog.OFFSETS, observed.done).path
    yield CheckpointFinding(
        Code.MISSING_LINE,
        file,
        f"{file} has lines of {lines} sources, the query reads {expected}",
        f"the copy has a line `-` for each of the {expected - lines} sources that are new, at the "
        "end: right if they come last in the query",
        observed.good is not None,
    )


def count_sources(observed: Observed) -> int:
    """Return how many sources the query reads, as far as is known."""
    if observed.expected_sources is not None:
        return observed.expected_sources
    return 1 + max(
        (int(each) for each in observed.source_directories if is_number(each)), default=-1
    )


def _find_log_gaps(observed: Observed) -> Iterator[CheckpointFinding]:
    offsets, commits = observed.batches[BatchLog.OFFSETS], observed.batches[BatchLog.COMMITS]
    planned = [each for each in offsets if each > observed.done + 1]
    if planned:
        file = BatchPath(BatchLog.OFFSETS, planned[0]).path
        done = (
            "none is done" if observed.done == NO_BATCH else f"the last one done is {observed.done}"
        )
        yield CheckpointFinding(
            Code.LOG_GAP,
            file,
            f"{file} plans a batch, but {done}: Spark would run batch {planned[-1]} on the state "
            "of another one",
            f"the copy ends with {_end(observed)}, and plans at most the next one"
            if observed.good
            else _NO_GOOD,
            observed.good is not None,
        )
    for log, batches in ((BatchLog.OFFSETS, offsets), (BatchLog.COMMITS, commits)):
        for before, after in pairwise(each for each in batches if each <= observed.done):
            if after > before + 1:
                file = BatchPath(log, before + 1).path
                yield CheckpointFinding(
                    Code.LOG_GAP,
                    file,
                    f"{file} is missing: {log} go from batch {before} to {after}",
                    f"the copy begins after the gap{_back(observed)}",
                    observed.good is not None,
                )


def _find_two_lineages(observed: Observed) -> Iterator[CheckpointFinding]:
    yield from _find_state_ahead(observed)
    broken = find_break(observed.offsets)
    if broken is not None:
        file = BatchPath(BatchLog.OFFSETS, broken).path
        yield CheckpointFinding(
            Code.TWO_LINEAGES,
            file,
            f"{file} was planned earlier than batch {broken - 1} and ends before it: two programs "
            "have written to this checkpoint",
            f"the copy ends with a batch before {broken}: the sink gets later batches again",
            observed.good is not None,
        )


def _find_state_ahead(observed: Observed) -> Iterator[CheckpointFinding]:
    """Find state of batches that were never planned: what the next ones write would meet it."""
    planned = max(observed.batches[BatchLog.OFFSETS], default=NO_BATCH)
    ahead = [
        each.of
        for each in observed.files
        if isinstance(each.of, StatePath) and each.of.version > planned + 1
    ]
    if ahead and observed.done != NO_BATCH:
        first = min(ahead, key=lambda path: (path.version, path.path))
        last = max(path.version for path in ahead)
        yield CheckpointFinding(
            Code.TWO_LINEAGES,
            first.path,
            f"{len(ahead):,} files of state are of batches up to {last - 1}, but batch {planned} "
            "is the last one that was planned: offsets and commits were taken back without them",
            f"the copy has no state after {_end(observed)}",
            observed.good is not None,
        )


# ---- files


def _find_bad_files(observed: Observed) -> Iterator[CheckpointFinding]:
    for bad in observed.bad:
        yield _judge_bad(observed, bad)


def _find_commits_alone(observed: Observed) -> Iterator[CheckpointFinding]:
    """Find newer commits whose offsets are gone: what the batch was planned with is not known."""
    offsets = set(observed.batches[BatchLog.OFFSETS])
    for batch in observed.batches[BatchLog.COMMITS]:
        if batch > observed.done and batch not in offsets:
            file = BatchPath(BatchLog.OFFSETS, batch).path
            text = f"{file} is missing, and its batch is done"
            yield _judge_bad(observed, BadFile(file, Flaw.MISSING, text))


def _judge_bad(observed: Observed, bad: BadFile) -> CheckpointFinding:
    is_planned = bad.file == BatchPath(BatchLog.OFFSETS, observed.done + 1).path
    good = observed.good
    is_repairable = good is not None
    repair = _NO_GOOD if good is None else f"the copy ends with batch {good.batch}"
    if good is not None and good.batch == _newest(observed) and not is_planned:
        repair = f"{repair}, which does not need that file: older ones say the same"
    elif good is not None and good.batch < _newest(observed):
        repair = f"{repair}, the last complete one: the sink gets later batches again"
    match bad.flaw:
        case Flaw.EDITED:
            code = Code.STALE_CHECKSUM
            is_repairable = good is not None and not _is_needed(good, bad.file)
            repair = (
                f"the copy ends with {_end(observed)}, which does not need that file"
                if is_repairable
                else "restore the file, or a savepoint; if you edited it on purpose, delete "
                f"{local_sum_path(bad.file)} and run the command again"
            )
        case Flaw.OTHER_VERSION:
            code = Code.WRONG_FORMAT
        case Flaw.MISSING:
            code = Code.MISSING_FILE
        case Flaw.DAMAGED:
            code = Code.DAMAGED_FILE
    if is_planned and good is not None and bad.flaw is not Flaw.EDITED:
        repair = f"{repair}, without that batch: Spark plans it again, maybe with other offsets"
    return CheckpointFinding(code, bad.file, bad.text, repair, is_repairable)


def _is_needed(good: Required, file: str) -> bool:
    return any(each.path == file for each in good.files)


# ---- operators and state


def _find_moved(observed: Observed) -> Iterator[CheckpointFinding]:
    if observed.good is None:
        return
    for operator, says in observed.good.operators.items():
        elsewhere = says.find_elsewhere(observed.uri)
        if elsewhere:
            file = _operator_file(observed, operator)
            yield CheckpointFinding(
                Code.MOVED,
                file,
                f"{file} names the schemas of its state as {elsewhere[0]}",
                "the paths in the copy name the copy",
            )


def _find_stale_partitions(observed: Observed) -> Iterator[CheckpointFinding]:
    good = observed.good
    partitions = good.offsets.partitions if good else None
    if good is None or partitions is None:
        return
    old = [
        each.of
        for each in observed.files
        if isinstance(each.of, StatePath) and each.of.store.partition >= partitions
    ]
    if old:
        yield CheckpointFinding(
            Code.STALE_PARTITIONS,
            old[0].path,
            f"{len(old):,} files are of partitions that are not in use: batch {good.batch} "
            f"has {partitions}",
            "the copy has no files of these partitions",
        )
    for operator, says in good.operators.items():
        numbers = sorted({each.partitions for each in says.stores} - {partitions})
        if numbers:
            file = _operator_file(observed, operator)
            yield CheckpointFinding(
                Code.STALE_PARTITIONS,
                file,
                f"{file} says {numbers[0]} partitions, batch {good.batch} has {partitions}",
                f"the copy says {partitions}",
            )


def _find_other_formats(observed: Observed) -> Iterator[CheckpointFinding]:
    good = observed.good
    if good is None:
        return
    state_format = good.commit.state_format
    has_ids = state_format > 1
    other = [
        each.of
        for each in observed.files
        if isinstance(each.of, StatePath) and bool(each.of.unique) != has_ids
    ]
    if other:
        batch = good.batch
        yield CheckpointFinding(
            Code.WRONG_FORMAT,
            other[0].path,
            f"{len(other):,} files of state are of format {3 - state_format}, and batch {batch} "
            f"is of format {state_format}: the query was started with another "
            "`checkpointFormatVersion`",
            f"the copy has only files of format {state_format}; start the query with that",
        )
    actual = actual_provider(observed)
    provider = _conf(good.offsets).get(PROVIDER)
    if actual is not None and provider in set(PROVIDERS.values()) - {actual}:
        file = BatchPath(BatchLog.OFFSETS, good.batch).path
        yield CheckpointFinding(
            Code.WRONG_FORMAT,
            file,
            f"{file} names {provider.rpartition('.')[2]}, but the files of state are those of "
            f"{actual.rpartition('.')[2]}",
            f"the copy names {actual.rpartition('.')[2]}",
        )


def actual_provider(observed: Observed) -> str | None:
    """Return the class of the state store whose files the batch needs; None: unknown."""
    if observed.good is None:
        return None
    kinds = {
        path.kind
        for chain in observed.good.chains
        for path in (chain.snapshot, *chain.changes)
        if path is not None
    }
    found = {PROVIDERS[kind] for kind in kinds}
    return found.pop() if len(found) == 1 else None


# ---- topics


def _find_recreated(observed: Observed) -> Iterator[CheckpointFinding]:
    if observed.good is None or observed.topics is None:
        return
    file = BatchPath(BatchLog.OFFSETS, observed.good.batch).path
    for topic, partitions in sorted(topic_ends(observed.good.offsets).items()):
        text = _compare_topic(topic, partitions, observed.topics.get(topic))
        if text is not None:
            is_there = bool(observed.topics.get(topic, TopicEnds({}, {})).end)
            yield CheckpointFinding(
                Code.TOPIC_RECREATED,
                file,
                f"{file}: {text}",
                "the copy continues from the beginning of the topic that exists now"
                if is_there
                else "create the topic, or take it out of the query: nothing can be read",
                is_there,
            )


def _compare_topic(topic: str, partitions: Mapping[str, int], now: TopicEnds | None) -> str | None:
    if now is None or not now.end:
        return f"topic {topic} does not exist"
    missing = [name for name in partitions if name not in now.end]
    if missing:
        return f"topic {topic} no longer has partition {missing[0]}: it was created again"
    for name, offset in partitions.items():
        if now.end[name] < offset:
            return (
                f"{topic}/{name} ends at offset {now.end[name]:,}, the batch has read up to "
                f"{offset:,}: the topic was created again, or cut"
            )
    return None


def is_recreated(partitions: Mapping[str, int], now: TopicEnds | None) -> bool:
    """Return whether the offsets of a topic are of another topic than that which is there."""
    return _compare_topic("", partitions, now) is not None


# ---- shared


def _conf(offsets: OffsetsFile) -> Mapping[str, str]:
    return offsets.settings.conf if offsets.settings else {}


def _newest(observed: Observed) -> int:
    return max([observed.done, *observed.batches[BatchLog.COMMITS]])


def _back(observed: Observed) -> str:
    return f", and ends with batch {observed.good.batch}" if observed.good else ""


def _end(observed: Observed) -> str:
    return f"batch {observed.good.batch}" if observed.good else "its last batch"


def _operator_file(observed: Observed, operator: int) -> str:
    """Return the file in which an operator says what it is, of those that the batch needs."""
    found = [
        each.path
        for each in (observed.good.files if observed.good else ())
        if isinstance(each.of, OperatorPath) and each.of.operator == operator
    ]
    return found[0] if found else OperatorPath(operator).path


_FINDERS: Sequence[Callable[[Observed], Iterator[CheckpointFinding]]] = (
    _find_half_done_repartition,
    _find_moved,
    _find_missing_line,
    _find_stale_partitions,
    _find_bad_files,
    _find_commits_alone,
    _find_log_gaps,
    _find_recreated,
    _find_other_formats,
    _find_two_lineages,
)
