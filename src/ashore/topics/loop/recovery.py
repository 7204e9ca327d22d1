"""What a person does when a job is dead and files are lost: read them again, or give them up.

What it is: the use of the same steps as in the loop, from a command.
What it promises: the slice is taken over first.
"""

import functools
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ashore.errors import (
    FilesLost,
    OffsetsGone,
    Stopped,
    StreamMissing,
    StreamReplaced,
    fail,
)
from ashore.log.entries import Closing, Commit, Join, Prepare, Reland, Skip
from ashore.log.files import DataFile, TableCommit
from ashore.log.fold import Fold
from ashore.log.names import SliceName
from ashore.log.plan_batch import BatchPlan, ShardOffsets
from ashore.log.positions import OffsetRange, ShardKey, ShardRange, StreamShard
from ashore.log.store.clock_guard import require_right_clock
from ashore.log.store.committer import Committer
from ashore.log.store.log import LandingLog
from ashore.log.store.reader import read_log
from ashore.storage.base import Storage
from ashore.topics.loop.bisection import run_apart
from ashore.topics.loop.joins import plan_rejoin, shards_of
from ashore.topics.loop.slice_loop import SliceParts, SlicePlan
from ashore.topics.read.source import Source
from ashore.topics.write.batch import BatchOrder, KeepSpan, Written, merge_results


@dataclass(frozen=True, slots=True)
class LostFiles:
    """What a writer found gone when it finished the unclosed entry."""

    number: int
    body: Prepare | Reland
    files: tuple[DataFile, ...]
    moved: Closing

    @property
    def keys(self) -> tuple[ShardKey, ...]:
        """The shards that spans refer to."""
        if isinstance(self.body, Reland):
            return self.body.shards
        return tuple(read.key for read in self.body.shards)

    def rows(self) -> dict[ShardKey, int]:
        """Return the lost rows of each shard; those of a query are of none."""
        rows: dict[ShardKey, int] = defaultdict(int)
        for file in self.files:
            for span in file.spans:
                rows[self.keys[span.shard]] += span.rows
        return dict(rows)


def open_and_find_lost(committer: Committer) -> LostFiles | None:
    """Take the slice over, move everything that can be moved, and return what is gone.

    None: nothing is lost; the unclosed entry, if any, was finished and closed.
    """
    log = committer.log
    log.open()
    unclosed = log.fold.unclosed
    try:
        closing = committer.finish()
    except FilesLost as error:
        lost = error.unique
    else:
        if closing is not None:
            log.append(Commit("recovery"), closing)
        return None
    if unclosed is None or not isinstance(unclosed.body, Prepare | Reland):
        return fail("files are lost of an entry that has none")
    closing = committer.finish(without=lost)
    files = tuple(file for file in unclosed.body.files if file.unique in lost)
    return LostFiles(unclosed.number, unclosed.body, files, closing or fail("nothing to close"))


def accept_loss(log: LandingLog, lost: LostFiles, by: str, why: str) -> int:
    """Give lost files up: a `skip` entry says so for ever. Returns the number of rows lost."""
    unique, rows = tuple(file.unique for file in lost.files), tuple(sorted(lost.rows().items()))
    log.append(Skip((), lost.number, unique, rows, by, why), lost.moved)
    return sum(file.rows for file in lost.files)


def reland(plan: SlicePlan, parts: SliceParts, lost: LostFiles) -> int:
    """Read lost files again into new ones, with the time and watermark of their entry.

    Returns the number of rows. Raises SchemaConflict where the job would write other tables than
    the log knows; OffsetsGone or StreamReplaced where the source has them no
    more; Stopped where the counts differ: nothing is appended then.
    """
    plan.require_readable(parts.log.fold)
    order, batch = _reland_order(plan, parts, lost)
    report = functools.partial(parts.progress.warn, plan.name.slice)
    written = merge_results(order, run_apart(parts.runner, order, batch, report))
    _require_same(parts.source, parts.log.fold, [each.key for each in order.ranges])
    expected, found = sum(lost.rows().values()), sum(file.rows for file in written.files)
    if expected != found:
        raise Stopped(
            f"{found} rows were read again, but {expected} are lost; nothing was appended",
            hint="to give the lost files up: ashore recover JOB.yaml --accept-loss",
        )
    parts.log.append(_reland_body(lost, written, parts.commits(written)), lost.moved)
    closing = parts.committer().finish()
    parts.log.append(Commit("recovery"), closing)
    return found


