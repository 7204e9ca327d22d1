"""A checkpoint with another number of state partitions: all of it but the state.

What it is: `plan_rescale`, which looks at a checkpoint and refuses what cannot be rescaled;
`lay_out`, `commit` and `finish`, which write a target around the state that Spark writes.
What it promises: the source is only read. The target is at the same batch as the source, so that
no log and no sink has to know of it. A batch that was planned and is not done is planned in the
target as well, with the same offsets. Until `finish` has returned the target has no file
`metadata`, without which Spark starts no query there.

Spark's own `repartition` adds a batch to the checkpoint instead, which the log of a table does not
hold, and it writes the offsets of that batch before it looks whether it can do the rest.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from ashore.errors import CheckpointUnfit, check
from ashore.queries.state.checkpoint import ANY_VERSION, Checkpoint
from ashore.queries.state.files import CheckpointFile, link_between
from ashore.queries.state.layout import (
    PARTITIONS,
    BatchLog,
    BatchPath,
    CheckpointPath,
    ChecksumPath,
    HiddenPath,
    OffsetsFile,
    OperatorFile,
    OperatorPath,
    QueryPath,
    StatePath,
    TablePath,
)
from ashore.queries.state.required_files import Required
from ashore.queries.state.savepoints.transfer import ExpectedFile, transfer_files
from ashore.queries.state.survey import Survey, take_survey

PARTITIONS_MAX = 100_000
ROCKSDB = "RocksDBStateStoreProvider"
StoreIds = Mapping[int, tuple[tuple[str, ...], ...]]


@dataclass(frozen=True, slots=True)
class RescalePlan:
    """A rescale that can be done.

    Arguments:
        batch: the last one that is done: its state is rewritten.
        partitions: that the state has.
        new_partitions: that it will have.
        offsets: what is planned, by batch: the last one that is done, the one before, and one more
            where it is planned.
        state_format: of its state stores: `checkpointFormatVersion`. Spark notes it nowhere.
        operators: what operators say of themselves, by their paths.
        copied: files that are taken as they are: those of sources, and schemas.

    """

    batch: int
    partitions: int
    new_partitions: int
    offsets: Mapping[int, OffsetsFile]
    state_format: int
    operators: Mapping[OperatorPath, OperatorFile]
    copied: Sequence[CheckpointFile]


def plan_rescale(source: Checkpoint, new_partitions: int) -> RescalePlan:
    """Return how a checkpoint gets another number of state partitions. Nothing is written.

    Requires: no process writes to the source.
    Raises CheckpointUnfit, with a sentence that says what to do instead; StorageError.
    """
    require_number(source, new_partitions)
    survey = take_survey(source)
    required = survey.required
    partitions = require_partitions(source, required)
    if not required.chains:
        raise _unfit(source, "stateless", "the query keeps no state", "there is nothing to rescale")
    provider = required.offsets.provider or "unknown"
    if provider != ROCKSDB:
        text = f"its state is in {provider}, and only that of {ROCKSDB} can be rescaled"
        raise _unfit(source, "provider", text, "begin a new checkpoint, with RocksDB")
    if partitions == new_partitions:
        raise _unfit(source, "same", f"its state has {partitions} partitions already", _HOW_MANY)
    offsets = read_offsets(source, required)
    if any(each.settings is None for each in offsets.values()):
        raise _unfit(source, "no_settings", "a batch that is planned has no settings", _OLD)
    refuse_old_partitions(source, survey, partitions)
    paths = [each.of for each in required.files if isinstance(each.of, OperatorPath)]
    operators = {path: source.read_operator(path) for path in paths}
    _refuse_moved(source, operators.values())
    return RescalePlan(
        required.batch,
        partitions,
        new_partitions,
        offsets,
        required.commit.state_format,
        operators,
        [each for each in required.files if not _is_written_anew(each.of)],
    )


def lay_out(source: Checkpoint, target: Checkpoint, plan: RescalePlan) -> None:
    """Write what Spark needs before it can write the state.

    Requires: nothing is at the target, which may be on another storage than the source.
    If interrupted: a part of it is there.
    Raises StorageError; CheckpointUnfit where a file is not as it was when the plan was made.
    """
    copy_files(source, target, plan.copied)
    for path, operator in plan.operators.items():
        moved = operator.move_to(target.uri).cut(plan.new_partitions)
        target.create(path.path, moved.write())
    for batch, offsets in plan.offsets.items():
        target.plan(
            batch, offsets if batch < plan.batch else set_partitions(offsets, plan.new_partitions)
        )


def commit(source: Checkpoint, target: Checkpoint, batch: int, ids: StoreIds) -> None:
    """Write that the batch is done in the target: its state can be read. Requires: it is there.

    `ids`: of the new state, in format 2.

    Raises StorageError.
    """
    before = source.read_commit(batch)
    is_named = before.store_ids is not None
    check(bool(ids) == is_named, "state of format 2 has ids, that of format 1 has none")
    target.commit(batch, replace(before, store_ids=dict(ids) if is_named else None))


def finish(source: Checkpoint, target: Checkpoint) -> None:
    """Make the target a checkpoint of the source's query. Requires: its batch is committed.

    If interrupted: Spark starts no query there. Raises StorageError.
    """
    target.create(QueryPath().path, source.read(QueryPath().path))


_HOW_MANY = f"name a number from 1 to {PARTITIONS_MAX:,} that differs from the current one"
_OLD = "let the query run a batch on Spark 4 first"


def read_offsets(source: Checkpoint, required: Required) -> dict[int, OffsetsFile]:
    """Return what is planned, by batch: Spark reads the last one, and the one before it.

    Raises StorageError; CheckpointUnfit where a file is not as Spark writes it.
    """
    paths = [each.of for each in required.files if isinstance(each.of, BatchPath)]
    batches = [each.batch for each in paths if each.log is BatchLog.OFFSETS]
    return {batch: source.read_offsets(batch, ANY_VERSION) for batch in batches}


def copy_files(source: Checkpoint, target: Checkpoint, files: Sequence[CheckpointFile]) -> None:
    """Take files as they are. Raises StorageError; CheckpointUnfit where one is not as listed."""
    expected = [ExpectedFile(each.path, each.size_bytes) for each in files]
    transfer_files(expected, source, target, link_between(source, target), lambda _done, _all: None)


def require_partitions(source: Checkpoint, required: Required) -> int:
    """Return how many partitions a state has. Raises CheckpointUnfit where no batch says it."""
    found = required.offsets.partitions
    if found is None:
        raise _unfit(source, "no_settings", "its last batch does not name its partitions", _OLD)
    return found


def require_number(source: Checkpoint, number: int) -> None:
    """Raise CheckpointUnfit where a state cannot have that many partitions."""
    if not 1 <= number <= PARTITIONS_MAX:
        raise _unfit(source, "partitions", f"{number} is not a number of partitions", _HOW_MANY)


def refuse_old_partitions(source: Checkpoint, survey: Survey, count: int) -> None:
    """Raise CheckpointUnfit where there is state of partitions that are not in use any more.

    Spark's reader reads the directories that there are, whatever the settings say.
    """
    for each in survey.files:
        match each.of:
            case StatePath(store) if store.partition >= count:
                text = f"{store.path} is of a partition that is not in use: there are {count}"
                hint = "take a savepoint and restore it: that leaves it out"
                raise _unfit(source, "old_partitions", text, hint)


def _refuse_moved(source: Checkpoint, operators: Iterable[OperatorFile]) -> None:
    """Raise CheckpointUnfit where Spark would look for the schemas of state elsewhere."""
    for operator in operators:
        for place in operator.find_elsewhere(source.uri):
            text = f"its operators name {place}, so it was moved by hand"
            hint = "take a savepoint and restore it: that names files as they are"
            raise _unfit(source, "moved", text, hint)


def _is_written_anew(path: CheckpointPath) -> bool:
    return isinstance(
        path,
        HiddenPath | BatchPath | StatePath | TablePath | ChecksumPath | OperatorPath | QueryPath,
    )


def set_partitions(offsets: OffsetsFile, partitions: int) -> OffsetsFile:
    """Return what is planned, with another number of partitions. Requires: it has settings."""
    settings = offsets.settings
    check(settings is not None, "a batch of Spark 4 has settings")
    conf = {**settings.conf, PARTITIONS: str(partitions)} if settings else {}
    return replace(offsets, settings=replace(settings, conf=conf) if settings else None)


def _unfit(source: Checkpoint, why: str, text: str, hint: str) -> CheckpointUnfit:
    place = source.place
    return CheckpointUnfit(f"{place}: {text}; nothing was changed", hint=hint, why=why)
