"""Rules that several kinds of entries follow.

What it is: checks of ranges, files and targets.
What it promises: pure. A rule that does not hold raises Refused, with what was found.
"""

from collections.abc import Iterable, Mapping

from ashore.log.files import DataFile, PartitionKey, Target
from ashore.log.fold import ShardState
from ashore.log.positions import OffsetRange, ShardKey
from ashore.log.query import Letter


class Refused(Exception):
    """A rule of the protocol does not hold."""


def require(condition: bool, reason: str) -> None:
    """Raise Refused unless a condition holds."""
    if not condition:
        raise Refused(reason)


def check_next(state: ShardState | None, key: ShardKey, offsets: OffsetRange) -> ShardState:
    """Return the shard's state, having checked that `offsets` begin where it ends (I1)."""
    if state is None:
        raise Refused(f"{key} was never joined")
    if offsets.start != state.next:
        raise Refused(f"{key}: range {offsets} while {state.next} is the next offset")
    return state


def keep_read(
    letters: Iterable[Letter], shards: Mapping[ShardKey, ShardState]
) -> tuple[Letter, ...]:
    """Return the letters whose records were read: another plan may compute those to come."""
    return tuple(each for each in letters if each.offset < shards[each.key].next)


def check_entry_files(
    files: tuple[DataFile, ...],
    targets: tuple[Target, ...],
    shard_count: int,
    *,
    has_spans: bool,
) -> None:
    """Check that files are named once, and that their indices and sums fit.

    `has_spans`: whether every row came from a known offset; those of a query did not.
    """
    require(len({file.unique for file in files}) == len(files), "a file is in it twice")
    for file in files:
        if not 0 <= file.target < len(targets):
            raise Refused(f"file {file.unique} has no target")
        if file.rows < 0 or file.size_bytes < 0:
            raise Refused(f"file {file.unique}: a count below zero")
        rows = 0
        for span in file.spans:
            if not 0 <= span.shard < shard_count:
                raise Refused(f"file {file.unique}: a span has no shard")
            if not 0 <= span.rows <= span.end - span.start:
                raise Refused(f"file {file.unique}: {span.rows} rows in a span of fewer offsets")
            rows += span.rows
        if rows != file.rows and (has_spans or file.spans):
            raise Refused(f"file {file.unique}: {file.rows} rows, {rows} in its spans")


def rows_by_partition(
    files: Iterable[DataFile], targets: tuple[Target, ...]
) -> dict[PartitionKey, tuple[int, int]]:
    """Return rows and number of files of each partition."""
    sums: dict[PartitionKey, tuple[int, int]] = {}
    keys = [target.key for target in targets]
    for file in files:
        rows, count = sums.get(keys[file.target], (0, 0))
        sums[keys[file.target]] = (rows + file.rows, count + 1)
    return sums