def find_rejoin(storage: Storage, name: SliceName, source: Source, stream: str) -> Join | None:
    """Return the join that `rejoin` would append, or None. Looks only, beside whatever runs.

    Raises StreamMissing where the topic does not exist.
    """
    streams = source.describe_streams([stream])
    if stream not in streams:
        raise StreamMissing(f"topic {stream} does not exist", hint="create it first")
    return plan_rejoin(source, read_log(storage, name), streams[stream])


def rejoin(committer: Committer, source: Source, stream: str) -> int:
    """Continue with a topic that was created again. Returns the number of shards that joined.

    Takes the slice over, unless there is nothing to rejoin. Raises StreamMissing where the topic
    does not exist; ClockAhead.
    """
    log = committer.log
    if find_rejoin(committer.storage, log.name, source, stream) is None:
        return 0
    log.open()
    require_right_clock(committer, source)
    closing = committer.finish()
    streams = source.describe_streams([stream])
    if stream not in streams:
        raise StreamMissing(f"topic {stream} does not exist", hint="create it first")
    join = plan_rejoin(source, log.fold, streams[stream])
    if join is not None:
        log.append(join, closing)
        return len(join.shards)
    if closing is not None:
        log.append(Commit("recovery"), closing)
    return 0


def _reland_order(
    plan: SlicePlan, parts: SliceParts, lost: LostFiles
) -> tuple[BatchOrder, BatchPlan]:
    spans = [
        (lost.body.targets[file.target], lost.keys[span.shard], OffsetRange(span.start, span.end))
        for file in lost.files
        for span in file.spans
    ]
    hulls: dict[ShardKey, OffsetRange] = {}
    for _, key, offsets in spans:
        known = hulls.get(key, offsets)
        hulls[key] = OffsetRange(min(known.start, offsets.start), max(known.end, offsets.end))
    _require_readable(parts.source, parts.log.fold, hulls)
    ranges = tuple(ShardRange(key, offsets) for key, offsets in sorted(hulls.items()))
    specs = plan.streams()
    order = BatchOrder(
        lake=plan.lake.with_active(),
        name=plan.name,
        epoch=parts.log.fold.epoch,
        batch=lost.body.batch,
        time=lost.body.time,
        ranges=ranges,
        tables=tuple(sorted((each, specs[each]) for each in {key.stream for key in hulls})),
        keep=tuple(
            KeepSpan(target.table, target.partition, key, offsets) for target, key, offsets in spans
        ),
        field_ids=parts.field_ids(),
    )
    batch = BatchPlan(
        batch=lost.body.batch,
        time=lost.body.time,
        ranges=ranges,
        large=ranges,
        piece_records=max(1, sum(each.offsets.size for each in ranges) // plan.limits.parallelism),
        small=(),
        shared_tasks=0,
        is_behind=False,
    )
    return order, batch


_GIVE_UP = "to give the lost files up: ashore recover JOB.yaml --accept-loss"


def _require_readable(source: Source, fold: Fold, hulls: Mapping[ShardKey, OffsetRange]) -> None:
    """Raise unless the source still has these offsets of these generations."""
    _require_same(source, fold, list(hulls))
    found: dict[StreamShard, ShardOffsets] = source.read_offsets(shards_of(list(hulls)))
    for key, offsets in hulls.items():
        if found[StreamShard(key.stream, key.shard)].earliest > offsets.start:
            raise OffsetsGone(f"Kafka no longer has {key} {offsets}", hint=_GIVE_UP)


def _require_same(source: Source, fold: Fold, keys: Sequence[ShardKey]) -> None:
    """Raise StreamMissing or StreamReplaced unless the streams are those that were landed.

    After a reading too.
    """
    streams = source.describe_streams(sorted({key.stream for key in keys}))
    for key in keys:
        info = streams.get(key.stream)
        if info is None:
            raise StreamMissing(f"topic {key.stream} does not exist", hint=f"try again; {_GIVE_UP}")
        if info.stream_id != fold.shards[key].stream_id:
            raise StreamReplaced(
                f"topic {key.stream} is not the one that was landed", hint=_GIVE_UP
            )


def _reland_body(lost: LostFiles, written: Written, commits: tuple[TableCommit, ...]) -> Reland:
    return Reland(
        entry=lost.number,
        batch=lost.body.batch,
        time=lost.body.time,
        lost=tuple(file.unique for file in lost.files),
        shards=tuple(read.key for read in written.reads),
        targets=written.targets,
        files=written.files,
        commits=commits,
    )
